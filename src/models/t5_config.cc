// T5's config.json: families differ in defaults, and in when a head is tied and scaled.
#include "models/t5_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "models/hf_values.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

bool is_old(const T5Config& c) { return c.model_type == "t5"; }

void read_mlp(const T5Config& c, T5Shape& s, Problems& problems) {
  const std::string given = c.feed_forward_proj.value_or(is_old(c) ? "relu" : "gated-gelu");
  s.gated = given.starts_with("gated-");
  std::string name = s.gated ? given.substr(6) : given;
  if (given == "gated-gelu") name = "gelu_new";
  s.activation = nn::read_activation(name, "feed_forward_proj", problems);
  s.activation_name = name;
  problems.require(!c.dense_act_fn || *c.dense_act_fn == name, "dense_act_fn",
                   fmt::format("got {}, but feed_forward_proj says {}", c.dense_act_fn.value_or(""), name));
  problems.require(!c.is_gated_act || *c.is_gated_act == s.gated, "is_gated_act",
                   fmt::format("got {}, but feed_forward_proj is {}", c.is_gated_act.value_or(false), given));
}

// What a tied head reads is scaled, but of mt5, and where transformers 5 has tied one that was not: it then writes so,
// and whether files have a head of their own is looked at before (build_model).
void read_t5_head(const T5Config& c, T5Shape& s, Problems& problems) {
  const bool scales = c.model_type != "mt5";
  problems.require(scales || !c.scale_decoder_outputs, "scale_decoder_outputs", "not of mt5, which never scales them");
  s.tied = c.tie_word_embeddings.value_or(scales);
  s.scaled = scales && c.scale_decoder_outputs.value_or(s.tied);
}

T5Shape resolve(const T5Config& c, Problems& problems) {
  T5Shape s;
  s.vocab = c.vocab_size.value_or(is_old(c) ? 32128 : 250112);
  s.hidden = c.d_model;
  s.inner = c.d_ff.value_or(is_old(c) ? 2048 : 1024);
  s.heads = c.num_heads.value_or(is_old(c) ? 8 : 6);
  s.head_size = c.d_kv;
  s.encoder_layers = c.num_layers.value_or(is_old(c) ? 6 : 8);
  s.decoder_layers = c.num_decoder_layers.value_or(s.encoder_layers);
  s.buckets = c.relative_attention_num_buckets, s.most_distance = c.relative_attention_max_distance;
  s.bias_in_each_layer = c.model_type == "umt5";
  s.dropout = c.dropout_rate, s.eps = c.layer_norm_epsilon, s.factor = c.initializer_factor;
  const std::int64_t start = c.decoder_start_token_id.value_or(c.pad_token_id.value_or(0));
  s.start = static_cast<std::int32_t>(start);
  problems.require(start < s.vocab, "decoder_start_token_id",
                   fmt::format("got {}, expected less than vocab_size ({})", start, s.vocab));
  problems.require(s.buckets % 2 == 0, "relative_attention_num_buckets",
                   fmt::format("got {}, expected an even number", s.buckets));
  problems.require(s.most_distance > s.buckets / 2, "relative_attention_max_distance",
                   fmt::format("got {}, expected more than half of relative_attention_num_buckets ({})",
                               s.most_distance, s.buckets));
  read_mlp(c, s, problems);
  read_t5_head(c, s, problems);
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  const double attention = 4 * d(s.hidden) * d(s.heads) * d(s.head_size), mlp = 3 * d(s.hidden) * d(s.inner);
  check_parameters(2 * d(s.vocab) * d(s.hidden) + d(s.encoder_layers) * (attention + mlp) +
                       d(s.decoder_layers) * (2 * attention + mlp),
                   "num_layers", problems);
  return s;
}

const char* class_of(const T5Config& c) {
  return c.model_type == "t5"    ? "T5ForConditionalGeneration"
         : c.model_type == "mt5" ? "MT5ForConditionalGeneration"
                                 : "UMT5ForConditionalGeneration";
}

}  // namespace

void T5Config::validate(Problems& problems) const { resolve(*this, problems); }

T5Shape resolve(const T5Config& c) {
  Problems problems;
  T5Shape s = resolve(c, problems);
  problems.raise("the model's configuration");
  return s;
}

Node to_hf_config(const T5Config& c, const T5Shape& s, const std::string& dtype) {
  Node node = Node::map();
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  const auto number = [&](const char* key, std::int64_t value) {
    put(key, config::Values<std::int64_t>::write(value));
  };
  const auto flag = [&](const char* key, bool value) { put(key, config::Values<bool>::write(value)); };
  put("architectures", Node::list({hf_text(class_of(c))}));
  if (c.model_type == "mt5" || !c.bos_token_id.node.is_null()) put("bos_token_id", c.bos_token_id.node);
  put("classifier_dropout", nn::hf_float(c.classifier_dropout));
  number("d_ff", s.inner);
  number("d_kv", s.head_size);
  number("d_model", s.hidden);
  number("decoder_start_token_id", s.start);
  put("dense_act_fn", hf_text(s.activation_name));
  put("dropout_rate", nn::hf_float(s.dropout));
  if (!dtype.empty()) put("dtype", hf_text(dtype));
  put("eos_token_id", c.eos_token_id.node);
  put("feed_forward_proj", hf_text(c.feed_forward_proj.value_or(is_old(c) ? "relu" : "gated-gelu")));
  put("initializer_factor", nn::hf_float(s.factor));
  flag("is_decoder", false);
  flag("is_encoder_decoder", true);
  flag("is_gated_act", s.gated);
  put("layer_norm_epsilon", nn::hf_float(s.eps));
  put("model_type", hf_text(c.model_type));
  if (c.n_positions) number("n_positions", *c.n_positions);
  number("num_decoder_layers", s.decoder_layers);
  number("num_heads", s.heads);
  number("num_layers", s.encoder_layers);
  number("pad_token_id", c.pad_token_id.value_or(0));
  number("relative_attention_max_distance", s.most_distance);
  number("relative_attention_num_buckets", s.buckets);
  if (c.model_type != "mt5") flag("scale_decoder_outputs", s.scaled);
  flag("tie_word_embeddings", s.tied);
  flag("use_cache", true);
  number("vocab_size", s.vocab);
  return node;
}

}  // namespace hone::models
