// Measuring a model on data: the one loop, for `hone eval` and for runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/evaluation.h"
#include "hone/generate.h"
#include "hone/world.h"
#include "train/inputs.h"

namespace hone::training {

using Evaluations = std::vector<std::shared_ptr<const Evaluation>>;
// Of these names one that nothing is registered under, and what there is; "": none.
std::string unknown_evaluation(const std::vector<std::string>& names);
Evaluations make_evaluations(const std::vector<std::string>& names);  // registered ones
// What the objective measures; it must outlive them.
Evaluations make_evaluations(const Objective& objective);
// And what the recipe asks for besides.
Evaluations make_evaluations(const Objective& objective, const Recipe& recipe);
// Whether an evaluation's records are those that the objective learns.
bool is_measured_on(const Evaluation& evaluation, const Needs& needs);

struct EvaluateOptions {
  std::int64_t batch_size = 8;
  std::int32_t pad_id = 0;
  std::shared_ptr<const Collator> collator = {};  // null: pad()
  // Called before each batch and at the end with the rows done and the tokens of the batch before; false, on any rank,
  // abandons it.
  std::function<bool(std::int64_t rows, std::int64_t tokens)> before = {};
  // Puts into a batch what an objective's own loss needs; nullptr: this rank has none, and others have.
  std::function<void(Batch*)> complete = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};  // of evaluations for which the model writes answers; and how:
  GenerateConfig generation = {};
  OnEvaluationStep each = {};  // is told of each batch, of all ranks'; may be empty
  std::uint64_t seed = 0;                               // of what a collator draws
  std::optional<std::int64_t> max_batches = {};         // of each set; nothing: all
  std::map<std::string, std::int64_t> batches_of = {};  // by set: instead of max_batches
  World world = {};  // each rank measures each size()th batch; all have the same result, whatever their number
  // Ranks that measure a batch together, each some of its tokens (parallel.tensor), and which these are: groups of so
  // many measure each so manieth batch.
  int together = 1;
  std::function<Batch(const Batch&)> own = {};
};

EvaluateOptions evaluate_options(const Recipe& recipe, const Inputs& inputs);

// The rows from `begin` on, as many as a batch has; what a collator draws is the same each time.
HostBatch evaluation_host_batch(const Dataset& data, std::int64_t begin, const EvaluateOptions& options);
Batch evaluation_batch(const Dataset& data, std::int64_t begin, const EvaluateOptions& options);

// One forward pass per batch for all of them. Nothing: abandoned. Error(config): the model lacks what one needs.
std::optional<Metrics> evaluate(const Model& model, const Evaluations& evaluations, const Dataset& data,
                                const EvaluateOptions& options);

// What a set's metrics begin with, of so many sets: "eval_" when there is one, else "eval_<name>_".
std::string prefix_of(std::size_t sets, const std::string& name);

// Of every set: "eval_loss" when there is one set, else "eval_<name>_loss". only: of those alone; none: of all.
std::optional<Metrics> evaluate_sets(const Model& model, const Evaluations& evaluations,
                                     const std::vector<EvalSet>& sets, const EvaluateOptions& options,
                                     const std::vector<std::string>& only = {});

// Their names, of sets with these names.
std::vector<std::string> metric_names(const Evaluations& evaluations, const std::vector<std::string>& sets);

// Those of them of which more is better.
std::vector<std::string> greater_is_better(const Evaluations& evaluations, const std::vector<EvalSet>& sets);

// What "best" goes by: the first set's loss, or the first metric of the first evaluation where none is called so.
std::string main_metric(const Evaluations& evaluations, const std::vector<EvalSet>& sets);

}  // namespace hone::training
