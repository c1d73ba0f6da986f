// Env and Folder: every operation asks the hook first, retries EINTR, and turns an errno into an Error with the path.
#include "base/env.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <system_error>

#include "base/log.h"
#include "base/strings.h"

namespace hone {

using env_detail::retried;
using Kind = Operation::Kind;

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, 19> kNames{
      "open_folder", "make_folder", "create", "open_read", "open_append", "open_write", "write",
      "sync",        "sync_folder", "rename", "replace",   "link",        "remove",     "remove_folder",
      "truncate",    "read",        "list",   "stat",      "lock"};
  return kNames[static_cast<std::size_t>(kind)];
}

void throw_system_error(ErrorKind kind, const std::filesystem::path& path, const char* doing, int error) {
  throw SystemError(kind,
                    fmt::format("{}: {}: {}", escape_for_terminal(path.string()), doing,
                                std::generic_category().message(error)),
                    error);
}

void rethrow_shortage(const Error& error) {
  const auto* told = dynamic_cast<const SystemError*>(&error);
  if (told && (told->code() == EMFILE || told->code() == ENFILE || told->code() == ENOMEM)) throw;
}

Env& Env::process() {
  static Env env;
  return env;
}

int Env::before(Operation&) { return 0; }

static int open_folder_at(Env& env, int parent, const std::filesystem::path& path, const char* name, int flags) {
  Operation operation{Kind::open_folder, path, {}};
  return retried(env, operation, [&] { return ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags); });
}

Folder Env::open_folder(const std::filesystem::path& path, ErrorKind kind) {
  const std::filesystem::path name = path.empty() ? "." : path;
  const int fd = open_folder_at(*this, AT_FDCWD, name, name.c_str(), 0);
  if (fd < 0) throw_system_error(kind, name, "cannot open the folder", errno);
  return Folder(*this, fd, name, kind);
}

static std::filesystem::path parent_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

Folder Env::make_folders(const std::filesystem::path& path, ErrorKind kind) {
  std::filesystem::path partial;
  for (const std::filesystem::path& part : path) {
    partial /= part;
    if (partial.empty() || ::access(partial.c_str(), F_OK) == 0) continue;
    Operation operation{Kind::make_folder, partial, {}};
    const int result = retried(*this, operation, [&] { return ::mkdir(partial.c_str(), 0777); });
    if (result != 0 && errno != EEXIST) throw_system_error(kind, partial, "cannot make the folder", errno);
    // A parent that may be written but not read cannot be synced.
    if (::access(parent_of(partial).c_str(), R_OK) == 0) open_folder(parent_of(partial), kind).sync();
  }
  return open_folder(path, kind);
}

