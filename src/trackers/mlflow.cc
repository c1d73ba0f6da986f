// A run of MLflow in a folder that its file store reads (`mlruns`), without MLflow.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "hone/tracker.h"
#include "io/checkpoints.h"
#include "io/json.h"
#include "trackers/mlflow_names.h"
#include "trackers/mlflow_run.h"

namespace hone::trackers {
namespace {

constexpr std::size_t kMaxExperimentName = 500, kMaxRunName = 250, kMaxTag = 5000;
constexpr std::uint64_t kMaxTrainJson = std::uint64_t{1} << 28;

std::string last_name_of(const std::string& folder) {
  return (std::filesystem::absolute(folder) / "").lexically_normal().parent_path().filename().string();
}

// Whether the run's newest checkpoint says that it has ended, for whatever reason: else it was stopped, and goes on.
bool has_ended(const std::string& run_folder) {
  const Folder folder = Env::process().open_folder(run_folder);
  const auto all = io::Checkpoints(folder.open_folder("checkpoints")).scan(io::Verify::sizes);
  if (all.empty() || !all.back().whole()) return false;
  const Folder state = folder.open_folder("checkpoints").open_folder(all.back().name).open_folder("state");
  const std::string text = state.read_file("train.json", kMaxTrainJson);
  return !io::parse_json(text, "train.json", {.bytes = kMaxTrainJson}).at("finished").get<std::string>().empty();
}

class Mlflow final : public Tracker {
 public:
  struct Config {
    std::string tracking_uri = "mlruns", experiment_name = "Default";
    std::optional<std::string> run_name, description, parent_run_id;
    std::map<std::string, std::string> tags;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("tracking_uri", &C::tracking_uri,
                "The folder that MLflow finds runs in, or its file: URI; runs that are to be compared have the same."),
          field("experiment_name", &C::experiment_name, "Experiment of MLflow that the run is in."),
          field("run_name", &C::run_name, "What MLflow shows the run as; default: the name of the run folder."),
          field("description", &C::description, "A text that MLflow shows with the run."),
          field("parent_run_id", &C::parent_run_id,
                "Id of a run in the same folder below which MLflow shows this one."),
          field("tags", &C::tags, "Tags of the run, by their names.")};
    }
    void validate(Problems& problems) const;
  };

  Mlflow(const Config& config, const RunInfo& run) : folder_(run.folder), run_(about(config, run)) {
    std::optional<Error> of_the_recipe;
    warned([&] {
      try {
        check_places(config);
        run_.open();  // the run is there from its beginning
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::config) throw;
        of_the_recipe = error;
      }
    });
    if (of_the_recipe) throw *of_the_recipe;
  }

  // A run that came to no end has failed, or was stopped before its first checkpoint.
  ~Mlflow() override {
    if (!has_finished_) end(StopSignal::stop_requested() ? MlflowStatus::killed : MlflowStatus::failed);
  }

  void log(std::int64_t step, const Metrics& metrics) override {
    warned([&] {
      run_.open();
      const double now = wall_seconds();
      std::vector<std::string> names;
      for (const auto& [name, value] : metrics)
        if (name != "step") names.push_back(name);
      run_.begin_series(names);
      for (const auto& [name, value] : metrics)
        if (name != "step") run_.add(name, value, step, now);
    });
  }

  void finish() override {
    has_finished_ = true;
    MlflowStatus status = MlflowStatus::killed;
    warned([&] {
      if (has_ended(folder_)) status = MlflowStatus::finished;
    });
    end(status);
  }

 private:
  static MlflowAbout about(const Config& config, const RunInfo& run) {
    MlflowAbout about;
    about.store = *folder_of_uri(config.tracking_uri);
    about.experiment = config.experiment_name;
    about.run_folder = run.folder;
    about.name = config.run_name.value_or(cut_to_bytes(with_replaced_utf8(last_name_of(run.folder)), kMaxRunName));
    about.is_named = config.run_name.has_value();
    about.tags = config.tags;
    if (config.description) about.tags["mlflow.note.content"] = *config.description;
    if (config.parent_run_id) about.tags["mlflow.parentRunId"] = *config.parent_run_id;
    about.parameters = parameters_of(run.config_yaml);
    about.recipe = run.config_yaml;
    if (run.resumed) about.kept_step = run.start_step;
    return about;
  }

  static void check_places(const Config& config) {
    const std::filesystem::path store = *folder_of_uri(config.tracking_uri);
    if (std::filesystem::exists(store) && !std::filesystem::is_directory(store))
      throw Error(ErrorKind::config, fmt::format("trackers.mlflow.tracking_uri: {} is no folder; expected one, which "
                                                 "is made where it is not there",
                                                 escape_for_terminal(store.string())));
    if (config.parent_run_id && !has_mlflow_run(store, *config.parent_run_id))
      throw Error(ErrorKind::config,
                  fmt::format("trackers.mlflow.parent_run_id: no run {} in {}; expected the id of one that is there",
                              *config.parent_run_id, escape_for_terminal(store.string())));
  }

  // Nothing ends a run.
  template <class Work>
  void warned(const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      warnings_.warning(error.what());
    }
  }

  void end(MlflowStatus status) noexcept {
    try {
      run_.open();
      run_.end(status, wall_seconds());
    } catch (const std::exception& error) {
      log::warning("{}", error.what());
    }
  }

  std::string folder_;
  MlflowRun run_;
  bool has_finished_ = false;
  log::Limiter warnings_;
};

void Mlflow::Config::validate(Problems& problems) const {
  const auto is_text = [](const std::string& text, std::size_t most) {
    return !trim(text).empty() && text.size() <= most && is_utf8(text);
  };
  problems.require(folder_of_uri(tracking_uri).has_value(), "tracking_uri",
                   "got " + hone::quoted(tracking_uri) +
                       ", expected a folder or its file: URI; MLflow takes the runs of a "
                       "folder into a database (mlflow migrate-filestore)");
  problems.require(is_text(experiment_name, kMaxExperimentName), "experiment_name",
                   "got " + hone::quoted(experiment_name) + ", expected 1 to 500 bytes");
  problems.require(!run_name || is_text(*run_name, kMaxRunName), "run_name",
                   "got " + hone::quoted(run_name.value_or("")) + ", expected 1 to 250 bytes");
  problems.require(!description || description->size() <= kMaxTag, "description", "longer than 5000 bytes");
  problems.require(!parent_run_id || is_mlflow_id(*parent_run_id), "parent_run_id",
                   "got " + hone::quoted(parent_run_id.value_or("")) + ", expected letters, digits, _ and -");
  for (const auto& [name, value] : tags) {
    problems.require(mlflow_name(name) == name && name != "mlflow.runName", "tags",
                     "got " + hone::quoted(name) +
                         ", expected letters, digits and _-. :/ in a tag's name, no part of it "
                         "empty, and run_name for mlflow.runName");
    problems.require(value.size() <= kMaxTag, "tags." + name, "longer than 5000 bytes");
    for (std::size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1))
      problems.require(!tags.contains(name.substr(0, at)), "tags",
                       fmt::format("got {} and {}, of which MLflow's store would make a file and a folder of one name",
                                   hone::quoted(name.substr(0, at)), hone::quoted(name)));
  }
}

}  // namespace

void register_mlflow(Registries& hone) { hone.trackers.add<Mlflow>("mlflow", "Runs in a folder that MLflow reads."); }

}  // namespace hone::trackers
