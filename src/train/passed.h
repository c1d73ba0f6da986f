// What a micro-batch's pass leaves, and what its terms are divided by.
#pragma once

#include <iterator>
#include <map>
#include <string>

#include "hone/batch.h"
#include "hone/model.h"
#include "hone/training_section.h"

namespace hone::training {

// On the model's device: nobody waits for it before the step's last pass is done.
struct Passed {
  Tensor loss;  // its share of the step's mean
  LossTerms terms;
  std::map<const Weight*, Tensor> observed = {};  // for buffers
};

// A pass that is learnt from, as the recipe says it; its seed is the micro-batch's.
inline void make_training(Pass& pass, const TrainerSection& trainer) {
  pass.training = true;
  pass.checkpoint_blocks = trainer.checkpoint_blocks;
  pass.float8 = trainer.fp8;
  pass.embedding_noise = trainer.neftune_noise_alpha;
}

// Amounts of the whole step by name: on the host, and, in the same order, on the model's device, fp64.
struct Amounts {
  Tensor of_device(Sums::const_iterator one) const { return there.select(0, std::distance(sums.begin(), one)); }
  Sums sums;
  Tensor there;
};

}  // namespace hone::training
