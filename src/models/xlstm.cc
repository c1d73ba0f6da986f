// xLSTM with matrix memories (Beck et al., 2024, arXiv:2405.04517; 2025, arXiv:2503.13427): Hugging Face's
// xLSTMForCausalLM.
//
// Letters in tensor names: D hidden, N tokens, H heads, V size of a head's values.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <cmath>
#include <limits>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/memory_layers.h"
#include "hone/registry.h"
#include "models/xlstm_config.h"
#include "tensor/dtype.h"

namespace hone::models {
namespace {

// Of fresh weights, as transformers has them: sqrt(2 / (5 D)) (Nguyen and Salazar, 2019), 2 / (layers sqrt(in)) where
// a product is added to the residual stream, and 0 for all gates, the MLP's, too. Input gates begin nearly shut, forget
// gates open by different amounts.
double small_std(const XLstmShape& s) { return std::sqrt(2.0 / (5.0 * static_cast<double>(s.hidden))); }
double added_std(const XLstmShape& s, std::int64_t in) {
  return 2.0 / static_cast<double>(s.layers) / std::sqrt(static_cast<double>(in));
}
constexpr Init kShut{.kind = Init::Kind::ramp, .first = -10, .last = -10},
    kOpen{.kind = Init::Kind::ramp, .first = 3, .last = 6};

class MlstmLayer final : public Module {
 public:
  explicit MlstmLayer(const XLstmShape& shape) : s(shape) {}

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto made = nn::linears(x_1ND, {&q, &k, &v, &ogate_preact, &igate_preact, &fgate_preact}, pass);
    const auto heads = [&](const Tensor& x, std::int64_t size) { return x.view({-1, s.heads, size}); };
    const Tensor h_NHV = nn::mlstm(heads(made[0], s.key_size), heads(made[1], s.key_size), heads(made[2], s.value_size),
                                   gate(made[4]), gate(made[5]), s.eps, pass);
    return out_proj(multihead_norm(h_NHV, made[3]), pass);
  }

 private:
  // [N,H], in fp32 at least.
  Tensor gate(const Tensor& preact_1NH) const {
    const Tensor wide_NH = preact_1NH.squeeze(0).to(at::toOpMathType(preact_1NH.scalar_type()));
    return (wide_NH / s.gate_cap).tanh() * s.gate_cap;
  }
  nn::Linear& projection(const char* name, std::int64_t size, double std) {
    return child<nn::Linear>(name, s.hidden, s.heads * size, nn::Linear::Options{.std = std});
  }
  // What goes into an exponential, or a product over the whole text, is not made in fp8.
  nn::Linear& gates(const char* name, Init bias) {
    const nn::Linear::Options options{.bias = true, .std = 0, .fresh_bias = bias};
    nn::Linear& made = child<nn::Linear>(name, s.hidden, s.heads, options);
    made.weight.set_takes_float8(false);
    return made;
  }
  const XLstmShape& s;
  nn::Linear &q = projection("q", s.key_size, small_std(s)), &k = projection("k", s.key_size, small_std(s)),
             &v = projection("v", s.value_size, small_std(s)),
             &ogate_preact = projection("ogate_preact", s.value_size, 0), &igate_preact = gates("igate_preact", kShut),
             &fgate_preact = gates("fgate_preact", kOpen);
  nn::GatedHeadNorm& multihead_norm = child<nn::GatedHeadNorm>("multihead_norm", s.heads, s.value_size, s.norm_eps);
  nn::Linear& out_proj = child<nn::Linear>("out_proj", s.heads* s.value_size, s.hidden,
                                           nn::Linear::Options{.std = added_std(s, s.hidden)});
};

class XLstmBlock final : public nn::ResidualBlock {
 public:
  XLstmBlock(const XLstmShape& shape, std::int64_t) : s(shape) {}
  void add_to(nn::Residual& x, Pass& pass) const override {
    x += mlstm_layer(norm_mlstm(x), pass);
    x += ffn(norm_ffn(x), pass);
  }

 private:
  const XLstmShape& s;
  nn::RmsNorm& norm_mlstm = child<nn::RmsNorm>("norm_mlstm", s.hidden, s.norm_eps);
  MlstmLayer& mlstm_layer = child<MlstmLayer>("mlstm_layer", s);
  nn::RmsNorm& norm_ffn = child<nn::RmsNorm>("norm_ffn", s.hidden, s.norm_eps);
  nn::GatedMlp& ffn = child<nn::GatedMlp>("ffn", nn::GatedMlp::Options{.hidden = s.hidden,
                                                                       .inner = s.inner,
                                                                       .std = small_std(s),
                                                                       .gate = "proj_up_gate",
                                                                       .up = "proj_up",
                                                                       .down = "proj_down",
                                                                       .gate_std = 0,
                                                                       .down_std = added_std(s, s.inner)});
};

XLstmShape shape_of(const XLstmConfig& config) {
  Problems problems;
  return resolve(config, problems);  // which validate() has done before: there are none
}

class XLstm final : public CausalLm {
 public:
  using Config = XLstmConfig;
  explicit XLstm(const Config& config) : c(config), s(shape_of(config)) {}

  std::string base_prefix() const override { return "backbone."; }
  Tensor embed(const Batch& batch, Pass& pass) const override {
    return nn::embedding_noise(embeddings(batch.ids_BT, pass), pass);
  }
  std::vector<const Block*> blocks() const override { return {layers.blocks().begin(), layers.blocks().end()}; }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return out_norm(x_1ND); }
  const nn::Head& head() const override { return lm_head; }
  bool may_be_fresh(const std::string& weight) const override { return weight == "lm_head.weight"; }

  std::int64_t vocab_size() const override { return s.vocab; }
  bool takes_context() const override { return true; }
  std::int64_t max_positions() const override { return std::numeric_limits<std::int64_t>::max(); }
  std::vector<MemoryLayer> memories() const override {
    return std::vector<MemoryLayer>(layers.blocks().size(), {s.heads, s.key_size, s.value_size});
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec;
    for (const MemoryLayer& memory : memories()) spec.layers.push_back({.memory = memory});
    return spec;
  }
  config::Node hf_config() const override {
    return to_hf_config(c, s, embeddings.weight.filled() ? hf_name(embeddings.weight.use().scalar_type()) : "");
  }

 private:
  Config c;
  XLstmShape s;
  nn::Embedding& embeddings = child<nn::Embedding>("backbone.embeddings", s.vocab, s.hidden, small_std(s));
  nn::Stack<XLstmBlock>& layers = child<nn::Stack<XLstmBlock>>("backbone.blocks", s.layers, s);
  nn::RmsNorm& out_norm = child<nn::RmsNorm>("backbone.out_norm", s.hidden, s.norm_eps);
  nn::Head& lm_head = child<nn::Head>("lm_head", s.hidden, s.vocab, small_std(s), /*tied=*/nullptr, s.logit_cap);
};

}  // namespace

void register_xlstm(Registries& hone) {
  hone.models.add<XLstm>("xlstm", "xLSTM: a matrix memory instead of attention.");
}

}  // namespace hone::models
