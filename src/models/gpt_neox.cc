// GPT-NeoX with its language-model head (Black et al., 2022, arXiv:2204.06745), as Pythia's models: Hugging Face's
// GPTNeoXForCausalLM; or with one for labels of texts or of tokens.
//
// Letters in tensor names: B batch, T time, D hidden, N tokens, H heads, K head size.
#include <ATen/ATen.h>

#include <fmt/format.h>

#include <cmath>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/decoder_head.h"
#include "models/llama_attention.h"
#include "models/sort_keys.h"
#include "tensor/dtype.h"

namespace hone::models {
namespace {

using config::Node;

struct GptNeoXConfig : LabelKeys {
  using Base = LabelKeys;
  std::string model_type = "gpt_neox", hidden_act = "gelu";
  std::int64_t vocab_size = 50432, hidden_size = 6144, num_hidden_layers = 44, num_attention_heads = 64,
               intermediate_size = 24576, max_position_embeddings = 2048;
  double attention_dropout = 0, hidden_dropout = 0, classifier_dropout = 0.1, initializer_range = 0.02,
         layer_norm_eps = 1e-5;
  bool tie_word_embeddings = false, use_parallel_residual = true, attention_bias = true;
  config::Open rope_parameters, rope_scaling;
  std::optional<double> rotary_emb_base, rotary_pct;
  config::Open bos_token_id{Node::scalar("0")}, eos_token_id{Node::scalar("2")}, pad_token_id;

