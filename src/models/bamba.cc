// Bamba (IBM, Princeton, CMU and UIUC, 2024): Llama whose layers have state spaces (Mamba-2), but for a few with
// attention that rotates half of each head.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/hybrid_model.h"
#include "models/mamba_keys.h"

namespace hone::models {
namespace {

constexpr double kBambaRotated = 0.5;  // of a head, whatever config.json says beside rope_parameters

struct BambaConfig : MambaKeys<LlamaConfig> {
  using Base = MambaKeys<LlamaConfig>;
  std::optional<std::vector<std::int64_t>> attn_layer_indices;
  double z_loss_coefficient = 0;
  std::optional<std::int64_t> num_logits_to_keep = 1, attn_rotary_emb;

  static constexpr auto fields() {
    using C = BambaConfig;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("attn_layer_indices", &C::attn_layer_indices,
                  "Layers with attention; the others have state spaces. Absent: all have.", {.low = 0, .high = 10000}),
            field("z_loss_coefficient", &C::z_loss_coefficient, "Must be 0: there is no loss of logits' sizes."),
            field("num_logits_to_keep", &C::num_logits_to_keep, "Has no effect; kept for others."),
            field("attn_rotary_emb", &C::attn_rotary_emb,
                  "Has no effect: half of each head is rotated, in transformers as here.")});
  }
  void validate(Problems& problems) const;
};

struct BambaShape : LlamaShape, MambaShape {};

BambaShape resolve(const BambaConfig& c, Problems& problems) {
  BambaShape s;
  LlamaConfig llama = c;
  llama.partial_rotary_factor = kBambaRotated;
  if (!resolve_base(llama, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  problems.require(c.partial_rotary_factor.value_or(kBambaRotated) == kBambaRotated, "partial_rotary_factor",
                   "expected 0.5, which is what transformers takes");
  problems.require(c.z_loss_coefficient == 0, "z_loss_coefficient", "got a number above 0, expected 0");
  s.last_norm = "final_layernorm";
  s.remembers = read_remembering(/*types=*/{}, /*otherwise=*/true, s.layers, problems);
  const std::vector<std::int64_t> attending = c.attn_layer_indices.value_or(std::vector<std::int64_t>());
  for (std::size_t i = 0; i < attending.size(); ++i) {
    const bool there = attending[i] < std::ssize(s.remembers);
    problems.require(there, fmt::format("attn_layer_indices.{}", i),
                     fmt::format("got {}, expected a layer from 0 to {}", attending[i], s.layers - 1));
    if (there) s.remembers[static_cast<std::size_t>(attending[i])] = false;
  }
  read_mamba(c, c.mamba_expand * s.hidden, s, s, problems);
  return s;
}

void BambaConfig::validate(Problems& problems) const { resolve(*this, problems); }

class BambaBlock final : public nn::ResidualBlock {
 public:
  BambaBlock(const BambaShape& shape, const LlamaRopes& ropes, std::int64_t layer) : s(shape) {
    if (s.remembers[layer])
      mamba = &child<nn::StateSpace>("mamba", s.mamba);
    else
      self_attn = &child<LlamaAttention>("self_attn", s, ropes, layer);
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += mamba ? (*mamba)(input_layernorm(x), pass) : (*self_attn)(input_layernorm(x), pass);
    x += feed_forward(pre_ff_layernorm(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    mamba ? mamba->describe(layer, pass) : self_attn->describe(layer, pass);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = pre_ff_layernorm.weight.use();
    layer.mlp = feed_forward.with_adapters(pass);
    return layer;
  }

 private:
  const BambaShape& s;
  const nn::StateSpace* mamba = nullptr;  // one of the two
  const LlamaAttention* self_attn = nullptr;
  nn::GatedMlp& feed_forward =
      child<nn::GatedMlp>("feed_forward", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& pre_ff_layernorm = child<nn::RmsNorm>("pre_ff_layernorm", s.hidden, s.norm());
};

class Bamba final : public HybridModel<BambaBlock, BambaShape> {
 public:
  Bamba(const BambaConfig& config, const HeadRequest& head) : HybridModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_mamba(config_, s, node);
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::decay_t<decltype(value)>>::write(value);
    };
    put("attn_layer_indices", config_.attn_layer_indices), put("num_logits_to_keep", config_.num_logits_to_keep);
    node.at_or_add("z_loss_coefficient") = nn::hf_float(config_.z_loss_coefficient);
    config::Node& rope = node.at_or_add("rope_parameters");
    rope.at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    sort_keys(rope);
    sort_keys(node);
    return node;
  }

 private:
  BambaConfig config_;
};

}  // namespace

void register_bamba(Registries& hone) {
  hone.models.add<Bamba, BambaConfig>("bamba", "Bamba: state spaces (Mamba-2) in most layers, attention in others.");
}

}  // namespace hone::models
