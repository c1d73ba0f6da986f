// A model of layers with states alone: Mamba, whose states are of channels, and Mamba-2, whose are of heads.
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/layers.h"
#include "hone/model.h"
#include "models/sort_keys.h"
#include "nn/decoding/pre_norm.h"
#include "tensor/dtype.h"

namespace hone::models {

// M: a layer with states.
template <class M>
class MambaBlock final : public nn::ResidualBlock {
 public:
  MambaBlock(const typename M::Options& options, double eps, std::int64_t) : o(options), eps_(eps) {}
  void add_to(nn::Residual& x, Pass& pass) const override { x += mixer(norm(x), pass); }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    layer.has_mlp = false, layer.attention_norm_D = norm.weight.use();
    mixer.describe(layer, pass);
    return layer;
  }

 private:
  const typename M::Options& o;
  const double eps_;
  nn::RmsNorm& norm = child<nn::RmsNorm>("norm", o.hidden, ops::RmsNormForm(eps_));
  M& mixer = child<M>("mixer", o);
};

// C: what config.json says, which resolve() makes options of M of, completed() what is written, and whose numbers() are
// written as transformers writes such.
template <class C, class M>
class MambaModel final : public CausalLm, public nn::HasDecoder {
 public:
  using Config = C;
  explicit MambaModel(const Config& config) : c(config), o(options_of(config)) {}

  std::string base_prefix() const override { return "backbone."; }
  Tensor embed(const Batch& batch, Pass& pass) const override {
    return nn::embedding_noise(embeddings(batch.ids_BT, pass), pass);
  }
  std::vector<const Block*> blocks() const override { return {layers.blocks().begin(), layers.blocks().end()}; }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return norm_f(x_1ND); }
  const nn::Head& head() const override { return lm_head; }
  bool may_be_fresh(const std::string& weight) const override { return weight == "lm_head.weight"; }

  std::int64_t vocab_size() const override { return c.vocab_size; }
  bool takes_context() const override { return true; }
  std::int64_t max_positions() const override { return std::numeric_limits<std::int64_t>::max(); }
  std::vector<MemoryLayer> memories() const override {
    return std::vector<MemoryLayer>(layers.blocks().size(), o.memory());
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (const MemoryLayer& memory : memories()) spec.layers.push_back({.memory = memory});
    return spec;
  }
  config::Node hf_config() const override;

  std::unique_ptr<nn::Decoder> make_decoder(std::int64_t rows, const Pass& pass) const override {
    nn::PreNormStack stack{.embedding_VD = embeddings.weight.use(),
                           .norm_D = norm_f.weight.use(),
                           .layers = {},
                           .head = lm_head.with_bias(),
                           .heads = 1,
                           .kv_heads = 1,
                           .head_size = 1,
                           .norm = ops::RmsNormForm(c.layer_norm_epsilon)};
    for (const MambaBlock<M>* block : layers.blocks()) stack.layers.push_back(block->describe(pass));
    return nn::make_pre_norm_decoder(std::move(stack), rows);
  }

 private:
  static typename M::Options options_of(const Config& config) {
    Problems problems;
    return resolve(config, problems);  // which validate() has done before: there are none
  }

  C c;
  typename M::Options o;
  nn::Embedding& embeddings = child<nn::Embedding>("backbone.embeddings", c.vocab_size, c.hidden_size, o.std);
  nn::Stack<MambaBlock<M>>& layers =
      child<nn::Stack<MambaBlock<M>>>("backbone.layers", c.num_hidden_layers, o, c.layer_norm_epsilon);
  nn::RmsNorm& norm_f = child<nn::RmsNorm>("backbone.norm_f", c.hidden_size, ops::RmsNormForm(c.layer_norm_epsilon));
  nn::Head& lm_head = child<nn::Head>("lm_head", c.hidden_size, c.vocab_size, o.std,
                                      c.tie_word_embeddings ? &embeddings.weight : nullptr);
};

template <class C, class M>
config::Node MambaModel<C, M>::hf_config() const {
  config::Node node = config::write(completed(c, o));
  std::erase_if(node.entries(), [](const config::Node::Entry& entry) {
    return entry.second.is_null() && !entry.first.ends_with("token_id");
  });
  for (const auto& [key, value] : c.numbers()) node.at_or_add(key) = nn::hf_float(value);
  if (embeddings.weight.filled())
    node.at_or_add("dtype") = config::Node::scalar(hf_name(embeddings.weight.use().scalar_type()), /*quoted=*/true);
  node.at_or_add("use_cache") = config::Values<bool>::write(true);
  sort_keys(node);
  return node;
}

}  // namespace hone::models
