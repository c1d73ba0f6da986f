// From config.json of BERT and its relatives to what it means, and back.
#include "models/bert_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "nn/rope.h"
#include "nn/token_ids.h"

namespace hone::models {
namespace {

using config::Node;

void check_memory(const BertConfig& c, Problems& problems) {
  const double hidden = static_cast<double>(c.hidden_size);
  const double block = hidden * (4 * hidden + 2 * static_cast<double>(c.intermediate_size));
  const double table = static_cast<double>(c.vocab_size + c.max_position_embeddings + c.type_vocab_size) * hidden;
  check_parameters(static_cast<double>(c.num_hidden_layers) * block + table, "hidden_size", problems);
}

// How transformers calls the classes of each.
constexpr std::pair<const char*, const char*> kClasses[] = {
    {"bert", "Bert"}, {"roberta", "Roberta"}, {"xlm-roberta", "XLMRoberta"}, {"camembert", "Camembert"}};

BertShape resolve(const BertConfig& c, Problems& problems) {
  BertShape s;
  const auto only = [&](const char* key, bool holds, const std::string& got, const char* expected) {
    problems.require(holds, key, fmt::format("got {}, expected {}", got, expected));
  };
  const auto* classes = std::find_if(std::begin(kClasses), std::end(kClasses),
                                     [&](const auto& known) { return c.model_type == known.first; });
  only("model_type", classes != std::end(kClasses), hone::quoted(c.model_type),
       "one of bert, roberta, xlm-roberta, camembert");
  if (classes != std::end(kClasses)) s.classes = classes->second;
  only("is_decoder", !c.is_decoder, "true", "false: it reads in both directions");
  only("add_cross_attention", !c.add_cross_attention, "true", "false");
  only("position_embedding_type", c.position_embedding_type == "absolute", hone::quoted(c.position_embedding_type),
       "absolute");
  only("hidden_size", c.hidden_size % c.num_attention_heads == 0, std::to_string(c.hidden_size),
       "a multiple of num_attention_heads");
  check_memory(c, problems);
  s.head_size = c.hidden_size / c.num_attention_heads;
  s.activation = nn::read_activation(c.hidden_act, "hidden_act", problems);
  s.classifier_dropout = c.classifier_dropout.value_or(c.hidden_dropout_prob);
  nn::read_token_ids(c.bos_token_id.node, "bos_token_id", c.vocab_size, problems);
  nn::read_token_ids(c.eos_token_id.node, "eos_token_id", c.vocab_size, problems);
  const std::vector<std::int32_t> pad = nn::read_token_ids(c.pad_token_id.node, "pad_token_id", c.vocab_size, problems);
  if (!pad.empty()) s.no_gradient_id = pad[0];
  if (c.model_type != "bert") {
    problems.require(!pad.empty(), "pad_token_id", "none, expected one: positions count from behind it");
    s.first_position = s.no_gradient_id + 1;
    problems.require(c.max_position_embeddings > s.first_position, "max_position_embeddings",
                     fmt::format("got {}, expected more than pad_token_id + 1, behind which positions begin",
                                 c.max_position_embeddings));
  }
  read_head(c, c.tie_word_embeddings, s, problems);
  return s;
}

}  // namespace

template <>
void BertConfig::validate(Problems& problems) const {
  resolve(*this, problems);
}
template <>
void RobertaConfig::validate(Problems& problems) const {
  resolve(as_bert(*this), problems);
}

BertShape resolve(const BertConfig& c, const HeadRequest& head) {
  Problems problems;
  BertShape s = resolve(c, problems);
  ask_for(head, c.tie_word_embeddings, s, problems);
  problems.raise("the model's configuration");
  return s;
}

Node to_hf_config(const BertConfig& c, const BertShape& s, const std::string& dtype) {
  Node node = Node::map();
  const auto put = [&](const char* key, Node value) { node.at_or_add(key) = std::move(value); };
  const auto number = [&](const char* key, std::int64_t value) {
    put(key, config::Values<std::int64_t>::write(value));
  };
  const auto real = [&](const char* key, double value) { put(key, nn::hf_float(value)); };
  const auto text = [](const std::string& value) { return Node::scalar(value, /*quoted=*/true); };
  const auto flag = [&](const char* key, bool value) { put(key, config::Values<bool>::write(value)); };
  flag("add_cross_attention", false);
  put("architectures", Node::list({text(s.classes + s.class_end())}));
  real("attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  put("bos_token_id", c.bos_token_id.node);
  put("classifier_dropout", c.classifier_dropout ? nn::hf_float(*c.classifier_dropout) : Node());
  if (!dtype.empty()) put("dtype", text(dtype));
  put("eos_token_id", c.eos_token_id.node);
  put("hidden_act", text(c.hidden_act));
  real("hidden_dropout_prob", c.hidden_dropout_prob);
  number("hidden_size", c.hidden_size);
  write_labels(s.labels, c, node);
  real("initializer_range", c.initializer_range);
  number("intermediate_size", c.intermediate_size);
  flag("is_decoder", false);
  real("layer_norm_eps", c.layer_norm_eps);
  number("max_position_embeddings", c.max_position_embeddings);
  put("model_type", text(c.model_type));
  number("num_attention_heads", c.num_attention_heads);
  number("num_hidden_layers", c.num_hidden_layers);
  put("pad_token_id", c.pad_token_id.node);
  flag("tie_word_embeddings", c.tie_word_embeddings);
  number("type_vocab_size", c.type_vocab_size);
  flag("use_cache", true);
  number("vocab_size", c.vocab_size);
  return node;
}

}  // namespace hone::models
