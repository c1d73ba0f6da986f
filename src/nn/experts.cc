// A mixture of experts, and how evenly its tokens are spread.
#include "nn/experts.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/plan.h"
#include "ops/experts.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

// What layers add up in the pass: of each expert, its slots and the probabilities that the router gave it.
constexpr const char *kSlots = "router/slots", *kProbability = "router/probability";

}  // namespace

RoutedMlp::Experts::Experts(const Options& o) {
  const GatedMlp::Options one{o.hidden, o.inner, o.activation, /*bias=*/false, o.std};
  for (std::int64_t e = 0; e < o.experts; ++e) all.push_back(&child<GatedMlp>(std::to_string(e), one));
  each_weight([&](const std::string&, Weight& weight) {
    weight.set_share_of_tokens(static_cast<double>(o.per_token) / static_cast<double>(o.experts));
  });
}

RoutedMlp::RoutedMlp(const Options& options)
    : options_(options),
      experts_(child<Experts>("experts", options)),
      gate_(child<Linear>("gate", options.hidden, options.experts, Linear::Options{.std = options.std})) {}

Tensor RoutedMlp::operator()(const Tensor& x_1ND, Pass& pass) const {
  const Tensor x_ND = x_1ND.squeeze(0), logits_NE = gate_(x_ND, pass);
  const Tensor probability_NE = at::softmax(logits_NE, -1, at::toOpMathType(logits_NE.scalar_type()));
  auto [weight_NK, expert_NK] = at::topk(probability_NE, options_.per_token, -1);
  if (options_.normalise) weight_NK = weight_NK / weight_NK.sum(-1, /*keepdim=*/true);
  const ops::Routing routing = ops::route(expert_NK, options_.experts);
  if (pass.training) measure(pass, probability_NE, routing.counts);
  if (!pass.adapter.empty() && experts_.has_adapters()) return run_each(x_ND, weight_NK, routing, pass).unsqueeze(0);
  std::vector<ops::GatedMlpWeights> weights;
  for (const GatedMlp* expert : experts_.all) weights.push_back(expert->weights());
  return ops::routed_mlp(x_ND, weight_NK, routing, weights, options_.activation).unsqueeze(0);
}

// One expert after another, each with its adapters.
Tensor RoutedMlp::run_each(const Tensor& x_ND, const Tensor& weight_NK, const ops::Routing& routing,
                           const Pass& pass) const {
  return ops::routed(x_ND, weight_NK, routing,
                     [&](std::size_t expert, const Tensor& x_SD) { return (*experts_.all[expert])(x_SD, pass); });
}

void RoutedMlp::measure(Pass& pass, const Tensor& probability_NE, const std::vector<std::int64_t>& counts) const {
  const auto tokens = static_cast<double>(probability_NE.size(0));
  const double slots = tokens * static_cast<double>(options_.per_token);
  if (tokens == 0) return;
  double entropy = 0;
  for (const std::int64_t count : counts)
    if (count > 0) entropy -= static_cast<double>(count) / slots * std::log(static_cast<double>(count) / slots);
  const auto most = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  pass.measure("router/imbalance", most / slots * static_cast<double>(options_.experts) * tokens, tokens);
  pass.measure("router/entropy", entropy * tokens, tokens);
  pass.add_up(kSlots, host::tensor_of(counts, {options_.experts}));  // stays on the host, where it is known
  pass.add_up(kProbability, probability_NE.sum(0));
}

void balance(Pass& pass, std::int64_t per_token, double coefficient) {
  const auto slots = pass.totals.find(kSlots);
  if (slots == pass.totals.end()) return;  // no layer has experts
  const Tensor& probability_E = pass.totals.at(kProbability);
  const std::span<const std::int64_t> counts = host::values<std::int64_t>(slots->second);
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  for (std::size_t e = 0; e < counts.size(); ++e)
    pass.measure(fmt::format("router/share/{}", e), static_cast<double>(counts[e]), static_cast<double>(total));
  if (coefficient == 0) return;
  const double rows = static_cast<double>(total) / static_cast<double>(per_token);  // tokens of all layers
  const double scale = coefficient * static_cast<double>(counts.size()) / (rows * rows);
  const Tensor slots_E = slots->second.to(probability_E.device());
  const auto tokens = static_cast<double>(pass.plan().tokens());
  pass.aux.push_back({"router/loss", (slots_E * probability_E).sum() * (scale * tokens), "tokens"});
}

}  // namespace hone::nn
