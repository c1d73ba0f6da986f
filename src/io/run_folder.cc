// The lock comes first: nothing in a run folder is read for a decision, or changed, before this process holds it.
#include "io/run_folder.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/clock.h"
#include "base/hash.h"
#include "base/strings.h"
#include "io/json.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
constexpr const char* kLock = ".lock";
constexpr const char* kConfig = "config.yaml";
constexpr const char* kRun = "run.json";
constexpr std::uint64_t kMaxSmallFile = 16'000'000;

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// Differs between runs and processes; not a secret.
std::string new_run_id() {
  std::random_device device;
  const std::uint64_t random = std::uint64_t{device()} << 32 | device();
  return hex64(random ^ static_cast<std::uint64_t>(::getpid())).substr(0, 12);
}

// What the lock file says of its holder, for the message only.
std::string holder(const Folder& folder) {
  try {
    const auto about = parse_json(folder.read_file(kLock, 4096), kLock);
    return fmt::format(
        "locked by host {} pid {} since {}, run id {}", escape_for_terminal(about.at("host").get<std::string>(), 80),
        about.at("pid").get<std::int64_t>(), escape_for_terminal(about.at("since").get<std::string>(), 40),
        escape_for_terminal(about.at("run_id").get<std::string>(), 40));
  } catch (const std::exception&) {
    return "locked by another process";
  }
}

// Whether the open lock file is still the one that stands at its name.
bool is_same_file(int lock, const fs::path& path) {
  struct stat open{}, named{};
  return ::fstat(lock, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

// Locks on a network file system may bind only one machine; check_owner() is the second guard.
void warn_of_weak_locks(const fs::path& path) {
  struct statfs info{};
  if (::statfs(path.c_str(), &info) != 0) return;
  for (const auto& [magic, name] : {std::pair{0x6969L, "NFS"}, {0x65735546L, "FUSE"}, {0xFF534D42L, "CIFS"}})
    if (static_cast<long>(info.f_type) == magic)
      log::warning("{}: on {}, where locks may not keep other machines out; start one run at a time", path.string(),
                   name);
}

// Whether a run has left anything there: more than what taking the lock makes.
bool has_run(const Folder& folder) {
  for (const std::string& name : folder.list()) {
    const bool ours =
        name == kLock || name == kRun || (name == "checkpoints" && folder.open_folder(name).list().empty());
    if (!ours) return true;
  }
  return false;
}

}  // namespace

RunFolder::RunFolder(Env& env, const fs::path& path, Options options)
    : env_(env), options_(options), run_id_(new_run_id()) {
  const fs::path clean = path.lexically_normal();
  const fs::path named =
      clean.has_filename() || !clean.has_parent_path() ? clean : clean.parent_path();  // no "/" at the end
  try {
    take_lock(named);
    warn_of_weak_locks(named);
    if (options_.fresh && has_run(*folder_)) set_aside(fs::absolute(named).lexically_normal());
    existed_ = folder_->exists(kConfig);
    const nlohmann::json about = {
        {"run_id", run_id_}, {"host", host_name()}, {"pid", ::getpid()}, {"since", iso_utc()}};
    const std::string text = about.dump() + "\n";
    // Not worth a failure: the lock itself is the kernel's.
    if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, text.data(), text.size(), 0) < 0)
      log::debug("cannot note the holder in {}", (named / kLock).string());
    folder_->replace_file(kRun, text);
    if (!folder_->exists("checkpoints")) folder_->make_folder("checkpoints");
    checkpoints_.emplace(folder_->open_folder("checkpoints"));
    if (const int left = checkpoints_->clean(); left > 0)
      log::info("{}: removed {} of an interrupted run", path.string(), counted(left, "unfinished checkpoint folder"));
  } catch (...) {
    if (lock_ >= 0) ::close(lock_);
    throw;
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

// Opening and locking are two steps; between them the folder may be moved aside by another process's --new.
void RunFolder::take_lock(const fs::path& path) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    folder_ = env_.make_folders(path, options_.kind);
    lock_ = folder_->open_lock(kLock);
    while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error != EWOULDBLOCK) throw_system_error(options_.kind, path / kLock, "cannot lock", error);
      throw Error(ErrorKind::locked, fmt::format("{}: {}", path.string(), holder(*folder_)))
          .hint("wait for that run, stop it, or choose another run.folder");
    }
    if (is_same_file(lock_, path / kLock)) return;
    ::close(std::exchange(lock_, -1));
  }
  throw Error(options_.kind, path.string() + ": cannot lock: the folder is moved again and again");
}

