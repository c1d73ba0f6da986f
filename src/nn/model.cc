// The one layer loop, and what a forward pass carries.
#include "hone/model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <set>
#include <utility>

#include "hone/layers.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/checkpoint.h"
#include "ops/when_backward.h"

namespace hone {

Pass::Pass(const Batch& batch) : batch(batch) {}
Pass::~Pass() = default;

nn::Plan& Pass::plan() {
  if (!plan_) plan_ = std::make_unique<nn::Plan>(batch, cache, share_prefixes && !cache);
  return *plan_;
}

void Pass::set_plan(std::unique_ptr<nn::Plan> plan) { plan_ = std::move(plan); }

void Pass::sow(const std::string& name, const Tensor& value) {
  if (!wanted) return;
  const std::string whole = fmt::format("layers.{}.{}", layer, name);
  if (wanted(whole)) sown[whole] = value.detach();
}

void Pass::add_up(const std::string& name, const Tensor& value) {
  Tensor& total = totals[name];
  total = total.defined() ? total + value : value;
}

void Pass::observe(const Weight& buffer, const Tensor& seen) {
  HONE_ASSERT(buffer.is_buffer());
  Tensor& sum = observed[&buffer];
  sum = sum.defined() ? sum + seen.detach() : seen.detach();
}

void Pass::measure(const std::string& name, double sum, double weight) {
  Metric& metric = metrics[name];
  metric.sum += sum;
  metric.weight += weight;
}

void Pass::measure(const std::string& name, const Tensor& sum, const Tensor& weight) {
  means.push_back({name, sum.detach(), weight.detach()});
}

namespace {

using Residencies = std::vector<Residency*>;
using Names = std::set<std::string>;  // of what layers leave for those behind them (Plan::left)

// The block's output, then what it added to the graph: the sums of auxiliary losses, the totals, and what it left.
// inputs: of the block, then what was left for it. REQUIRES: the pass has no such sums of another block.
std::vector<Tensor> run_alone(const Block& block, const std::vector<Tensor>& inputs, const Names& before, Pass& pass) {
  auto& left = pass.plan().left();
  left.clear();
  auto given = inputs.begin() + 1;
  for (const std::string& name : before) left[name] = *given++;
  std::vector<Tensor> outputs{block.forward(inputs[0], pass)};
  for (const LossTerm& term : pass.aux) outputs.push_back(term.sum);
  for (const auto& [name, total] : pass.totals) outputs.push_back(total);
  for (const auto& [name, tensor] : left)
    if (!before.contains(name)) outputs.push_back(tensor);
  return outputs;
}

// Run again in backward it leaves nothing in the pass: what it adds is counted already.
std::vector<Tensor> run_again(const Block& block, const std::vector<Tensor>& inputs, const Names& before, Pass& pass) {
  auto aux = std::exchange(pass.aux, {});
  auto totals = std::exchange(pass.totals, {});
  auto sown = std::exchange(pass.sown, {});
  auto metrics = std::exchange(pass.metrics, {});
  auto means = std::exchange(pass.means, {});
  auto observed = std::exchange(pass.observed, {});
  std::vector<Tensor> outputs = run_alone(block, inputs, before, pass);
  pass.plan().left().clear();
  pass.aux = std::move(aux), pass.totals = std::move(totals), pass.sown = std::move(sown);
  pass.metrics = std::move(metrics), pass.means = std::move(means), pass.observed = std::move(observed);
  return outputs;
}

Tensor run_checkpointed(const Block& block, const Tensor& x, Pass& pass) {
  auto aux = std::exchange(pass.aux, {});
  auto totals = std::exchange(pass.totals, {});
  auto& left = pass.plan().left();
  std::vector<Tensor> inputs{x};
  Names before;
  for (const auto& [name, tensor] : left) inputs.push_back(tensor), before.insert(name);
  const auto run = [&block, before, layer = pass.layer, &pass, first = true](const std::vector<Tensor>& in) mutable {
    pass.layer = layer;
    return std::exchange(first, false) ? run_alone(block, in, before, pass) : run_again(block, in, before, pass);
  };
  const std::vector<Tensor> outputs = ops::checkpoint(run, inputs);
  auto output = outputs.begin() + 1;  // those with their graph
  std::swap(pass.aux, aux), std::swap(pass.totals, totals);
  for (LossTerm& term : aux) term.sum = *output++, pass.aux.push_back(std::move(term));
  for (const auto& [name, total] : totals) pass.add_up(name, *output++);
  auto given = inputs.begin() + 1;
  for (auto& [name, tensor] : left) tensor = before.contains(name) ? *given++ : *output++;
  return outputs[0];
}

Tensor run(const Block& block, const Tensor& x, Pass& pass) {
  return pass.checkpoint_blocks ? run_checkpointed(block, x, pass) : block.forward(x, pass);
}

// With its weights there.
Tensor run_resident(const Block& block, const Tensor& x, Pass& pass, const Residencies& all) {
  const auto number = static_cast<std::size_t>(pass.layer);
  for (Residency* one : all) one->enter(number);
  const Tensor begun = ops::when_backward(x, [all, number] {
    for (Residency* one : all) one->leave_backward(number);
  });
  const Tensor made = run(block, begun, pass);
  for (Residency* one : all) one->leave(number);
  return ops::when_backward(made, [all, number] {
    for (Residency* one : all) one->enter_backward(number);
  });
}

}  // namespace

void Block::add_to(nn::Residual& x, Pass& pass) const { x = nn::Residual(forward(x.sum(), pass)); }

Output Model::forward(const Batch& batch, Pass& pass) const {
  HONE_ASSERT(!pass.cache || !at::GradMode::is_enabled());
  pass.share_prefixes = shares_prefixes();
  nn::Plan& plan = pass.plan();
  Residencies residencies;
  if (residency_ && pass.adapter == kDefaultAdapter) residencies.push_back(residency_);
  if (unpacking_) residencies.push_back(unpacking_.get());
  for (Residency* one : residencies) one->begin(at::GradMode::is_enabled());
  if (pass.cache) pass.cache->begin_pass();
  nn::Residual x(plan.to_flat(embed(batch, pass)));
  const bool unseen = residencies.empty() && !pass.wanted && !pass.checkpoint_blocks;  // what is between blocks
  const auto layers = blocks();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    pass.layer = static_cast<std::int64_t>(i);
    if (unseen) {
      layers[i]->add_to(x, pass);
      continue;
    }
    const Tensor& given = x.sum();
    x = nn::Residual(residencies.empty() ? run(*layers[i], given, pass)
                                         : run_resident(*layers[i], given, pass, residencies));
    pass.sow("output", x.sum());
  }
  Output output;
  plan.left().clear();
  output.hidden_BTD = plan.from_flat(finish(x.sum(), pass));
  if (pass.cache) pass.cache->advance(plan);
  return output;
}

