// run.json with a run id, or a checkpoint with a manifest, is what only hone writes.
#include "io/run_claim.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "io/manifest.h"
#include "io/ownership.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxNotes = 1'000'000;

// The object in a file of ours that names a run: run.json, or the lock.
nlohmann::json object_of_run(const Folder& folder, const char* name) {
  const std::optional<std::string> text = folder.maybe_read_file(name, kMaxNotes);
  nlohmann::json about = nlohmann::json::parse(text.value_or(""), nullptr, false);
  const bool ours = about.is_object() && about.contains("run_id") && about["run_id"].is_string();
  return ours ? about : nlohmann::json();
}

bool has_checkpoint(const Folder& folder) {
  if (!folder.is_folder("checkpoints")) return false;
  const Folder all = folder.open_folder("checkpoints");
  const auto whole_manifest = [&](const std::string& name) {
    try {
      // A hidden one is in the making, or on its way out.
      return !name.starts_with(".") && all.is_folder(name) && !Manifest::read(all.open_folder(name)).files.empty();
    } catch (const Error& error) {
      rethrow_shortage(error);
      return false;
    }
  };
  const std::vector<std::string> names = all.list();
  return std::any_of(names.begin(), names.end(), whole_manifest);
}

// What loading the inputs and taking the lock make, and what is left when a run is killed right then.
bool made_before_a_run(const Folder& folder, const std::string& name) {
  if (name == kRunLock || name == kRunNotes) return true;
  for (const char* file : {kRunNotes, kRunConfig, kRunMetrics, "latest", "best"})
    if (name == std::string(Folder::kNew) + file) return true;
  if ((name != "checkpoints" && name != "cache") || !folder.is_folder(name)) return false;
  const std::vector<std::string> inside = folder.open_folder(name).list();
  const auto is_cached = [](const std::string& entry) {  // tokens, and hashes of their files
    const auto begins = [&](const char* with) { return entry.starts_with(with); };
    return begins("tokens-") || begins(".tmp-tokens-") || begins("source-") || begins(".new-source-");
  };
  return std::all_of(inside.begin(), inside.end(),
                     [&](const std::string& entry) { return name == "cache" && is_cached(entry); });
}

// Whether a process that lives has the folder's lock.
bool is_locked(const Folder& folder) {
  if (!folder.exists(kRunLock) || folder.link_target(kRunLock)) return false;
  const int lock = folder.open_lock(kRunLock);
  const bool held = ::flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(lock);
  return held;
}

// Who is given the folder finds the model by this file, and never the run's checkpoints.
void refuse_model(const Folder& folder, ErrorKind kind) {
  for (const char* name : {"config.json", "adapter_config.json"})
    if (folder.exists(name))
      throw Error(kind, fmt::format("{}: a model's folder, with {}; expected one of the run's own",
                                    folder.path().string(), name))
          .hint("generate, eval and export would take that model for the run's");
}

}  // namespace

std::optional<RunNotes> read_run_notes(const Folder& folder) {
  const nlohmann::json about = object_of_run(folder, kRunNotes);
  if (about.is_null()) return std::nullopt;
  RunNotes notes;
  if (const auto found = about.find("had_checkpoints"); found != about.end() && found->is_boolean())
    notes.had_checkpoints = found->get<bool>();
  if (const auto found = about.find("config_hash"); found != about.end() && found->is_string())
    notes.config_hash = found->get<std::string>();
  return notes;
}

RunClaim look_for_run(const Folder& folder) {
  RunClaim claim;
  const bool checkpoint = has_checkpoint(folder), ours = checkpoint || read_run_notes(folder);
  if (ours) claim.run = checkpoint || folder.exists(kRunConfig) || folder.exists(kRunMetrics);
  if (claim.run) return claim;
  for (const std::string& name : folder.list())
    if (!made_before_a_run(folder, name)) claim.others.push_back(name);
  if (ours) return claim;
  for (const char* name : {kRunConfig, kRunNotes, kRunMetrics})
    if (folder.exists(name)) claim.in_the_way.emplace_back(name);
  if (folder.file_size(kRunLock).value_or(0) > 0 && object_of_run(folder, kRunLock).is_null())
    claim.in_the_way.emplace_back(kRunLock);
  return claim;
}

void require_run_folder(Env& env, const fs::path& path, RunFolderOptions options) {
  const NamedFolder named = locate_folder(path, options.kind);
  std::error_code unknown;
  const bool there = fs::exists(path, unknown);
  if (named.is_among_checkpoints() && !(there && has_run(env, path)))
    throw Error(options.kind, path.string() + ": among the checkpoints of a run; expected a folder elsewhere");
  if (!there) return;
  const Folder folder = env.open_folder(path, options.kind);
  RunClaim claim = look_for_run(folder);
  if (!claim.in_the_way.empty()) {
    // Another process's run that is just starting has half of its files there. Who then tries the lock is told of it.
    if (is_locked(folder)) return;
    claim = look_for_run(folder);  // it has ended
  }
  if (!claim.in_the_way.empty())
    throw Error(options.kind, fmt::format("{}: a run would overwrite {} there, which no run of hone's wrote",
                                          path.string(), list_names(claim.in_the_way)))
        .hint("choose another run.folder, or move what is in the way");
  if (!claim.run) refuse_model(folder, options.kind);
  if (options.fresh && !claim.run && !claim.others.empty())
    throw Error(options.kind, fmt::format("{}: no run of hone's, so --new does not move it; it has {}", path.string(),
                                          list_names(claim.others, 5)))
        .hint("without --new a run starts beside these files; or choose another run.folder");
  if (options.fresh && claim.run && named.holds_working_folder())
    throw Error(options.kind,
                fmt::format("{}: the current folder, or one above it, cannot be moved away", path.string()))
        .hint("give --new from another folder, or choose another run.folder");
}

bool has_run(Env& env, const fs::path& path) {
  std::error_code unknown;
  return fs::is_directory(path, unknown) && look_for_run(env.open_folder(path)).run;
}

}  // namespace hone::io