// Under the old folder's lock, so that no run in progress is moved away from under its process.
void RunFolder::set_aside(const fs::path& path) {
  const Folder parent = env_.open_folder(path.parent_path(), options_.kind);
  const std::string name = path.filename().string();
  int number = 1;
  while (parent.exists(fmt::format("{}.old-{}", name, number))) ++number;
  const std::string old = fmt::format("{}.old-{}", name, number);
  parent.rename(name, parent, old);
  parent.sync();
  ::close(std::exchange(lock_, -1));
  log::info("{}: the run that was there is now {}", path.string(), old);
  take_lock(path);
}

std::optional<std::string> RunFolder::config() const { return folder_->maybe_read_file(kConfig, kMaxSmallFile); }
void RunFolder::write_config(std::string_view yaml) const { folder_->replace_file(kConfig, yaml); }

void RunFolder::link(const std::string& name, const std::string& checkpoint) const {
  folder_->replace_link(name, "checkpoints/" + checkpoint);
}

void RunFolder::check_owner() const {
  const std::string path = (folder_->path() / kRun).string();
  const auto about = parse_json(folder_->read_file(kRun, kMaxSmallFile), path, kConfigJson);
  const std::string owner = about.is_object() ? about.value("run_id", std::string()) : "";
  if (owner != run_id_)
    throw Error(ErrorKind::locked, fmt::format("{}: another run took over this folder; its run id is {}, ours {}", path,
                                               escape_for_terminal(owner, 40), run_id_))
        .hint("locks do not work on this file system; nothing more is written");
}

void RunFolder::check_space(std::uint64_t bytes, std::int64_t count) const {
  const std::uint64_t free = env_.free_bytes(path());
  std::uint64_t need = 0;
  if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)), &need))
    need = UINT64_MAX;
  if (need > free)
    throw Error(options_.kind,
                fmt::format("{}: {} free, expected at least {} for {} checkpoints of {}", path().string(),
                            human_size(free), human_size(need), count, human_size(bytes)))
        .hint(
            "keep fewer checkpoints (trainer.save.keep), free some space, choose another run.folder, or "
            "--no-space-check");
}

fs::path numbered_run(Env& env, const fs::path& runs, const std::string& name, bool resume) {
  const fs::path parent = runs / name;
  std::int64_t highest = 0;
  if (fs::exists(parent)) {
    for (const std::string& entry : env.open_folder(parent).list())
      if (entry.starts_with("run_")) highest = std::max(highest, parse_int(entry.substr(4)).value_or(0));
  }
  if (!resume) return parent / fmt::format("run_{}", highest + 1);
  if (highest == 0)
    throw Error(ErrorKind::usage, parent.string() + ": there is no run to resume")
        .hint("leave --resume out to start one");
  return parent / fmt::format("run_{}", highest);
}

// ------------------------------------------------------------------------------------------------ MetricsFile

namespace {

// JSON has no NaN and no infinity; what they were is kept as text.
nlohmann::json without_nonfinite(nlohmann::json value) {
  if (value.is_structured())
    for (auto& inner : value) inner = without_nonfinite(std::move(inner));
  if (!value.is_number_float()) return value;
  const double number = value.get<double>();
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return value;
}

// The step of a whole line; nothing: torn, or not an object with a step.
std::optional<std::int64_t> step_of(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  return step != object.end() && step->is_number_integer() ? std::optional(step->get<std::int64_t>()) : std::nullopt;
}

}  // namespace

MetricsFile::MetricsFile(const Folder& folder, const std::string& name) : folder_(folder), name_(name) {}

void MetricsFile::open() {
  if (!good_size_) keep_up_to(std::numeric_limits<std::int64_t>::max());  // a process before us may have been killed
  file_.emplace(folder_.append_to(name_));
}

void MetricsFile::keep_up_to(std::int64_t step) {
  file_.reset();
  const std::optional<std::string> old = folder_.maybe_read_file(name_, std::uint64_t{1} << 34);
  std::string kept;
  good_size_ = 0;
  if (!old) return;
  for (std::size_t at = 0; at < old->size();) {
    const std::size_t end = old->find('\n', at);
    if (end == std::string::npos) break;  // torn by a kill: never a whole line
    const std::string_view line = std::string_view(*old).substr(at, end - at);
    if (const auto number = step_of(line); number && *number <= step) kept.append(line).append("\n");
    at = end + 1;
  }
  if (kept != *old) folder_.replace_file(name_, kept);
  good_size_ = kept.size();
}

void MetricsFile::append(const nlohmann::json& object) noexcept {
  try {
    const std::string line =
        without_nonfinite(object).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    if (!file_) open();
    if (file_->size() != *good_size_) file_->truncate(*good_size_);  // takes away what a failed write left
    file_->write(line);
    good_size_ = file_->size();
  } catch (const std::exception& error) {
    ++failures_;
    file_.reset();  // opened anew, and cut to its last whole line, next time
    warnings_.warning(fmt::format("metrics are not written: {}", error.what()));
  }
}

}  // namespace hone::io
