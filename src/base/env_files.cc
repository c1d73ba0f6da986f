// OutFile and InFile: bytes to and from one open file.
#include "base/env.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/strings.h"

namespace hone {

using env_detail::retried;
using Kind = Operation::Kind;

// ------------------------------------------------------------------------------------------------ OutFile

OutFile::OutFile(Env& env, int fd, std::filesystem::path path, ErrorKind kind, std::uint64_t size)
    : env_(&env), fd_(fd), path_(std::move(path)), kind_(kind), size_(size), at_(size) {}

OutFile::OutFile(OutFile&& other) noexcept
    : env_(other.env_),
      fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      kind_(other.kind_),
      size_(other.size_),
      at_(other.at_),
      failed_(other.failed_) {}

OutFile& OutFile::operator=(OutFile&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) ::close(fd_);
  env_ = other.env_;
  fd_ = std::exchange(other.fd_, -1);
  path_ = std::move(other.path_);
  kind_ = other.kind_;
  size_ = other.size_;
  at_ = other.at_;
  failed_ = other.failed_;
  return *this;
}

OutFile::~OutFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutFile::fail(const char* doing, int error) {
  failed_ = true;
  throw_system_error(kind_, path_, doing, error);
}

void OutFile::check_usable() const {
  if (failed_) throw Error(kind_, path_.string() + ": not used any more after a failed write");
  HONE_ASSERT(fd_ >= 0);
}

void OutFile::write(std::span<const std::byte> bytes) {
  check_usable();
  while (!bytes.empty()) {
    // Linux takes at most 2 GiB at once anyway; a smaller piece lets signals in.
    Operation operation{Kind::write, path_, {}, bytes.first(std::min<std::size_t>(bytes.size(), 64 << 20)), at_};
    const ssize_t done =
        retried(*env_, operation, [&] { return ::write(fd_, operation.data.data(), operation.data.size()); });
    if (done < 0 && errno == EAGAIN) continue;
    if (done < 0) fail("cannot write", errno);
    at_ += static_cast<std::uint64_t>(done);
    size_ = std::max(size_, at_);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void OutFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutFile::truncate(std::uint64_t size) {
  check_usable();
  Operation operation{Kind::truncate, path_, {}, {}, size};
  if (retried(*env_, operation, [&] { return ::ftruncate(fd_, static_cast<off_t>(size)); }) != 0)
    fail(size > size_ ? "cannot write" : "cannot truncate", errno);
  go_on_at(size);
  size_ = size;
}

void OutFile::go_on_at(std::uint64_t offset) {
  check_usable();
  if (at_ == offset) return;
  if (::lseek(fd_, static_cast<off_t>(offset), SEEK_SET) < 0) fail("cannot seek", errno);
  at_ = offset;
}

void OutFile::sync() {
  check_usable();
  Operation operation{Kind::sync, path_, {}};
  // Never tried again: after a failed fsync the kernel may have dropped the pages and report success.
  if (retried(*env_, operation, [&] { return ::fsync(fd_); }) != 0) fail("cannot sync", errno);
}

void OutFile::close() {
  check_usable();
  // Not retried on EINTR: Linux has closed it by then.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) fail("cannot close", errno);
}

// ------------------------------------------------------------------------------------------------ InFile

InFile::InFile(const std::filesystem::path& path, ErrorKind kind) : path_(path), kind_(kind) {
  // O_NONBLOCK: opening a FIFO without a writer would wait for ever.
  while ((fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) < 0 && errno == EINTR) {
  }
  check_regular();
}

InFile::InFile(const Folder& folder, const std::string& name, ErrorKind kind)
    : env_(&folder.env()), fd_(folder.open_read(name)), path_(folder.path() / name), kind_(kind) {
  check_regular();
}

void InFile::check_regular() {
  if (fd_ < 0) throw_system_error(kind_, path_, "cannot open", errno);
  struct stat info{};
  const bool known = ::fstat(fd_, &info) == 0;
  if (known && S_ISREG(info.st_mode)) {
    size_ = static_cast<std::uint64_t>(info.st_size);
    return;
  }
  ::close(std::exchange(fd_, -1));
  throw Error(kind_, path_.string() + ": not a regular file");
}

InFile::InFile(InFile&& other) noexcept
    : env_(other.env_),
      fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      kind_(other.kind_),
      size_(other.size_) {}

InFile::~InFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::size_t InFile::read_some(std::uint64_t offset, std::span<std::byte> into) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const auto rest = into.subspan(done);
    Operation operation{Kind::read, path_, {}, rest.first(std::min<std::size_t>(rest.size(), 1 << 30)), offset + done};
    const ssize_t count = retried(*env_, operation, [&] {
      return ::pread(fd_, rest.data(), operation.data.size(), static_cast<off_t>(operation.at));
    });
    if (count < 0) throw_system_error(kind_, path_, "cannot read", errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void InFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  const std::size_t count = read_some(offset, into);
  if (count < into.size())
    throw Error(kind_, fmt::format("{}: ends at byte {}, expected {} bytes at {}: it was cut off", path_.string(),
                                   offset + count, into.size(), offset));
}

std::shared_ptr<const std::byte> InFile::map() const {
  const auto length = static_cast<std::size_t>(size_);
  void* begin = length == 0 ? MAP_FAILED : ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (begin == MAP_FAILED) throw_system_error(kind_, path_, "cannot map", length == 0 ? EINVAL : errno);
  return {static_cast<const std::byte*>(begin),
          [length](const std::byte* bytes) { ::munmap(const_cast<std::byte*>(bytes), length); }};
}

std::string InFile::read_all(std::uint64_t limit) const {
  if (size_ > limit)
    throw Error(kind_,
                fmt::format("{}: {}, expected at most {}", path_.string(), human_size(size_), human_size(limit)));
  std::string content(size_, '\0');
  read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace hone
