// hone test: what a run has come to, on data that it has never read.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "cli/checkpoint_place.h"
#include "cli/named_files.h"
#include "cli/output.h"
#include "hone/command.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "io/metrics_file.h"
#include "io/runs_within.h"
#include "train/metrics.h"
#include "train/model_source.h"
#include "train/same_data.h"
#include "train/test.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

class Test final : public Command {
 public:
  struct Config {
    std::string checkpoint = "best";
    std::vector<std::string> data;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("checkpoint", &C::checkpoint,
                "best = the one that the run's evaluations found best (trainer.save.best_by), latest, or "
                "a step."),
          field("data", &C::data, "name=file instead of the sets of the run's data.test; may be given several times.")};
    }
  };
  explicit Test(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"RUN",
            {"hone test runs/a", "hone test runs/a --checkpoint latest --json",
             "hone test runs/a --data books=books.jsonl"},
            1,
            1};
  }

  int run(const Invocation& call) override {
    const StopSignal signals;
    const fs::path run = call.positionals[0];
    if (!fs::exists(run)) throw Error(ErrorKind::usage, run.string() + ": no such folder");
    if (!fs::is_directory(run / "checkpoints"))
      throw io::naming_runs_within(Error(ErrorKind::usage, run.string() + ": not a run folder with checkpoints"), run);
    const auto files = named_files();  // what is wrong with flags is told of before anything is looked at
    const CheckpointPlace place = chosen(run);
    Recipe recipe = read_recipe(config::read_file((place.folder / "state" / "config.yaml").string()));
    recipe.run.folder = run.string();
    if (!files.empty()) recipe.data.test.files = files;
    warn_of_training_data(recipe.data);
    const nlohmann::ordered_json metrics = training::json_of(training::test(recipe, place.folder));
    nlohmann::ordered_json report = {
        {"checkpoint", place.folder.filename().string()}, {"step", place.step}, {"sets", sets_of(recipe)}};
    report.update(metrics);
    keep(run, report);
    if (call.json) return write_json(report), 0;
    std::cout << place.folder.string() << "\n";
    for (const auto& [name, value] : metrics.items())
      std::cout << fmt::format("  {:<24} {}\n", name,
                               value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : value.dump());
    return 0;
  }

 private:
  static void warn_of_training_data(DataSection data) {
    data.eval.files.clear();
    for (const std::string& warning : training::sets_trained_on(data)) log::warning("{}", warning);
  }

  CheckpointPlace chosen(const fs::path& run) const {
    const fs::path folder = run / "checkpoints";
    const io::Checkpoints checkpoints(Env::process().open_folder(folder));
    if (flags_.checkpoint == "best")
      return checkpoint_place((folder / training::best_checkpoint(checkpoints).name).string(), false);
    if (flags_.checkpoint == "latest") return checkpoint_place(run.string(), false);
    const auto step = parse_int(flags_.checkpoint);
    if (!step || *step < 0)
      throw Error(ErrorKind::usage,
                  fmt::format("--checkpoint: got \"{}\", expected best, latest or a step", flags_.checkpoint));
    return checkpoint_place((folder / checkpoints.at(*step).name).string(), true);
  }

  static nlohmann::ordered_json sets_of(const Recipe& recipe) {
    nlohmann::ordered_json sets;
    for (const auto& [name, files] : recipe.data.test.files)
      for (const DataFile& file : files) sets[name].push_back(file.path.empty() ? file.source.type : file.path);
    return sets;
  }

  std::map<std::string, std::vector<DataFile>> named_files() const {
    std::map<std::string, std::vector<DataFile>> sets;
    std::vector<std::pair<std::string, std::string>> given;
    for (const std::string& entry : flags_.data) {
      const std::size_t equals = entry.find('=');
      if (equals == std::string::npos || equals == 0)
        throw Error(ErrorKind::usage, fmt::format("--data: got \"{}\", expected name=file", entry));
      DataFile file;
      file.path = entry.substr(equals + 1);
      given.emplace_back(entry.substr(0, equals), file.path);
      sets[given.back().first].push_back(file);
    }
    require_names_apart(given);
    return sets;
  }

  // A line of test.jsonl in the run folder; the numbers have been made, so that a full disk is a warning.
  static void keep(const fs::path& run, const nlohmann::ordered_json& report) {
    std::ofstream file(run / io::kTestFile, std::ios::app);
    file << report.dump() << "\n" << std::flush;
    if (!file) log::warning("{}: cannot be written", (run / io::kTestFile).string());
  }

  Config flags_;
};

}  // namespace

void register_test(Registries& hone) {
  hone.commands.add<Test>("test", "Measure a run's best checkpoint on its test sets.");
}

}  // namespace hone::cli
