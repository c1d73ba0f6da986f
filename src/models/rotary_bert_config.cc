// From config.json of BERTs with rotary positions to what it means.
#include "models/rotary_bert_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"

namespace hone::models {
namespace {

template <class Usual>
RotaryShape read_rotary(const RotaryKeys<Usual>& c, std::optional<std::int64_t> head_dim, Problems& problems) {
  RotaryShape s;
  read_shape(c, s, problems, /*squares=*/4);
  if (head_dim) s.head_size = *head_dim;
  const bool even = s.head_size > 0 && s.head_size % 2 == 0;
  problems.require(even, head_dim ? "head_dim" : "hidden_size",
                   fmt::format("got a head of {}, expected an even number", s.head_size));
  s.vocab = c.vocab_size, s.hidden = c.hidden_size, s.inner = c.intermediate_size, s.layers = c.num_hidden_layers;
  s.types = c.type_vocab_size, s.max_positions = c.max_position_embeddings;
  s.dropout = c.hidden_dropout_prob, s.attention_dropout = c.attention_probs_dropout_prob;
  s.eps = c.layer_norm_eps, s.std = c.initializer_range;
  s.classifier_dropout = c.classifier_dropout.value_or(c.hidden_dropout_prob);
  const auto given = [](const config::Open& open) { return open.node.is_null() ? nullptr : &open.node; };
  if (even)
    s.rope = nn::read_rope({.parameters = given(c.rope_parameters),
                            .scaling = given(c.rope_scaling),
                            .theta = c.rope_theta,
                            .partial_rotary_factor = {},
                            .default_theta = Usual::kTheta,
                            .original_max_position_embeddings = {},
                            .head_size = s.head_size,
                            .max_positions = c.max_position_embeddings},
                           problems);
  return s;
}

RotaryShape read(const NomicConfig& c, Problems& problems) {
  RotaryShape s = read_rotary(c, c.head_dim, problems);
  s.mlp = RotaryMlpForm::gated;
  return s;
}
RotaryShape read(const GteConfig& c, Problems& problems) {
  RotaryShape s = read_rotary(c, {}, problems);
  s.attention_bias = true, s.mlp = RotaryMlpForm::gated_and_dropped;
  return s;
}
RotaryShape read(const JinaConfig& c, Problems& problems) {
  RotaryShape s = read_rotary(c, {}, problems);
  s.attention_bias = true, s.mlp = RotaryMlpForm::plain;
  return s;
}

// transformers has no such class of these, which nobody could open.
void refuse_answers(const RotaryShape& s, const std::string& model_type, Problems& problems) {
  problems.require(!s.labels.of_answers, "model_type",
                   fmt::format("transformers has no model of type {} that answers questions", model_type));
}

template <class C>
RotaryShape asked(const C& c, const HeadRequest& head, bool answers) {
  Problems problems;
  RotaryShape s = read(c, problems);
  ask_for(head, c.tie_word_embeddings, s, problems);
  if (!answers) refuse_answers(s, c.model_type, problems);
  problems.raise("the model's configuration");
  return s;
}

}  // namespace

void NomicConfig::validate(Problems& problems) const { read(*this, problems); }
void GteConfig::validate(Problems& problems) const { read(*this, problems); }
void JinaConfig::validate(Problems& problems) const { read(*this, problems); }

RotaryShape resolve(const NomicConfig& c, const HeadRequest& head) { return asked(c, head, /*answers=*/false); }
RotaryShape resolve(const GteConfig& c, const HeadRequest& head) { return asked(c, head, /*answers=*/false); }
RotaryShape resolve(const JinaConfig& c, const HeadRequest& head) { return asked(c, head, /*answers=*/true); }

}  // namespace hone::models
