// Llama (Touvron et al., 2023; Llama 1 to 3), and the models that are Llama with other numbers: Mistral, Qwen2, Qwen3.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H query heads, G key/value heads, K head size.
// Children carry Hugging Face's names, so its checkpoints load and save without a mapping table.
#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "models/llama_config.h"
#include "nn/decoding/pre_norm.h"
#include "nn/plan.h"
#include "tensor/dtype.h"

namespace hone::models {
namespace {

double scale_of(const LlamaShape& s) { return 1.0 / std::sqrt(static_cast<double>(s.head_size)); }

nn::Linear::Options linear(const LlamaShape& s, bool bias) { return {.bias = bias, .std = s.std}; }

class LlamaAttention final : public Module {
 public:
  LlamaAttention(const LlamaShape& shape, const nn::Rope& rope, std::int64_t layer)
      : s(shape), rope_(rope), window_(shape.windows[layer]) {
    if (!s.qk_norm) return;
    q_norm = &child<nn::RmsNorm>("q_norm", s.head_size, s.eps);
    k_norm = &child<nn::RmsNorm>("k_norm", s.head_size, s.eps);
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj});
    const auto heads = [&](const Tensor& x, std::int64_t count) { return x.view({-1, count, s.head_size}); };
    Tensor q_NHK = heads(qkv[0], s.heads), k_NGK = heads(qkv[1], s.kv_heads);
    const Tensor v_NGK = heads(qkv[2], s.kv_heads);
    if (s.qk_norm) q_NHK = (*q_norm)(q_NHK), k_NGK = (*k_norm)(k_NGK);
    const ops::RopeTable& table = pass.plan().rope(rope_, q_NHK);
    q_NHK = ops::rope(q_NHK, table);
    k_NGK = ops::rope(k_NGK, table);
    const ops::AttentionOptions options{
        .scale = scale_of(s), .mask = ops::Mask::causal(window_), .dropout = s.attention_dropout};
    return o_proj(nn::attend(q_NHK, k_NGK, v_NGK, pass, options).flatten(1).unsqueeze(0));
  }

  void describe(nn::PreNormLayer& layer) const {
    layer.q = q_proj.with_bias(), layer.k = k_proj.with_bias(), layer.v = v_proj.with_bias();
    layer.o = o_proj.with_bias();
    layer.window = window_;
    if (s.qk_norm) layer.q_norm_K = q_norm->weight.use(), layer.k_norm_K = k_norm->weight.use();
  }

 private:
  const LlamaShape& s;
  const nn::Rope& rope_;
  std::int64_t window_;
  nn::Linear& q_proj = child<nn::Linear>("q_proj", s.hidden, s.heads* s.head_size, linear(s, s.qkv_bias));
  nn::Linear& k_proj = child<nn::Linear>("k_proj", s.hidden, s.kv_heads* s.head_size, linear(s, s.qkv_bias));
  nn::Linear& v_proj = child<nn::Linear>("v_proj", s.hidden, s.kv_heads* s.head_size, linear(s, s.qkv_bias));
  nn::Linear& o_proj = child<nn::Linear>("o_proj", s.heads* s.head_size, s.hidden, linear(s, s.output_bias));
  nn::RmsNorm *q_norm = nullptr, *k_norm = nullptr;
};

class LlamaBlock final : public Block {
 public:
  LlamaBlock(const LlamaShape& shape, const nn::Rope& rope, std::int64_t layer)
      : s(shape), self_attn(child<LlamaAttention>("self_attn", s, rope, layer)) {}

  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    nn::Residual x(x_1ND);
    x += self_attn(input_layernorm(x), pass);
    x += mlp(post_attention_layernorm(x));
    return x.sum();
  }
  nn::PreNormLayer describe() const {
    nn::PreNormLayer layer;
    self_attn.describe(layer);
    layer.attention_norm_D = input_layernorm.weight.use(), layer.mlp_norm_D = post_attention_layernorm.weight.use();
    layer.mlp = mlp.weights();
    return layer;
  }

 private:
  const LlamaShape& s;
  LlamaAttention& self_attn;
  nn::GatedMlp& mlp =
      child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{s.hidden, s.inner, s.activation, s.mlp_bias, s.std});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", s.hidden, s.eps);
  nn::RmsNorm& post_attention_layernorm = child<nn::RmsNorm>("post_attention_layernorm", s.hidden, s.eps);
};

class Llama final : public CausalLm, public nn::HasDecoder {
 public:
  explicit Llama(const LlamaConfig& config)
      : config_(config), s(resolve(config)), rope_(s.rope, s.head_size, s.max_positions) {}

  Tensor embed(const Batch& batch, Pass&) const override {
    return model.embed_tokens(batch.ids_BT);
  }
  std::vector<const Block*> blocks() const override {
    return {model.layers.blocks().begin(), model.layers.blocks().end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return model.norm(x_1ND); }
  const nn::Head& head() const override { return lm_head; }
  std::int64_t vocab_size() const override { return s.vocab; }
  std::int64_t max_positions() const override { return s.max_positions; }

  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (const std::int64_t window : s.windows) spec.layers.push_back({s.kv_heads, s.head_size, window});
    return spec;
  }
  std::unique_ptr<nn::Decoder> make_decoder(std::int64_t rows) const override {
    nn::PreNormStack stack{.embedding_VD = model.embed_tokens.weight.use(),
                           .norm_D = model.norm.weight.use(),
                           .layers = {},
                           .head = lm_head.with_bias(),
                           .head_size = s.head_size,
                           .eps = s.eps,
                           .scale = scale_of(s),
                           .activation = s.activation,
                           .rope = &rope_};
    for (const LlamaBlock* block : model.layers.blocks()) stack.layers.push_back(block->describe());
    return nn::make_pre_norm_decoder(std::move(stack), rows);
  }
  config::Node hf_config() const override {
    const Weight& weight = model.embed_tokens.weight;
    return to_hf_config(config_, s, weight.filled() ? hf_name(weight.use().scalar_type()) : "");
  }

 private:
  struct Body final : Module {
    Body(const LlamaShape& shape, const nn::Rope& rope) : s(shape), rope(rope) {}
    const LlamaShape& s;
    const nn::Rope& rope;
    nn::Embedding& embed_tokens = child<nn::Embedding>("embed_tokens", s.vocab, s.hidden, s.std, s.no_gradient_id);
    nn::Stack<LlamaBlock>& layers = child<nn::Stack<LlamaBlock>>("layers", s.layers, s, rope);
    nn::RmsNorm& norm = child<nn::RmsNorm>("norm", s.hidden, s.eps);
  };
  LlamaConfig config_;
  LlamaShape s;
  nn::Rope rope_;
  Body& model = child<Body>("model", s, rope_);
  nn::Head& lm_head =
      child<nn::Head>("lm_head", s.hidden, s.vocab, s.std, s.tied ? &model.embed_tokens.weight : nullptr);
};

}  // namespace

void register_llama(Registries& hone) {
  hone.models.add<Llama, LlamaConfig>({"llama", "mistral", "qwen2", "qwen3"}, "Llama 1 to 3 and its relatives.");
}

}  // namespace hone::models
