// GPT-J (Wang and Komatsuzaki, 2021) and CodeGen (Nijkamp et al., 2022, arXiv:2203.13474): attention and an MLP without
// a gate read the same norm, and a part of each head is rotated, in neighbours.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/classic.h"

namespace hone::models {
namespace {

struct GptJConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "gptj", activation_function = "gelu_new";
  std::int64_t vocab_size = 50400, n_positions = 2048, n_embd = 4096, n_layer = 28, n_head = 16, rotary_dim = 64;
  std::optional<std::int64_t> n_inner, n_ctx;
  config::Open pad_token_id, bos_token_id{config::Node::scalar("50256")}, eos_token_id{config::Node::scalar("50256")};
  double resid_pdrop = 0, embd_pdrop = 0, attn_pdrop = 0, layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  bool tie_word_embeddings = false, rotary = true, scale_attn_weights = true;

  static constexpr auto fields() {
    using C = GptJConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "gptj or codegen."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("n_positions", &C::n_positions, "Longest sequence the model is meant for.", size),
            field("n_ctx", &C::n_ctx, "What CodeGen's folders say besides n_positions; no effect."),
            field("n_embd", &C::n_embd, "Width of the residual stream.", size),
            field("n_layer", &C::n_layer, "Transformer blocks.", {.low = 1, .high = 10000}),
            field("n_head", &C::n_head, "Attention heads.", {.low = 1, .high = 65536}),
            field("rotary_dim", &C::rotary_dim, "Values of a head that are rotated, from its first one on.",
                  {.low = 2, .high = 65536}),
            field("rotary", &C::rotary, "Must be true."),
            field("n_inner", &C::n_inner, "Width inside the MLP; default: 4 n_embd.", size),
            field("activation_function", &C::activation_function, "Activation of the MLP, by Hugging Face's name."),
            field("resid_pdrop", &C::resid_pdrop, "Share that training drops of what attention and MLP add.", share),
            field("embd_pdrop", &C::embd_pdrop, "Share that training drops of the embeddings.", share),
            field("attn_pdrop", &C::attn_pdrop, "Share that training drops of the attention's weights.", share),
            field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the variance in LayerNorm.", at_least(0)),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
            field("scale_attn_weights", &C::scale_attn_weights, "Must be true."),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id, "Padding; kept for others.")});
  }
  void validate(Problems& problems) const;
};

bool is_codegen(const GptJConfig& c) { return c.model_type == "codegen"; }

ClassicShape resolve(const GptJConfig& c, Problems& problems) {
  ClassicShape s;
  s.model_type = c.model_type, s.architecture = is_codegen(c) ? "CodeGenForCausalLM" : "GPTJForCausalLM";
  read_sizes({.vocab = c.vocab_size,
              .hidden = c.n_embd,
              .inner = c.n_inner.value_or(4 * c.n_embd),
              .layers = c.n_layer,
              .heads = c.n_head,
              .max_positions = c.n_positions,
              .width_key = "n_embd",
              .heads_key = "n_head"},
             s, problems);
  read_activation(c.activation_function, "activation_function", s, problems);
  rotate_neighbours(c.rotary_dim, "rotary_dim", s, problems);
  require_flag(c.rotary, true, "rotary", problems);
  require_flag(c.scale_attn_weights, true, "scale_attn_weights", problems);
  s.tied = c.tie_word_embeddings, s.std = c.initializer_range, s.eps = c.layer_norm_epsilon;
  s.mlp_bias = s.head_bias = true;
  s.residual_dropout = c.resid_pdrop, s.attention_dropout = c.attn_pdrop, s.embedding_dropout = c.embd_pdrop;
  s.body = "transformer", s.table = "wte", s.stack = "h", s.last_norm = "ln_f", s.output = "out_proj";
  s.labels_of_words_exist = false, s.labels_of_texts_exist = !is_codegen(c);
  if (is_codegen(c)) {
    s.qkv_form = QkvForm::in_quarters, s.qkv = "qkv_proj";
    problems.require(c.n_head % 4 == 0, "n_head", fmt::format("got {}, expected a multiple of 4", c.n_head));
  }
  read_head(c, s, problems);
  return s;
}

void GptJConfig::validate(Problems& problems) const { resolve(*this, problems); }

class GptJBlock final : public nn::ResidualBlock {
 public:
  GptJBlock(const ClassicShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attn(child<ClassicAttention>("attn", s, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    const Tensor normed_1ND = ln_1(x);
    x += nn::dropout(attn(normed_1ND, pass), s.residual_dropout, pass, "attention");
    x += nn::dropout(mlp(normed_1ND, pass), s.residual_dropout, pass, "mlp");
  }

 private:
  const ClassicShape& s;
  nn::LayerNorm& ln_1 = child<nn::LayerNorm>("ln_1", s.hidden, s.eps);
  ClassicAttention& attn;
  PlainMlp& mlp = child<PlainMlp>("mlp", s.mlp_options("fc_in", "fc_out"));
};

class GptJ final : public ClassicModel<GptJBlock> {
 public:
  GptJ(const GptJConfig& config, const HeadRequest& head) : ClassicModel(classic_shape_of(config, head)), c(config) {}

  config::Node hf_config() const override {
    config::Node node = written(c, s, dtype(), {"n_inner"});
    drop_keys(node, {"rotary", "scale_attn_weights"});
    if (is_codegen(c))
      node.at_or_add("n_ctx") = config::Values<std::int64_t>::write(c.n_ctx.value_or(2048));
    else if (!c.n_ctx)
      drop_keys(node, {"n_ctx"});
    if (is_codegen(c) && c.pad_token_id.node.is_null()) drop_keys(node, {"pad_token_id"});
    sort_keys(node);
    return node;
  }
  // Masks that old versions saved.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with(".attn.bias") || tensor.ends_with(".attn.masked_bias") ||
           tensor.ends_with(".attn.causal_mask");
  }

 private:
  GptJConfig c;
};

}  // namespace

void register_gptj(Registries& hone) {
  hone.models.add<GptJ, GptJConfig>({"gptj", "codegen"}, "GPT-J and CodeGen: attention and MLP read the same norm.");
}

}  // namespace hone::models
