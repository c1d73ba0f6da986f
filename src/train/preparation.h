// A run on its way to its first step, in stages.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "hone/trainer.h"
#include "io/run_folder.h"
#include "train/inputs.h"
#include "train/trainer.h"

namespace hone::training {

// What hone::Trainer is made of. Each stage makes those before it; a member that a stage fills may be read after it.
class Preparation {
 public:
  Preparation(Recipe recipe, TrainerInputs given, TrainOptions options);

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
  const TrainOptions& options() const { return options_; }
  const std::optional<Summary>& finished() const { return finished_; }
  double seconds() const { return data_seconds_ + model_seconds_ + loop_seconds_; }
  void say_seconds() const;

 private:
  void adopt_state();
  void open(bool strict);
  void check();
  Inputs load_together(const std::filesystem::path& checkpoint);
  void fill_batch_size();
  void validate();

  Recipe recipe_;
  TrainerInputs given_;
  TrainOptions options_;
  const World& world_;
  std::unique_ptr<io::RunFolder> run_;
  std::optional<io::Checkpoint> from_;
  std::vector<config::Change> changes_;
  std::optional<Inputs> inputs_;
  std::optional<Summary> finished_;
  bool has_model_ = false, checked_ = false;
  double data_seconds_ = 0, model_seconds_ = 0, loop_seconds_ = 0;
  std::unique_ptr<Trainer> loop_;  // before the run folder is let go
};

}  // namespace hone::training
