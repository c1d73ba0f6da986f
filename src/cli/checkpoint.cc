// hone checkpoint: the checkpoints of a run, looked at, checked, and made fewer.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/strings.h"
#include "cli/output.h"
#include "hone/command.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "io/lines.h"
#include "io/run_folder.h"
#include "train/state.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

void require_run(const fs::path& path) {
  if (!fs::exists(path / "config.yaml"))
    throw Error(ErrorKind::usage, path.string() + ": not a run folder; expected config.yaml in it");
}

std::uint64_t bytes_of(const io::Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const io::ManifestFile& file : manifest.files) bytes += file.size;
  return bytes;
}

// What evaluations found, by step.
std::map<std::int64_t, ordered_json> evaluations_of(const fs::path& run) {
  std::map<std::int64_t, ordered_json> found;
  if (!fs::exists(run / "metrics.jsonl")) return found;
  io::LineReader reader(run / "metrics.jsonl");
  for (std::string_view line; reader.next(line);) {
    const ordered_json json = ordered_json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    for (const auto& [name, value] : json.items())
      if (name.starts_with("eval_") && name != "eval_seconds") found[json["step"].get<std::int64_t>()][name] = value;
  }
  return found;
}

// Steps that the run keeps for what they are worth, the best one first, as its newest whole checkpoint knows them.
std::vector<std::int64_t> best_steps(const io::Checkpoints& checkpoints, const std::vector<io::Checkpoint>& all) {
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (!one->whole()) continue;
    const std::string where = one->name + "/state/" + training::kStateFile;
    const auto text = checkpoints.open(*one).open_folder("state").maybe_read_file(training::kStateFile);
    if (!text) continue;
    std::vector<std::int64_t> steps;
    for (const training::Best& best : training::state_from_json(*text, where).best) steps.push_back(best.step);
    return steps;
  }
  return {};
}

ordered_json row_of(const io::Checkpoints& checkpoints, const io::Checkpoint& one, bool full) {
  ordered_json row = {{"name", one.name}, {"step", one.step}};
  if (one.step >= 0) row["size_bytes"] = bytes_of(io::Manifest::read(checkpoints.open(one)));
  row["whole"] = full || !one.whole() ? ordered_json(one.whole()) : ordered_json();  // null: not looked at every byte
  if (!one.finite) row["finite"] = false;
  if (!one.whole()) row["problems"] = one.problems;
  return row;
}

