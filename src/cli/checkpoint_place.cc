// Finding and copying checkpoints.
#include "cli/checkpoint_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/log.h"
#include "base/shell_words.h"
#include "base/strings.h"
#include "hone/error.h"
#include "io/checkpoints.h"
#include "io/run_folder.h"
#include "io/runs_within.h"
#include "train/checkpoint.h"

namespace hone::cli {

namespace fs = std::filesystem;

CheckpointPlace checkpoint_place(const std::string& where, bool verified) {
  std::error_code ignored;
  fs::path folder = fs::weakly_canonical(where, ignored);
  if (!fs::exists(folder / "MANIFEST.json", ignored) && fs::is_directory(folder / "checkpoints", ignored)) {
    const auto newest = io::Checkpoints(Env::process().open_folder(folder / "checkpoints")).newest();
    if (!newest) throw Error(ErrorKind::checkpoint, where + ": the run has saved no checkpoint yet");
    folder = folder / "checkpoints" / newest->name;
  }
  if (!fs::exists(folder, ignored)) throw Error(ErrorKind::checkpoint, where + ": no such folder");
  if (!fs::exists(folder / "state" / "config.yaml", ignored))
    throw io::naming_runs_within(
        Error(ErrorKind::checkpoint, where + ": not a checkpoint of a run; expected state/config.yaml in it"), where);
  const Folder opened = Env::process().open_folder(folder);
  const auto problems = io::verify(opened, verified ? io::Verify::full : io::Verify::sizes);
  if (!problems.empty())
    throw Error(ErrorKind::checkpoint, fmt::format("{}: damaged: {}", folder.string(), join(problems, "; ")));
  const fs::path run = folder.parent_path().parent_path();
  const bool within = folder.parent_path().filename() == "checkpoints" && fs::exists(run / "config.yaml", ignored);
  return {folder, within ? run : fs::path(), io::Manifest::read(opened).step};
}

namespace {

// The lines that the run had until then, as the checkpoint has them (without times): the copy's own follow.
std::string metrics_of(const fs::path& checkpoint) {
  std::string lines;
  for (const nlohmann::json& line : training::load_state(Env::process().open_folder(checkpoint)).log_history)
    lines += line.dump() + "\n";
  return lines;
}

// A new folder, or what a copy that was killed has left. held: its lock is ours, and what was unfinished is gone.
void require_new(const Folder& folder, bool held) {
  const io::RunClaim claim = io::look_for_run(folder);
  const bool left = !held && io::read_run_notes(folder);
  if (!claim.run && (left || (claim.others.empty() && claim.in_the_way.empty()))) return;
  Error error(ErrorKind::usage, fmt::format("--from: {}: there is something already; expected a new run.folder",
                                            folder.path().string()));
  if (!claim.run) throw error;
  throw std::move(error).hint(fmt::format("--from {} goes on with the run that is there",
                                          shell_word(folder.path().string())));
}

void copy_file(const Folder& from, const Folder& to, const std::string& name) {
  const InFile source(from, name);
  OutFile copy = to.create(name);
  std::vector<std::byte> block(std::min<std::uint64_t>(source.size(), 4 << 20));
  for (std::uint64_t at = 0; at < source.size();) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), source.size() - at));
    source.read(at, part);
    copy.write(part);
    at += part.size();
  }
  copy.sync();
  copy.close();
}

void copy_files(const Folder& checkpoint, io::FolderCommit& commit) {
  const io::Manifest manifest = io::Manifest::read(checkpoint);
  for (const io::ManifestFile& file : manifest.files) {
    const std::size_t slash = file.name.find('/');
    const bool plain = slash == std::string::npos;
    const Folder from = plain ? checkpoint : checkpoint.open_folder(file.name.substr(0, slash));
    copy_file(from, commit.folder_of(file.name), plain ? file.name : file.name.substr(slash + 1));
    commit.note(file);
  }
  commit.commit(manifest);
}

}  // namespace

void copy_into_run(const CheckpointPlace& checkpoint, const fs::path& run, Env& env) {
  std::error_code ignored;
  if (fs::is_directory(run, ignored)) require_new(env.open_folder(run), /*held=*/false);
  checkpoint_place(checkpoint.folder.string(), /*verified=*/true);
  const std::string metrics = metrics_of(checkpoint.folder);
  during(fmt::format("copying {} into {}", checkpoint.folder.string(), run.string()), [&] {
    io::RunFolder made(env, run);  // held, so that no other run begins there meanwhile
    require_new(made.folder(), /*held=*/true);
    const Folder source = env.open_folder(checkpoint.folder);
    copy_files(source, *made.checkpoints().start_save(
                           checkpoint.step, {made.run_id(), /*replace=*/false, [&] { made.check_owner(); }}));
    made.note_checkpoint();
    made.link("latest", io::step_name(checkpoint.step));
    made.write_config(source.open_folder("state").read_file("config.yaml"));
    made.folder().replace_file(io::kRunMetrics, metrics);
  });
  log::info("{}: goes on from a copy of {}", run.string(), checkpoint.folder.string());
}

}  // namespace hone::cli