void Model::set_beside(const std::string& name, std::shared_ptr<SavedModule> module) {
  HONE_ASSERT(!name.empty() && module);
  std::erase_if(beside_, [&](const auto& entry) { return entry.first == name; });
  beside_.emplace_back(name, std::move(module));
}

void Model::each_with_adapters(const std::function<void(const std::string&, Weight&)>& visit) {
  Module::each_with_adapters(visit);
  for (const auto& [own, module] : beside_)
    module->each_with_adapters([&, &its = own](const std::string& name, Weight& w) { visit(its + "." + name, w); });
}

void Model::set_device(at::Device device) {
  Module::set_device(device);
  for (const auto& [name, module] : beside_) module->set_device(device);
}

void Model::check_length(std::int64_t length, const std::string& option) const {
  if (!positions_are_learned() || length <= max_positions()) return;
  throw Error(ErrorKind::config,
              fmt::format("{}: got {}, expected at most {}, the positions that this model has learned", option, length,
                          max_positions()));
}

const Classifier& require_classifier(const Model& model, const std::string& what, std::size_t labels) {
  const Classifier* classifier = model.classifier();
  if (classifier && classifier->labels().size() < labels)
    throw Error(ErrorKind::config, what + ": the model's classification head has one label; expected at least two")
        .hint("a head of one label gives a score, as a reward model's");
  if (classifier && classifier->answers_questions())
    throw Error(ErrorKind::config, what + ": the model's head answers questions; expected one that gives texts labels")
        .hint("objective and evaluation question_answering are for it");
  if (classifier && classifier->of_tokens())
    throw Error(ErrorKind::config, what + ": the model's head gives each token a label; expected one for texts")
        .hint("objective and evaluation token_classification are for it");
  if (classifier) return *classifier;
  throw Error(ErrorKind::config, fmt::format("{}: needs a classification head, which this model of type {} has not",
                                             what, model.hf_config().find("model_type")->text()));
}

