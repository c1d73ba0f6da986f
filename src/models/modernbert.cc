// ModernBERT (Warner et al., 2024, arXiv:2412.13663): an encoder with rotary positions, gated MLPs, and layers that see
// all of a text between layers that see what is near; alone, with a classification head, or with one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "model.".
#include <ATen/ATen.h>

#include <cmath>

#include "hone/layers.h"
#include "hone/registry.h"
#include "models/encoder_model.h"
#include "models/means_of_documents.h"
#include "models/modernbert_config.h"
#include "nn/plan.h"
#include "ops/gated.h"
#include "ops/rope.h"

namespace hone::models {
namespace {

// What all parts of a model look at.
struct Modern {
  Modern(const ModernBertConfig& config, const ModernBertShape& shape)
      : c(config),
        s(shape),
        rope(s.ropes.all, s.head_size, c.max_position_embeddings),
        sliding_rope(s.ropes.sliding, s.head_size, c.max_position_embeddings) {}
  const ModernBertConfig c;
  const ModernBertShape s;
  const nn::Rope rope, sliding_rope;
  nn::Linear::Options in(bool bias) const { return {.bias = bias, .std = c.initializer_range}; }
  // Of products whose results are added to the residual stream.
  nn::Linear::Options out(bool bias) const {
    return {.bias = bias, .std = c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.num_hidden_layers))};
  }
};

class ModernEmbeddings final : public Module {
 public:
  explicit ModernEmbeddings(const Modern& modern) : m(modern) {}
  Tensor operator()(const Batch& batch, Pass& pass) const {
    const Tensor words_BTD = nn::embedding_noise(tok_embeddings(batch.ids_BT, pass), pass);
    return nn::dropout_embedded(norm(words_BTD), m.c.embedding_dropout, pass, "embeddings");
  }

  const Modern& m;
  nn::Embedding& tok_embeddings = child<nn::Embedding>("tok_embeddings", m.c.vocab_size, m.c.hidden_size,
                                                       m.c.initializer_range, m.s.no_gradient_id);
  nn::LayerNorm& norm = child<nn::LayerNorm>("norm", m.c.hidden_size, m.c.norm_eps, m.c.norm_bias);
};

class ModernAttention final : public Module {
 public:
  ModernAttention(const Modern& modern, std::int64_t layer) : m(modern), slides_(m.s.slides[layer]) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const std::int64_t heads = m.c.num_attention_heads;
    const Tensor qkv_NHK = nn::linears(x_1ND, {&Wqkv}, pass)[0].view({-1, 3 * heads, m.s.head_size});
    const auto parts = qkv_NHK.split_with_sizes({heads, heads, heads}, 1);
    const ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(m.s.head_size)),
                                        .mask = ops::Mask::full(slides_ ? m.s.window : 0),
                                        .dropout = m.c.attention_dropout};
    const ops::RopeTable& table = pass.plan().rope(slides_ ? m.sliding_rope : m.rope, parts[0]);
    const Tensor seen_NHK = nn::attend_rotated(parts[0], parts[1], parts[2], table, pass, options);
    return nn::dropout(Wo(seen_NHK.flatten(1).unsqueeze(0), pass), m.c.attention_dropout, pass, "attention");
  }

 private:
  const Modern& m;
  const bool slides_;
  nn::Linear& Wqkv = child<nn::Linear>("Wqkv", m.c.hidden_size, 3 * m.c.hidden_size, m.in(m.c.attention_bias));
  nn::Linear& Wo = child<nn::Linear>("Wo", m.c.hidden_size, m.c.hidden_size, m.out(m.c.attention_bias));
};

class ModernMlp final : public Module {
 public:
  explicit ModernMlp(const Modern& modern) : m(modern) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto both = nn::linears(x_1ND, {&Wi}, pass)[0].chunk(2, -1);
    const Tensor inner = ops::gated(both[0].contiguous(), both[1].contiguous(), m.s.activation);
    return Wo(nn::dropout(inner, m.c.mlp_dropout, pass, "mlp"), pass);
  }

 private:
  const Modern& m;
  nn::Linear& Wi = child<nn::Linear>("Wi", m.c.hidden_size, 2 * m.c.intermediate_size, m.in(m.c.mlp_bias));
  nn::Linear& Wo = child<nn::Linear>("Wo", m.c.intermediate_size, m.c.hidden_size, m.out(m.c.mlp_bias));
};

// The first one reads the embeddings' norm as it is.
class ModernLayer final : public nn::ResidualBlock {
 public:
  ModernLayer(const Modern& modern, std::int64_t layer) : m(modern), attn(child<ModernAttention>("attn", m, layer)) {
    if (layer > 0) attn_norm = &child<nn::LayerNorm>("attn_norm", m.c.hidden_size, m.c.norm_eps, m.c.norm_bias);
  }
  void add_to(nn::Residual& x, Pass& pass) const override {
    x += attn(attn_norm ? (*attn_norm)(x) : nn::Input(x.sum()), pass);
    x += mlp(mlp_norm(x), pass);
  }

