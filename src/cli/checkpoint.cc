// hone checkpoint: the checkpoints of a run, looked at, checked, and made fewer.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/strings.h"
#include "cli/checkpoint_weights.h"
#include "cli/output.h"
#include "hone/command.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "io/lines.h"
#include "io/run_folder.h"
#include "io/runs_within.h"
#include "train/state.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

void require_run(const fs::path& path) {
  if (!fs::exists(path)) throw Error(ErrorKind::usage, path.string() + ": no such folder");
  if (!fs::exists(path / "config.yaml"))
    throw io::naming_runs_within(
        Error(ErrorKind::checkpoint, path.string() + ": not a run folder; expected config.yaml in it"), path);
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

// Steps that the run keeps for what they are worth, as its newest whole checkpoint knows them.
struct Kept {
  std::vector<std::int64_t> best;       // the best one first
  std::vector<std::int64_t> were_best;  // until "best" came to mean something else
  std::set<std::int64_t> all() const {
    std::set<std::int64_t> steps(best.begin(), best.end());
    steps.insert(were_best.begin(), were_best.end());
    return steps;
  }
};

Kept kept_steps(const io::Checkpoints& checkpoints, const std::vector<io::Checkpoint>& all) {
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (!one->whole()) continue;
    const std::string where = one->name + "/state/" + training::kStateFile;
    const auto text = checkpoints.open(*one).open_folder("state").maybe_read_file(training::kStateFile);
    if (!text) continue;
    const training::RunState state = training::state_from_json(*text, where);
    Kept kept{.best = {}, .were_best = state.were_best};
    for (const training::Best& best : state.best) kept.best.push_back(best.step);
    return kept;
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
    std::optional<std::int64_t> keep, last;
    std::string out;
    bool dry_run = false, best = false, replace = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("keep", &C::keep, "prune: how many of the newest whole checkpoints stay, besides the best ones.",
                at_least(1)),
          field("dry_run", &C::dry_run, "prune: only say what would be deleted."),
          field("last", &C::last, "average: so many of a run's newest checkpoints.", at_least(2)),
          field("best", &C::best, "average: those checkpoints that a run keeps as its best (trainer.save.keep_best)."),
          field("out", &C::out, "average: folder to make, a model as any other."),
          field("replace", &C::replace,
                "average: a folder there that hone made, with nothing else in it, is moved to <folder>.old-k first.")};
    }
  };
  explicit CheckpointCommand(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"list|verify|prune|diff|average PATH ...",
            {"hone checkpoint list runs/a", "hone checkpoint verify runs/a",
             "hone checkpoint verify runs/a/checkpoints/step-00000100", "hone checkpoint prune runs/a --keep 2",
             "hone checkpoint diff runs/a/best runs/b/best", "hone checkpoint average runs/a --last 3 --out mean",
             "hone checkpoint average runs/a/best runs/b/best --out soup"},
            2,
            64};
  }

  int run(const Invocation& call) override {
    const std::string& what = call.positionals[0];
    const fs::path path = call.positionals[1];
    check_flags(what);
    if (what == "diff" || what == "average") {
      const std::vector<std::string> places(call.positionals.begin() + 1, call.positionals.end());
      return what == "diff" ? diff(places, call.json) : average(places, call.json);
    }
    if (call.positionals.size() > 2)
      throw Error(ErrorKind::usage, fmt::format("checkpoint {}: got {}, expected one", what,
                                                counted(std::ssize(call.positionals) - 1, "path")));
    if (what == "list") return list(path, call.json);
    if (what == "verify") return verify(path, call.json);
    if (what == "prune") return prune(path, call.json);
    throw Error(ErrorKind::usage,
                "checkpoint: got " + hone::quoted(what) + ", expected list, verify, prune, diff or average");
  }

 private:
  void check_flags(const std::string& what) const {
    if (what != "prune" && (flags_.keep || flags_.dry_run))
      throw Error(ErrorKind::usage, "--keep, --dry-run: only with hone checkpoint prune");
    if (what != "average" && (flags_.last || flags_.best || flags_.replace || !flags_.out.empty()))
      throw Error(ErrorKind::usage, "--last, --best, --out, --replace: only with hone checkpoint average");
  }

  static int diff(const std::vector<std::string>& places, bool json) {
    if (places.size() != 2)
      throw Error(ErrorKind::usage,
                  fmt::format("checkpoint diff: got {}, expected two", counted(std::ssize(places), "path")));
    const ordered_json report = checkpoint_difference(places[0], places[1]);
    if (json) return write_json(report), 0;
    std::cout << fmt::format("step {} and {}, {} and {} tokens\n", report["step"][0].dump(), report["step"][1].dump(),
                             report["tokens"][0].dump(), report["tokens"][1].dump());
    for (const auto& row : report["recipe"])
      std::cout << fmt::format("{}: {} -> {}\n", row["option"].get<std::string>(), shown(row["before"]),
                               shown(row["after"]));
    for (const char* key : {"only_in_a", "only_in_b"})
      for (const auto& name : report[key]) std::cout << fmt::format("{}: {}\n", key, name.get<std::string>());
    for (const auto& row : report["shapes"])
      std::cout << fmt::format("{}: {} and {}\n", row["name"].get<std::string>(), row["a"].dump(), row["b"].dump());
    print_weights(report["weights"]);
    return 0;
  }

  static std::string shown(const ordered_json& value) {
    const std::string text = value.get<std::string>();
    return text.empty() ? "(not set)" : text;
  }

  static void print_weights(const ordered_json& rows) {
    constexpr std::size_t kShown = 10;
    std::size_t same = 0, shown = 0;
    for (const auto& row : rows) {
      if (row["max"] == 0) {
        ++same;
      } else if (++shown <= kShown) {
        const std::string part =
            row["relative"].is_null() ? "from zero" : fmt::format("{:.3g} %", 100 * row["relative"].get<double>());
        std::cout << fmt::format("{}: changed by {}, at most {:.3g}\n", row["name"].get<std::string>(), part,
                                 row["max"].get<double>());
      }
    }
    if (shown > kShown) std::cout << fmt::format("and {} more; --json lists all\n", shown - kShown);
    std::cout << fmt::format("{} of {} the same bit for bit\n", same, counted(std::ssize(rows), "weight"));
  }

  // Of one run, those that the flags choose; else as they are named.
  std::vector<std::string> chosen(const std::vector<std::string>& places) const {
    if (!flags_.last && !flags_.best) return places;
    if (places.size() != 1 || (flags_.last && flags_.best))
      throw Error(ErrorKind::usage, "--last, --best: one of them, with one run folder");
    const io::Checkpoints checkpoints = checkpoints_of(places[0]);
    const std::vector<io::Checkpoint> all = checkpoints.scan(io::Verify::sizes);
    const std::vector<std::int64_t> best = kept_steps(checkpoints, all).best;
    std::vector<std::string> names;
    for (const io::Checkpoint& one : all)
      if (one.whole() && (flags_.last || std::find(best.begin(), best.end(), one.step) != best.end()))
        names.push_back((checkpoints.folder().path() / one.name).string());
    if (flags_.last && std::ssize(names) < *flags_.last)
      throw Error(ErrorKind::usage, fmt::format("--last {}: {} has {}", *flags_.last, places[0],
                                                counted(std::ssize(names), "whole checkpoint")));
    if (flags_.last) names.erase(names.begin(), names.end() - *flags_.last);
    return names;
  }

  int average(const std::vector<std::string>& given, bool json) const {
    if (flags_.out.empty()) throw Error(ErrorKind::usage, "--out: missing; expected a folder to make");
    io::require_free(flags_.out, flags_.replace);
    const std::vector<std::string> places = chosen(given);
    write_average(places, flags_.out, flags_.replace);
    if (json) return write_json({{"folder", flags_.out}, {"checkpoints", places}}), 0;
    std::cout << fmt::format("{}: the mean of {}\n", flags_.out, join(places, ", "));
    return 0;
  }

  static io::Checkpoints checkpoints_of(const fs::path& run) {
    require_run(run);
    if (!fs::exists(run / "checkpoints"))
      throw Error(ErrorKind::checkpoint, run.string() + ": the run has saved no checkpoint yet");
    return io::Checkpoints(Env::process().open_folder(run / "checkpoints"));
  }

  static int list(const fs::path& run, bool json) {
    const io::Checkpoints checkpoints = checkpoints_of(run);
    const std::vector<io::Checkpoint> all = checkpoints.scan(io::Verify::sizes);
    const auto [best, were_best] = kept_steps(checkpoints, all);
    const auto evaluations = evaluations_of(run);
    for (const io::Checkpoint& one : all) {
      ordered_json row = row_of(checkpoints, one, false);
      if (const auto rank = std::find(best.begin(), best.end(), one.step); one.step >= 0 && rank != best.end())
        row["best"] = rank - best.begin() + 1;
      else if (std::find(were_best.begin(), were_best.end(), one.step) != were_best.end()) row["was_best"] = true;
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
    if (row.contains("was_best")) text += "  was best";
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
    const std::set<std::int64_t> stay = kept_steps(run.checkpoints(), all).all();
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
  hone.commands.add<CheckpointCommand>("checkpoint",
                                       "List, verify, prune, diff and average the checkpoints of runs.");
}

}  // namespace hone::cli