const Classifier& require_token_classifier(const Model& model, const std::string& what) {
  const Classifier* classifier = model.classifier();
  const bool answers = classifier && classifier->answers_questions();
  if (classifier && classifier->of_tokens() && !answers && classifier->labels().size() > 1) return *classifier;
  const std::string type = model.hf_config().find("model_type")->text();
  throw Error(ErrorKind::config,
              fmt::format("{}: needs a head that gives each token one of two labels or more; this model of type {} "
                          "has {}",
                          what, type,
                          !classifier                ? "none"
                          : answers                  ? "one that answers questions"
                          : !classifier->of_tokens() ? "one that gives texts labels"
                                                     : "one of a single label"))
      .hint("objective: token_classification gives a model such a head and trains it");
}

const Classifier& require_question_answerer(const Model& model, const std::string& what) {
  const Classifier* classifier = model.classifier();
  if (classifier && classifier->answers_questions()) return *classifier;
  throw Error(ErrorKind::config, fmt::format("{}: needs a head that says where in a text an answer stands, which this "
                                             "model of type {} has not",
                                             what, model.hf_config().find("model_type")->text()))
      .hint("objective: question_answering gives encoders such as bert, roberta and deberta-v2 one and trains it");
}

const MaskedLm& require_masked_lm(const Model& model, const std::string& what) {
  if (const MaskedLm* lm = model.masked_lm()) return *lm;
  throw Error(ErrorKind::config, fmt::format("{}: needs a head for masked tokens, which a model of type {} cannot have",
                                             what, model.hf_config().find("model_type")->text()))
      .hint("bert has one; what generates text is trained by objective causal_lm");
}

const CausalLm& require_causal_lm(const Model& model, const std::string& what) {
  const CausalLm& lm = require_language_model(model, what);
  if (!model.seq2seq_lm()) return lm;
  throw Error(ErrorKind::config, fmt::format("{}: needs a model that continues texts; one of type {} has an encoder "
                                             "that reads them, and a decoder that answers",
                                             what, model.hf_config().find("model_type")->text()))
      .hint("objective: {type: seq2seq} trains such a model, and hone generate and hone eval take it");
}

const Seq2SeqLm& require_seq2seq_lm(const Model& model, const std::string& what) {
  if (const Seq2SeqLm* lm = model.seq2seq_lm()) return *lm;
  throw Error(ErrorKind::config, fmt::format("{}: needs a model with an encoder and a decoder, as T5 and BART; got one "
                                             "of type {}",
                                             what, model.hf_config().find("model_type")->text()))
      .hint("a model that continues texts learns prompts with completions by objective causal_lm");
}

const CausalLm& require_language_model(const Model& model, const std::string& what) {
  if (const CausalLm* lm = model.causal_lm()) return *lm;
  throw Error(ErrorKind::config, fmt::format("{}: needs a language-model head, {} this model of type {} has{}", what,
                                             model.classifier() ? "and a classification head is what" : "which",
                                             model.hf_config().find("model_type")->text(),
                                             model.classifier() ? "" : " not"));
}

Tensor CausalLm::logits(const Batch& batch) const {
  const at::NoGradGuard no_graph;
  Pass pass(batch);
  return head().logits(forward(batch, pass).hidden_BTD, pass).to(at::kFloat);
}

}  // namespace hone
