// What config.json says of routed experts in the families that call them local, beside the keys of B.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "hone/config_read.h"
#include "models/check_parameters.h"
#include "models/llama_config.h"
#include "nn/experts.h"

namespace hone::models {

// least: how few experts there may be.
template <class B, std::int64_t least = 1>
struct LocalExpertKeys : B {
  using Base = B;
  std::optional<std::int64_t> num_local_experts, num_experts_per_tok;
  bool output_router_logits = false;
  double router_aux_loss_coef = 0.001;

  static constexpr auto fields() {
    using C = LocalExpertKeys;
    constexpr config::Range count{.low = least, .high = 65536};
    return std::tuple_cat(
        B::fields(),
        std::tuple{field("num_local_experts", &C::num_local_experts,
                         "Experts of a layer; default 8 in mixtral, granitemoe and granitemoehybrid, 128 in gpt_oss, "
                         "256 in minimax_m2; 0: none, in granitemoehybrid.",
                         count),
                   field("num_experts_per_tok", &C::num_experts_per_tok,
                         "Experts that a token goes to; default 2 in mixtral, granitemoe and granitemoehybrid, 4 in "
                         "gpt_oss, 8 in minimax_m2.",
                         count),
                   field("output_router_logits", &C::output_router_logits, "Whether training adds the balancing loss."),
                   field("router_aux_loss_coef", &C::router_aux_loss_coef, "What the balancing loss is multiplied by.",
                         at_least(0))});
  }
};

struct LocalExperts {
  std::int64_t count = 0, per_token = 0;
  double balance = 0;  // coefficient of the balancing loss; 0: none
};

// c: LocalExpertKeys of something; absent: what its absent keys mean.
template <class C>
LocalExperts read_local_experts(const C& c, const LocalExperts& absent, const LlamaShape& s, Problems& problems) {
  LocalExperts made{c.num_local_experts.value_or(absent.count), c.num_experts_per_tok.value_or(absent.per_token),
                    c.output_router_logits ? c.router_aux_loss_coef : 0};
  check_experts_per_token(made.per_token, made.count, problems);
  const auto experts = static_cast<double>(s.layers) * static_cast<double>(made.count);
  check_all_experts(experts, "num_local_experts", problems);
  check_parameters(3 * experts * static_cast<double>(s.hidden) * static_cast<double>(s.inner), "num_local_experts",
                   problems);
  return made;
}

// What they are made of, each the likeliest ones' weights summing to 1, as Mixtral's files call their parts.
inline nn::RoutedMlp::Options local_mlp(const LocalExperts& experts, const LlamaShape& s) {
  return {.hidden = s.hidden,
          .inner = s.inner,
          .experts = experts.count,
          .per_token = experts.per_token,
          .normalise = true,
          .activation = s.activation,
          .std = s.std,
          .gate = "w1",
          .up = "w3",
          .down = "w2"};
}

template <class C>
void write_local_experts(const C& c, const LocalExperts& experts, config::Node& node) {
  node.at_or_add("num_local_experts") = config::Values<std::int64_t>::write(experts.count);
  node.at_or_add("num_experts_per_tok") = config::Values<std::int64_t>::write(experts.per_token);
  node.at_or_add("output_router_logits") = config::Values<bool>::write(c.output_router_logits);
  node.at_or_add("router_aux_loss_coef") = config::Values<double>::write(c.router_aux_loss_coef);
}

}  // namespace hone::models
