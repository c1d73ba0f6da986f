// BERTs whose positions are rotations of queries and keys: Nomic BERT (Nussbaum et al., 2024, arXiv:2402.01613), GTE
// (Zhang et al., 2024, arXiv:2407.19669) and Jina Embeddings v3 (Sturua et al., 2024, arXiv:2409.10173); alone, with a
// classification head, or with one for masked tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size, S documents.
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "nomic_bert.",
// "gte." or "roberta.".
#include <ATen/ATen.h>

#include <cmath>
#include <memory>

#include "hone/layers.h"
#include "hone/registry.h"
#include "models/encoder_model.h"
#include "models/encoder_parts.h"
#include "models/rotary_bert_config.h"
#include "nn/plan.h"
#include "ops/gated.h"
#include "ops/rope.h"

namespace hone::models {
namespace {

// What all parts of a model look at.
struct Rotary {
  explicit Rotary(const RotaryShape& shape) : s(shape), rope(s.rope, s.head_size, s.max_positions) {}
  const RotaryShape s;
  const nn::Rope rope;
  nn::Linear::Options linear(bool bias) const { return {.bias = bias, .std = s.std}; }
  Tensor drop(const Tensor& x, const Pass& pass, std::string_view place) const {
    return nn::dropout(x, s.dropout, pass, place);
  }
};

class RotaryEmbeddings final : public Module {
 public:
  explicit RotaryEmbeddings(const Rotary& rotary) : r(rotary) {
    if (r.s.types > 0)
      token_type_embeddings = &child<nn::Embedding>("token_type_embeddings", r.s.types, r.s.hidden, r.s.std, -1);
  }
  Tensor operator()(const Batch& batch, Pass& pass) const {
    Tensor x_BTD = nn::embedding_noise(word_embeddings(batch.ids_BT, pass), pass);
    if (token_type_embeddings) x_BTD = x_BTD + embedded_types(*token_type_embeddings, r.s.types, batch, pass);
    return nn::dropout_embedded(layer_norm(x_BTD), r.s.dropout, pass, "embeddings");
  }

  const Rotary& r;
  nn::Embedding& word_embeddings =
      child<nn::Embedding>("word_embeddings", r.s.vocab, r.s.hidden, r.s.std, r.s.no_gradient_id);
  nn::Embedding* token_type_embeddings = nullptr;
  nn::LayerNorm& layer_norm = child<nn::LayerNorm>("LayerNorm", r.s.hidden, r.s.eps);
};

class RotaryAttention final : public Module {
 public:
  explicit RotaryAttention(const Rotary& rotary) : r(rotary) {}
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
    const auto heads = [&](const Tensor& x) { return x.view({-1, r.s.heads, r.s.head_size}); };
    const Tensor q_NHK = heads(qkv[0]);
    const ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(r.s.head_size)),
                                        .mask = ops::Mask::full(),
                                        .dropout = r.s.attention_dropout};
    const Tensor seen_NHK =
        nn::attend_rotated(q_NHK, heads(qkv[1]), heads(qkv[2]), pass.plan().rope(r.rope, q_NHK), pass, options);
    return o_proj(seen_NHK.flatten(1).unsqueeze(0), pass);
  }

 private:
  nn::Linear& in(const char* name) {
    return child<nn::Linear>(name, r.s.hidden, r.s.heads * r.s.head_size, r.linear(r.s.attention_bias));
  }
  const Rotary& r;
  nn::Linear &q_proj = in("q_proj"), &k_proj = in("k_proj"), &v_proj = in("v_proj");
  nn::Linear& o_proj =
      child<nn::Linear>("o_proj", r.s.heads* r.s.head_size, r.s.hidden, r.linear(r.s.attention_bias));
};

