// EuroBERT (Boizard et al., 2025, arXiv:2503.05500): Llama's blocks that see all of a text; alone, with a
// classification head, or with one for masked tokens, whose matrix is its own.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, K head size, S documents, L labels.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "model.".
#include <ATen/ATen.h>

#include <cmath>

#include "hone/layers.h"
#include "hone/registry.h"
#include "models/encoder_model.h"
#include "models/eurobert_config.h"
#include "models/hf_values.h"
#include "models/means_of_documents.h"
#include "nn/plan.h"
#include "ops/rope.h"

namespace hone::models {
namespace {

// What all parts of a model look at.
struct Euro {
  Euro(const EuroBertConfig& config, const EuroBertShape& shape)
      : c(config), s(shape), rope(s.rope, s.head_size, c.max_position_embeddings) {}
  const EuroBertConfig c;
  const EuroBertShape s;
  const nn::Rope rope;
  nn::Linear::Options linear(bool bias) const { return {.bias = bias, .std = c.initializer_range}; }
};

class EuroAttention final : public Module {
 public:
  explicit EuroAttention(const Euro& euro) : e(euro) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
    const auto heads = [&](const Tensor& x) { return x.view({-1, x.size(-1) / e.s.head_size, e.s.head_size}); };
    const Tensor q_NHK = heads(qkv[0]);
    const ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(e.s.head_size)),
                                        .mask = ops::Mask::full(),
                                        .dropout = e.c.attention_dropout};
    const Tensor seen_NHK =
        nn::attend_rotated(q_NHK, heads(qkv[1]), heads(qkv[2]), pass.plan().rope(e.rope, q_NHK), pass, options);
    return o_proj(seen_NHK.flatten(1).unsqueeze(0), pass);
  }

 private:
  nn::Linear& in(const char* name, std::int64_t heads) {
    return child<nn::Linear>(name, e.c.hidden_size, heads * e.s.head_size, e.linear(e.c.attention_bias));
  }
  const Euro& e;
  nn::Linear &q_proj = in("q_proj", e.s.heads), &k_proj = in("k_proj", e.s.kv_heads),
             &v_proj = in("v_proj", e.s.kv_heads);
  nn::Linear& o_proj =
      child<nn::Linear>("o_proj", e.s.heads* e.s.head_size, e.c.hidden_size, e.linear(e.c.attention_bias));
};

class EuroLayer final : public nn::ResidualBlock {
 public:
  EuroLayer(const Euro& euro, std::int64_t) : e(euro) {}
  void add_to(nn::Residual& x, Pass& pass) const override {
    x += self_attn(input_layernorm(x), pass);
    x += mlp(post_attention_layernorm(x), pass);
  }

 private:
  const Euro& e;
  EuroAttention& self_attn = child<EuroAttention>("self_attn", e);
  nn::GatedMlp& mlp = child<nn::GatedMlp>("mlp", nn::GatedMlp::Options{.hidden = e.c.hidden_size,
                                                                       .inner = e.c.intermediate_size,
                                                                       .activation = e.s.activation,
                                                                       .bias = e.c.mlp_bias,
                                                                       .std = e.c.initializer_range});
  nn::RmsNorm& input_layernorm = child<nn::RmsNorm>("input_layernorm", e.c.hidden_size, e.c.rms_norm_eps);
  nn::RmsNorm& post_attention_layernorm =
      child<nn::RmsNorm>("post_attention_layernorm", e.c.hidden_size, e.c.rms_norm_eps);
};

struct EuroBody final : Module {
  explicit EuroBody(const Euro& euro) : e(euro) {}
  const Euro& e;
  nn::Embedding& embed_tokens = child<nn::Embedding>("embed_tokens", e.c.vocab_size, e.c.hidden_size,
                                                     e.c.initializer_range, e.s.no_gradient_id);
  nn::Stack<EuroLayer>& layers = child<nn::Stack<EuroLayer>>("layers", e.c.num_hidden_layers, e);
  nn::RmsNorm& norm = child<nn::RmsNorm>("norm", e.c.hidden_size, e.c.rms_norm_eps);
};

class EuroBert final : public EncoderModel {
 public:
  EuroBert(const EuroBertConfig& config, const HeadRequest& head)
      : EncoderModel({"model", "EuroBert", {"lm_head", "lm_head.bias"}}),
        e(config, resolve(config, head)),
        body_(child<EuroBody>(body_name(), e)) {
    if (!e.s.labels.empty()) {
      if (!of_tokens()) dense_ = &child<nn::Linear>("dense", e.c.hidden_size, e.c.hidden_size, e.linear(true));
      add_product(e.c.hidden_size, e.linear(true));
    }
    if (e.s.masked_lm)
      add_mask_product(e.c.hidden_size, e.c.initializer_range, e.c.mlp_bias, /*tied=*/e.c.tie_word_embeddings);
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    return nn::embedding_noise(body_.embed_tokens(batch.ids_BT, pass), pass);
  }
  std::vector<const Block*> blocks() const override {
    return {body_.layers.blocks().begin(), body_.layers.blocks().end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return body_.norm(x_1ND); }
  bool takes_context() const override { return true; }
  std::int64_t max_positions() const override { return e.c.max_position_embeddings; }
  bool positions_are_learned() const override { return false; }

  config::Node hf_config() const override {
    config::Node more = config::Node::map();
    more.at_or_add("rope_parameters") = nn::write_rope(e.s.rope);
    more.at_or_add("num_key_value_heads") = hf_number(e.s.kv_heads);
    more.at_or_add("head_dim") = hf_number(e.s.head_size);
    more.at_or_add("use_cache") = hf_flag(true);
    return as_hf_config(e.c, more,
                        {"rope_theta", "rope_scaling", "clf_pooling", "hidden_dropout", "bos_token", "eos_token",
                         "mask_token", "pad_token"});
  }

  Tensor logits(const Output& output, Pass& pass) const override {
    if (of_tokens()) return product(output.hidden_BTD, /*dropout=*/0, pass);
    const EuroPooling pooling = e.c.classifier_pooling;
    if (pooling == EuroPooling::late) return means_of_documents(told(output.hidden_BTD, pass), pass);
    return told(pooling == EuroPooling::bos ? first_SD(output, pass) : means_of_documents(output.hidden_BTD, pass),
                pass);
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass&) const override { return hidden; }
  bool may_be_fresh(const std::string& weight) const override {
    return EncoderModel::may_be_fresh(weight) || weight.starts_with("dense.");
  }

 private:
  const EncoderShape& shape() const override { return e.s; }
  Weight& words() const override { return body_.embed_tokens.weight; }
  // Labels of texts: of states of tokens, or of documents.
  Tensor told(const Tensor& x, const Pass& pass) const {
    return product(nn::activate((*dense_)(x, pass), ops::Activation::gelu), /*dropout=*/0, pass);
  }

  const Euro e;
  EuroBody& body_;
  nn::Linear* dense_ = nullptr;
};

}  // namespace

void register_eurobert(Registries& hone) {
  hone.models.add<EuroBert, EuroBertConfig>(
      "eurobert", "EuroBERT, alone, with a classification head of texts or of tokens, or with one for masked tokens.");
}

}  // namespace hone::models
