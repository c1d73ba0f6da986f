// A mixture of experts, and how evenly its tokens are spread.
#include "nn/experts.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "nn/context.h"
#include "nn/decoding/pre_norm.h"
#include "nn/plan.h"
#include "nn/slices.h"
#include "ops/experts.h"
#include "ops/router.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

// What layers add up in the pass: of each expert, its slots and the probabilities that the router gave it; and how many
// slots they are together, which the host knows.
constexpr const char *kSlots = "router/slots", *kProbability = "router/probability", *kAllSlots = "router/all_slots";

// Of experts' slots: the largest share relative to an even one, and the entropy of the shares.
struct Spread {
  double imbalance = 0, entropy = 0;
};
Spread spread_of(const std::vector<std::int64_t>& counts, double slots) {
  Spread spread;
  for (const std::int64_t count : counts)
    if (count > 0) spread.entropy -= static_cast<double>(count) / slots * std::log(static_cast<double>(count) / slots);
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  spread.imbalance = most / slots * static_cast<double>(counts.size());
  return spread;
}

void measure_shares(Pass& pass, const Tensor& counts_E, double total) {
  const Tensor wide_E = counts_E.to(at::kDouble), weight = at::full({}, total, wide_E.options());
  for (std::int64_t e = 0; e < wide_E.size(0); ++e) {
    const std::string name = fmt::format("router/share/{}", e);
    const Tensor count = wide_E.select(0, e);
    count.is_cpu() ? pass.measure(name, host::own_number(count), total) : pass.measure(name, count, weight);
  }
}

// Of all ranks that compute the batch, each for its own tokens. counts_E: this rank's, on the host.
void measure_spread(Pass& pass, const Tensor& counts_E, double tokens) {
  const Context* context = pass.plan().context();
  const Tensor all_E = (context ? context->total(counts_E) : counts_E).to(at::kLong);
  const std::span<const std::int64_t> values = host::values<std::int64_t>(all_E);
  const Spread spread = spread_of({values.begin(), values.end()}, host::own_number(all_E.sum()));
  pass.measure("router/imbalance", spread.imbalance * tokens, tokens);
  pass.measure("router/entropy", spread.entropy * tokens, tokens);
}

}  // namespace

RoutedMlp::Experts::Experts(const Options& o) {
  const GatedMlp::Options one{o.hidden, o.inner, o.activation, /*bias=*/false, o.std, o.gate, o.up, o.down};
  for (std::int64_t e = 0; e < o.experts; ++e) all.push_back(&child<GatedMlp>(std::to_string(e), one));
  each_weight([&](const std::string&, Weight& weight) {
    weight.set_share_of_tokens(static_cast<double>(o.per_token) / static_cast<double>(o.experts));
  });
}

RoutedMlp::RoutedMlp(const Options& options)
    : options_(options), experts_(child<Experts>("experts", options)) {
  if (options.by_groups)
    grouped_gate_ =
        &child<GroupedRouter>(options.router, options.hidden, options.experts, *options.by_groups, options.std);
  else
    gate_ = &child<Linear>(options.router, options.hidden, options.experts, Linear::Options{.std = options.std});
  // Few tokens each, and a choice that a rounded logit would turn.
  each_weight([](const std::string&, Weight& weight) { weight.set_takes_float8(false); });
  if (options.shared_inner > 0) add_shared();
}

void RoutedMlp::add_shared() {
  const GatedMlp::Options shared{options_.hidden, options_.shared_inner, options_.activation, options_.shared_bias,
                                 options_.std};
  shared_expert_ = &child<GatedMlp>(options_.shared, shared);
  if (!options_.shared_is_gated) return;
  shared_expert_gate_ = &child<Linear>("shared_expert_gate", options_.hidden, 1, Linear::Options{.std = options_.std});
  shared_expert_gate_->weight.set_takes_float8(false);
}

Tensor RoutedMlp::operator()(const Tensor& x_1ND, Pass& pass) const {
  const Tensor routed_1ND = run_routed(x_1ND.squeeze(0), pass).unsqueeze(0);
  if (!shared_expert_) return routed_1ND;
  if (!shared_expert_gate_) return routed_1ND + (*shared_expert_)(x_1ND, pass);
  return routed_1ND + (*shared_expert_gate_)(x_1ND, pass).sigmoid() * (*shared_expert_)(x_1ND, pass);
}

ops::Choice RoutedMlp::choose(const Tensor& x_ND, Pass& pass) const {
  if (grouped_gate_) return (*grouped_gate_)(x_ND, pass);
  return ops::choose_experts((*gate_)(x_ND, pass), {options_.per_token, options_.normalise},
                             /*with_sum=*/pass.training);
}

