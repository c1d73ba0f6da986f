// GPT-2 with its language-model head (Radford et al., 2019), Hugging Face's GPT2LMHeadModel, or with one for labels of
// texts or of tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size.
#include <ATen/ATen.h>

#include <cmath>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "models/decoder_head.h"

namespace hone::models {
namespace {

struct Gpt2Config : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "gpt2", activation_function = "gelu_new", summary_type = "cls_index";
  std::int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  std::optional<std::int64_t> n_inner, n_ctx, pad_token_id;
  config::Open bos_token_id{config::Node::scalar("50256")}, eos_token_id{config::Node::scalar("50256")};
  double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1, layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  bool tie_word_embeddings = true, scale_attn_weights = true, scale_attn_by_inverse_layer_idx = false;
  bool reorder_and_upcast_attn = false, add_cross_attention = false;
  bool summary_use_proj = true, summary_proj_to_labels = true;
  std::optional<std::string> summary_activation;
  double summary_first_dropout = 0.1;
  std::optional<double> classifier_dropout;

  static constexpr auto own_fields() {
    using C = Gpt2Config;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple{
        field("model_type", &C::model_type, "gpt2."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("n_positions", &C::n_positions, "Positions that are learned: no document may be longer.", size),
        field("n_embd", &C::n_embd, "Width of the residual stream.", size),
        field("n_layer", &C::n_layer, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("n_head", &C::n_head, "Attention heads.", {.low = 1, .high = 65536}),
        field("n_inner", &C::n_inner, "Width inside the MLP; default: 4 n_embd.", size),
        field("activation_function", &C::activation_function, "Activation of the MLP, by Hugging Face's name."),
        field("resid_pdrop", &C::resid_pdrop, "Share that training drops of what attention and MLP add.", share),
        field("embd_pdrop", &C::embd_pdrop, "Share that training drops of the embeddings.", share),
        field("attn_pdrop", &C::attn_pdrop, "Share that training drops of the attention's weights.", share),
        field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the variance in LayerNorm.", at_least(0)),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
        field("scale_attn_weights", &C::scale_attn_weights, "Must be true."),
        field("scale_attn_by_inverse_layer_idx", &C::scale_attn_by_inverse_layer_idx, "Must be false."),
        field("reorder_and_upcast_attn", &C::reorder_and_upcast_attn, "Must be false."),
        field("add_cross_attention", &C::add_cross_attention, "Must be false."),
        field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
        field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
        field("pad_token_id", &C::pad_token_id, "Padding; kept for others."),
        field("n_ctx", &C::n_ctx, "What old folders say besides n_positions; no effect."),
        field("summary_type", &C::summary_type, "Of a head that this model has not, as all summary_*; no effect."),
        field("summary_activation", &C::summary_activation, "No effect."),
        field("summary_use_proj", &C::summary_use_proj, "No effect."),
        field("summary_proj_to_labels", &C::summary_proj_to_labels, "No effect."),
        field("summary_first_dropout", &C::summary_first_dropout, "No effect."),
        field("classifier_dropout", &C::classifier_dropout,
              "Share that training drops of what a head for labels of tokens reads; default 0.1.", share)};
  }
  static constexpr auto fields() { return std::tuple_cat(LabelKeys::fields(), own_fields()); }
  void validate(Problems& problems) const {
    problems.require(n_embd % n_head == 0, "n_embd", "expected a multiple of n_head");
    nn::read_activation(activation_function, "activation_function", problems);
    problems.require(scale_attn_weights, "scale_attn_weights", "got false, expected true");
    const auto refuse = [&](bool on, const char* key) { problems.require(!on, key, "got true, expected false"); };
    refuse(scale_attn_by_inverse_layer_idx, "scale_attn_by_inverse_layer_idx");
    refuse(reorder_and_upcast_attn, "reorder_and_upcast_attn");
    refuse(add_cross_attention, "add_cross_attention");
  }
};

// x W + b; weight [in, out].
struct Conv1D final : Module {
  Conv1D(std::int64_t in, std::int64_t out, double std)
      : weight(parameter("weight", {in, out}, Init{Init::Kind::normal, std})),
        bias(parameter("bias", {out}, Init{Init::Kind::zeros, 0}, /*decays=*/false)) {
    weight.set_use(WeightUse::product_in_out);
  }
  Tensor operator()(const Tensor& x, const Pass& pass) const {
    return nn::adapt(at::linear(x, weight.use().t(), bias.use()), x, weight, pass);
  }
  Weight &weight, &bias;
};

class Gpt2Block final : public nn::ResidualBlock {
 public:
  Gpt2Block(const Gpt2Config& config, std::int64_t) : c(config) {}
  void add_to(nn::Residual& x, Pass& pass) const override {
    x += nn::dropout(attention(ln_1(x), pass), c.resid_pdrop, pass, "attention");
    x += nn::dropout(c_proj(nn::activate(c_fc(ln_2(x), pass), activation), pass), c.resid_pdrop, pass, "mlp");
  }

 private:
  Tensor attention(const Tensor& x_1ND, Pass& pass) const {
    const std::int64_t head_size = D / c.n_head;
    const auto qkv_NHK = c_attn(x_1ND, pass).view({-1, 3, c.n_head, head_size}).unbind(1);
    const ops::AttentionOptions options{
        .scale = 1 / std::sqrt(static_cast<double>(head_size)), .mask = ops::Mask::causal(), .dropout = c.attn_pdrop};
    const Tensor mixed_NHK = nn::attend(qkv_NHK[0], qkv_NHK[1], qkv_NHK[2], pass, options);
    return attn_c_proj(mixed_NHK.flatten(1).unsqueeze(0), pass);
  }
  const Gpt2Config& c;
  const std::int64_t D = c.n_embd, inner = c.n_inner.value_or(4 * D);
  const double std = c.initializer_range, added_std = std / std::sqrt(2.0 * static_cast<double>(c.n_layer));
  const ops::Activation activation = nn::read_activation(c.activation_function);
  nn::LayerNorm& ln_1 = child<nn::LayerNorm>("ln_1", D, c.layer_norm_epsilon);
  Conv1D& c_attn = child<Conv1D>("attn.c_attn", D, 3 * D, std);
  Conv1D& attn_c_proj = child<Conv1D>("attn.c_proj", D, D, added_std);
  nn::LayerNorm& ln_2 = child<nn::LayerNorm>("ln_2", D, c.layer_norm_epsilon);
  Conv1D& c_fc = child<Conv1D>("mlp.c_fc", D, inner, std);
  Conv1D& c_proj = child<Conv1D>("mlp.c_proj", inner, D, added_std);
};

class Gpt2 final : public DecoderWithHead {
 public:
  using Config = Gpt2Config;
  Gpt2(const Config& config, const HeadRequest& head) : DecoderWithHead(config, head), c(config) {
    make_head({.lm_head = "lm_head",
               .hidden = c.n_embd,
               .vocab = c.vocab_size,
               .std = c.initializer_range,
               .tied = c.tie_word_embeddings ? &wte.weight : nullptr,
               .classifier_dropout = c.classifier_dropout.value_or(0.1)});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor words_BTD = nn::embedding_noise(wte(batch.ids_BT, pass), pass);
    return nn::dropout_embedded(words_BTD + wpe(nn::positions(pass), pass), c.embd_pdrop, pass, "embeddings");
  }
  std::vector<const Block*> blocks() const override { return {layers.blocks().begin(), layers.blocks().end()}; }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return ln_f(x_1ND); }
  std::int64_t vocab_size() const override { return c.vocab_size; }
  std::int64_t max_positions() const override { return c.n_positions; }
  bool positions_are_learned() const override { return true; }
  bool shares_prefixes() const override { return true; }
  bool takes_context() const override { return true; }
  std::vector<AttentionLayer> attention() const override {
    return std::vector<AttentionLayer>(layers.blocks().size(), {c.n_head, c.n_embd / c.n_head});
  }
  CacheSpec cache_spec() const override {
    const CacheSpec::Layer layer{.kv_heads = c.n_head, .head_size = c.n_embd / c.n_head};
    return {std::vector<CacheSpec::Layer>(layers.blocks().size(), layer)};
  }
  config::Node hf_config() const override {
    config::Node node = config::write(c);
    const HeadLabels& labels = head_labels();
    const std::string name = labels.empty() ? "GPT2LMHeadModel" : std::string("GPT2") + labels.class_end();
    node.at_or_add("architectures") = config::Node::list({config::Node::scalar(name, /*quoted=*/true)});
    write_labels(labels, c, node);
    return node;
  }

  std::string base_prefix() const override { return "transformer."; }
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias");
  }

 private:
  Config c;
  nn::Embedding& wte = child<nn::Embedding>("transformer.wte", c.vocab_size, c.n_embd, c.initializer_range);
  nn::Embedding& wpe = child<nn::Embedding>("transformer.wpe", c.n_positions, c.n_embd, c.initializer_range);
  nn::Stack<Gpt2Block>& layers = child<nn::Stack<Gpt2Block>>("transformer.h", c.n_layer, c);
  nn::LayerNorm& ln_f = child<nn::LayerNorm>("transformer.ln_f", c.n_embd, c.layer_norm_epsilon);
};

}  // namespace

void register_gpt2(Registries& hone) {
  hone.models.add<Gpt2>("gpt2", "GPT-2 with its language-model head, or with one for labels.");
}

}  // namespace hone::models
