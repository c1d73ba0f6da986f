// Evaluation during training.
#include "train/evaluate.h"

#include <algorithm>
#include <numeric>

#include "base/progress.h"
#include "hone/evaluation.h"
#include "hone/registry.h"

namespace hone::training {
namespace {

std::string prefix_of(std::size_t sets, const std::string& name) { return sets == 1 ? "eval_" : "eval_" + name + "_"; }
std::string prefix_of(const std::vector<EvalSet>& sets, const EvalSet& set) { return prefix_of(sets.size(), set.name); }

std::unique_ptr<Evaluation> new_evaluation() {
  const auto& evals = registries().evals;
  return evals.make("perplexity", *evals.options("perplexity"));
}

// false: abandoned.
bool add_rows(Evaluation& evaluation, const CausalLm& model, const Dataset& data, const EvaluateOptions& options) {
  for (std::int64_t begin = 0; begin < data.rows(); begin += options.batch_size) {
    if (options.stop && options.stop()) return false;
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(options.batch_size, data.rows() - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    evaluation.add(model, to_batch(data.batch(rows, options.pad_id)));
  }
  return true;
}

}  // namespace

std::optional<Metrics> evaluate_sets(const CausalLm& model, const std::vector<EvalSet>& sets,
                                     const EvaluateOptions& options) {
  Metrics all;
  for (const EvalSet& set : sets) {
    const auto evaluation = new_evaluation();
    if (!during("evaluating on " + set.name, [&] { return add_rows(*evaluation, model, *set.data, options); }))
      return std::nullopt;
    for (const auto& [name, value] : evaluation->result()) all[prefix_of(sets, set) + name] = value;
  }
  return all;
}

std::vector<std::string> metric_names(const std::vector<std::string>& sets) {
  std::vector<std::string> all;
  for (const std::string& set : sets)
    for (const std::string& name : new_evaluation()->names()) all.push_back(prefix_of(sets.size(), set) + name);
  return all;
}

std::string main_metric(const std::vector<EvalSet>& sets) {
  return sets.empty() ? "" : prefix_of(sets, sets[0]) + "loss";
}

}  // namespace hone::training