class RotaryMlp final : public Module {
 public:
  explicit RotaryMlp(const Rotary& rotary) : r(rotary) {
    const bool plain = r.s.mlp == RotaryMlpForm::plain;
    first_ = &child<nn::Linear>(plain ? "fc1" : "gate_proj", r.s.hidden, r.s.inner, r.linear(plain));
    if (!plain) up_ = &child<nn::Linear>("up_proj", r.s.hidden, r.s.inner, r.linear(false));
    last_ = &child<nn::Linear>(plain ? "fc2" : "down_proj", r.s.inner, r.s.hidden,
                               r.linear(r.s.mlp != RotaryMlpForm::gated));
  }
  Tensor operator()(const Tensor& x_1ND, const Pass& pass) const {
    if (!up_) return (*last_)(nn::activate((*first_)(x_1ND, pass), r.s.activation), pass);
    const auto both = nn::linears(x_1ND, {first_, up_}, pass);
    const Tensor inner = ops::gated(both[0].contiguous(), both[1].contiguous(), r.s.activation);
    return (*last_)(r.s.mlp == RotaryMlpForm::gated_and_dropped ? r.drop(inner, pass, "mlp/inner") : inner, pass);
  }

 private:
  const Rotary& r;
  nn::Linear *first_ = nullptr, *up_ = nullptr, *last_ = nullptr;
};

class RotaryLayer final : public Block {
 public:
  RotaryLayer(const Rotary& rotary, std::int64_t) : r(rotary) {}
  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    nn::Residual x(x_1ND);
    x += r.drop(self_attn(x_1ND, pass), pass, "attention");
    const Tensor attended_1ND = post_attention_layernorm(x);
    nn::Residual y(attended_1ND);
    y += r.drop(mlp(attended_1ND, pass), pass, "mlp");
    return post_mlp_layernorm(y);
  }

 private:
  const Rotary& r;
  RotaryAttention& self_attn = child<RotaryAttention>("self_attn", r);
  nn::LayerNorm& post_attention_layernorm =
      child<nn::LayerNorm>("post_attention_layernorm", r.s.hidden, r.s.eps);
  RotaryMlp& mlp = child<RotaryMlp>("mlp", r);
  nn::LayerNorm& post_mlp_layernorm = child<nn::LayerNorm>("post_mlp_layernorm", r.s.hidden, r.s.eps);
};

struct RotaryBody final : Module {
  RotaryBody(const Rotary& rotary, bool pools) : r(rotary) {
    if (pools) pooler = &child<nn::Linear>("pooler.dense", r.s.hidden, r.s.hidden, r.linear(true));
  }
  const Rotary& r;
  RotaryEmbeddings& embeddings = child<RotaryEmbeddings>("embeddings", r);
  nn::Stack<RotaryLayer>& layers = child<nn::Stack<RotaryLayer>>("layers", r.s.layers, r);
  nn::Linear* pooler = nullptr;
};

// What of a family is not in its configuration.
struct RotaryFamily {
  const char *prefix, *classes;
  bool pools_alone;    // without a head there is a pooler, too
  bool pools_for_labels;  // by which labels of texts are told; else the head has two products
  MaskHeadNames mask_head;
};
RotaryFamily family_of(const NomicConfig&) {
  return {"nomic_bert", "NomicBert", false, true, {"cls.predictions.decoder", "cls.predictions.bias"}};
}
RotaryFamily family_of(const GteConfig&) {
  return {"gte", "Gte", false, true, {"lm_head.decoder", "lm_head.decoder.bias"}};
}
RotaryFamily family_of(const JinaConfig&) {
  return {"roberta", "JinaEmbeddingsV3", true, false, {"lm_head.decoder", "lm_head.bias"}};
}

template <class C>
class RotaryBert final : public EncoderModel {
 public:
  RotaryBert(const C& config, const HeadRequest& head)
      : EncoderModel({family_of(config).prefix, family_of(config).classes, family_of(config).mask_head}),
        c_(config),
        r(resolve(config, head)),
        body_(child<RotaryBody>(body_name(), r, pools())) {
    if (!r.s.labels.empty()) {
      if (family_of(c_).pools_for_labels) add_product(r.s.hidden, r.linear(true));
      else add_products(r.s.hidden, r.linear(true), /*activation: tanh*/ {});
    }
    if (r.s.masked_lm) add_head_for_masks();
  }

