// One run in MLflow's file store, over all processes that train it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/log.h"

namespace hone::trackers {

enum class MlflowStatus { running = 1, finished = 3, failed = 4, killed = 5 };  // as MLflow numbers them

struct MlflowAbout {
  std::filesystem::path store;  // MLflow's tracking URI
  std::string experiment;
  std::filesystem::path run_folder;
  std::string name;
  bool is_named = false;  // else `name` stands for a new run alone: one that has been renamed in MLflow stays so
  std::map<std::string, std::string> tags, parameters;
  std::string recipe;
  std::optional<std::int64_t> kept_step;  // rows of later steps are made again; nothing: all are
};

// All of it throws Error where the store cannot be read or written, and can be called again then. Which run of MLflow
// the run folder's is, and which of its numbers hone has written, stands in mlflow.json of the run folder. One thread
// at a time.
class MlflowRun {
 public:
  explicit MlflowRun(MlflowAbout about) : about_(std::move(about)) {}
  // Makes the run, or takes it up as it was up to the step that is kept, and marks it as running; where it is open and
  // still there, nothing. Error(config): the experiment was deleted in MLflow.
  void open();
  // Notes the numbers that there will be points of, all at once; add() does it for one. REQUIRES: open()
  void begin_series(const std::vector<std::string>& names);
  // One point of a number: none is added at a step, or before it, that the number has a point of. REQUIRES: open()
  void add(const std::string& name, double value, std::int64_t step, double wall_s);
  void end(MlflowStatus status, double wall_s);
  bool was_open() const { return was_open_; }

 private:
  struct Series {
    std::string file;                   // below metrics/, with slashes
    std::optional<std::int64_t> last;   // step of its last point
    std::uint64_t size = 0;             // bytes, as hone has left it
    std::optional<std::uint64_t> torn;  // where a row that was written in part begins, and could not be cut off
  };
  void read_notes();
  void write_notes() const;
  void begin(const Folder& experiment);
  void take_up_series();
  void take_up_or_begin();
  std::map<std::string, std::string> tags_of(bool is_new) const;
  void write_meta(const std::string& experiment_id) const;
  void set_meta(MlflowStatus status, const std::string& end_time) const;
  std::string free_file(const std::string& name) const;
  Folder run_folder() const { return Env::process().open_folder(about_.run_folder); }

  MlflowAbout about_;
  std::string id_;
  std::optional<Folder> folder_;
  std::map<std::string, Series> series_;  // by hone's name
  std::string other_notes_;               // JSON of the file's other runs
  bool was_open_ = false;
  log::Limiter warnings_;
};

// Whether a run of that id is in any experiment of the store.
bool has_mlflow_run(const std::filesystem::path& store, const std::string& id);

}  // namespace hone::trackers
