// BART's config.json: families differ in defaults and in where norms stand.
#include "models/bart_config.h"

#include <fmt/format.h>

#include <cmath>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "models/hf_values.h"
#include "nn/rope.h"

namespace hone::models {
namespace {

using config::Node;

// Where the families differ.
struct BartFamily {
  const char *name, *class_name;
  std::int64_t vocab, pad, bos, eos;  // -1: there is none
  enum class Start { eos, padding, given } start;
  bool norms_first, normed_embeddings, learned_positions;
};
using Start = BartFamily::Start;
constexpr BartFamily kBartFamilies[] = {
    {"bart", "BartForConditionalGeneration", 50265, 1, 0, 2, Start::eos, false, true, true},
    {"mbart", "MBartForConditionalGeneration", 50265, 1, 0, 2, Start::given, true, true, true},
    {"m2m_100", "M2M100ForConditionalGeneration", 128112, 1, 0, 2, Start::eos, true, false, false},
    {"pegasus", "PegasusForConditionalGeneration", 50265, 0, -1, 1, Start::padding, true, false, false},
    {"marian", "MarianMTModel", 58101, 58100, -1, 0, Start::padding, false, false, false}};

bool is_m2m(const BartConfig& c) { return c.model_type == "m2m_100"; }
std::string activation_of(const BartConfig& c) { return c.activation_function.value_or(is_m2m(c) ? "relu" : "gelu"); }
bool scales_embedding(const BartConfig& c) { return c.scale_embedding.value_or(is_m2m(c)); }

const BartFamily& family_of(const BartConfig& c) {
  for (const BartFamily& family : kBartFamilies)
    if (c.model_type == family.name) return family;
  return kBartFamilies[0];
}

void check_old_keys(const BartConfig& c, const BartFamily& family, Problems& problems) {
  const auto follows = [&](const std::optional<bool>& given, bool expected, const char* key) {
    problems.require(!given || *given == expected, key,
                     fmt::format("got {}, expected {} of {}", given.value_or(false), expected, family.name));
  };
  follows(c.normalize_before, family.norms_first, "normalize_before");
  follows(c.normalize_embedding, family.normed_embeddings, "normalize_embedding");
  follows(c.add_final_layer_norm, family.norms_first, "add_final_layer_norm");
  follows(c.static_position_embeddings, !family.learned_positions, "static_position_embeddings");
  problems.require(c.tie_word_embeddings, "tie_word_embeddings", "got false, expected true");
  problems.require(c.share_encoder_decoder_embeddings, "share_encoder_decoder_embeddings", "got false, expected true");
}

void check_bart_heads(const BartConfig& c, std::int64_t heads, const char* key, Problems& problems) {
  problems.require(c.d_model % heads == 0, key,
                   fmt::format("got {}, of which d_model ({}) is no multiple", heads, c.d_model));
}

std::int64_t eos_of(const BartConfig& c, const BartFamily& family) {
  const Node& given = c.eos_token_id.node;
  return given.kind() == Node::Kind::scalar ? parse_int(given.text()).value_or(family.eos) : family.eos;
}

BartShape resolve(const BartConfig& c, Problems& problems) {
  const BartFamily& family = family_of(c);
  BartShape s;
  s.vocab = c.vocab_size.value_or(family.vocab), s.hidden = c.d_model, s.positions = c.max_position_embeddings;
  const std::int64_t pad = c.pad_token_id.value_or(family.pad);
  const std::int64_t usual = family.start == Start::padding ? pad : eos_of(c, family);
  const std::int64_t start = c.decoder_start_token_id.value_or(usual);
  problems.require(c.decoder_start_token_id || family.start != Start::given, "decoder_start_token_id",
                   "missing; expected what a target is begun with: eos_token_id of mBART-50, the target's language of "
                   "those before it");
  s.no_gradient_id = pad, s.start = static_cast<std::int32_t>(start);
  problems.require(pad < s.vocab, "pad_token_id",
                   fmt::format("got {}, expected less than vocab_size ({})", pad, s.vocab));
  problems.require(start < s.vocab, "decoder_start_token_id",
                   fmt::format("got {}, expected less than vocab_size ({})", start, s.vocab));
  problems.require(c.decoder_vocab_size.value_or(s.vocab) == s.vocab, "decoder_vocab_size",
                   fmt::format("got {}, expected vocab_size ({})", c.decoder_vocab_size.value_or(0), s.vocab));
  s.encoder = {c.encoder_layers, c.encoder_attention_heads, c.encoder_ffn_dim};
  s.decoder = {c.decoder_layers, c.decoder_attention_heads, c.decoder_ffn_dim};
  check_bart_heads(c, s.encoder.heads, "encoder_attention_heads", problems);
  check_bart_heads(c, s.decoder.heads, "decoder_attention_heads", problems);
  s.activation = nn::read_activation(activation_of(c), "activation_function", problems);
  s.norms_first = family.norms_first, s.normed_embeddings = family.normed_embeddings;
  s.learned_positions = family.learned_positions;
  if (is_m2m(c)) s.first_wave = pad + 1, s.waves_end_sooner = true, s.biased_head = false;
  problems.require(!is_m2m(c) || s.hidden >= 4, "d_model", fmt::format("got {}, expected at least 4", s.hidden));
  s.embedding_scale = scales_embedding(c) ? std::sqrt(static_cast<double>(s.hidden)) : 1;
  s.dropout = c.dropout, s.attention_dropout = c.attention_dropout.value_or(is_m2m(c) ? 0.1 : 0);
  s.activation_dropout = c.activation_dropout;
  s.std = c.init_std;
  check_old_keys(c, family, problems);
  const auto d = [](std::int64_t value) { return static_cast<double>(value); };
  check_parameters(d(s.hidden) * (d(s.vocab) + 2 * d(s.positions) +
                                  d(s.encoder.layers) * (4 * d(s.hidden) + 2 * d(s.encoder.inner)) +
                                  d(s.decoder.layers) * (8 * d(s.hidden) + 2 * d(s.decoder.inner))),
                   "encoder_layers", problems);
  return s;
}

bool is_usual(const config::Open& given) {
  return given.node.kind() == Node::Kind::scalar && given.node.text() == "default";
}

Node id_or(const config::Open& given, std::int64_t usual) {
  if (!given.node.is_null()) return given.node;
  return usual < 0 ? Node() : config::Values<std::int64_t>::write(usual);
}

}  // namespace

void BartConfig::validate(Problems& problems) const { resolve(*this, problems); }

BartShape resolve(const BartConfig& c) {
  Problems problems;
  BartShape s = resolve(c, problems);
  problems.raise("the model's configuration");
  return s;
}

Node to_hf_config(const BartConfig& c, const BartShape& s, const std::string& dtype) {
  const BartFamily& family = family_of(c);
  Node node = Node::map();
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  const auto number = [&](const char* key, std::int64_t value) {
    put(key, config::Values<std::int64_t>::write(value));
  };
  const auto real = [&](const char* key, double value) { put(key, nn::hf_float(value)); };
  const auto flag = [&](const char* key, bool value) { put(key, config::Values<bool>::write(value)); };
  real("activation_dropout", s.activation_dropout);
  put("activation_function", hf_text(activation_of(c)));
  put("architectures", Node::list({hf_text(family.class_name)}));
  real("attention_dropout", s.attention_dropout);
  if (c.model_type != "pegasus") put("bos_token_id", id_or(c.bos_token_id, family.bos));
  if (c.model_type == "bart" || c.model_type == "mbart")
    real("classifier_dropout", c.classifier_dropout.value_or(0));
  number("d_model", s.hidden);
  number("decoder_attention_heads", s.decoder.heads);
  number("decoder_ffn_dim", s.decoder.inner);
  real("decoder_layerdrop", c.decoder_layerdrop);
  number("decoder_layers", s.decoder.layers);
  number("decoder_start_token_id", s.start);
  if (c.model_type == "marian") number("decoder_vocab_size", s.vocab);
  real("dropout", s.dropout);
  if (!dtype.empty()) put("dtype", hf_text(dtype));
  number("encoder_attention_heads", s.encoder.heads);
  number("encoder_ffn_dim", s.encoder.inner);
  real("encoder_layerdrop", c.encoder_layerdrop);
  number("encoder_layers", s.encoder.layers);
  put("eos_token_id", id_or(c.eos_token_id, family.eos));
  if (!c.forced_bos_token_id.node.is_null()) put("forced_bos_token_id", c.forced_bos_token_id.node);
  if (!is_m2m(c) || !is_usual(c.forced_eos_token_id))
    put("forced_eos_token_id", is_usual(c.forced_eos_token_id) ? id_or({}, family.eos) : c.forced_eos_token_id.node);
  real("init_std", s.std);
  if (!is_m2m(c)) flag("is_decoder", false);
  flag("is_encoder_decoder", true);
  number("max_position_embeddings", s.positions);
  put("model_type", hf_text(c.model_type));
  number("pad_token_id", s.no_gradient_id);
  flag("scale_embedding", scales_embedding(c));
  if (c.model_type == "marian") flag("share_encoder_decoder_embeddings", true);
  flag("tie_word_embeddings", true);
  flag("use_cache", true);
  number("vocab_size", s.vocab);
  return node;
}

}  // namespace hone::models