  Tensor embed(const Batch& batch, Pass& pass) const override { return body_.embeddings(batch, pass); }
  std::vector<const Block*> blocks() const override {
    return {body_.layers.blocks().begin(), body_.layers.blocks().end()};
  }
  bool takes_context() const override { return true; }
  std::int64_t max_positions() const override { return r.s.max_positions; }
  bool positions_are_learned() const override { return false; }

  config::Node hf_config() const override {
    config::Node more = config::Node::map();
    more.at_or_add("rope_parameters") = nn::write_rope(r.s.rope);
    if (!c_.classifier_dropout) more.at_or_add("classifier_dropout") = config::Node();
    std::vector<std::string_view> without{"rope_theta", "rope_scaling"};
    if constexpr (std::is_same_v<C, NomicConfig>) {
      more.at_or_add("head_dim") = config::Values<std::int64_t>::write(r.s.head_size);
      without.push_back("tie_word_embeddings");  // which transformers takes as true
    }
    if constexpr (std::is_same_v<C, JinaConfig>) more.at_or_add("use_cache") = config::Values<bool>::write(true);
    return as_hf_config(c_, more, std::move(without));
  }
  Tensor for_mask_head(const Tensor& hidden, const Pass& pass) const override {
    if (!dense_) return EncoderModel::for_mask_head(hidden, pass);
    return (*norm_)(nn::activate((*dense_)(hidden, pass), ops::Activation::gelu));
  }

 private:
  const EncoderShape& shape() const override { return r.s; }
  Weight& words() const override { return body_.embeddings.word_embeddings.weight; }
  bool pools() const {
    if (!r.s.has_head()) return family_of(c_).pools_alone;
    return !r.s.labels.empty() && !of_tokens() && family_of(c_).pools_for_labels;
  }
  Tensor of_documents(const Tensor& first_SD, const Pass& pass) const override {
    if (!body_.pooler) return EncoderModel::of_documents(first_SD, pass);
    return product(at::tanh((*body_.pooler)(first_SD, pass)), r.s.classifier_dropout, pass);
  }
  void add_head_for_masks() {
    const auto form = [&](const char* dense, const char* norm, ops::Activation activation) {
      return MaskHead::Form{dense, norm, activation, r.s.hidden, r.s.hidden, r.s.std, r.s.eps};
    };
    if constexpr (std::is_same_v<C, NomicConfig>)
      add_mask_head(form("transform.dense", "transform.layer_norm", r.s.activation));
    else if constexpr (std::is_same_v<C, JinaConfig>)
      add_mask_head(form("dense", "layer_norm", ops::Activation::gelu));  // whatever hidden_act says
    else {
      dense_ = &child<nn::Linear>("lm_head.dense", r.s.hidden, r.s.hidden, r.linear(true));
      norm_ = &child<nn::LayerNorm>("lm_head.layer_norm", r.s.hidden, r.s.eps);
      add_mask_product(r.s.hidden, r.s.std);
    }
  }

  const C c_;
  const Rotary r;
  RotaryBody& body_;
  nn::Linear* dense_ = nullptr;  // of a head for masked tokens whose bias is the table's product's
  nn::LayerNorm* norm_ = nullptr;
};

}  // namespace

void register_rotary_bert(Registries& hone) {
  hone.models.add<RotaryBert<NomicConfig>, NomicConfig>(
      "nomic_bert",
      "Nomic BERT, alone, with a classification head of texts or of tokens, or with one for masked tokens.");
  hone.models.add<RotaryBert<GteConfig>, GteConfig>(
      "gte", "GTE, alone, with a classification head of texts or of tokens, or with one for masked tokens.");
  hone.models.add<RotaryBert<JinaConfig>, JinaConfig>(
      "jina_embeddings_v3",
      "Jina Embeddings v3, alone, with a classification head of texts or of tokens, with one that answers questions, "
      "or with one for masked tokens.");
}

}  // namespace hone::models
