// What Llama and its relatives share: the model around the blocks, with the head of a language model or of a
// classifier.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, S documents.
// Children carry Hugging Face's names, so its checkpoints load and save without a mapping table.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hone/layers.h"
#include "models/llama_attention.h"
#include "models/last_tokens.h"
#include "models/llama_config.h"
#include "tensor/dtype.h"

namespace hone::models {

inline Tensor scaled(const Tensor& x, double by) { return by == 1 ? x : x.mul(by); }

// Embedding, blocks, norm and head. Each block is made as B(shape, ropes, index); S is LlamaShape or extends it; N is
// RmsNorm, or made as LayerNorm is or of the shape.
template <class B, class S = LlamaShape, class N = nn::RmsNorm>
class LlamaModel : public CausalLm, public Classifier {
 public:
  explicit LlamaModel(S shape) : s(std::move(shape)), ropes_(s) {
    if (s.labels.empty() && s.sees_all) return;
    if (s.labels.empty())
      lm_head = &child<nn::Head>(s.head, s.words(), s.vocab, s.std, s.tied ? &model.embed_tokens.weight : nullptr,
                                 s.logit_soft_cap, s.head_bias ? &head_bias() : nullptr);
    else
      score = &child<nn::Linear>(classifier_name(), s.words(), std::ssize(s.labels.names),
                                 nn::Linear::Options{.bias = of_tokens() || s.text_classifier_bias, .std = s.std});
  }

  std::string base_prefix() const override { return std::string(s.body) + "."; }
  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor x_BTD = model.embed_tokens(batch.ids_BT, pass);
    return nn::embedding_noise(scaled(x_BTD, embedding_scale()), pass);
  }
  std::vector<const Block*> blocks() const override {
    return {model.layers.blocks().begin(), model.layers.blocks().end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return scaled(model.norm(x_1ND), s.hidden_scale); }
  const CausalLm* causal_lm() const override { return lm_head ? this : nullptr; }
  const nn::Head& head() const override {
    HONE_ASSERT(lm_head);
    return *lm_head;
  }

  const Classifier* classifier() const override { return score ? this : nullptr; }
  const std::vector<std::string>& labels() const override { return s.labels.names; }
  std::optional<ProblemType> problem_type() const override { return s.labels.problem_type; }
  bool of_tokens() const override { return s.labels.of_tokens; }
  // Of each token, or by the last one of each document.
  Tensor logits(const hone::Output& output, Pass& pass) const override {
    if (of_tokens()) return (*score)(nn::dropout(output.hidden_BTD, s.classifier_dropout, pass, "classifier"), pass);
    return (*score)(last_tokens(output.hidden_BTD, pass.batch), pass);
  }
  std::string weights_prefix() const override { return std::string(classifier_name()) + "."; }
  bool may_be_fresh(const std::string& weight) const override { return weight.starts_with(weights_prefix()); }

  std::int64_t vocab_size() const override { return s.vocab; }
  std::int64_t max_positions() const override { return s.max_positions; }
  bool shares_prefixes() const override { return !s.sees_all && !ropes_.depend_on_length(); }
  bool takes_context() const override { return true; }
  // A norm of all heads' rows, or one that has weights for each head, would need what other ranks have.
  bool takes_tensor() const override {
    if constexpr (requires { B::kTakesTensor; })
      return B::kTakesTensor && s.qk_norm != QkNorm::row && s.qk_norm != QkNorm::own && s.qk_norm != QkNorm::listed;
    return false;
  }

  std::vector<AttentionLayer> attention() const override {
    std::vector<AttentionLayer> layers;
    for (const std::int64_t window : s.windows) layers.push_back({s.heads, s.head_size, window, !s.sees_all});
    return layers;
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (const std::int64_t window : s.windows) spec.layers.push_back({s.kv_heads, s.head_size, window});
    return spec;
  }

 protected:
  const char* classifier_name() const { return s.labels.of_tokens ? s.token_classifier : s.text_classifier; }
  Weight& head_bias() {
    return this->parameter(std::string(s.head) + ".bias", {s.vocab}, {.kind = Init::Kind::zeros}, /*decays=*/false);
  }
  virtual double embedding_scale() const { return s.embedding_scale; }
  std::string dtype() const {  // as Hugging Face calls it; "": no weights yet
    const Weight& weight = model.embed_tokens.weight;
    return weight.filled() ? hf_name(weight.use().scalar_type()) : "";
  }

  struct Body final : Module {
    Body(const S& shape, const LlamaRopes& ropes) : s(shape), ropes(ropes) {}
    const S& s;
    const LlamaRopes& ropes;
    nn::Embedding& embed_tokens = child<nn::Embedding>(s.table, s.vocab, s.words(), s.std, s.no_gradient_id);
    nn::Stack<B>& layers = child<nn::Stack<B>>(s.stack, s.layers, s, ropes);
    N& norm = child_norm();

   private:
    N& child_norm() {
      if constexpr (std::is_same_v<N, nn::RmsNorm>) return child<N>(s.last_norm, s.hidden, s.norm());
      else if constexpr (std::is_constructible_v<N, const S&>) return child<N>(s.last_norm, s);
      else return child<N>(s.last_norm, s.hidden, s.eps, s.norm_bias);
    }
  };
  S s;
  LlamaRopes ropes_;
  Body& model = child<Body>(s.body, s, ropes_);
  nn::Head* lm_head = nullptr;  // one of the two
  nn::Linear* score = nullptr;
};

}  // namespace hone::models