Tensor RoutedMlp::run_routed(const Tensor& x_ND, Pass& pass) const {
  const ops::Choice choice = choose(x_ND, pass);
  const ops::Routing routing = ops::route(choice.expert_NK, options_.experts);
  if (pass.training && grouped_gate_) grouped_gate_->observe(routing.slots, pass);
  if (pass.training) measure_routing(pass, choice.probability_E, routing.slots, x_ND.size(0), options_.per_token);
  if (!pass.adapter.empty() && experts_.has_adapters()) return run_each(x_ND, choice.weight_NK, routing, pass);
  std::vector<ops::GatedMlpWeights> weights;
  for (const GatedMlp* expert : experts_.all) weights.push_back(expert->weights());
  if (const Context* ranks = pass.batch.context.get(); ranks && ranks->shares_weights()) {
    const ops::Routing all = ops::route(ranks->gather_values(choice.expert_NK), options_.experts);
    return ranks->sum_to_tokens(ops::routed_mlp(ranks->gather(x_ND), ranks->gather(choice.weight_NK), all, weights,
                                                options_.activation));
  }
  return ops::routed_mlp(x_ND, choice.weight_NK, routing, weights, options_.activation);
}

void RoutedMlp::describe(PreNormLayer& layer, const Pass& pass) const {
  RoutedForm form{.per_token = options_.per_token, .normalise = options_.normalise, .activation = options_.activation};
  if (grouped_gate_)
    grouped_gate_->describe(form);
  else
    form.router = gate_->with_adapter(pass);
  for (const GatedMlp* expert : experts_.all) form.experts.push_back(expert->weights());
  if (shared_expert_) form.shared = shared_expert_->with_adapters(pass);
  if (shared_expert_gate_) form.shared_gate = shared_expert_gate_->with_adapter(pass);
  layer.is_known &= pass.adapter.empty() || !experts_.has_adapters();
  layer.routed = std::make_shared<const RoutedForm>(std::move(form));
}

// One expert after another, each with its adapters.
Tensor RoutedMlp::run_each(const Tensor& x_ND, const Tensor& weight_NK, const ops::Routing& routing,
                           const Pass& pass) const {
  return ops::routed(x_ND, weight_NK, routing,
                     [&](std::size_t expert, const Tensor& x_SD) { return (*experts_.all[expert])(x_SD, pass); });
}

void measure_routing(Pass& pass, const Tensor& probability_E, const ops::RowGroups& slots_of_each,
                     std::int64_t token_count, std::int64_t per_token) {
  const auto tokens = static_cast<double>(token_count);
  const double slots = tokens * static_cast<double>(per_token);
  const Context* context = pass.plan().context();
  if (tokens == 0 && !context) return;
  const std::vector<std::int64_t>& counts = slots_of_each.known_counts();
  Tensor counts_E;
  if (!counts.empty()) {
    counts_E = host::tensor_of(counts, {std::ssize(counts)});  // stays on the host, where it is known
    measure_spread(pass, counts_E, tokens);
  } else {
    counts_E = slots_of_each.counts();
    const Tensor& begin = slots_of_each.begin();
    const Tensor spread = ops::measure_spread(context ? context->total(begin) : begin, tokens);
    pass.measure("router/imbalance", spread[0], spread[2]);
    pass.measure("router/entropy", spread[1], spread[2]);
  }
  pass.add_up(kSlots, counts_E);
  pass.add_up(kAllSlots, host::tensor_of(std::vector{static_cast<std::int64_t>(slots)}, {1}));
  pass.add_up(kProbability, probability_E);
}

bool is_router(std::string_view module) {
  return module.ends_with(".mlp.gate") || module.ends_with(".mlp.router") || module.ends_with(".router.proj") ||
         module.ends_with(".block_sparse_moe.gate") || module.ends_with(".feed_forward.gate") ||
         module.ends_with(".mixer.gate") || module.ends_with(".router.layer") || module.ends_with(".gate.wg") ||
         module.ends_with(".mlp.router.gate") || module.ends_with(".block_sparse_moe.router") ||
         module.ends_with(".feed_forward.router");
}

void balance(Pass& pass, std::int64_t per_token, double coefficient) {
  const auto slots = pass.totals.find(kSlots);
  if (slots == pass.totals.end()) return;  // no layer has experts
  const Tensor& probability_E = pass.totals.at(kProbability);
  double total = host::own_number(pass.totals.at(kAllSlots));
  measure_shares(pass, slots->second, total);
  if (coefficient == 0) return;
  const auto likeliest = pass.totals.find(kLikeliestSlots);
  Tensor counted = likeliest == pass.totals.end() ? slots->second : likeliest->second;
  auto tokens = static_cast<double>(pass.plan().tokens());
  // Of all ranks that compute the batch; what each of them has of the probabilities is its part of the loss.
  if (const Context* context = pass.plan().context()) {
    total = host::own_number(context->total(pass.totals.at(kAllSlots)));
    counted = context->total(counted);
    tokens = static_cast<double>(context->all_tokens());
  }
  const double rows = total / static_cast<double>(per_token);  // tokens of all layers
  const double scale = coefficient * static_cast<double>(probability_E.size(0)) / (rows * rows);
  const Tensor slots_E = devices::sent(counted, probability_E.device());
  pass.aux.push_back({"router/loss", (slots_E * probability_E).sum() * (scale * tokens), "tokens"});
}

}  // namespace hone::nn
