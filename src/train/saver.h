// A run's checkpoints: when one is due, what happens when one fails, which of them stay.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/run_folder.h"
#include "train/checkpoint.h"
#include "train/ranking.h"

namespace hone::training {

// Checkpoints that there are while one is written, at most, where some are removed; measured: whether any is the best.
std::int64_t most_at_once(const SaveSection& save, bool measured);

class Saver {
 public:
  // All of it must outlive the saver. `parts` gives what is to be saved; steps: of the whole run. Ranks save together;
  // what a save throws, says and counts is rank 0's.
  Saver(io::RunFolder& run, const Recipe& recipe, RunState& state, std::function<CheckpointParts()> parts,
        std::int64_t steps, World world);
  ~Saver();  // waits for what is written

  void resumed_from(const io::Checkpoint& checkpoint);
  std::set<std::int64_t> steps_there() const;  // up to this one, of checkpoints that are whole and finite
  void check_space();       // Error(checkpoint) when what is to come does not fit
  bool due_by_clock() const;
  bool due(bool asked_for) const;  // after a step that is not the last
  // Throws Error(checkpoint), and then nothing has changed. `worth`: what the model was found to be worth at this step.
  void save(const std::optional<Worth>& worth);
  // A failure is reported and counted: training goes on. With trainer.save.asynchronous the checkpoint is written
  // while that happens, after one that still is.
  void try_save(const std::optional<Worth>& worth);
  // Names of the checkpoints that were made and not told yet, but for one that is still written.
  std::vector<std::string> settle(bool wait);
  void start_clock();

  std::int64_t step() const { return step_; }            // of the newest checkpoint; -1: none
  bool can_go_on() const { return with_optimizer_; }     // from it: it has the optimizer's state
  const std::string& name() const { return name_; }      // and its name
  std::int64_t failures() const { return failures_; }
  std::string kept() const;  // "step 20", "no checkpoint"

 private:
  struct Pending;
  void begin(const std::optional<Worth>& worth);
  void finish_pending();
  void guarded(std::int64_t step, const std::function<void()>& act) const;
  CheckpointParts parts_to_save(const std::optional<Worth>& worth);
  void committed(std::int64_t step, bool with_optimizer, bool finite, std::uint64_t bytes, double seconds);
  void report_failure(std::int64_t step, const Error& error);
  std::uint64_t bytes() const;  // of a checkpoint now
  void tidy(bool finite);
  std::int64_t to_come();

  io::RunFolder& run_;
  const Recipe& recipe_;
  RunState& state_;
  std::function<CheckpointParts()> parts_;
  World world_;
  std::int64_t steps_, step_ = -1, from_ = -1, failures_ = 0, linked_ = -1;  // linked_: as best
  bool with_optimizer_ = true;
  std::string name_;
  double last_ = 0, slowest_ = 0;
  std::vector<std::string> untold_;
  std::unique_ptr<Pending> pending_;
};

}  // namespace hone::training
