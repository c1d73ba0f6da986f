// Files are read with pread in blocks, pipes as they come; zlib and zstd unpack block by block, several members or
// frames in a row.
#include "io/lines.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/strings.h"
#include "io/pipe.h"

namespace hone::io {
namespace {

constexpr std::size_t kBlock = 64 << 10;

// Gives stored bytes block by block.
class Blocks {
 public:
  Blocks(const std::filesystem::path& path, std::function<void()> waiting) : path_(path), buffer_(kBlock) {
    if (waiting && is_pipe(path))
      pipe_.emplace(path, std::move(waiting));
    else
      file_.emplace(path, ErrorKind::data);
  }
  std::span<const std::byte> next() {
    if (held_ == 0) held_ = more(0);
    position_ += held_;
    return std::span<const std::byte>(buffer_).first(std::exchange(held_, 0));
  }
  // The first bytes; next() gives them, too.
  std::string start() {
    constexpr std::size_t kMagic = 4;
    while (held_ < kMagic)
      if (const std::size_t count = more(held_); count > 0)
        held_ += count;
      else
        break;
    return std::string(reinterpret_cast<const char*>(buffer_.data()), std::min(held_, kMagic));
  }
  void skip(std::uint64_t bytes) { position_ += bytes, held_ = 0; }
  const std::filesystem::path& path() const { return path_; }
  bool is_file() const { return file_.has_value(); }

 private:
  // Reads behind the first `filled` bytes of the buffer.
  std::size_t more(std::size_t filled) {
    const auto room = std::span(buffer_).subspan(filled);
    return pipe_ ? pipe_->read(room) : file_->read_some(position_ + filled, room);
  }
  std::filesystem::path path_;
  std::optional<InFile> file_;
  std::optional<Pipe> pipe_;
  std::vector<std::byte> buffer_;
  std::size_t held_ = 0;  // bytes at the front of the buffer that next() has not given yet
  std::uint64_t position_ = 0;
};

// Turns stored bytes into content. feed() is called only after everything fed before is used up.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual void feed(std::span<const std::byte> stored) = 0;
  virtual std::size_t take(std::span<std::byte> into) = 0;  // 0: needs more
  virtual bool between() const = 0;                         // the file may end here
};

class Plain final : public Codec {
 public:
  void feed(std::span<const std::byte> stored) override { left_ = stored; }
  std::size_t take(std::span<std::byte> into) override {
    const std::size_t count = std::min(into.size(), left_.size());
    if (count > 0) std::memcpy(into.data(), left_.data(), count);
    left_ = left_.subspan(count);
    return count;
  }
  bool between() const override { return true; }

 private:
  std::span<const std::byte> left_;
};

class Gzip final : public Codec {
 public:
  explicit Gzip(std::string path) : path_(std::move(path)) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { inflateEnd(&stream_); }
  void feed(std::span<const std::byte> stored) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stored.data()));
    stream_.avail_in = static_cast<uInt>(stored.size());
  }
  std::size_t take(std::span<std::byte> into) override {
    const auto room = static_cast<uInt>(std::min<std::size_t>(into.size(), 1 << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = room;
    while (stream_.avail_in > 0 && stream_.avail_out == room) {
      if (ended_ && inflateReset(&stream_) != Z_OK) fail("cannot begin another member");
      ended_ = false;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END)
        ended_ = true;
      else if (code != Z_OK && code != Z_BUF_ERROR)
        fail(stream_.msg ? stream_.msg : "damaged data");
    }
    // The window may hold more although all input is used.
    if (stream_.avail_out == room && !ended_ && inflate(&stream_, Z_NO_FLUSH) == Z_STREAM_END) ended_ = true;
    return room - stream_.avail_out;
  }
  bool between() const override { return ended_; }

 private:
  [[noreturn]] void fail(const std::string& fact) const {
    throw Error(ErrorKind::data, path_ + ": damaged gzip data: " + fact);
  }
  std::string path_;
  z_stream stream_{};
  bool ended_ = false;
};

class Zstd final : public Codec {
 public:
  explicit Zstd(std::string path) : path_(std::move(path)), stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, 27);  // 128 MB: zstd's own default limit
  }
  ~Zstd() override { ZSTD_freeDStream(stream_); }
  void feed(std::span<const std::byte> stored) override { input_ = {stored.data(), stored.size(), 0}; }
  std::size_t take(std::span<std::byte> into) override {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    while (out.pos == 0 && (input_.pos < input_.size || more_)) {
      const std::size_t before = input_.pos;
      const std::size_t code = ZSTD_decompressStream(stream_, &out, &input_);
      if (ZSTD_isError(code))
        throw Error(ErrorKind::data, path_ + ": damaged zstd data: " + std::string(ZSTD_getErrorName(code)));
      left_ = code;
      more_ = out.pos == out.size;
      if (out.pos == 0 && input_.pos == before) break;
    }
    return out.pos;
  }
  bool between() const override { return left_ == 0; }

 private:
  std::string path_;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  std::size_t left_ = 1;
  bool more_ = false;
};

