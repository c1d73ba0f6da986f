// The one layer loop, and what a forward pass carries.
#include "hone/model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

#include "hone/layers.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/checkpoint.h"

namespace hone {

Pass::Pass(const Batch& batch) : batch(batch) {}
Pass::~Pass() = default;

nn::Plan& Pass::plan() {
  if (!plan_) plan_ = std::make_unique<nn::Plan>(batch, cache);
  return *plan_;
}

void Pass::sow(const std::string& name, const Tensor& value) { sown[name] = value.detach(); }

namespace {

// The block's output, then the sums of the auxiliary losses that it added. Run again in backward it leaves nothing in
// the pass: its losses are counted already.
std::vector<Tensor> run_again(const Block& block, const Tensor& x, Pass& pass) {
  const auto aux = std::exchange(pass.aux, {});
  const auto sown = std::exchange(pass.sown, {});
  std::vector<Tensor> outputs{block.forward(x, pass)};
  for (const LossTerm& term : pass.aux) outputs.push_back(term.sum);
  pass.aux = aux;
  pass.sown = sown;
  return outputs;
}

Tensor run_checkpointed(const Block& block, const Tensor& x, Pass& pass) {
  const std::size_t known = pass.aux.size();
  const auto run = [&block, layer = pass.layer, known, &pass, first = true](const Tensor& input) mutable {
    pass.layer = layer;
    if (!std::exchange(first, false)) return run_again(block, input, pass);
    std::vector<Tensor> outputs{block.forward(input, pass)};
    for (std::size_t i = known; i < pass.aux.size(); ++i) outputs.push_back(pass.aux[i].sum);
    return outputs;
  };
  const std::vector<Tensor> outputs = ops::checkpoint(run, x);
  for (std::size_t i = 1; i < outputs.size(); ++i) pass.aux[known + i - 1].sum = outputs[i];  // with their graph
  return outputs[0];
}

}  // namespace

Output Model::forward(const Batch& batch, Pass& pass) const {
  HONE_ASSERT(!pass.cache || !at::GradMode::is_enabled());
  nn::Plan& plan = pass.plan();
  Tensor x = plan.to_flat(embed(batch, pass));
  const auto layers = blocks();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    pass.layer = static_cast<std::int64_t>(i);
    x = pass.checkpoint_blocks ? run_checkpointed(*layers[i], x, pass) : layers[i]->forward(x, pass);
  }
  Output output;
  output.hidden_BTD = plan.from_flat(finish(x, pass));
  if (pass.cache) pass.cache->advance(plan);
  return output;
}

void Model::check_length(std::int64_t length, const std::string& option) const {
  if (!positions_are_learned() || length <= max_positions()) return;
  throw Error(ErrorKind::config, fmt::format("{}: got {}, expected at most {}, the positions that this model has learned "
                                             "(max_position_embeddings)",
                                             option, length, max_positions()));
}

const Classifier& require_classifier(const Model& model, const std::string& what) {
  if (const Classifier* classifier = model.classifier()) return *classifier;
  throw Error(ErrorKind::config, fmt::format("{}: needs a classification head, which this model of type {} has not", what,
                                             model.hf_config().find("model_type")->text()));
}

const CausalLm& require_causal_lm(const Model& model, const std::string& what) {
  if (const CausalLm* lm = model.causal_lm()) return *lm;
  throw Error(ErrorKind::config, fmt::format("{}: needs a language-model head, which this model of type {} has not", what,
                                             model.hf_config().find("model_type")->text()));
}

Tensor CausalLm::logits(const Batch& batch) const {
  const at::NoGradGuard no_graph;
  Pass pass(batch);
  return head().logits(forward(batch, pass).hidden_BTD).to(at::kFloat);
}

}  // namespace hone
