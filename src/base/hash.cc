// XXH3 through libxxhash's header.
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

#include <vector>

#include "base/env.h"

namespace hone {

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}
std::uint64_t hash64(std::string_view text, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

static std::string hex128(XXH128_hash_t hash) { return hex64(hash.high64) + hex64(hash.low64); }

std::string hash128_hex(std::string_view text) { return hex128(XXH3_128bits(text.data(), text.size())); }
std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

struct Hasher::State {
  XXH3_state_t xxh;
  // XXH3_state_t asks for 64-byte alignment; plain new honours that in C++17 and later.
};

Hasher::Hasher() : state_(std::make_unique<State>()) { reset(); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

// The 64 and 128 bit variants share their state and input; they differ only in how it is finished.
void Hasher::reset() { XXH3_128bits_reset(&state_->xxh); }

Hasher& Hasher::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}
Hasher& Hasher::update(std::string_view text) { return update(std::as_bytes(std::span(text))); }

Hasher& Hasher::update_int(std::uint64_t value) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return update(bytes);
}
Hasher& Hasher::update_field(std::string_view text) { return update_int(text.size()).update(text); }

std::uint64_t Hasher::digest64() const { return XXH3_64bits_digest(&state_->xxh); }
std::string Hasher::digest128_hex() const { return hex128(XXH3_128bits_digest(&state_->xxh)); }

std::string hash_file(const std::filesystem::path& path) {
  const InFile file(path, ErrorKind::data);
  Hasher hasher;
  std::vector<std::byte> block(std::size_t{1} << 20);
  for (std::uint64_t at = 0;;) {
    const std::size_t size = file.read_some(at, block);
    if (size == 0) return hasher.digest128_hex();
    hasher.update(std::span(block).first(size));
    at += size;
  }
}

}  // namespace hone