  static constexpr auto fields() {
    using C = GptNeoXConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    return std::tuple_cat(LabelKeys::fields(), std::tuple{
        field("model_type", &C::model_type, "gpt_neox."),
        field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
        field("hidden_size", &C::hidden_size, "Width of the residual stream.", size),
        field("num_hidden_layers", &C::num_hidden_layers, "Transformer blocks.", {.low = 1, .high = 10000}),
        field("num_attention_heads", &C::num_attention_heads, "Attention heads.", {.low = 1, .high = 65536}),
        field("intermediate_size", &C::intermediate_size, "Width inside the MLP.", size),
        field("hidden_act", &C::hidden_act, "Activation of the MLP, by Hugging Face's name."),
        field("attention_dropout", &C::attention_dropout, "Share that training drops of the attention's weights.",
              share),
        field("hidden_dropout", &C::hidden_dropout,
              "Share that training drops of the embeddings, and of what attention and MLP add.", share),
        field("classifier_dropout", &C::classifier_dropout,
              "Share that training drops of what a head for labels of tokens reads.", share),
        field("max_position_embeddings", &C::max_position_embeddings, "Longest sequence the model is meant for.", size),
        field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
        field("layer_norm_eps", &C::layer_norm_eps, "Added to the variance in LayerNorm.", at_least(0)),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
        field("use_parallel_residual", &C::use_parallel_residual,
              "Attention and MLP read the same, and are added at once; false: one behind the other."),
        field("attention_bias", &C::attention_bias, "Biases in the attention's projections."),
        field("rope_parameters", &C::rope_parameters, "Rotary position embedding, transformers 5's form."),
        field("rope_scaling", &C::rope_scaling, "The same in transformers 4's form."),
        field("rotary_emb_base", &C::rotary_emb_base, "Base of the rotary frequencies; default 10000.",
              {.low = 1, .high = 1e15}),
        field("rotary_pct", &C::rotary_pct, "Share of a head that is rotated; default 0.25."),
        field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
        field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
        field("pad_token_id", &C::pad_token_id, "Padding; kept for others.")});
  }
  void validate(Problems& problems) const;
};

// Of Llama's shape what attention reads.
LlamaShape resolve(const GptNeoXConfig& c, Problems& problems) {
  LlamaShape s;
  s.hidden = c.hidden_size, s.heads = s.kv_heads = c.num_attention_heads;
  problems.require(s.hidden % s.heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads ({})", s.hidden, s.heads));
  s.head_size = s.hidden / s.heads;
  problems.require(s.head_size > 0 && s.head_size % 2 == 0, "hidden_size",
                   fmt::format("got {}, of which a head has {}; expected an even number", s.hidden, s.head_size));
  s.max_positions = c.max_position_embeddings;
  s.attention_scale = 1 / std::sqrt(static_cast<double>(s.head_size));
  s.attention_dropout = c.attention_dropout;
  s.windows.assign(static_cast<std::size_t>(std::min<std::int64_t>(c.num_hidden_layers, 10000)), 0);
  nn::read_activation(c.hidden_act, "hidden_act", problems);
  const auto given = [](const config::Open& open) { return open.node.is_null() ? nullptr : &open.node; };
  s.rope = nn::read_rope({.parameters = given(c.rope_parameters),
                          .scaling = given(c.rope_scaling),
                          .theta = c.rotary_emb_base,
                          .partial_rotary_factor = c.rotary_pct.value_or(0.25),
                          .default_theta = 10000,
                          .may_be_partial = true,
                          .original_max_position_embeddings = {},
                          .head_size = s.head_size,
                          .max_positions = s.max_positions},
                         problems);
  const auto hidden = static_cast<double>(s.hidden), inner = static_cast<double>(c.intermediate_size);
  check_parameters(static_cast<double>(c.num_hidden_layers) * hidden * (4 * hidden + 2 * inner) +
                       (c.tie_word_embeddings ? 1 : 2) * static_cast<double>(c.vocab_size) * hidden,
                   "hidden_size", problems);
  return s;
}

void GptNeoXConfig::validate(Problems& problems) const { resolve(*this, problems); }

LlamaShape shape_of(const GptNeoXConfig& config) {
  Problems problems;
  return resolve(config, problems);  // which validate() has done before: there are none
}

class GptNeoXAttention final : public Module {
 public:
  GptNeoXAttention(const GptNeoXConfig& config, const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : c(config), s(shape), attend_(shape, ropes, layer) {}
  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    const auto qkv_NHK = query_key_value(x_1ND, pass).view({-1, s.heads, 3 * s.head_size}).chunk(3, -1);
    return dense(attend_(qkv_NHK[0], qkv_NHK[1], qkv_NHK[2], pass).flatten(1).unsqueeze(0), pass);
  }

 private:
  nn::Linear& projection(const char* name, std::int64_t out) {
    return child<nn::Linear>(name, s.hidden, out,
                             nn::Linear::Options{.bias = c.attention_bias, .std = c.initializer_range});
  }
  const GptNeoXConfig& c;
  const LlamaShape& s;
  LayerAttention attend_;
  nn::Linear &query_key_value = projection("query_key_value", 3 * s.hidden), &dense = projection("dense", s.hidden);
};

class GptNeoXBlock final : public nn::ResidualBlock {
 public:
  GptNeoXBlock(const GptNeoXConfig& config, const LlamaShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : c(config), attention(child<GptNeoXAttention>("attention", config, shape, ropes, layer)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    const Tensor attended = nn::dropout(attention(input_layernorm(x), pass), c.hidden_dropout, pass, "attention");
    if (!c.use_parallel_residual) x += attended;
    const Tensor inner = nn::activate(dense_h_to_4h(post_attention_layernorm(x), pass), activation);
    const Tensor made = nn::dropout(dense_4h_to_h(inner, pass), c.hidden_dropout, pass, "mlp");
    x += c.use_parallel_residual ? made + attended : made;
  }

 private:
  const GptNeoXConfig& c;
  const ops::Activation activation = nn::read_activation(c.hidden_act);
  const nn::Linear::Options options{.bias = true, .std = c.initializer_range};
  nn::LayerNorm& input_layernorm = child<nn::LayerNorm>("input_layernorm", c.hidden_size, c.layer_norm_eps);
  nn::LayerNorm& post_attention_layernorm =
      child<nn::LayerNorm>("post_attention_layernorm", c.hidden_size, c.layer_norm_eps);
  GptNeoXAttention& attention;
  nn::Linear& dense_h_to_4h = child<nn::Linear>("mlp.dense_h_to_4h", c.hidden_size, c.intermediate_size, options);
  nn::Linear& dense_4h_to_h = child<nn::Linear>("mlp.dense_4h_to_h", c.intermediate_size, c.hidden_size, options);
};

class GptNeoX final : public DecoderWithHead {
 public:
  using Config = GptNeoXConfig;
  GptNeoX(const Config& config, const HeadRequest& head)
      : DecoderWithHead(config, head), c(config), s(shape_of(config)), ropes_(s) {
    make_head({.lm_head = "embed_out",
               .hidden = c.hidden_size,
               .vocab = c.vocab_size,
               .std = c.initializer_range,
               .tied = c.tie_word_embeddings ? &embed_in.weight : nullptr,
               .classifier_dropout = c.classifier_dropout});
  }

  Tensor embed(const Batch& batch, Pass& pass) const override {
    const Tensor words_BTD = nn::embedding_noise(embed_in(batch.ids_BT, pass), pass);
    return nn::dropout_embedded(words_BTD, c.hidden_dropout, pass, "embeddings");
  }
  std::vector<const Block*> blocks() const override { return {layers.blocks().begin(), layers.blocks().end()}; }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return final_layer_norm(x_1ND); }
  std::int64_t vocab_size() const override { return c.vocab_size; }
  std::int64_t max_positions() const override { return c.max_position_embeddings; }
  bool shares_prefixes() const override { return !ropes_.depend_on_length(); }
  bool takes_context() const override { return true; }
  std::vector<AttentionLayer> attention() const override {
    return std::vector<AttentionLayer>(layers.blocks().size(), {s.heads, s.head_size});
  }
  CacheSpec cache_spec() const override {
    return {std::vector<CacheSpec::Layer>(layers.blocks().size(), {s.heads, s.head_size})};
  }

  Node hf_config() const override {
    Node node = config::write(c);
    std::erase_if(node.entries(), [](const Node::Entry& entry) {
      return entry.first == "rope_scaling" || entry.first == "rotary_emb_base" || entry.first == "rotary_pct";
    });
    node.at_or_add("pad_token_id") = c.pad_token_id.node;
    const HeadLabels& labels = head_labels();
    const std::string name = std::string("GPTNeoX") + (labels.empty() ? "ForCausalLM" : labels.class_end());
    node.at_or_add("architectures") = Node::list({Node::scalar(name, /*quoted=*/true)});
    write_labels(labels, c, node);
    Node& rope = node.at_or_add("rope_parameters");
    rope = nn::write_rope(s.rope);
    rope.at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    sort_keys(rope);
    if (embed_in.weight.filled())
      node.at_or_add("dtype") = Node::scalar(hf_name(embed_in.weight.use().scalar_type()), /*quoted=*/true);
    node.at_or_add("use_cache") = config::Values<bool>::write(true);
    node.at_or_add("is_decoder") = config::Values<bool>::write(false);
    sort_keys(node);
    return node;
  }

  std::string base_prefix() const override { return "gpt_neox."; }
  // Masks that old versions saved.
  bool is_no_weight(const std::string& tensor) const override {
    return tensor.ends_with(".attention.bias") || tensor.ends_with(".attention.masked_bias");
  }

 private:
  Config c;
  LlamaShape s;
  LlamaRopes ropes_;
  nn::Embedding& embed_in = child<nn::Embedding>("gpt_neox.embed_in", c.vocab_size, c.hidden_size, c.initializer_range);
  nn::Stack<GptNeoXBlock>& layers =
      child<nn::Stack<GptNeoXBlock>>("gpt_neox.layers", c.num_hidden_layers, c, s, ropes_);
  nn::LayerNorm& final_layer_norm = child<nn::LayerNorm>("gpt_neox.final_layer_norm", c.hidden_size, c.layer_norm_eps);
};

}  // namespace

void register_gpt_neox(Registries& hone) {
  hone.models.add<GptNeoX>("gpt_neox", "GPT-NeoX with its language-model head, as Pythia, or with one for labels.");
}

}  // namespace hone::models
