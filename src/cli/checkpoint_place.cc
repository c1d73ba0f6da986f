// Finding and copying checkpoints.
#include "cli/checkpoint_place.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/strings.h"
#include "hone/error.h"
#include "io/checkpoints.h"
#include "io/run_claim.h"
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
    throw Error(ErrorKind::checkpoint, where + ": not a checkpoint of a run; expected state/config.yaml in it");
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

}  // namespace

void copy_into_run(const CheckpointPlace& checkpoint, const fs::path& run) {
  std::error_code ignored;
  if (fs::exists(run, ignored) && !fs::is_empty(run, ignored))
    throw Error(ErrorKind::usage,
                fmt::format("--from: {}: there is something already; expected a new run.folder", run.string()));
  checkpoint_place(checkpoint.folder.string(), /*verified=*/true);
  const std::string metrics = metrics_of(checkpoint.folder);
  try {
    fs::create_directories(run / "checkpoints");
    const fs::path hidden = run / "checkpoints" / ".copy";
    fs::copy(checkpoint.folder, hidden, fs::copy_options::recursive);
    fs::rename(hidden, run / "checkpoints" / io::step_name(checkpoint.step));
    fs::create_symlink(fs::path("checkpoints") / io::step_name(checkpoint.step), run / "latest");
    fs::copy_file(checkpoint.folder / "state" / "config.yaml", run / "config.yaml");
    Env::process().open_folder(run).replace_file(io::kRunMetrics, metrics);
  } catch (const fs::filesystem_error& error) {
    fs::remove_all(run, ignored);
    throw Error(ErrorKind::checkpoint, fmt::format("--from: {}", error.what()));
  }
  log::info("{}: goes on from a copy of {}", run.string(), checkpoint.folder.string());
}

}  // namespace hone::cli
