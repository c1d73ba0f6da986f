// A run on its way to its first step, in stages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/temporary.h"
#include "hone/trainer.h"
#include "io/run_folder.h"
#include "train/inputs.h"
#include "train/trainer.h"

namespace hone::training {

// What for. trial: a dry run, which leaves the run folder as it is, or has one of its own for as long as it lives;
// without callbacks, and made also where the run is finished.
enum class Purpose { run, trial };

// What hone::Trainer is made of. Each stage makes those before it; a member that a stage fills may be read after it.
class Preparation {
 public:
  Preparation(Recipe recipe, TrainerInputs given, TrainOptions options, Purpose purpose = Purpose::run);

  // strict: the recipe is compared with the checkpoint's before anything is loaded; else only when the loop is made, as
  // parts may still change it. `finished` afterwards: there is nothing to do.
  void load_data(bool strict);
  void load_model();
  void make_loop();
  // Before the next stage. What a part does not have stays as it is.
  void apply(const RunData& part);
  void apply(const RunModel& part);

  RunData run_data() const;
  RunModel run_model() const;
  Trainer& loop() { return *loop_; }
  std::string expected_memory() const { return loop_ ? memory_parts(loop_->expected_memory()) : ""; }
  const TrainOptions& options() const { return options_; }
  const Recipe& recipe() const { return recipe_; }  // completed, after load_data()
  const Inputs& inputs() const { return *inputs_; }  // until make_loop()
  const std::optional<io::Checkpoint>& from() const { return from_; }
  const std::string& batch_reason() const { return batch_reason_; }  // "": the recipe says how many rows
  const std::optional<Summary>& finished() const { return finished_; }
  double seconds() const { return data_seconds_ + model_seconds_ + loop_seconds_; }
  void say_seconds() const;

 private:
  void adopt_state();
  bool is_over() const { return finished_ && purpose_ == Purpose::run; }
  void open(bool strict);
  std::unique_ptr<io::RunFolder> open_folder(Env& env, bool there);
  std::string saved_recipe() const;
  void check();
  Inputs load_together(const std::filesystem::path& checkpoint);
  void fill_batch_size();
  void validate();

  Recipe recipe_;
  TrainerInputs given_;
  TrainOptions options_;
  const World& world_;
  Purpose purpose_;
  std::optional<TemporaryFolder> scratch_;  // of a trial; goes after what lies in it
  std::unique_ptr<io::RunFolder> run_;
  std::optional<io::Checkpoint> from_;
  std::vector<config::Change> changes_;
  std::optional<Inputs> inputs_;
  std::optional<Summary> finished_;
  std::string batch_reason_;
  bool has_model_ = false, checked_ = false;
  double data_seconds_ = 0, model_seconds_ = 0, loop_seconds_ = 0;
  std::unique_ptr<Trainer> loop_;  // before the run folder is let go
};

}  // namespace hone::training
