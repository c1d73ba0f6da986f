// A small model's passes as a device remembers them: a micro-batch is then given to it in one go, and not op by op,
// which would take the host longer than the device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/objective.h"
#include "hone/recipe.h"
#include "ops/recording.h"
#include "ops/sequences.h"
#include "train/passed.h"

namespace hone::training {

// One run's, on one device. A pass is remembered once it was made op by op and the host has given nothing to it that
// only that micro-batch has; then it is good for all micro-batches of rows of one size, about as many documents, and
// weights and sums in the same places and state. What is computed, to the bit, does not depend on what was remembered.
class RecordedPasses {
 public:
  // Forward, backward and what is added to the sums of gradients, of a pass with its plan and seed.
  using Work = std::function<Passed(const Batch&, Pass&, const Amounts&)>;

  // `always`: what cannot be remembered is told as a warning. The model must outlive it.
  RecordedPasses(Model& model, std::unique_ptr<ops::Recording> memory, bool always);
  ~RecordedPasses();

  Passed make(const Batch& batch, const Amounts& amounts, std::uint64_t seed, const Work& work);

 private:
  // Where the work of a pass finds and leaves what it needs, and all that the host knows of it.
  struct Key;
  struct Remembered;
  Key key_of(const Batch& batch, const Amounts& amounts, std::size_t room) const;
  std::unique_ptr<Pass> pass_of(const Batch& batch, const Tensor& ends, std::uint64_t seed) const;
  Passed try_out(const Batch& batch, const Amounts& amounts, std::uint64_t seed, const Work& work, const Key& key,
                 const Tensor& ends);
  void record(Remembered& one, const Batch& batch, const Amounts& amounts, const Work& work);
  Passed again(Remembered& one, const Batch& batch, const Amounts& amounts, const Tensor& ends);
  void give_up(const std::string& reason, bool expected = true);

  Model& model_;
  std::unique_ptr<ops::Recording> memory_;  // null: given up
  bool always_;
  std::vector<Weight*> weights_;
  std::vector<std::unique_ptr<Remembered>> remembered_;
  int waited_ = 0;  // passes in a row in which somebody waited for the device
};

// Why a run of one process cannot have them, whatever its model is; "": it can.
std::string reason_against_graphs(const Recipe& recipe, at::Device device);

// Null: passes are made op by op, as the recipe says or as this device, model or objective wants it.
std::unique_ptr<RecordedPasses> maybe_record_passes(const Recipe& recipe, Model& model, int ranks);

}  // namespace hone::training
