// The lock comes first: nothing in a run folder is read for a decision, or changed, before this process holds it.
#include "io/run_folder.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/strings.h"
#include "io/json.h"
#include "io/ownership.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxSmallFile = 16'000'000;

// What the lock file says of its holder, for the message only.
std::string holder(const Folder& folder) {
  try {
    const auto about = parse_json(folder.read_file(kRunLock, 4096), kRunLock);
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

}  // namespace

RunFolder::RunFolder(Env& env, const fs::path& path, Options options)
    : env_(env), options_(options), run_id_(new_id()), since_(iso_utc()) {
  const fs::path named = path.has_filename() ? path : path.parent_path();  // no "/" at the end
  if (options_.watch) {
    folder_ = env_.open_folder(named, options_.kind);
    existed_ = folder_->exists(kRunConfig);
    checkpoints_.emplace(folder_->open_folder("checkpoints"));
    return;
  }
  require_run_folder(env, named, options_);
  try {
    take_lock(named);
    warn_of_weak_locks(named);
    if (options_.fresh && look_for_run(*folder_).run) move_aside(named);
    existed_ = folder_->exists(kRunConfig);
    open_checkpoints();
    note_holder();
    write_about();
  } catch (...) {
    if (lock_ >= 0) ::close(lock_);
    throw;
  }
}

// Before run.json is written anew, as it says what the runs before this one had.
void RunFolder::keep_checkpoints_there() {
  if (folder_->exists("checkpoints")) return;
  checkpoints_.emplace(folder_->make_folder("checkpoints"));
  log::warning("{}: was gone, and is made anew; what had been saved there is lost",
               (path() / "checkpoints").string());
}

void RunFolder::open_checkpoints() {
  const RunNotes notes = read_run_notes(*folder_).value_or(RunNotes());
  config_hash_ = notes.config_hash;
  if (folder_->link_target("checkpoints"))
    throw Error(options_.kind, (path() / "checkpoints").string() + ": a link, expected a folder of the run's own")
        .hint("a run.folder that lies on the other disk keeps its checkpoints there");
  const bool there = folder_->exists("checkpoints");
  checkpoints_.emplace(there ? folder_->open_folder("checkpoints") : folder_->make_folder("checkpoints"));
  if (const int left = checkpoints_->clean(); left > 0)
    log::info("{}: removed {} of an interrupted run", path().string(), counted(left, "unfinished checkpoint folder"));
  const auto link = folder_->link_target("latest");
  had_checkpoints_ = notes.had_checkpoints || (existed_ && !there) || (link && link->starts_with("checkpoints/")) ||
                     !checkpoints_->scan(Verify::sizes).empty();
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

// Opening and locking are two steps; between them the folder may be moved aside by another process's --new.
void RunFolder::take_lock(const fs::path& path) {
  std::error_code ignored;
  made_ = !fs::exists(fs::symlink_status(path, ignored));
  for (int attempt = 0; attempt < 100; ++attempt) {
    folder_ = env_.make_folders(path, options_.kind);
    lock_ = folder_->open_lock(kRunLock);
    while (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error != EWOULDBLOCK) throw_system_error(options_.kind, path / kRunLock, "cannot lock", error);
      throw Error(ErrorKind::locked, fmt::format("{}: {}", path.string(), holder(*folder_)))
          .hint("wait for that run, stop it, or choose another run.folder");
    }
    if (is_same_file(lock_, path / kRunLock)) return;
    ::close(std::exchange(lock_, -1));
  }
  throw Error(options_.kind, path.string() + ": cannot lock: the folder is moved again and again");
}

// Under the old folder's lock, so that no run in progress is moved away from under its process. A link to the folder
// stays, and leads to the new one.
void RunFolder::move_aside(const fs::path& path) {
  const NamedFolder named = locate_folder(path, options_.kind);
  try {
    aside_ = set_aside(env_.open_folder(named.parent, options_.kind), named.name, named.name);
  } catch (Error& error) {
    throw std::move(error).hint("the run that is there cannot be moved away; choose another run.folder");
  }
  ::close(std::exchange(lock_, -1));
  log::info("{}: the run that was there is now {}", path.string(), aside_);
  env_.make_folders(named.path(), options_.kind);
  take_lock(path);
}

std::optional<std::string> RunFolder::config() const { return folder_->maybe_read_file(kRunConfig, kMaxSmallFile); }

void RunFolder::write_config(std::string_view yaml) {
  const std::optional<std::string> before = config();
  if (before == yaml && !config_hash_.empty()) return;
  if (before && before != yaml && !config_hash_.empty() && hash128_hex(*before) != config_hash_)
    log::warning("{}: edited by hand; what counts is the recipe that was given, the edited file is now {}",
                 (path() / kRunConfig).string(), set_aside(*folder_, kRunConfig, kRunConfig));
  folder_->replace_file(kRunConfig, yaml);
  config_hash_ = hash128_hex(yaml);
  write_about();
}

void RunFolder::note_checkpoint() {
  if (had_checkpoints_) return;
  had_checkpoints_ = true;
  try {
    check_owner();
    write_about();
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
}

// Not worth a failure: the lock itself is the kernel's.
void RunFolder::note_holder() const {
  const nlohmann::json about = {{"run_id", run_id_}, {"host", host_name()}, {"pid", ::getpid()}, {"since", since_}};
  const std::string text = about.dump() + "\n";
  if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, text.data(), text.size(), 0) < 0)
    log::debug("cannot note the holder in {}", (path() / kRunLock).string());
}

void RunFolder::write_about() const {
  nlohmann::ordered_json about = {{"run_id", run_id_}, {"host", host_name()}, {"pid", ::getpid()}, {"since", since_}};
  if (had_checkpoints_) about["had_checkpoints"] = true;
  if (!config_hash_.empty()) about["config_hash"] = config_hash_;
  folder_->replace_file(kRunNotes, about.dump() + "\n");
}

void RunFolder::link(const std::string& name, const std::string& checkpoint) {
  try {
    const auto target = folder_->link_target(name);
    if (!(target && target->starts_with("checkpoints/")) && folder_->exists(name))
      throw Error(options_.kind, fmt::format("{}: is there already, and no link that hone made; it stays as it is",
                                             (path() / name).string()));
    folder_->replace_link(name, "checkpoints/" + checkpoint);
  } catch (const Error& error) {
    link_warnings_.warning(error.what());
  }
}

void RunFolder::check_owner() const {
  const std::string path = (folder_->path() / kRunNotes).string();
  const auto about = parse_json(folder_->read_file(kRunNotes, kMaxSmallFile), path, kConfigJson);
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
                fmt::format("{}: {} free, expected at least {} for {} of {}", path().string(), human_size(free),
                            human_size(need), counted(count, "checkpoint"), human_size(bytes)))
        .hint(
            "keep fewer checkpoints (trainer.save.keep; those that are there go by hone checkpoint prune), free some "
            "space, choose another run.folder, or --no-space-check");
}

void RunFolder::discard_if_new() {
  if (options_.watch || folder_->exists(kRunConfig) || !checkpoints_->scan(Verify::sizes).empty()) return;
  if (!made_ && aside_.empty()) return;
  const NamedFolder own = locate_folder(path(), options_.kind);
  const Folder parent = env_.open_folder(own.parent, options_.kind);
  parent.remove_tree(own.name);
  if (aside_.empty()) return;
  parent.rename(aside_, parent, own.name);
  parent.sync();
  log::info("{}: the run that was there is there again", path().string());
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

}  // namespace hone::io
