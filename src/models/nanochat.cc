// nanochat (Karpathy, 2025): norms without weights, of embeddings, too, and of queries and keys once they are rotated,
// the other way round than elsewhere; an MLP of squares; logits are capped.
//
// Letters in tensor names: B batch, T time, N tokens, D hidden, H query heads, G key/value heads, K head size.
#include <ATen/ATen.h>

#include <cmath>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"
#include "models/plain_mlp.h"
#include "models/pre_norm_block.h"
#include "nn/plan.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace hone::models {
namespace {

using config::Node;

struct NanoChatConfig : LlamaConfig {
  using Base = LlamaConfig;
  config::Open final_logit_softcapping{Node::scalar("default")};

  static constexpr auto fields() {
    return std::tuple_cat(LlamaConfig::fields(),
                          std::tuple{field("final_logit_softcapping", &NanoChatConfig::final_logit_softcapping,
                                           "Cap c of logits l, c tanh(l / c); null = none, default 15.")});
  }
  void validate(Problems& problems) const;
};

struct NanoChatShape : SquaringShape {
  PlainMlp::Options mlp_options() const {
    PlainMlp::Options made = SquaringShape::mlp_options();
    made.up = "fc1", made.down = "fc2";
    return made;
  }
};

double cap_of(const NanoChatConfig& c, Problems& problems) {
  double cap = 15;
  if (is_default(c.final_logit_softcapping)) return cap;
  if (c.final_logit_softcapping.node.is_null()) return 0;
  config::Values<double>::read(c.final_logit_softcapping.node, cap,
                               {problems, "final_logit_softcapping", {.low = 1e-6, .high = 1e9}});
  return cap;
}

NanoChatShape resolve(const NanoChatConfig& c, Problems& problems) {
  NanoChatShape s;
  if (!resolve_squaring(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  s.logit_soft_cap = cap_of(c, problems);
  return s;
}

void NanoChatConfig::validate(Problems& problems) const { resolve(*this, problems); }

// x / sqrt(mean(x^2) + eps).
Tensor unit(const Tensor& x, double eps) {
  return ops::rms_norm(x, at::ones({x.size(-1)}, x.options()), ops::RmsNormForm(eps));
}

class UnitNorm final : public nn::Norm {
 public:
  UnitNorm(std::int64_t /*width*/, double eps, bool /*with_bias*/ = false) : eps_(eps) {}
  using Norm::operator();
  Tensor operator()(const Tensor& x) const override { return unit(x, eps_); }
  ops::AddNorm add(const Tensor& x, const Tensor& residual) const override {
    const Tensor sum = residual.defined() ? x + residual : x;
    return {sum, unit(sum, eps_)};
  }

 private:
  double eps_;
};

class NanoChatAttention final : public Module {
 public:
  NanoChatAttention(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attend_(shape, ropes, layer) {}

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
    const auto heads = [&](const Tensor& x, std::int64_t count) { return x.view({-1, count, s.head_size}); };
    const Tensor q_NHK = heads(made[0], s.heads), k_NGK = heads(made[1], s.kv_heads);
    ops::RopeTable table = pass.plan().rope(*attend_.rope(), q_NHK);
    table.sin = table.sin.neg();
    const Tensor y_NHK = attend_.of_rotated(unit(ops::rope(q_NHK, table), s.eps), unit(ops::rope(k_NGK, table), s.eps),
                                            heads(made[2], s.kv_heads), pass);
    return o_proj(y_NHK.flatten(1).unsqueeze(0), pass);
  }

 private:
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, double std) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = s.qkv_bias, .std = std});
  }
  const LlamaShape& s;
  LayerAttention attend_;
  nn::Linear& q_proj = projection("q_proj", s.hidden, s.heads* s.head_size, s.std);
  nn::Linear& k_proj = projection("k_proj", s.hidden, s.kv_heads* s.head_size, s.std);
  nn::Linear& v_proj = projection("v_proj", s.hidden, s.kv_heads* s.head_size, s.std);
  nn::Linear& o_proj =
      projection("o_proj", s.heads* s.head_size, s.hidden, s.std / std::sqrt(2 * static_cast<double>(s.layers)));
};

using NanoChatBlock = PreNormBlock<NanoChatShape, PlainMlp, NanoChatAttention, UnitNorm>;

class NanoChat final : public LlamaModel<NanoChatBlock, NanoChatShape, UnitNorm> {
 public:
  NanoChat(const NanoChatConfig& config, const HeadRequest& head)
      : LlamaModel(shape_of(config, head)), config_(config) {}

  Tensor embed(const Batch& batch, Pass& pass) const override { return model.norm(LlamaModel::embed(batch, pass)); }
  Node hf_config() const override {
    Node node = to_hf_config(config_, s, dtype());
    node.at_or_add("final_logit_softcapping") = s.logit_soft_cap > 0 ? nn::hf_float(s.logit_soft_cap) : Node();
    sort_keys(node);
    return node;
  }

 private:
  NanoChatConfig config_;
};

}  // namespace

void register_nanochat(Registries& hone) {
  hone.models.add<NanoChat, NanoChatConfig>("nanochat", "nanochat: norms without weights, an MLP of squares.");
}

}  // namespace hone::models