class CheckpointCommand final : public Command {
 public:
  struct Config {
    std::optional<std::int64_t> keep;
    bool dry_run = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("keep", &C::keep, "prune: how many of the newest whole checkpoints stay, besides the best ones.",
                at_least(1)),
          field("dry_run", &C::dry_run, "prune: only say what would be deleted.")};
    }
  };
  explicit CheckpointCommand(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"list|verify|prune PATH",
            {"hone checkpoint list runs/a", "hone checkpoint verify runs/a",
             "hone checkpoint verify runs/a/checkpoints/step-00000100", "hone checkpoint prune runs/a --keep 2"},
            2,
            2};
  }

  int run(const Invocation& call) override {
    const std::string& what = call.positionals[0];
    const fs::path path = call.positionals[1];
    if (what != "prune" && (flags_.keep || flags_.dry_run))
      throw Error(ErrorKind::usage, "--keep, --dry-run: only with hone checkpoint prune");
    if (what == "list") return list(path, call.json);
    if (what == "verify") return verify(path, call.json);
    if (what == "prune") return prune(path, call.json);
    throw Error(ErrorKind::usage, "checkpoint: got " + hone::quoted(what) + ", expected list, verify or prune");
  }

 private:
  static io::Checkpoints checkpoints_of(const fs::path& run) {
    require_run(run);
    if (!fs::exists(run / "checkpoints"))
      throw Error(ErrorKind::checkpoint, run.string() + ": the run has saved no checkpoint yet");
    return io::Checkpoints(Env::process().open_folder(run / "checkpoints"));
  }

  static int list(const fs::path& run, bool json) {
    const io::Checkpoints checkpoints = checkpoints_of(run);
    const std::vector<io::Checkpoint> all = checkpoints.scan(io::Verify::sizes);
    const std::vector<std::int64_t> best = best_steps(checkpoints, all);
    const auto evaluations = evaluations_of(run);
    for (const io::Checkpoint& one : all) {
      ordered_json row = row_of(checkpoints, one, false);
      if (const auto rank = std::find(best.begin(), best.end(), one.step); one.step >= 0 && rank != best.end())
        row["best"] = rank - best.begin() + 1;
      if (const auto found = evaluations.find(one.step); found != evaluations.end()) row["metrics"] = found->second;
      json ? write_json(row) : print(row);
    }
    if (all.empty() && !json) std::cout << run.string() << ": no checkpoints\n";
    return 0;
  }

  static void print(const ordered_json& row) {
    std::string text = row["name"];
    if (row.contains("size_bytes")) text += "  " + human_size(row["size_bytes"].get<std::uint64_t>());
    if (row.contains("best"))
      text += row["best"] == 1 ? "  best" : fmt::format("  best but {}", row["best"].get<int>() - 1);
    if (row.contains("finite")) text += "  not finite";
    if (row.contains("metrics"))
      for (const auto& [name, value] : row["metrics"].items())
        text +=
            fmt::format("  {} {}", name, value.is_number() ? fmt::format("{:.4g}", value.get<double>()) : value.dump());
    if (row["whole"] == false) text += "  damaged";
    std::cout << text << "\n";
    if (row.contains("problems"))
      for (const auto& problem : row["problems"]) std::cout << "  " << problem.get<std::string>() << "\n";
  }

  static int verify(const fs::path& path, bool json) {
    std::vector<ordered_json> rows;
    if (fs::exists(path / "MANIFEST.json") || !fs::exists(path / "config.yaml")) {
      const std::vector<std::string> problems = io::verify(Env::process().open_folder(path), io::Verify::full);
      rows.push_back({{"name", path.string()}, {"whole", problems.empty()}});
      if (!problems.empty()) rows.back()["problems"] = problems;
    } else {
      const io::Checkpoints checkpoints = checkpoints_of(path);
      for (const io::Checkpoint& one : checkpoints.scan(io::Verify::full))
        rows.push_back(row_of(checkpoints, one, true));
    }
    bool all = true;
    for (const ordered_json& row : rows) {
      all &= row["whole"].get<bool>();
      if (json)
        write_json(row);
      else if (row["whole"] == false)
        print(row);
      else
        std::cout << row["name"].get<std::string>() << "  whole: every byte is as it was saved\n";
    }
    if (rows.empty() && !json) std::cout << path.string() << ": no checkpoints\n";
    return all ? 0 : static_cast<int>(ErrorKind::checkpoint);
  }

  int prune(const fs::path& path, bool json) const {
    if (!flags_.keep)
      throw Error(ErrorKind::usage, "--keep: missing; expected how many of the newest checkpoints stay");
    checkpoints_of(path);
    io::RunFolder run(Env::process(), path);  // held: no run is in it meanwhile
    const std::vector<io::Checkpoint> all = run.checkpoints().scan(io::Verify::sizes);
    const std::vector<std::int64_t> best = best_steps(run.checkpoints(), all);
    const std::set<std::int64_t> stay(best.begin(), best.end());
    std::vector<std::int64_t> whole;
    for (const io::Checkpoint& one : all)
      if (one.whole() && one.finite) whole.push_back(one.step);
    const std::vector<std::int64_t> gone =
        flags_.dry_run ? io::steps_to_delete(whole, *flags_.keep, stay) : run.checkpoints().retain(*flags_.keep, stay);
    if (json) {
      write_json({{"folder", path.string()}, {"dry_run", flags_.dry_run}, {"deleted", gone}});
      return 0;
    }
    for (const std::int64_t step : gone)
      std::cout << io::step_name(step) << (flags_.dry_run ? "  would be deleted\n" : "  deleted\n");
    if (gone.empty()) std::cout << path.string() << ": nothing to delete\n";
    return 0;
  }

  Config flags_;
};

}  // namespace

void register_checkpoint(Registries& hone) {
  hone.commands.add<CheckpointCommand>("checkpoint", "List, verify and prune the checkpoints of a run.");
}

}  // namespace hone::cli
