// A run's folder: meta.yaml, metrics/, params/, tags/, artifacts/, each number a file of its own.
#include "trackers/mlflow_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/strings.h"
#include "io/json.h"
#include "trackers/mlflow_experiment.h"
#include "trackers/mlflow_names.h"
#include "trackers/record_file.h"

namespace hone::trackers {
namespace {

constexpr const char* kNotes = "mlflow.json";
constexpr const char* kArtifacts = "artifacts";
constexpr const char* kMetrics = "metrics";
constexpr std::uint64_t kMaxSeries = std::uint64_t{1} << 34, kMaxText = std::uint64_t{1} << 24;

std::string milliseconds(double wall_s) { return fmt::format("{}", static_cast<std::int64_t>(wall_s * 1000)); }

std::string row_of(double value, std::int64_t step, double wall_s) {
  const std::string number = std::isnan(value) ? "nan" : fmt::format("{}", value);  // "inf", "-inf": as Python reads
  return fmt::format("{} {} {}\n", milliseconds(wall_s), number, step);
}

// The step of a row; nothing: MLflow cannot read it, nor any run beside it.
std::optional<std::int64_t> step_of(const std::string& row) {
  const std::vector<std::string> fields = split(row, ' ');
  if (!parse_int(fields[0])) return std::nullopt;
  if (fields.size() == 2) return 0;
  return fields.size() == 3 || fields.size() == 5 ? parse_int(fields[2]) : std::nullopt;
}

struct Kept {
  std::string text;
  std::optional<std::int64_t> last;
};

// Rows up to that step. What follows the last line end was cut off.
Kept kept_points(const std::string& text, std::optional<std::int64_t> step) {
  Kept kept;
  for (const std::string& row : split(text.substr(0, text.rfind('\n') + 1), '\n'))
    if (const auto its = step_of(row); its && step && *its <= *step) {
      kept.text += row + "\n";
      kept.last = std::max(kept.last.value_or(*its), *its);
    }
  return kept;
}

struct Place {
  Folder in;
  std::string leaf;
};

// Of a name with slashes, below the folder: those above it are made.
Place place_of(const Folder& folder, const std::string& name) {
  std::vector<std::string> parts = split(name, '/');
  const std::string leaf = parts.back();
  parts.pop_back();
  return {opened_or_made(folder, parts), leaf};
}

// A file that holds this text and nothing else.
void put(const Folder& folder, const std::string& name, const std::string& text) {
  const auto [in, leaf] = place_of(folder, name);
  if (in.maybe_read_file(leaf, kMaxText) == text) return;
  in.remove(leaf);
  in.create(leaf).write(text);
}

std::string user_name() {
  for (const char* name : {"LOGNAME", "USER"})
    if (const char* user = std::getenv(name); user != nullptr && *user != '\0') return user;
  return "";
}

// A name that mlflow.json gives of a file below metrics/.
std::string checked(const std::string& file) {
  if (mlflow_name(file) == file) return file;
  throw Error(ErrorKind::checkpoint,
              fmt::format("{}: got {}, expected a name of a number", kNotes, hone::quoted(file)));
}

bool collides(const std::string& one, const std::string& other) {
  return one == other || one.starts_with(other + "/") || other.starts_with(one + "/");
}

}  // namespace

bool has_mlflow_run(const std::filesystem::path& path, const std::string& id) {
  if (!std::filesystem::is_directory(path)) return false;
  const Folder store = Env::process().open_folder(path);
  return std::ranges::any_of(store.list(), [&](const std::string& name) {
    return is_mlflow_id(name) && store.is_folder(name) && store.open_folder(name).is_folder(id);
  });
}

void MlflowRun::open() {
  if (folder_ && folder_->exists(kMetaFile)) return;
  folder_.reset();
  try {
    take_up_or_begin();
  } catch (...) {  // the next line tries it again, whole
    folder_.reset();
    throw;
  }
}

void MlflowRun::take_up_or_begin() {
  if (was_open_) {
    warnings_.warning(escape_for_terminal((about_.store / id_).string()) +
                      ": the run was removed meanwhile, begun anew; what was in it does not come back");
    series_.clear();
  }
  const Folder experiment = mlflow_experiment(about_.store, about_.experiment);
  read_notes();
  const auto is_there = [&] {
    if (id_.empty() || !experiment.is_folder(id_)) return false;
    const auto meta = experiment.open_folder(id_).maybe_read_file(kMetaFile, kMaxText);
    return meta && entry_of(*meta, "lifecycle_stage") != "deleted";
  };
  if (is_there()) {
    folder_ = experiment.open_folder(id_);
    if (!was_open_) take_up_series();
  } else {
    if (about_.kept_step && !was_open_)
      log::info("MLflow: what the run logged before is not in {}; a new run goes on behind step {}",
                escape_for_terminal(about_.store.string()), *about_.kept_step);
    if (id_.empty() || experiment.exists(id_)) id_ = random_letters(32, "0123456789abcdef");
    series_.clear();
  }
  begin(experiment);
  was_open_ = true;
}

// Takes the file's run of this store and experiment; a file that nobody can read is begun anew.
void MlflowRun::read_notes() {
  if (!id_.empty()) return;
  const auto text = run_folder().maybe_read_file(kNotes, kMaxText);
  if (!text) return;
  try {
    const nlohmann::json notes = io::parse_json(*text, (about_.run_folder / kNotes).string());
    nlohmann::json others = nlohmann::json::array();
    for (const nlohmann::json& run : notes.at("runs")) {
      const bool is_ours =
          run.at("experiment") == about_.experiment && is_mlflow_id(run.at("run_id").get<std::string>());
      if (!is_ours || !id_.empty() || !has_mlflow_run(about_.store, run.at("run_id"))) {
        others.push_back(run);
        continue;
      }
      id_ = run.at("run_id");
      for (const auto& [name, file] : run.at("metrics").items()) series_[name].file = checked(file.get<std::string>());
    }
    other_notes_ = others.dump();
  } catch (const std::exception& error) {
    id_.clear();
    series_.clear();
    warnings_.warning(fmt::format("{}; a new run is begun in MLflow", error.what()));
  }
}

void MlflowRun::write_notes() const {
  nlohmann::json runs = other_notes_.empty() ? nlohmann::json::array() : nlohmann::json::parse(other_notes_);
  nlohmann::json metrics = nlohmann::json::object();
  for (const auto& [name, series] : series_) metrics[name] = series.file;
  runs.push_back({{"experiment", about_.experiment}, {"run_id", id_}, {"metrics", metrics}});
  run_folder().replace_file(kNotes, nlohmann::json{{"runs", runs}}.dump(2) + "\n");
}

// Everything but the numbers: what is there of it is written again where it differs. meta.yaml comes last, so that
// MLflow sees a run that is whole.
void MlflowRun::begin(const Folder& experiment) {
  write_notes();
  const Folder run = opened_or_made(experiment, {id_});
  for (const char* name : {kMetrics, "params", "tags", kArtifacts}) opened_or_made(run, {name});
  for (const auto& [name, value] : about_.parameters) put(run.open_folder("params"), name, value);
  const bool is_new = !run.exists(kMetaFile);
  for (const auto& [name, value] : tags_of(is_new)) put(run.open_folder("tags"), name, with_replaced_utf8(value));
  put(run.open_folder(kArtifacts), "config.yaml", about_.recipe);
  folder_ = run;
  if (is_new)
    write_meta(experiment.path().filename().string());
  else
    set_meta(MlflowStatus::running, "null");
}

std::map<std::string, std::string> MlflowRun::tags_of(bool is_new) const {
  std::map<std::string, std::string> tags = about_.tags;
  if (is_new || about_.is_named) tags.emplace("mlflow.runName", about_.name);
  if (const std::string user = user_name(); !user.empty()) tags.emplace("mlflow.user", user);
  tags.emplace("mlflow.source.name", "hone train");
  tags.emplace("mlflow.source.type", "LOCAL");
  tags.emplace("hone.version", HONE_VERSION);
  tags.emplace("hone.run_folder", std::filesystem::absolute(about_.run_folder).lexically_normal().string());
  return tags;
}

// The whole of it, of a new run.
void MlflowRun::write_meta(const std::string& experiment_id) const {
  const std::filesystem::path path = std::filesystem::absolute(folder_->path()).lexically_normal();
  folder_->replace_file(kMetaFile, meta_text({{"artifact_uri", meta_string(file_uri(path / kArtifacts))},
                                              {"deleted_time", "null"},
                                              {"end_time", "null"},
                                              {"entry_point_name", "''"},
                                              {"experiment_id", meta_string(experiment_id)},
                                              {"lifecycle_stage", "active"},
                                              {"run_id", meta_string(id_)},
                                              {"run_name", meta_string(about_.name)},
                                              {"run_uuid", meta_string(id_)},
                                              {"source_name", "''"},
                                              {"source_type", "4"},
                                              {"source_version", "''"},
                                              {"start_time", milliseconds(wall_seconds())},
                                              {"status", fmt::format("{}", static_cast<int>(MlflowStatus::running))},
                                              {"tags", "[]"},
                                              {"user_id", meta_string(user_name())}}));
}

void MlflowRun::set_meta(MlflowStatus status, const std::string& end_time) const {
  std::string meta = folder_->read_file(kMetaFile, kMaxText);
  meta = with_entry(meta, "status", fmt::format("{}", static_cast<int>(status)));
  meta = with_entry(meta, "end_time", end_time);
  if (about_.is_named) meta = with_entry(meta, "run_name", meta_string(about_.name));
  folder_->replace_file(kMetaFile, meta);
}

void MlflowRun::take_up_series() {
  for (auto& [name, series] : series_) {
    const auto [in, leaf] = place_of(folder_->open_folder(kMetrics), series.file);
    const auto text = in.maybe_read_file(leaf, kMaxSeries);
    if (!text) continue;
    const Kept kept = kept_points(*text, about_.kept_step);
    if (kept.text.empty())
      in.remove(leaf);  // MLflow takes an empty one for damage
    else if (kept.text != *text)
      in.replace_file(leaf, kept.text);
    series.last = kept.last;
    series.size = kept.text.size();
  }
}

// A new number's file: as MLflow can name it, and not in the way of another one's.
std::string MlflowRun::free_file(const std::string& name) const {
  std::string file = mlflow_name(name);
  const auto is_taken = [&] {
    return std::ranges::any_of(series_, [&](const auto& one) { return collides(file, one.second.file); });
  };
  if (is_taken()) file = replace_all(file, "/", "_");
  while (is_taken()) file += "_";
  return file;
}

void MlflowRun::begin_series(const std::vector<std::string>& names) {
  std::vector<std::string> begun;
  for (const std::string& name : names) {
    if (series_.contains(name)) continue;
    const std::string file = free_file(name);
    series_[name].file = file;
    begun.push_back(name);
  }
  if (begun.empty()) return;
  try {
    write_notes();  // first: what is not in them is never cut off
  } catch (const Error&) {
    for (const std::string& name : begun) series_.erase(name);
    throw;
  }
}

void MlflowRun::add(const std::string& name, double value, std::int64_t step, double wall_s) {
  begin_series({name});
  Series& series = series_.at(name);
  if (series.last && step <= *series.last) return;
  const auto [in, leaf] = place_of(opened_or_made(*folder_, {kMetrics}), series.file);
  OutFile file = in.append_to(leaf);
  if (file.size() < series.size)
    warnings_.warning(escape_for_terminal(file.path().string()) +
                      ": removed or cut meanwhile; what was in it does not come back");
  if (series.torn && file.size() > *series.torn) file.truncate(*series.torn);
  series.torn.reset();
  const std::uint64_t end = file.size();
  try {
    file.write(row_of(value, step, wall_s));
  } catch (const Error&) {
    series.torn = end;
    in.append_to(leaf).truncate(end);  // at once: of a row that is cut off MLflow shows nothing, and no run beside it
    series.torn.reset();
    throw;
  }
  series.size = file.size();
  series.last = step;
}

void MlflowRun::end(MlflowStatus status, double wall_s) { set_meta(status, milliseconds(wall_s)); }

}  // namespace hone::trackers
