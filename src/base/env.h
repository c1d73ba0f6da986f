// Every file operation under a run or export folder goes through Env, so that tests can break the n-th one.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/error.h"

namespace hone {

// One step of the file system, as the hook sees it before it happens.
struct Operation {
  enum class Kind {
    open_folder,
    make_folder,
    create,
    open_read,
    open_append,
    open_write,
    write,
    sync,
    sync_folder,
    rename,
    replace,
    link,
    remove,
    remove_folder,
    truncate,
    read,
    list,
    stat,
    lock
  };
  Kind kind;
  std::filesystem::path path, target;    // target: of rename, replace and link
  std::span<const std::byte> data = {};  // of write, and where read puts it; the hook may shorten it: a short write
  std::uint64_t at = 0;                  // of write and read: where in the file; of truncate: its new size
};
std::string_view name_of(Operation::Kind kind);

class Folder;

// The file system. Thread-safe if before() is. All failures are Error with the path and the system's text.
class Env {
 public:
  Env() = default;
  virtual ~Env() = default;
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  static Env& process();  // the real one

  // Called before each operation: 0 lets it happen, an errno makes it fail with that. May kill the process.
  virtual int before(Operation& operation);

  Folder open_folder(const std::filesystem::path& path, ErrorKind kind = ErrorKind::checkpoint);
  // And its parents. What is made is durable when it returns.
  Folder make_folders(const std::filesystem::path& path, ErrorKind kind = ErrorKind::checkpoint);
  std::uint64_t free_bytes(const std::filesystem::path& path);  // for us, of the file system `path` is or would be on
};

// The loop around every system call of Env, Folder, OutFile and InFile; nobody else calls it.
namespace env_detail {

// Asks the hook, then makes the call, until neither says EINTR. -1 with errno, or what the call gave.
template <class Call>
auto retried(Env& env, Operation& operation, Call call) -> decltype(call()) {
  for (;;) {
    if (const int injected = env.before(operation)) {
      errno = injected;
      if (injected == EINTR) continue;
      return -1;
    }
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace env_detail

// A file being written, made new unless it says otherwise (never through a symlink). Writes loop over short writes and
// EINTR. A failed sync() is final for the file: it throws, and so does every later call. One thread at a time.
class OutFile {
 public:
  OutFile(OutFile&& other) noexcept;
  OutFile& operator=(OutFile&& other) noexcept;
  ~OutFile();  // closes without sync
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void truncate(std::uint64_t size);  // and goes on writing there
  void go_on_at(std::uint64_t offset);  // writing; not of a file to append to
  void sync();
  void close();
  std::uint64_t size() const { return size_; }  // bytes in the file
  const std::filesystem::path& path() const { return path_; }

 private:
  friend class Folder;
  OutFile(Env& env, int fd, std::filesystem::path path, ErrorKind kind, std::uint64_t size);
  void check_usable() const;
  [[noreturn]] void fail(const char* doing, int error);
  Env* env_;
  int fd_ = -1;
  std::filesystem::path path_;
  ErrorKind kind_;
  std::uint64_t size_ = 0, at_ = 0;
  bool failed_ = false;
};

// An open folder; everything below it is named by a plain name and reached through the held descriptor, so nobody can
// swap a path component underneath. Copies share the descriptor.
class Folder {
 public:
  // What the names begin with under which replace_file() and replace_link() make what they put in place.
  static constexpr const char* kNew = ".new-";
  const std::filesystem::path& path() const { return path_; }
  Env& env() const { return *env_; }

  OutFile create(const std::string& name) const;     // O_EXCL: an error if it is there
  OutFile append_to(const std::string& name) const;  // an existing regular file or a new one; not through a symlink
  OutFile open_to_write(const std::string& name) const;  // an existing regular file, from its first byte on
  void write_file(const std::string& name, std::string_view content) const;  // create, write, sync
  // Puts the content in place in one rename: readers see the old file or the new one, also after a crash.
  void replace_file(const std::string& name, std::string_view content) const;
  Folder make_folder(const std::string& name) const;                                          // an error if it is there
  Folder open_folder(const std::string& name) const;                                          // not through a symlink
  void rename(const std::string& name, const Folder& to, const std::string& new_name) const;  // EEXIST: never replaces
  // Puts the file `name` in the place of new_name in one rename, and syncs: readers see the old file or the new one.
  void replace(const std::string& name, const std::string& new_name) const;
  void replace_link(const std::string& name, const std::string& target) const;  // symlink, put in place in one rename
  void remove(const std::string& name) const;                                   // file or symlink; absent is fine
  void remove_tree(const std::string& name) const;  // anything; never follows a symlink; absent is fine
  void sync() const;                                // the folder's entries

  bool exists(const std::string& name) const;                             // anything, also a dangling symlink
  bool is_folder(const std::string& name) const;                          // a real one, not a symlink
  std::optional<std::uint64_t> file_size(const std::string& name) const;  // of a regular file (through a leaf symlink)
  std::optional<std::string> link_target(
      const std::string& name) const;     // of a symlink; nothing: it is none, or absent
  std::vector<std::string> list() const;  // sorted names, without . and ..
  // At most `limit` bytes, else an Error; only regular files.
  std::string read_file(const std::string& name, std::uint64_t limit = std::uint64_t{1} << 30) const;
  std::optional<std::string> maybe_read_file(const std::string& name,
                                             std::uint64_t limit = std::uint64_t{1} << 30) const;
  // An open file to lock with flock(2); made if absent, not through a symlink. The caller owns the descriptor.
  int open_lock(const std::string& name) const;
  // Locks the folder itself (flock) until the last copy of this object is gone. False: somebody else holds it, or the
  // file system cannot.
  bool try_lock() const;

 private:
  friend class Env;
  Folder(Env& env, int fd, std::filesystem::path path, ErrorKind kind);
  friend class InFile;
  int fd() const;
  int open_read(const std::string& name) const;  // -1 with errno
  [[noreturn]] void fail(const std::string& name, const char* doing, int error) const;
  Env* env_;
  std::shared_ptr<const int> fd_;
  std::filesystem::path path_;
  ErrorKind kind_;
};

// What the system said, with its number.
class SystemError : public Error {
 public:
  SystemError(ErrorKind kind, std::string message, int code) : Error(kind, std::move(message)), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};
// In a handler of `error`: throws it on where it says nothing of the file, but that this process or the machine has too
// many open or too little memory.
void rethrow_shortage(const Error& error);

// "path: cannot write: No space left on device" as a SystemError.
[[noreturn]] void throw_system_error(ErrorKind kind, const std::filesystem::path& path, const char* doing, int error);

// A regular file read with pread: safe from several threads; one cut meanwhile is an Error, never a SIGBUS.
class InFile {
 public:
  // "not a regular file" for folders, FIFOs and devices; never blocks on them.
  explicit InFile(const std::filesystem::path& path, ErrorKind kind = ErrorKind::checkpoint);
  InFile(const Folder& folder, const std::string& name, ErrorKind kind = ErrorKind::checkpoint);
  InFile(InFile&& other) noexcept;
  InFile& operator=(InFile&&) = delete;
  ~InFile();
  std::uint64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  void read(std::uint64_t offset, std::span<std::byte> into) const;              // all of it, or an Error
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> into) const;  // fewer only at the end
  std::string read_all(std::uint64_t limit) const;
  // The whole file, mapped to be read; stays when the InFile goes. A file that is cut meanwhile ends the process when
  // what was cut off is looked at: for files that are whole and only ever replaced.
  std::shared_ptr<const std::byte> map() const;

 private:
  void check_regular();
  Env* env_ = &Env::process();
  int fd_ = -1;
  std::filesystem::path path_;
  ErrorKind kind_;
  std::uint64_t size_ = 0;
};

}  // namespace hone
