// Granite 4 (IBM, 2025): Granite whose layers have state spaces (Mamba-2) or attention, most often without a rotation;
// behind either an MLP, and in some models routed experts beside it.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/granite_experts.h"
#include "models/granite_keys.h"
#include "models/hybrid_model.h"
#include "models/joined_mlp.h"
#include "models/local_experts.h"
#include "models/mamba_keys.h"

namespace hone::models {
namespace {

constexpr const char *kRotated = "rope", *kUnrotated = "nope";

struct GraniteHybridConfig : MambaKeys<LocalExpertKeys<GraniteKeys, /*least=*/0>> {
  using Base = MambaKeys<LocalExpertKeys<GraniteKeys, 0>>;
  std::int64_t shared_intermediate_size = 1024;
  std::optional<std::string> position_embedding_type, normalization_function, init_method;

  static constexpr auto fields() {
    using C = GraniteHybridConfig;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("shared_intermediate_size", &C::shared_intermediate_size,
                         "Width inside the MLP that every token goes to.", {.low = 1, .high = 2147483647}),
                   field("position_embedding_type", &C::position_embedding_type,
                         "rope: queries and keys of attention are rotated; nope or null: they are not."),
                   field("normalization_function", &C::normalization_function, "Must be rmsnorm."),
                   field("init_method", &C::init_method, "Has no effect: initializer_range has.")});
  }
  void validate(Problems& problems) const;
};

struct GraniteHybridShape : LlamaShape, MambaShape {
  std::int64_t shared_inner = 0;
  nn::RoutedMlp::Options experts;  // experts 0: there are none
  double balance = 0;
};

GraniteHybridShape resolve(const GraniteHybridConfig& c, Problems& problems) {
  GraniteHybridShape s;
  LlamaConfig llama = c;
  llama.layer_types.reset();
  if (!resolve_base(llama, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  const std::string position = c.position_embedding_type.value_or(kUnrotated);
  problems.require(position == kRotated || position == kUnrotated, "position_embedding_type",
                   fmt::format("got {}, expected {} or {}", position, kRotated, kUnrotated));
  problems.require(c.normalization_function.value_or("rmsnorm") == "rmsnorm", "normalization_function",
                   fmt::format("got {}, expected rmsnorm", c.normalization_function.value_or("")));
  read_multipliers(c, s);
  s.remembers = read_remembering(c.layer_types, /*otherwise=*/true, s.layers, problems);
  s.unrotated.assign(s.remembers.size(), position != kRotated);
  read_mamba(c, c.mamba_expand * s.hidden, s, s, problems);
  s.shared_inner = c.shared_intermediate_size;
  check_parameters(
      3 * static_cast<double>(s.layers) * static_cast<double>(s.hidden) * static_cast<double>(s.shared_inner),
      "shared_intermediate_size", problems);
  if (c.num_local_experts.value_or(8) > 0) {
    const LocalExperts experts = read_local_experts(c, {.count = 8, .per_token = 2}, s, problems);
    problems.require(experts.per_token > 0, "num_experts_per_tok", "got 0, expected at least 1 of the experts");
    s.experts = local_mlp(experts, s), s.balance = experts.balance;
  } else {
    s.experts.experts = 0;
  }
  return s;
}

void GraniteHybridConfig::validate(Problems& problems) const { resolve(*this, problems); }

class GraniteHybridBlock final : public nn::ResidualBlock {
 public:
  GraniteHybridBlock(const GraniteHybridShape& shape, const LlamaRopes& ropes, std::int64_t layer) : s(shape) {
    if (s.remembers[layer])
      mamba = &child<nn::StateSpace>("mamba", s.mamba);
    else
      self_attn = &child<LlamaAttention>("self_attn", s, ropes, layer);
    if (s.experts.experts > 0) experts = &child<GraniteExperts>("block_sparse_moe", s.experts);
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += scaled(mamba ? (*mamba)(input_layernorm(x), pass) : (*self_attn)(input_layernorm(x), pass), s.residual_scale);
    x += scaled(mlp(post_attention_layernorm(x), pass), s.residual_scale);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    mamba ? mamba->describe(layer, pass) : self_attn->describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    if (!experts) {
      shared_mlp.describe(layer, pass);
      return layer;
    }
    nn::RoutedForm form = experts->form(pass);
    form.shared = shared_mlp.with_adapters(pass, layer);
    layer.routed = std::make_shared<const nn::RoutedForm>(std::move(form));
    return layer;
  }

 private:
  Tensor mlp(const nn::Input& x_1ND, Pass& pass) const {
    if (!experts) return shared_mlp(x_1ND, pass);
    const Tensor normed_1ND = x_1ND;
    return (*experts)(normed_1ND, pass) + shared_mlp(normed_1ND, pass);
  }

  const GraniteHybridShape& s;
  const nn::StateSpace* mamba = nullptr;  // one of the two
  const LlamaAttention* self_attn = nullptr;
  const GraniteExperts* experts = nullptr;  // null: there are none
  JoinedMlp& shared_mlp = child<JoinedMlp>("shared_mlp", JoinedMlp::Options{.hidden = s.hidden,
                                                                            .inner = s.shared_inner,
                                                                            .activation = s.activation,
                                                                            .std = s.std,
                                                                            .gate_up = "input_linear",
                                                                            .down = "output_linear"});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

class GraniteHybrid final : public HybridModel<GraniteHybridBlock, GraniteHybridShape> {
 public:
  GraniteHybrid(const GraniteHybridConfig& config, const HeadRequest& head)
      : HybridModel(shape_of(config, head)), config_(config) {}

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training && s.experts.experts > 0) nn::balance(pass, s.experts.per_token, s.balance);
    return HybridModel::finish(x_1ND, pass);
  }

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_multipliers(config_, node);
    write_local_experts(config_, {s.experts.experts, config_.num_experts_per_tok.value_or(2)}, node);
    write_mamba(config_, s, node);
    node.at_or_add("layer_types") = write_layer_types(s.remembers);
    node.at_or_add("shared_intermediate_size") = config::Values<std::int64_t>::write(config_.shared_intermediate_size);
    node.at_or_add("position_embedding_type") =
        config_.position_embedding_type ? config::Node::scalar(*config_.position_embedding_type, /*quoted=*/true)
                                        : config::Node();
    sort_keys(node);
    return node;
  }

 private:
  GraniteHybridConfig config_;
};

}  // namespace

void register_granitemoehybrid(Registries& hone) {
  hone.models.add<GraniteHybrid, GraniteHybridConfig>(
      "granitemoehybrid", "Granite 4: state spaces (Mamba-2) in most layers, attention in others; experts or none.");
}

}  // namespace hone::models
