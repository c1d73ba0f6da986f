// From config.json of EuroBERT to what it means.
#include "models/eurobert_config.h"

#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "nn/token_ids.h"

namespace hone::models {
namespace {

void read_heads(const EuroBertConfig& c, EuroBertShape& s, Problems& problems) {
  s.heads = c.num_attention_heads, s.kv_heads = c.num_key_value_heads.value_or(s.heads);
  problems.require(s.heads % s.kv_heads == 0, "num_key_value_heads",
                   fmt::format("got {}, expected a divisor of num_attention_heads, {}", s.kv_heads, s.heads));
  problems.require(c.head_dim || c.hidden_size % s.heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads", c.hidden_size));
  s.head_size = c.head_dim.value_or(c.hidden_size / s.heads);
  problems.require(s.head_size > 0 && s.head_size % 2 == 0, c.head_dim ? "head_dim" : "hidden_size",
                   fmt::format("got a head of {}, expected an even number", s.head_size));
}

EuroBertShape read_shape(const EuroBertConfig& c, Problems& problems) {
  EuroBertShape s;
  const std::size_t before = problems.size();
  read_heads(c, s, problems);
  if (problems.size() != before) return s;
  const auto hidden = static_cast<double>(c.hidden_size), inner = static_cast<double>(c.intermediate_size),
             heads = static_cast<double>(s.head_size) * static_cast<double>(2 * s.heads + 2 * s.kv_heads);
  check_parameters(static_cast<double>(c.num_hidden_layers) * hidden * (heads + 3 * inner) +
                       2 * static_cast<double>(c.vocab_size) * hidden,
                   "hidden_size", problems);
  problems.require(c.pretraining_tp == 1, "pretraining_tp", fmt::format("got {}, expected 1", c.pretraining_tp));
  s.activation = nn::read_activation(c.hidden_act, "hidden_act", problems);
  const auto given = [](const config::Open& open) { return open.node.is_null() ? nullptr : &open.node; };
  s.rope = nn::read_rope({.parameters = given(c.rope_parameters),
                          .scaling = given(c.rope_scaling),
                          .theta = c.rope_theta,
                          .partial_rotary_factor = {},
                          .default_theta = 10000,
                          .original_max_position_embeddings = {},
                          .head_size = s.head_size,
                          .max_positions = c.max_position_embeddings},
                         problems);
  const std::vector<std::int32_t> pad = nn::read_token_ids(c.pad_token_id.node, "pad_token_id", c.vocab_size, problems);
  if (!pad.empty()) s.no_gradient_id = pad[0];
  read_head(c, /*tied=*/true, s, problems);
  return s;
}

}  // namespace

void EuroBertConfig::validate(Problems& problems) const { read_shape(*this, problems); }

EuroBertShape resolve(const EuroBertConfig& c, const HeadRequest& head) {
  Problems problems;
  EuroBertShape s = read_shape(c, problems);
  ask_for(head, /*tied=*/true, s, problems);
  problems.require(!s.labels.of_answers, "model_type",
                   "transformers has no model of type eurobert that answers questions");
  problems.raise("the model's configuration");
  return s;
}

}  // namespace hone::models
