// From a BERT's config.json to what it means, and back.
#include "models/bert_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/check_parameters.h"
#include "nn/rope.h"
#include "nn/token_ids.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char* kProblem = "single_label_classification";

bool says_classification(const BertConfig& c) {
  return c.architectures &&
         std::any_of(c.architectures->begin(), c.architectures->end(),
                     [](const std::string& name) { return name.ends_with("ForSequenceClassification"); });
}

// {"0": "ham", "1": "spam"}: ids from 0 without a gap, each name once.
std::vector<std::string> read_names(const Node& node, Problems& problems) {
  std::vector<std::string> names;
  const auto problem = [&](const std::string& fact) {
    problems.add("id2label", fact + "; expected the ids 0, 1, ... with a name each, as in {0: ham, 1: spam}");
    return std::vector<std::string>();
  };
  if (!node.is_map()) return problem("got no map");
  std::map<std::int64_t, std::string> by_id;
  for (const auto& [key, value] : node.entries()) {
    const auto id = parse_int(key);
    if (!id || value.kind() != Node::Kind::scalar) return problem(fmt::format("got {}", hone::quoted(key)));
    by_id[*id] = value.text();
  }
  for (const auto& [id, name] : by_id) {
    if (id != std::ssize(names)) return problem(fmt::format("{} is missing", names.size()));
    if (std::find(names.begin(), names.end(), name) != names.end())
      return problem(fmt::format("{} is there twice", hone::quoted(name)));
    names.push_back(name);
  }
  return names;
}

// label2id says the same the other way round; where it does not, one of them is of another model.
void check_label_ids(const Node& label2id, const std::vector<std::string>& names, Problems& problems) {
  if (!label2id.is_map()) return;
  for (const auto& [name, id] : label2id.entries()) {
    const auto found = std::find(names.begin(), names.end(), name);
    const std::string got = id.kind() == Node::Kind::scalar ? id.text() : "no id";
    if (found == names.end())
      problems.add("label2id",
                   fmt::format("got {}, expected the labels of id2label; it may be left out", hone::quoted(name)));
    else if (got != std::to_string(found - names.begin()))
      problems.add("label2id", fmt::format("got {} for {}, expected {}, as id2label says; it may be left out", got,
                                           hone::quoted(name), found - names.begin()));
  }
}

// transformers' names and number, where the file does not give any.
std::vector<std::string> read_labels(const BertConfig& c, Problems& problems) {
  std::vector<std::string> names;
  if (!c.id2label.node.is_null()) names = read_names(c.id2label.node, problems);
  if (!names.empty()) check_label_ids(c.label2id.node, names, problems);
  if (!names.empty() && c.num_labels)
    problems.require(std::ssize(names) == *c.num_labels, "num_labels",
                     fmt::format("got {}, but id2label names {}", *c.num_labels, names.size()));
  if (names.empty())
    for (std::int64_t i = 0; i < c.num_labels.value_or(2); ++i) names.push_back(fmt::format("LABEL_{}", i));
  problems.require(names.size() > 1, "num_labels",
                   "got 1, expected at least 2: scores by regression are not supported");
  problems.require(c.problem_type.value_or(kProblem) == kProblem, "problem_type",
                   fmt::format("got {}, expected {}", hone::quoted(c.problem_type.value_or("")), kProblem));
  return names;
}

void check_memory(const BertConfig& c, Problems& problems) {
  const double hidden = static_cast<double>(c.hidden_size);
  const double block = hidden * (4 * hidden + 2 * static_cast<double>(c.intermediate_size));
  const double table = static_cast<double>(c.vocab_size + c.max_position_embeddings + c.type_vocab_size) * hidden;
  check_parameters(static_cast<double>(c.num_hidden_layers) * block + table, "hidden_size", problems);
}

BertShape resolve(const BertConfig& c, Problems& problems) {
  BertShape s;
  const auto only = [&](const char* key, bool holds, const std::string& got, const char* expected) {
    problems.require(holds, key, fmt::format("got {}, expected {}", got, expected));
  };
  only("model_type", c.model_type == "bert", hone::quoted(c.model_type), "bert");
  only("is_decoder", !c.is_decoder, "true", "false: this BERT reads in both directions");
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
  if (says_classification(c)) s.labels = read_labels(c, problems);
  return s;
}

}  // namespace

void BertConfig::validate(Problems& problems) const { resolve(*this, problems); }

BertShape resolve(const BertConfig& c, const HeadRequest& head) {
  Problems problems;
  BertShape s = resolve(c, problems);
  problems.raise("the model's configuration");
  if (!head.labels.empty()) s.labels = head.labels;
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
  put("architectures", Node::list({text(s.labels.empty() ? "BertModel" : "BertForSequenceClassification")}));
  real("attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  put("bos_token_id", c.bos_token_id.node);
  put("classifier_dropout", c.classifier_dropout ? nn::hf_float(*c.classifier_dropout) : Node());
  if (!dtype.empty()) put("dtype", text(dtype));
  put("eos_token_id", c.eos_token_id.node);
  put("hidden_act", text(c.hidden_act));
  real("hidden_dropout_prob", c.hidden_dropout_prob);
  number("hidden_size", c.hidden_size);
  if (!s.labels.empty()) {
    Node names = Node::map(), ids = Node::map();
    for (std::size_t i = 0; i < s.labels.size(); ++i) {
      names.at_or_add(std::to_string(i)) = text(s.labels[i]);
      ids.at_or_add(s.labels[i]) = config::Values<std::int64_t>::write(static_cast<std::int64_t>(i));
    }
    put("id2label", std::move(names));
    put("label2id", std::move(ids));
  } else if (!c.id2label.node.is_null()) {
    put("id2label", c.id2label.node);
    put("label2id", c.label2id.node);
  }
  real("initializer_range", c.initializer_range);
  number("intermediate_size", c.intermediate_size);
  flag("is_decoder", false);
  real("layer_norm_eps", c.layer_norm_eps);
  number("max_position_embeddings", c.max_position_embeddings);
  put("model_type", text("bert"));
  number("num_attention_heads", c.num_attention_heads);
  number("num_hidden_layers", c.num_hidden_layers);
  put("pad_token_id", c.pad_token_id.node);
  if (c.problem_type) put("problem_type", text(*c.problem_type));
  flag("tie_word_embeddings", c.tie_word_embeddings);
  number("type_vocab_size", c.type_vocab_size);
  flag("use_cache", true);
  number("vocab_size", c.vocab_size);
  return node;
}

}  // namespace hone::models
