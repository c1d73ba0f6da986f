// What a run takes of memory, found before it by its own code on the meta device: the model, the updater, passes over a
// micro-batch and an update, of tensors that are never there (tensor/meta_memory.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/recipe.h"
#include "train/inputs.h"

namespace hone::training {

// Bytes of one process.
struct MemoryPlan {
  std::uint64_t process = 0;       // the program, its data and what else is there before the model
  std::uint64_t weights = 0;       // in the types that they are computed with; adapters' too
  std::uint64_t masters = 0;       // of a bf16 run
  std::uint64_t gradients = 0;     // sums over a step's micro-batches
  std::uint64_t optimizer = 0;     // its state, without
  std::uint64_t average = 0;       // of the weights (trainer.ema)
  std::uint64_t other_models = 0;  // a reference
  std::uint64_t kept = 0;          // of a forward pass for the backward pass
  std::vector<std::uint64_t> blocks;  // of that, by block
  std::uint64_t loss = 0;             // besides, while the loss is made: the head's chunk of logits, gradients
  std::uint64_t backward = 0;         // besides what lasts, at the fullest moment of a step
  std::uint64_t evaluation = 0;       // likewise of an evaluation
  std::uint64_t answers = 0;          // keys and values of those that are made at the same time
  std::uint64_t gathered = 0;         // shared out: weights and gradients of the blocks that are whole for a moment
  std::uint64_t exchanged = 0;        // of several ranks: what the others have sent of a block's sums, to be added
  std::uint64_t checkpoint_copy = 0;  // trainer.save.asynchronous; of slices by columns (parallel.tensor)
  std::uint64_t batches = 0;          // of steps that are read ahead: tokens, targets, places
  std::uint64_t gaps = 0;             // between tensors
  std::uint64_t peak = 0;             // of all of it: the highest resident size
  std::uint64_t checkpoint = 0;       // on disk, of each
  std::int64_t tokens = 0, rows = 0;  // of the micro-batch that it was found with, the fullest of those looked at
  std::string unknown;  // why passes and updates are not in it: an op that the meta device lacks; "": they are

  // Besides passes and evaluations.
  std::uint64_t lasting() const { return weights + masters + gradients + optimizer + average + other_models; }
  std::uint64_t fullest() const { return std::max({backward, evaluation, answers}); }  // one comes after the other
};

struct MetaRunOptions {
  std::int64_t batch_size = 0;  // 0: the recipe's
  int ranks = 1;                // of the run; one of them is looked at
};

// "weights 1.2 GB, masters 2.4 GB, a step 3.1 GB": what takes memory.
std::string memory_parts(const MemoryPlan& plan);

// The inputs as load_inputs() gives them: nothing of them changes. Throws as building the model does.
MemoryPlan plan_memory(const Recipe& recipe, const Inputs& inputs, const MetaRunOptions& options = {});

// The fullest of the run's first micro-batches; of a stream full rows. Its rows may be fewer than batch_size.
HostBatch fullest_batch(const Recipe& recipe, const Inputs& inputs, std::int64_t batch_size);

}  // namespace hone::training
