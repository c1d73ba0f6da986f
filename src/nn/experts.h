// A mixture of experts (Shazeer et al., 2017): a router gives each token to a few of many gated MLPs.
//
// Letters: N tokens, D hidden, E experts, K experts of a token.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "hone/layers.h"
#include "hone/model.h"
#include "nn/router.h"
#include "ops/experts.h"

namespace hone::nn {

struct PreNormLayer;

// Takes the K likeliest experts of each token, each by its probability, or those that a router by groups chooses; no
// token is dropped. A shared expert is added to what they give, if there is one, as it is or times sigmoid(a product of
// the token).
class RoutedMlp final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, inner = 0;  // inner: of one expert
    std::int64_t experts = 1, per_token = 1;
    std::int64_t shared_inner = 0;  // of the shared expert; 0: there is none
    const char* shared = "shared_expert";
    bool shared_is_gated = true, shared_bias = false;
    bool normalise = false;  // the weights of a token's experts are made to sum to 1
    std::optional<GroupedRouter::Options> by_groups = {};  // says that instead, if it is there
    const char* router = "gate";                           // the name of the one that chooses
    ops::Activation activation = ops::Activation::silu;
    double std = 0.02;
    const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";  // of an expert, as GatedMlp's
  };
  explicit RoutedMlp(const Options& options);
  void describe(PreNormLayer& layer, const Pass& pass) const;  // what the short way of decoding makes (nn/decoding)
  // In training it leaves in the pass what balance() reads, and what is logged of each layer: router/imbalance, the
  // largest share of an expert relative to an even share, and router/entropy of the shares, in nats; means over layers.
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const;

 private:
  struct Experts final : Module {
    explicit Experts(const Options& options);
    std::vector<const GatedMlp*> all;
  };
  void add_shared();
  ops::Choice choose(const Tensor& x_ND, Pass& pass) const;
  Tensor run_routed(const Tensor& x_ND, Pass& pass) const;
  Tensor run_each(const Tensor& x_ND, const Tensor& weight_NK, const ops::Routing& routing, const Pass& pass) const;

  Options options_;
  Experts& experts_;
  Linear* gate_ = nullptr;  // one of the two
  GroupedRouter* grouped_gate_ = nullptr;
  GatedMlp* shared_expert_ = nullptr;  // null: none
  Linear* shared_expert_gate_ = nullptr;
};

// What balance() reads, and what is logged of a layer, as RoutedMlp says, into the pass. slots: of each expert, of
// `tokens` tokens with `per_token` experts each.
void measure_routing(Pass& pass, const Tensor& probability_E, const ops::RowGroups& slots, std::int64_t tokens,
                     std::int64_t per_token);

// Whether a module of this name chooses among experts.
bool is_router(std::string_view module);

// After the last layer of a pass in training: what is logged of all layers together, router/share/<expert>, and the
// balancing loss of Switch Transformers (Fedus et al., 2021, equations 4 to 6), as the term router/loss, unless
// `coefficient` is 0: E times the sum over experts of the share of tokens times the mean probability, both over all
// layers. per_token: K.
void balance(Pass& pass, std::int64_t per_token, double coefficient);

}  // namespace hone::nn
