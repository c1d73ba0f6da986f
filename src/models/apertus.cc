// Apertus (Swiss AI Initiative, 2025, arXiv:2509.14233): Llama whose queries and keys are normed, head by head, and
// whose MLP has no gate but an activation with learnt steepness.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include <cmath>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/pre_norm_block.h"
#include "ops/xielu.h"

namespace hone::models {
namespace {

struct ApertusConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<bool> qk_norm, post_norm;
  std::optional<double> hidden_dropout;

  static constexpr auto fields() {
    using C = ApertusConfig;
    return std::tuple_cat(LlamaConfig::fields(), std::tuple{field("qk_norm", &C::qk_norm, "Only true."),
                                                            field("post_norm", &C::post_norm, "Only false."),
                                                            field("hidden_dropout", &C::hidden_dropout, "Only 0.")});
  }
  void validate(Problems& problems) const;
};

constexpr const char* kXielu = "xielu";

// What transformers takes where nothing is said of rotation.
LlamaConfig completed(const ApertusConfig& given) {
  LlamaConfig c = given;
  c.hidden_act = "silu";  // stands for what no other model has
  if (!c.rope_parameters.node.is_null() || has_rope_scaling(c)) return c;
  config::Node rope = config::Node::map();
  const auto put = [&](const char* key, const char* value) { rope.at_or_add(key) = config::Node::scalar(value); };
  put("rope_type", "llama3"), put("rope_theta", "12000000.0"), put("factor", "8.0");
  put("original_max_position_embeddings", "8192"), put("low_freq_factor", "1.0"), put("high_freq_factor", "4.0");
  c.rope_parameters.node = rope;
  return c;
}

LlamaShape resolve(const ApertusConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  const std::string activation = c.hidden_act.value_or(kXielu);
  problems.require(activation == kXielu, "hidden_act", fmt::format("got \"{}\", expected {}", activation, kXielu));
  problems.require(c.qk_norm.value_or(true), "qk_norm", "got false, expected true, as transformers has it");
  problems.require(!c.post_norm.value_or(false), "post_norm", "got true, expected false, as transformers has it");
  problems.require(c.hidden_dropout.value_or(0) == 0, "hidden_dropout", "expected 0, as transformers has it");
  s.activation_name = kXielu;
  s.attention_norm = "attention_layernorm", s.mlp_norm = "feedforward_layernorm";
  return s;
}

void ApertusConfig::validate(Problems& problems) const { resolve(*this, problems); }

// The two numbers that are fixed are in files, too.
class LearntXielu final : public Module {
 public:
  Tensor operator()(const Tensor& x) const {
    return ops::xielu(x, {alpha_p.use(), alpha_n.use(), beta.use(), eps.use()});
  }

 private:
  static constexpr double kSteepness = 0.8, kBeta = 0.5, kEps = -1e-6;
  static Init always(double value) { return {.kind = Init::Kind::ramp, .first = value, .last = value}; }
  static double unsoftened(double value) { return std::log(std::expm1(value)); }
  Weight& fixed(const char* name, double value) {
    return buffer(name, {}, always(value), [](const Tensor& kept, const Tensor&) { return kept; });
  }
  Weight& alpha_p = parameter("alpha_p", {1}, always(unsoftened(kSteepness)));
  Weight& alpha_n = parameter("alpha_n", {1}, always(unsoftened(kSteepness - kBeta)));
  Weight &beta = fixed("beta", kBeta), &eps = fixed("eps", kEps);
};

class XieluMlp final : public Module {
 public:
  XieluMlp(const LlamaShape& shape, std::int64_t) : s(shape) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    return down_proj(act_fn(nn::linears(x_1ND, {&up_proj}, pass)[0]), pass);
  }

 private:
  const LlamaShape& s;
  nn::Linear& up_proj = child<nn::Linear>("up_proj", s.hidden, s.inner, nn::Linear::Options{.std = s.std});
  nn::Linear& down_proj = child<nn::Linear>("down_proj", s.inner, s.hidden, nn::Linear::Options{.std = s.std});
  LearntXielu& act_fn = child<LearntXielu>("act_fn");
};

class Apertus final : public LlamaModel<PreNormBlock<LlamaShape, XieluMlp>> {
 public:
  Apertus(const ApertusConfig& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  ApertusConfig config_;
};

}  // namespace

void register_apertus(Registries& hone) {
  hone.models.add<Apertus, ApertusConfig>("apertus", "Apertus: norms of heads, an activation with learnt steepness.");
}

}  // namespace hone::models
