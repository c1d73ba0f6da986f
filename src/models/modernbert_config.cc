// From config.json of ModernBERT to what it means, and of that what is written otherwise.
#include "models/modernbert_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "nn/token_ids.h"

namespace hone::models {
namespace {

ModernBertShape resolve(const ModernBertConfig& c, Problems& problems) {
  ModernBertShape s;
  problems.require(c.hidden_size % c.num_attention_heads == 0, "hidden_size",
                   fmt::format("got {}, expected a multiple of num_attention_heads", c.hidden_size));
  s.heads = c.num_attention_heads, s.head_size = c.hidden_size / c.num_attention_heads;
  problems.require(s.head_size > 0 && s.head_size % 2 == 0, "hidden_size",
                   fmt::format("got {}, of which a head has {}; expected an even number", c.hidden_size, s.head_size));
  const auto hidden = static_cast<double>(c.hidden_size), inner = static_cast<double>(c.intermediate_size);
  check_parameters(static_cast<double>(c.num_hidden_layers) * hidden * (4 * hidden + 3 * inner) +
                       static_cast<double>(c.vocab_size) * hidden,
                   "hidden_size", problems);
  s.activation = nn::read_activation(c.hidden_activation, "hidden_activation", problems);
  s.head_activation = nn::read_activation(c.classifier_activation, "classifier_activation", problems);
  s.classifier_dropout = s.answers_dropout = c.classifier_dropout;
  s.slides = modern_layers(c.num_hidden_layers, c.global_attn_every_n_layers, c.layer_types, problems);
  s.window = c.local_attention / 2 + 1;
  if (s.head_size > 0 && s.head_size % 2 == 0)
    s.ropes = modern_ropes({c.rope_parameters.node, c.global_rope_theta, c.local_rope_theta, s.head_size,
                            c.max_position_embeddings},
                           problems);
  const std::vector<std::int32_t> pad = nn::read_token_ids(c.pad_token_id.node, "pad_token_id", c.vocab_size, problems);
  if (!pad.empty()) s.no_gradient_id = pad[0];
  read_head(c, c.tie_word_embeddings, s, problems);
  return s;
}

}  // namespace

void ModernBertConfig::validate(Problems& problems) const { resolve(*this, problems); }

ModernBertShape resolve(const ModernBertConfig& c, const HeadRequest& head) {
  Problems problems;
  return with_head(resolve(c, problems), head, c.tie_word_embeddings, problems);
}

}  // namespace hone::models
