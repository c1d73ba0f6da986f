// Bytes and lines of text files and pipes, plain, .gz or .zst (told by their first bytes, not their name).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "hone/error.h"

namespace hone::io {

// The decompressed bytes of a file, front to back. Throws Error(data). One thread at a time.
class ByteReader {
 public:
  // waiting: see Pipe; without it a pipe is refused. A pipe is waited for here already.
  explicit ByteReader(const std::filesystem::path& path, std::function<void()> waiting = {});
  ~ByteReader();
  ByteReader(ByteReader&&) noexcept;
  std::size_t read(std::span<std::byte> into);  // 0: the end; otherwise at least one byte
  std::string head(std::size_t most);           // the first bytes, which read() gives, too. Before anything is read
  std::string read_all(std::uint64_t limit);    // the rest; more than `limit` bytes is an Error
  bool can_skip() const;           // a file, not compressed
  void skip(std::uint64_t bytes);  // before anything is read. REQUIRES: can_skip()
  const std::filesystem::path& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline constexpr std::uint64_t kMaxLine = 64'000'000;

// Lines without their end; a byte order mark at the start is dropped. One thread at a time.
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path, std::uint64_t max_line = kMaxLine,
                      std::function<void()> waiting = {});
  explicit LineReader(ByteReader bytes, std::uint64_t max_line = kMaxLine)
      : bytes_(std::move(bytes)), max_line_(max_line) {}
  bool next(std::string_view& line);             // valid until the next call; false: no more
  std::int64_t line() const { return number_; }  // of the line last returned, from 1
  std::string_view ending() const { return ending_; }  // of the line last returned: \n, \r\n or none at the end
  std::string where() const;                     // "path:line"
  std::uint64_t offset() const { return offset_; }  // behind the line last returned, in bytes of content
  // Goes on behind the line of this number that ends at this offset. REQUIRES: nothing is read yet, bytes().can_skip().
  void seek(std::int64_t line, std::uint64_t offset);
  const ByteReader& bytes() const { return bytes_; }

 private:
  bool refill();
  ByteReader bytes_;
  std::uint64_t max_line_;
  std::string buffer_;
  std::size_t begin_ = 0, scanned_ = 0;
  std::uint64_t offset_ = 0;
  std::int64_t number_ = 0;
  std::string_view ending_;
  bool end_ = false;
};

}  // namespace hone::io
