// What Llama and its relatives with other MLPs share: attention, and the model around the blocks, with the head of a
// language model or of a classifier.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H query heads, G key/value heads, K head size,
// S documents.
// Children carry Hugging Face's names, so its checkpoints load and save without a mapping table.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/layers.h"
#include "models/llama_config.h"
#include "nn/decoding/pre_norm.h"
#include "nn/plan.h"
#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::models {

inline double scale_of(const LlamaShape& s) { return 1.0 / std::sqrt(static_cast<double>(s.head_size)); }

class LlamaAttention final : public Module {
 public:
  LlamaAttention(const LlamaShape& shape, const nn::Rope& rope, std::int64_t layer)
      : s(shape), rope_(rope), window_(shape.windows[layer]) {
    if (!s.qk_norm) return;
    q_norm = &child<nn::RmsNorm>("q_norm", s.head_size, s.eps);
    k_norm = &child<nn::RmsNorm>("k_norm", s.head_size, s.eps);
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
    const auto heads = [&](const Tensor& x, std::int64_t count) { return x.view({-1, count, s.head_size}); };
    Tensor q_NHK = heads(qkv[0], s.heads), k_NGK = heads(qkv[1], s.kv_heads);
    const Tensor v_NGK = heads(qkv[2], s.kv_heads);
    if (s.qk_norm) q_NHK = (*q_norm)(q_NHK), k_NGK = (*k_norm)(k_NGK);
    const ops::RopeTable& table = pass.plan().rope(rope_, q_NHK);
    const ops::AttentionOptions options{
        .scale = scale_of(s), .mask = ops::Mask::causal(window_), .dropout = s.attention_dropout};
    return o_proj(nn::attend_rotated(q_NHK, k_NGK, v_NGK, table, pass, options).flatten(1).unsqueeze(0), pass);
  }

  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    layer.q = q_proj.with_adapter(pass), layer.k = k_proj.with_adapter(pass), layer.v = v_proj.with_adapter(pass);
    layer.o = o_proj.with_adapter(pass);
    layer.window = window_;
    if (s.qk_norm) layer.q_norm_K = q_norm->weight.use(), layer.k_norm_K = k_norm->weight.use();
  }

 private:
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = s.std});
  }
  const LlamaShape& s;
  const nn::Rope& rope_;
  std::int64_t window_;
  nn::Linear& q_proj = projection("q_proj", s.hidden, s.heads* s.head_size, s.qkv_bias);
  nn::Linear& k_proj = projection("k_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& v_proj = projection("v_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& o_proj = projection("o_proj", s.heads* s.head_size, s.hidden, s.output_bias);
  nn::RmsNorm *q_norm = nullptr, *k_norm = nullptr;
};

// Embedding, blocks, norm and head. Each block is made as B(shape, rope, index); S is LlamaShape or extends it.
template <class B, class S = LlamaShape>
class LlamaModel : public CausalLm, public Classifier {
 public:
  explicit LlamaModel(S shape) : s(std::move(shape)), rope_(s.rope, s.head_size, s.max_positions) {
    if (s.labels.empty())
      lm_head = &child<nn::Head>("lm_head", s.hidden, s.vocab, s.std, s.tied ? &model.embed_tokens.weight : nullptr);
    else
      score = &child<nn::Linear>("score", s.hidden, std::ssize(s.labels), nn::Linear::Options{.std = s.std});
  }

  std::string base_prefix() const override { return "model."; }
  Tensor embed(const Batch& batch, Pass& pass) const override { return model.embed_tokens(batch.ids_BT, pass); }
  std::vector<const Block*> blocks() const override {
    return {model.layers.blocks().begin(), model.layers.blocks().end()};
  }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return model.norm(x_1ND); }
  const CausalLm* causal_lm() const override { return lm_head ? this : nullptr; }
  const nn::Head& head() const override {
    HONE_ASSERT(lm_head);
    return *lm_head;
  }

  const Classifier* classifier() const override { return score ? this : nullptr; }
  const std::vector<std::string>& labels() const override { return s.labels; }
  // By the last token of each document, which alone has seen all of it.
  Tensor logits(const hone::Output& output, Pass& pass) const override {
    HONE_ASSERT(!pass.batch.docs.empty());
    std::vector<std::int64_t> last;
    for (const Doc& doc : pass.batch.docs) last.push_back(doc.row * pass.batch.length() + doc.end - 1);
    const Tensor flat_ND = output.hidden_BTD.flatten(0, 1);
    const Tensor last_SD =
        flat_ND.index_select(0, devices::sent(host::tensor_of(last, {std::ssize(last)}), flat_ND.device()));
    return (*score)(last_SD, pass);
  }
  std::string weights_prefix() const override { return "score."; }
  bool may_be_fresh(const std::string& weight) const override { return weight.starts_with(weights_prefix()); }

  std::int64_t vocab_size() const override { return s.vocab; }
  std::int64_t max_positions() const override { return s.max_positions; }
  bool shares_prefixes() const override {
    return s.rope.rope_type != nn::RopeType::dynamic && s.rope.rope_type != nn::RopeType::longrope;
  }

  std::vector<AttentionLayer> attention() const override {
    std::vector<AttentionLayer> layers;
    for (const std::int64_t window : s.windows) layers.push_back({s.heads, s.head_size, window});
    return layers;
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (const std::int64_t window : s.windows) spec.layers.push_back({s.kv_heads, s.head_size, window});
    return spec;
  }

 protected:
  std::string dtype() const {  // as Hugging Face calls it; "": no weights yet
    const Weight& weight = model.embed_tokens.weight;
    return weight.filled() ? hf_name(weight.use().scalar_type()) : "";
  }

  struct Body final : Module {
    Body(const S& shape, const nn::Rope& rope) : s(shape), rope(rope) {}
    const S& s;
    const nn::Rope& rope;
    nn::Embedding& embed_tokens = child<nn::Embedding>("embed_tokens", s.vocab, s.hidden, s.std, s.no_gradient_id);
    nn::Stack<B>& layers = child<nn::Stack<B>>("layers", s.layers, s, rope);
    nn::RmsNorm& norm = child<nn::RmsNorm>("norm", s.hidden, s.eps);
  };
  S s;
  nn::Rope rope_;
  Body& model = child<Body>("model", s, rope_);
  nn::Head* lm_head = nullptr;  // one of the two
  nn::Linear* score = nullptr;
};

}  // namespace hone::models
