// MPT (MosaicML, 2023): scores fall with the distance, nothing has a bias, and all queries, all keys and all values are
// one weight.
#include <fmt/format.h>

#include <cmath>

#include "hone/registry.h"
#include "models/classic.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

// attn_config.
struct MptAttentionConfig {
  std::string attn_type = "multihead_attention", attn_impl = "torch", model_type;
  double attn_pdrop = 0;
  std::optional<double> clip_qkv, softmax_scale;
  std::int64_t alibi_bias_max = 8;
  bool alibi = true, qk_ln = false, prefix_lm = false, attn_uses_sequence_id = false;

  static constexpr auto fields() {
    using C = MptAttentionConfig;
    return std::tuple{
        field("attn_type", &C::attn_type, "Only multihead_attention."),
        field("attn_impl", &C::attn_impl, "No effect."),
        field("model_type", &C::model_type, "No effect."),
        field("attn_pdrop", &C::attn_pdrop,
              "Share that training drops of the attention's weights, and of what attention and MLP add.",
              {.low = 0, .high = 0.999}),
        field("clip_qkv", &C::clip_qkv, "Queries, keys and values are cut to at most that much.", at_least(0)),
        field("softmax_scale", &C::softmax_scale, "What scores are multiplied by; default: 1 / sqrt(size of a head).",
              {.low = 1e-9, .high = 1e9}),
        field("alibi_bias_max", &C::alibi_bias_max, "Must be 8."),
        field("alibi", &C::alibi, "Must be true."),
        field("qk_ln", &C::qk_ln, "Must be false."),
        field("prefix_lm", &C::prefix_lm, "Must be false."),
        field("attn_uses_sequence_id", &C::attn_uses_sequence_id, "Must be false.")};
  }
};

struct MptConfig : ClassicKeys {
  using Base = ClassicKeys;
  std::string model_type = "mpt", norm_type = "low_precision_layernorm", init_device = "cpu";
  std::int64_t vocab_size = 50368, max_seq_len = 2048;
  std::optional<std::int64_t> d_model, hidden_size, n_layers, num_hidden_layers, n_heads, num_attention_heads;
  std::int64_t expansion_ratio = 4;
  double resid_pdrop = 0, emb_pdrop = 0, layer_norm_epsilon = 1e-5, initializer_range = 0.02,
         embedding_fraction = 1;
  std::optional<double> classifier_dropout, hidden_dropout;
  bool no_bias = true, learned_pos_emb = true, tie_word_embeddings = true;
  std::optional<bool> use_pad_tok_in_ffn;
  std::optional<std::int64_t> verbose;
  std::optional<std::string> tokenizer_name;
  config::Open attn_config, init_config, logit_scale, ffn_config, fc_type, pad_token_id, bos_token_id, eos_token_id;

  static constexpr auto fields() {
    using C = MptConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647}, share{.low = 0, .high = 0.999};
    constexpr const char* nothing = "Has no effect, in transformers as here.";
    return std::tuple_cat(
        ClassicKeys::fields(),
        std::tuple{
            field("model_type", &C::model_type, "mpt."),
            field("vocab_size", &C::vocab_size, "Rows of the embedding table.", size),
            field("d_model", &C::d_model, "Width of the residual stream; default 2048.", size),
            field("hidden_size", &C::hidden_size, "The same by another name.", size),
            field("n_layers", &C::n_layers, "Transformer blocks; default 24.", {.low = 1, .high = 10000}),
            field("num_hidden_layers", &C::num_hidden_layers, "The same by another name.", {.low = 1, .high = 10000}),
            field("n_heads", &C::n_heads, "Attention heads; default 16.", {.low = 1, .high = 65536}),
            field("num_attention_heads", &C::num_attention_heads, "The same by another name.",
                  {.low = 1, .high = 65536}),
            field("max_seq_len", &C::max_seq_len, "Longest sequence the model is meant for.", size),
            field("attn_config", &C::attn_config,
                  "Of attention: attn_pdrop, clip_qkv, softmax_scale."),
            field("expansion_ratio", &C::expansion_ratio, "Must be 4."),
            field("no_bias", &C::no_bias, "Must be true."),
            field("logit_scale", &C::logit_scale, "Must be null."),
            field("embedding_fraction", &C::embedding_fraction, "Must be 1."),
            field("layer_norm_epsilon", &C::layer_norm_epsilon, "Added to the variance in LayerNorm.", at_least(0)),
            field("initializer_range", &C::initializer_range, "Standard deviation of fresh weights.", at_least(0)),
            field("classifier_dropout", &C::classifier_dropout,
                  "Share that training drops of what a head for labels of tokens reads; default: hidden_dropout, or "
                  "0.1.", share),
            field("hidden_dropout", &C::hidden_dropout, "Only as the default of classifier_dropout.", share),
            field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight."),
            field("bos_token_id", &C::bos_token_id, "First token of a text; kept for others."),
            field("eos_token_id", &C::eos_token_id, "Last token of a text, or a list; kept for others."),
            field("pad_token_id", &C::pad_token_id, "Padding; kept for others."),
            field("norm_type", &C::norm_type, nothing), field("init_device", &C::init_device, nothing),
            field("resid_pdrop", &C::resid_pdrop, nothing), field("emb_pdrop", &C::emb_pdrop, nothing),
            field("learned_pos_emb", &C::learned_pos_emb, nothing), field("init_config", &C::init_config, nothing),
            field("ffn_config", &C::ffn_config, nothing), field("fc_type", &C::fc_type, nothing),
            field("use_pad_tok_in_ffn", &C::use_pad_tok_in_ffn, nothing), field("verbose", &C::verbose, nothing),
            field("tokenizer_name", &C::tokenizer_name, nothing)});
  }
  void validate(Problems& problems) const;
};