std::unique_ptr<Codec> codec_for(Blocks& blocks) {
  const std::string start = blocks.start(), path = blocks.path().string();
  if (start.starts_with("\x1f\x8b")) return std::make_unique<Gzip>(path);
  if (start == "\x28\xb5\x2f\xfd") return std::make_unique<Zstd>(path);
  return std::make_unique<Plain>();
}

}  // namespace

struct ByteReader::State {
  State(const std::filesystem::path& path, std::function<void()> waiting)
      : blocks(path, std::move(waiting)), codec(codec_for(blocks)) {}
  Blocks blocks;
  std::unique_ptr<Codec> codec;
  std::string head;  // read already, and not given yet
};

ByteReader::ByteReader(const std::filesystem::path& path, std::function<void()> waiting)
    : state_(std::make_unique<State>(path, std::move(waiting))) {}
ByteReader::~ByteReader() = default;
ByteReader::ByteReader(ByteReader&&) noexcept = default;

std::size_t ByteReader::read(std::span<std::byte> into) {
  if (into.empty()) return 0;
  if (std::string& head = state_->head; !head.empty()) {
    const std::size_t count = std::min(into.size(), head.size());
    std::memcpy(into.data(), head.data(), count);
    head.erase(0, count);
    return count;
  }
  for (;;) {
    if (const std::size_t count = state_->codec->take(into)) return count;
    const auto stored = state_->blocks.next();
    if (stored.empty()) {
      if (state_->codec->between()) return 0;
      throw Error(ErrorKind::data, path().string() + ": ends inside its compressed data")
          .hint("is the download complete?");
    }
    state_->codec->feed(stored);
  }
}

std::string ByteReader::head(std::size_t most) {
  std::string bytes(most, '\0');
  std::size_t filled = 0;
  while (filled < most)
    if (const std::size_t count = read(std::as_writable_bytes(std::span(bytes)).subspan(filled)); count > 0)
      filled += count;
    else
      break;
  bytes.resize(filled);
  return state_->head = bytes;
}

std::string ByteReader::read_all(std::uint64_t limit) {
  std::string all;
  std::vector<std::byte> block(kBlock);
  while (const std::size_t count = read(block)) {
    if (all.size() + count > limit)
      throw Error(ErrorKind::data, fmt::format("{}: more than {}", path().string(), human_size(limit)));
    all.append(reinterpret_cast<const char*>(block.data()), count);
  }
  return all;
}

bool ByteReader::can_skip() const {
  return state_->blocks.is_file() && dynamic_cast<const Plain*>(state_->codec.get()) != nullptr;
}

void ByteReader::skip(std::uint64_t bytes) {
  HONE_ASSERT(can_skip());
  state_->blocks.skip(bytes);
}

const std::filesystem::path& ByteReader::path() const { return state_->blocks.path(); }

LineReader::LineReader(const std::filesystem::path& path, std::uint64_t max_line, std::function<void()> waiting)
    : bytes_(path, std::move(waiting)), max_line_(max_line) {}

void LineReader::seek(std::int64_t line, std::uint64_t offset) {
  HONE_ASSERT(number_ == 0 && buffer_.empty());
  bytes_.skip(offset);
  number_ = line;
  offset_ = offset;
}

// Reads another block behind what is left; false at the end.
bool LineReader::refill() {
  buffer_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  const std::size_t old = buffer_.size();
  buffer_.resize(old + kBlock);
  const std::size_t count = bytes_.read(std::as_writable_bytes(std::span(buffer_)).subspan(old));
  buffer_.resize(old + count);
  return count > 0;
}

bool LineReader::next(std::string_view& line) {
  for (;;) {
    const auto end = buffer_.find('\n', std::max(scanned_, begin_));
    const bool last = end == std::string::npos && end_;
    if (end == std::string::npos && !last) {
      scanned_ = buffer_.size();
      if (buffer_.size() - begin_ > max_line_)
        throw Error(ErrorKind::data, fmt::format("{}:{}: a line of more than {}", bytes_.path().string(), number_ + 1,
                                                 human_size(max_line_)));
      end_ = !refill();
      continue;
    }
    if (last && begin_ == buffer_.size()) return false;
    const std::size_t stop = last ? buffer_.size() : end;
    line = std::string_view(buffer_).substr(begin_, stop - begin_);
    offset_ += (last ? stop : stop + 1) - begin_;
    begin_ = last ? stop : stop + 1;
    scanned_ = begin_;
    if (++number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    const bool carriage = line.ends_with('\r');
    if (carriage) line.remove_suffix(1);
    ending_ = last ? "" : carriage ? "\r\n" : "\n";
    return true;
  }
}

std::string LineReader::where() const { return fmt::format("{}:{}", bytes_.path().string(), number_); }

}  // namespace hone::io
