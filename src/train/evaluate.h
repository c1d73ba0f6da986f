// Evaluation of a model on data sets during training.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "hone/model.h"
#include "hone/tracker.h"
#include "train/inputs.h"

namespace hone::training {

struct EvaluateOptions {
  std::int64_t batch_size = 8;
  std::int32_t pad_id = 0;
  std::function<bool()> stop;  // asked between batches; true abandons the evaluation
};

// Loss, perplexity, accuracy and tokens of every set: "eval_loss" when there is one set, else "eval_<name>_loss".
// Nothing: abandoned.
std::optional<Metrics> evaluate_sets(const CausalLm& model, const std::vector<EvalSet>& sets,
                                     const EvaluateOptions& options);

// Their names, of sets with these names.
std::vector<std::string> metric_names(const std::vector<std::string>& sets);

// The name of the first set's loss: what "best" goes by.
std::string main_metric(const std::vector<EvalSet>& sets);

}  // namespace hone::training