std::uint64_t Env::free_bytes(const std::filesystem::path& path) {
  struct statvfs info{};
  std::filesystem::path where = std::filesystem::absolute(path);
  while (::statvfs(where.c_str(), &info) != 0) {
    if (errno != ENOENT || where == where.parent_path())
      throw_system_error(ErrorKind::checkpoint, where, "cannot ask for free space", errno);
    where = where.parent_path();
  }
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

// ------------------------------------------------------------------------------------------------ Folder

Folder::Folder(Env& env, int fd, std::filesystem::path path, ErrorKind kind)
    : env_(&env),
      fd_(new int(fd),
          [](const int* held) {
            ::close(*held);
            delete held;
          }),
      path_(std::move(path)),
      kind_(kind) {}

int Folder::fd() const { return *fd_; }

void Folder::fail(const std::string& name, const char* doing, int error) const {
  throw_system_error(kind_, name.empty() ? path_ : path_ / name, doing, error);
}

static void check_plain(const std::string& name) {
  HONE_ASSERT(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
              name.find('\0') == std::string::npos);
}

// A step that answers 0 or -1 with errno, for entries of this folder.
template <class Call>
static int attempt(Env& env, Kind kind, const std::filesystem::path& path, Call call,
                   std::filesystem::path target = {}) {
  Operation operation{kind, path, std::move(target)};
  return retried(env, operation, call);
}

OutFile Folder::create(const std::string& name) const {
  check_plain(name);
  const int file = attempt(*env_, Kind::create, path_ / name, [&] {
    return ::openat(fd(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  });
  if (file < 0) fail(name, "cannot make the file", errno);
  return OutFile(*env_, file, path_ / name, kind_, 0);
}

// Of an open file, which is closed if it is none.
static std::uint64_t size_of_regular(int file, const std::filesystem::path& path, ErrorKind kind) {
  struct stat info{};
  if (::fstat(file, &info) == 0 && S_ISREG(info.st_mode)) return static_cast<std::uint64_t>(info.st_size);
  ::close(file);
  throw Error(kind, path.string() + ": not a regular file");
}

OutFile Folder::append_to(const std::string& name) const {
  check_plain(name);
  const int file = attempt(*env_, Kind::open_append, path_ / name, [&] {
    return ::openat(fd(), name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
  });
  if (file < 0) fail(name, "cannot open for appending", errno);
  return OutFile(*env_, file, path_ / name, kind_, size_of_regular(file, path_ / name, kind_));
}

OutFile Folder::open_to_write(const std::string& name) const {
  check_plain(name);
  const int file = attempt(*env_, Kind::open_write, path_ / name, [&] {
    return ::openat(fd(), name.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  });
  if (file < 0) fail(name, "cannot open for writing", errno);
  OutFile made(*env_, file, path_ / name, kind_, size_of_regular(file, path_ / name, kind_));
  made.at_ = 0;
  return made;
}

void Folder::write_file(const std::string& name, std::string_view content) const {
  OutFile file = create(name);
  file.write(content);
  file.sync();
  file.close();
}

void Folder::replace_file(const std::string& name, std::string_view content) const {
  check_plain(name);
  const std::string hidden = kNew + name;
  remove(hidden);  // of a process that was killed here
  try {
    write_file(hidden, content);
    replace(hidden, name);
  } catch (...) {
    ::unlinkat(fd(), hidden.c_str(), 0);  // frees the space; the first failure is the one to report
    throw;
  }
}

void Folder::replace(const std::string& name, const std::string& new_name) const {
  check_plain(name);
  check_plain(new_name);
  const int result = attempt(
      *env_, Kind::replace, path_ / name, [&] { return ::renameat(fd(), name.c_str(), fd(), new_name.c_str()); },
      path_ / new_name);
  if (result != 0) fail(new_name, "cannot put the new file in place", errno);
  sync();
}

Folder Folder::make_folder(const std::string& name) const {
  check_plain(name);
  const int result =
      attempt(*env_, Kind::make_folder, path_ / name, [&] { return ::mkdirat(fd(), name.c_str(), 0777); });
  if (result != 0) fail(name, "cannot make the folder", errno);
  return open_folder(name);
}

Folder Folder::open_folder(const std::string& name) const {
  check_plain(name);
  const int opened = open_folder_at(*env_, fd(), path_ / name, name.c_str(), O_NOFOLLOW);
  if (opened < 0) fail(name, "cannot open the folder", errno);
  return Folder(*env_, opened, path_ / name, kind_);
}

// Without replacing, on file systems that cannot do it in one step: only folders are renamed, and rename(2) never puts
// a folder over a file or over a folder that has something in it.
static int rename_keeping(int from, const char* name, int to, const char* new_name) {
  const int result = ::renameat2(from, name, to, new_name, RENAME_NOREPLACE);
  if (result == 0 || (errno != EINVAL && errno != ENOSYS)) return result;
  if (::faccessat(to, new_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
    errno = EEXIST;
    return -1;
  }
  return ::renameat(from, name, to, new_name);
}

void Folder::rename(const std::string& name, const Folder& to, const std::string& new_name) const {
  check_plain(name);
  check_plain(new_name);
  const int result = attempt(
      *env_, Kind::rename, path_ / name, [&] { return rename_keeping(fd(), name.c_str(), to.fd(), new_name.c_str()); },
      to.path_ / new_name);
  if (result != 0) fail(name, fmt::format("cannot rename to {}", (to.path_ / new_name).string()).c_str(), errno);
}

void Folder::replace_link(const std::string& name, const std::string& target) const {
  check_plain(name);
  const std::string hidden = kNew + name;
  remove(hidden);
  const int made = attempt(
      *env_, Kind::link, path_ / hidden, [&] { return ::symlinkat(target.c_str(), fd(), hidden.c_str()); }, target);
  if (made != 0) fail(hidden, "cannot make the link", errno);
  const int result = attempt(
      *env_, Kind::replace, path_ / hidden, [&] { return ::renameat(fd(), hidden.c_str(), fd(), name.c_str()); },
      path_ / name);
  if (result != 0) fail(name, "cannot put the new link in place", errno);
}

void Folder::remove(const std::string& name) const {
  check_plain(name);
  const int result = attempt(*env_, Kind::remove, path_ / name, [&] { return ::unlinkat(fd(), name.c_str(), 0); });
  if (result != 0 && errno != ENOENT) fail(name, "cannot remove", errno);
}

// Folders within folders are kept on a list, not on the stack: depth is the file system's business, not ours.
void Folder::remove_tree(const std::string& name) const {
  if (!is_folder(name)) return remove(name);
  std::vector<std::pair<Folder, std::string>> inner{{*this, name}};  // each a parent and the name below it
  for (std::size_t next = 0; next < inner.size(); ++next) {
    const Folder folder = inner[next].first.open_folder(inner[next].second);
    for (const std::string& entry : folder.list())
      folder.is_folder(entry) ? void(inner.emplace_back(folder, entry)) : folder.remove(entry);
  }
  for (; !inner.empty(); inner.pop_back()) {
    const auto& [parent, entry] = inner.back();
    const int result =
        attempt(*env_, Kind::remove_folder, parent.path_ / entry,
                [&, at = parent.fd(), leaf = entry.c_str()] { return ::unlinkat(at, leaf, AT_REMOVEDIR); });
    if (result != 0 && errno != ENOENT) parent.fail(entry, "cannot remove the folder", errno);
  }
}

void Folder::sync() const {
  const int result = attempt(*env_, Kind::sync_folder, path_, [&] { return ::fsync(fd()); });
  // EINVAL: the file system has no such thing as syncing a folder.
  if (result != 0 && errno != EINVAL) fail("", "cannot sync the folder", errno);
}

static bool stat_at(Env& env, const std::filesystem::path& path, int fd, const std::string& name, int flags,
                    struct stat& info) {
  return attempt(env, Kind::stat, path / name, [&] { return ::fstatat(fd, name.c_str(), &info, flags); }) == 0;
}

bool Folder::exists(const std::string& name) const {
  struct stat info{};
  if (stat_at(*env_, path_, fd(), name, AT_SYMLINK_NOFOLLOW, info)) return true;
  if (errno != ENOENT) fail(name, "cannot look at it", errno);
  return false;
}

bool Folder::is_folder(const std::string& name) const {
  struct stat info{};
  if (stat_at(*env_, path_, fd(), name, AT_SYMLINK_NOFOLLOW, info)) return S_ISDIR(info.st_mode);
  if (errno != ENOENT) fail(name, "cannot look at it", errno);
  return false;
}

std::optional<std::uint64_t> Folder::file_size(const std::string& name) const {
  struct stat info{};
  if (stat_at(*env_, path_, fd(), name, 0, info))
    return S_ISREG(info.st_mode) ? std::optional(static_cast<std::uint64_t>(info.st_size)) : std::nullopt;
  if (errno != ENOENT && errno != ELOOP) fail(name, "cannot look at it", errno);
  return std::nullopt;
}

std::optional<std::string> Folder::link_target(const std::string& name) const {
  check_plain(name);
  char target[PATH_MAX];
  ssize_t size = 0;
  const auto read = [&] { return static_cast<int>(size = ::readlinkat(fd(), name.c_str(), target, sizeof target)); };
  if (attempt(*env_, Kind::stat, path_ / name, read) >= 0) return std::string(target, static_cast<std::size_t>(size));
  if (errno != EINVAL && errno != ENOENT) fail(name, "cannot look at it", errno);
  return std::nullopt;
}

// Sorted names in an open folder, without . and ..; closes it. `fail` gets the errno and does not return.
static std::vector<std::string> list_and_close(int folder, const std::function<void(int)>& fail) {
  DIR* open = ::fdopendir(folder);
  if (!open) {
    const int error = errno;
    ::close(folder);
    fail(error);
    return {};
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(open)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  const int error = errno;
  ::closedir(open);
  if (error != 0) fail(error);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Folder::list() const {
  Operation operation{Kind::list, path_, {}};
  const int again = retried(*env_, operation, [&] { return ::openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (again < 0) fail("", "cannot list the folder", errno);
  return list_and_close(again, [&](int error) { fail("", "cannot list the folder", error); });
}

std::string Folder::read_file(const std::string& name, std::uint64_t limit) const {
  return InFile(*this, name, kind_).read_all(limit);
}

std::optional<std::string> Folder::maybe_read_file(const std::string& name, std::uint64_t limit) const {
  if (!exists(name)) return std::nullopt;
  return read_file(name, limit);
}

int Folder::open_read(const std::string& name) const {
  check_plain(name);
  // O_NONBLOCK: opening a FIFO without a writer would wait for ever.
  return attempt(*env_, Kind::open_read, path_ / name,
                 [&] { return ::openat(fd(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
}

int Folder::open_lock(const std::string& name) const {
  check_plain(name);
  const int file = attempt(*env_, Kind::lock, path_ / name, [&] {
    return ::openat(fd(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
  });
  if (file < 0) fail(name, "cannot open the lock file", errno);
  return file;
}

bool Folder::try_lock() const {
  return attempt(*env_, Kind::lock, path_, [&] { return ::flock(fd(), LOCK_EX | LOCK_NB); }) == 0;
}

}  // namespace hone