 private:
  const Modern& m;
  nn::LayerNorm* attn_norm = nullptr;
  ModernAttention& attn;
  nn::LayerNorm& mlp_norm = child<nn::LayerNorm>("mlp_norm", m.c.hidden_size, m.c.norm_eps, m.c.norm_bias);
  ModernMlp& mlp = child<ModernMlp>("mlp", m);
};

struct ModernBody final : Module {
  explicit ModernBody(const Modern& modern) : m(modern) {}
  const Modern& m;
  ModernEmbeddings& embeddings = child<ModernEmbeddings>("embeddings", m);
  nn::Stack<ModernLayer>& layers = child<nn::Stack<ModernLayer>>("layers", m.c.num_hidden_layers, m);
  nn::LayerNorm& final_norm = child<nn::LayerNorm>("final_norm", m.c.hidden_size, m.c.norm_eps, m.c.norm_bias);
};

// What both heads begin with.
class ModernHeadStart final : public Module {
 public:
  explicit ModernHeadStart(const Modern& modern) : m(modern) {}
  Tensor operator()(const Tensor& x, const Pass& pass) const {
    return norm(nn::activate(dense(x, pass), m.s.head_activation));
  }

 private:
  const Modern& m;
  nn::Linear& dense = child<nn::Linear>("dense", m.c.hidden_size, m.c.hidden_size, m.out(m.c.classifier_bias));
  nn::LayerNorm& norm = child<nn::LayerNorm>("norm", m.c.hidden_size, m.c.norm_eps, m.c.norm_bias);
};

class ModernBert final : public EncoderModel {
 public:
  ModernBert(const ModernBertConfig& config, const HeadRequest& head)
      : EncoderModel({"model", "ModernBert", {"decoder", "decoder.bias"}}),
        m(config, resolve(config, head)),
        body_(child<ModernBody>(body_name(), m)) {
    if (m.s.has_head()) head_ = &child<ModernHeadStart>("head", m);
    if (!m.s.labels.empty())
      add_product(m.c.hidden_size, {.bias = true, .std = 1 / std::sqrt(static_cast<double>(m.c.hidden_size))});
    if (m.s.masked_lm) add_mask_product(m.c.hidden_size, m.c.initializer_range, m.c.decoder_bias);
  }

  Tensor embed(const Batch& batch, Pass& pass) const override { return body_.embeddings(batch, pass); }
  std::vector<const Block*> blocks() const override {
    return {body_.layers.blocks().begin(), body_.layers.blocks().end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return body_.final_norm(x_1ND); }
  bool takes_context() const override { return true; }
  std::int64_t max_positions() const override { return m.c.max_position_embeddings; }
  bool positions_are_learned() const override { return false; }
  std::vector<AttentionLayer> attention() const override {
    std::vector<AttentionLayer> all;
    for (const bool slides : m.s.slides)
      all.push_back({m.c.num_attention_heads, m.s.head_size, slides ? m.s.window : 0, /*causal=*/false});
    return all;
  }
  config::Node hf_config() const override {
    return as_hf_config(m.c, modern_layer_keys(m.s.slides, m.s.ropes),
                        {"global_attn_every_n_layers", "global_rope_theta", "local_rope_theta", "layer_norm_eps",
                         "position_embedding_type", "reference_compile", "repad_logits_with_grad",
                         "gradient_checkpointing"});
  }

  Tensor logits(const Output& output, Pass& pass) const override {
    const Tensor x = (*head_)(of_tokens() ? output.hidden_BTD : pooled_SD(output, pass), pass);
    return product(x, m.c.classifier_dropout, pass);
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override { return (*head_)(hidden, pass); }
  bool may_be_fresh(const std::string& weight) const override {
    return EncoderModel::may_be_fresh(weight) || weight.starts_with("head.");
  }

 private:
  const EncoderShape& shape() const override { return m.s; }
  Weight& words() const override { return body_.embeddings.tok_embeddings.weight; }
  std::string product_name() const override { return "classifier"; }

  // The first token of each document, [CLS], or the mean of all.
  Tensor pooled_SD(const Output& output, Pass& pass) const {
    if (m.c.classifier_pooling == Pooling::cls) return first_SD(output, pass);
    return means_of_documents(output.hidden_BTD, pass);
  }

  const Modern m;
  ModernBody& body_;
  ModernHeadStart* head_ = nullptr;
};

}  // namespace

void register_modernbert(Registries& hone) {
  hone.models.add<ModernBert, ModernBertConfig>(
      "modernbert",
      "ModernBERT, alone, with a classification head of texts or of tokens, with one that answers questions, or with "
      "one for masked tokens.");
}

}  // namespace hone::models
