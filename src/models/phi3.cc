// Phi-3 (Abdin et al., 2024, arXiv:2404.14219) and Phi-4: Llama whose products of one input are one weight, and which
// may rotate a part of each head.
//
// Letters in tensor names: N tokens, D hidden, H query heads, G key/value heads, K head size.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/joined_mlp.h"
#include "models/llama_model.h"

namespace hone::models {
namespace {

struct Phi3Config : LlamaConfig {
  using Base = LlamaConfig;
  double resid_pdrop = 0, embd_pdrop = 0;
  bool lm_head_bias = false;
  std::optional<double> full_attn_mod, interpolate_factor;

  static constexpr auto fields() {
    using C = Phi3Config;
    constexpr config::Range share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("resid_pdrop", &C::resid_pdrop, "Share of what attention and MLP give that training drops.", share),
            field("embd_pdrop", &C::embd_pdrop, "Has no effect, in transformers as here.", share),
            field("lm_head_bias", &C::lm_head_bias, "Only false."),
            field("full_attn_mod", &C::full_attn_mod, "Has no effect, in transformers as here."),
            field("interpolate_factor", &C::interpolate_factor, "Has no effect, in transformers as here.")});
  }
  void validate(Problems& problems) const;
};

constexpr std::int64_t kOriginalPositions = 4096;

// With today's names of rotary types, which they had others when the model came out, and the length that is meant where
// nothing is said.
LlamaConfig with_known_rope(const Phi3Config& c) {
  LlamaConfig made = c;
  if (!c.original_max_position_embeddings) made.original_max_position_embeddings = kOriginalPositions;
  for (config::Node* node : {&made.rope_parameters.node, &made.rope_scaling.node})
    for (const char* key : {"type", "rope_type"})
      if (config::Node* type = node->is_map() ? node->find(key) : nullptr;
          type && type->kind() == config::Node::Kind::scalar && (type->text() == "su" || type->text() == "yarn"))
        *type = config::Node::scalar("longrope", /*quoted=*/true);
  return made;
}

LlamaShape resolve(const Phi3Config& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(with_known_rope(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  const bool known = s.rope.rope_type == nn::RopeType::standard || s.rope.rope_type == nn::RopeType::longrope;
  problems.require(known, "rope_parameters.rope_type", "expected default or longrope, as transformers has it for phi3");
  problems.require(!c.lm_head_bias, "lm_head_bias", "got true, expected false");
  s.residual_dropout = c.resid_pdrop;
  return s;
}

void Phi3Config::validate(Problems& problems) const { resolve(*this, problems); }

class Phi3Attention final : public Module {
 public:
  Phi3Attention(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attend_(shape, ropes, layer) {}

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const std::int64_t K = s.head_size;
    const Tensor qkv_NK = nn::linears(x_1ND, {&qkv_proj}, pass)[0].view({-1, s.heads + 2 * s.kv_heads, K});
    const auto parts = qkv_NK.split_with_sizes({s.heads, s.kv_heads, s.kv_heads}, 1);
    return o_proj(attend_(parts[0], parts[1], parts[2], pass).flatten(1).unsqueeze(0), pass);
  }

 private:
  const LlamaShape& s;
  LayerAttention attend_;
  nn::Linear& qkv_proj = child<nn::Linear>("qkv_proj", s.hidden, (s.heads + 2 * s.kv_heads) * s.head_size,
                                           nn::Linear::Options{.std = s.std});
  nn::Linear& o_proj = child<nn::Linear>("o_proj", s.heads* s.head_size, s.hidden, nn::Linear::Options{.std = s.std});
};

class Phi3Block final : public nn::ResidualBlock {
 public:
  Phi3Block(const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), self_attn(child<Phi3Attention>("self_attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    x += nn::dropout(self_attn(input_layernorm(x), pass), s.residual_dropout, pass, "attention");
    x += nn::dropout(mlp(post_attention_layernorm(x), pass), s.residual_dropout, pass, "mlp");
  }

 private:
  const LlamaShape& s;
  Phi3Attention& self_attn;
  JoinedMlp& mlp = child<JoinedMlp>("mlp", s);
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.norm());
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.norm());
};

class Phi3 final : public LlamaModel<Phi3Block> {
 public:
  Phi3(const Phi3Config& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    node.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    node.at_or_add("original_max_position_embeddings") =
        config::Values<std::int64_t>::write(s.rope.original_max_position_embeddings.value_or(kOriginalPositions));
    node.at_or_add("resid_pdrop") = config::Values<double>::write(config_.resid_pdrop);
    node.at_or_add("embd_pdrop") = config::Values<double>::write(config_.embd_pdrop);
    sort_keys(node);
    return node;
  }

 private:
  Phi3Config config_;
};

}  // namespace

void register_phi3(Registries& hone) {
  hone.models.add<Phi3, Phi3Config>("phi3", "Phi-3 and Phi-4: Llama with joined weights.");
}

}  // namespace hone::models
