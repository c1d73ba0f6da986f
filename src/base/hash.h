// Content hashes: XXH3 with 64 and 128 bits of bytes, streams and files. Not cryptographic: they find damage, not
// forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hone {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) noexcept;
std::string hash128_hex(std::string_view text);  // 32 digits; for fingerprints of content
std::string hex64(std::uint64_t value);          // 16 digits

// A hash of bytes that come in pieces. One thread at a time.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  Hasher& update(std::span<const std::byte> bytes);
  Hasher& update(std::string_view text);
  Hasher& update_int(std::uint64_t value);  // 8 bytes, little endian
  // A text with its length before it, so that ("ab", "c") and ("a", "bc") differ.
  Hasher& update_field(std::string_view text);
  std::uint64_t digest64() const;     // equal to hash64 of all bytes so far
  std::string digest128_hex() const;  // equal to hash128_hex of all bytes so far
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 32 digits of a file's content; throws Error(data) if it cannot be read or is not a regular file.
std::string hash_file(const std::filesystem::path& path);

}  // namespace hone
