// Bytes and lines of text files, plain, .gz or .zst (told by their first bytes, not their name).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hone/error.h"

namespace hone::io {

// The decompressed bytes of a file, front to back. Throws Error(data). One thread at a time.
class ByteReader {
 public:
  explicit ByteReader(const std::filesystem::path& path);
  ~ByteReader();
  ByteReader(ByteReader&&) noexcept;
  std::size_t read(std::span<std::byte> into);  // 0: the end; otherwise at least one byte
  std::string read_all(std::uint64_t limit);    // the rest; more than `limit` bytes is an Error
  const std::filesystem::path& path() const;
  std::uint64_t file_size() const;      // as stored, compressed
  std::uint64_t file_position() const;  // stored bytes consumed so far; for progress

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline constexpr std::uint64_t kMaxLine = 64'000'000;

// Lines without their end (\n or \r\n); a byte order mark at the start is dropped. One thread at a time.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path, std::uint64_t max_line = kMaxLine);
  bool next(std::string_view& line);             // valid until the next call; false: no more
  std::int64_t line() const { return number_; }  // of the line last returned, from 1
  std::string where() const;                     // "path:line"
  const ByteReader& bytes() const { return bytes_; }

 private:
  bool refill();
  ByteReader bytes_;
  std::uint64_t max_line_;
  std::string buffer_;
  std::size_t begin_ = 0, scanned_ = 0;
  std::int64_t number_ = 0;
  bool end_ = false;
};

}  // namespace hone::io