void require_what_there_is(const MptConfig& c, const MptAttentionConfig& a, Problems& problems) {
  require_flag(c.no_bias, true, "no_bias", problems);
  problems.require(c.expansion_ratio == 4, "expansion_ratio",
                   fmt::format("got {}, expected 4, as transformers has it", c.expansion_ratio));
  problems.require(c.embedding_fraction == 1, "embedding_fraction",
                   fmt::format("got {}, expected 1, as transformers has it", c.embedding_fraction));
  problems.require(c.logit_scale.node.is_null(), "logit_scale", "got a number, expected null, as transformers has it");
  problems.require(a.attn_type == "multihead_attention", "attn_config.attn_type",
                   fmt::format("got \"{}\", expected multihead_attention", a.attn_type));
  problems.require(a.alibi_bias_max == 8, "attn_config.alibi_bias_max",
                   fmt::format("got {}, expected 8, as transformers has it", a.alibi_bias_max));
  require_flag(a.alibi, true, "attn_config.alibi", problems);
  require_flag(a.qk_ln, false, "attn_config.qk_ln", problems);
  require_flag(a.prefix_lm, false, "attn_config.prefix_lm", problems);
  require_flag(a.attn_uses_sequence_id, false, "attn_config.attn_uses_sequence_id", problems);
}

ClassicShape resolve(const MptConfig& c, Problems& problems) {
  ClassicShape s;
  s.model_type = "mpt", s.architecture = "MptForCausalLM";
  const std::int64_t hidden = one_of("d_model", c.d_model, "hidden_size", c.hidden_size, 2048, problems);
  read_sizes({.vocab = c.vocab_size,
              .hidden = hidden,
              .inner = 4 * hidden,
              .layers = one_of("n_layers", c.n_layers, "num_hidden_layers", c.num_hidden_layers, 24, problems),
              .heads = one_of("n_heads", c.n_heads, "num_attention_heads", c.num_attention_heads, 16, problems),
              .max_positions = c.max_seq_len,
              .width_key = "d_model",
              .heads_key = "n_heads"},
             s, problems);
  MptAttentionConfig a;
  read_section(c.attn_config, "attn_config", a, problems);
  require_what_there_is(c, a, problems);
  leave_unrotated(s);
  s.slopes = nn::alibi_slopes(s.heads);
  if (a.softmax_scale) s.attention_scale = *a.softmax_scale;
  s.clip = a.clip_qkv.value_or(0);
  s.activation = ops::Activation::gelu;
  s.tied = c.tie_word_embeddings, s.std = c.initializer_range, s.eps = c.layer_norm_epsilon;
  s.norm_bias = false;
  s.residual_dropout = s.attention_dropout = a.attn_pdrop;
  s.classifier_dropout = c.classifier_dropout ? *c.classifier_dropout : c.hidden_dropout.value_or(0.1);
  s.body = "transformer", s.table = "wte", s.stack = "blocks", s.last_norm = "norm_f", s.output = "out_proj";
  s.qkv = "Wqkv", s.qkv_form = QkvForm::by_parts, s.token_classifier = "classifier";
  read_head(c, s, problems);
  return s;
}

void MptConfig::validate(Problems& problems) const { resolve(*this, problems); }

constexpr SerialNames kMptNames{"norm_1", "attn", "norm_2", "ffn", "up_proj", "down_proj"};

class Mpt final : public ClassicModel<SerialBlock<kMptNames>> {
 public:
  Mpt(const MptConfig& config, const HeadRequest& head) : ClassicModel(classic_shape_of(config, head)), c(config) {}

  Node hf_config() const override {
    Node node = written(c, s, dtype(), {"logit_scale"});
    const auto put = [&](const char* key, std::int64_t value) {
      node.at_or_add(key) = config::Values<std::int64_t>::write(value);
    };
    put("d_model", s.hidden), put("n_layers", s.layers), put("n_heads", s.heads), put("expansion_ratio", 4);
    node.at_or_add("use_cache") = config::Values<bool>::write(false);
    node.at_or_add("attn_config") = written_attention();
    drop_keys(node, {"hidden_size", "num_hidden_layers", "num_attention_heads", "init_config", "ffn_config", "fc_type",
                     "use_pad_tok_in_ffn", "verbose", "tokenizer_name"});
    if (!c.hidden_dropout) drop_keys(node, {"hidden_dropout"});
    return node;
  }

 private:
  // As a configuration of its own, which transformers takes it for.
  Node written_attention() const {
    MptAttentionConfig a;
    Problems problems;
    read_section(c.attn_config, "attn_config", a, problems);
    Node node = config::write(a);
    // A whole number there, and a key that transformers is strict about.
    if (a.attn_pdrop == 0) node.at_or_add("attn_pdrop") = Node::scalar("0");
    if (c.attn_config.node.is_map())
      for (const auto& [key, value] : c.attn_config.node.entries())
        if (!node.find(key)) node.at_or_add(key) = value;
    sort_keys(node);
    return node;
  }
  MptConfig c;
};

}  // namespace

void register_mpt(Registries& hone) {
  hone.models.add<Mpt, MptConfig>("mpt", "MPT: scores fall with the distance of key and query (ALiBi), and no biases.");
}

}  // namespace hone::models
