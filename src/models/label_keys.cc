// Labels of a classification head in config.json.
#include "models/label_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "hone/config_read.h"

namespace hone::models {
namespace {

using config::Node;

bool says(const LabelKeys& c, std::string_view class_end) {
  return c.architectures && std::any_of(c.architectures->begin(), c.architectures->end(),
                                        [&](const std::string& name) { return name.ends_with(class_end); });
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

// nullopt: it is not said, or wrong.
std::optional<std::int64_t> read_count(const Node& node, Problems& problems) {
  if (node.is_null()) return std::nullopt;
  std::int64_t count = 0;
  const std::size_t before = problems.size();
  config::Values<std::int64_t>::read(node, count, {problems, "num_labels", {.low = 1, .high = 1000000}});
  return problems.size() == before ? std::optional(count) : std::nullopt;
}

std::optional<ProblemType> read_problem_type(const LabelKeys& c, Problems& problems) {
  if (!c.problem_type) return std::nullopt;
  ProblemType type{};
  config::Values<ProblemType>::read(Node::scalar(*c.problem_type), type, {problems, "problem_type"});
  return type;
}

}  // namespace

HeadLabels read_labels(const LabelKeys& c, Problems& problems) {
  HeadLabels labels;
  std::vector<std::string>& names = labels.names;
  labels.of_tokens = says(c, "ForTokenClassification");
  if (!labels.of_tokens && !says(c, "ForSequenceClassification")) return labels;
  if (!c.id2label.node.is_null()) names = read_names(c.id2label.node, problems);
  if (!names.empty()) check_label_ids(c.label2id.node, names, problems);
  const std::optional<std::int64_t> count = read_count(c.num_labels.node, problems);
  if (!names.empty() && count)
    problems.require(std::ssize(names) == *count, "num_labels",
                     fmt::format("got {}, but id2label names {}", *count, names.size()));
  if (names.empty())
    for (std::int64_t i = 0; i < count.value_or(2); ++i) names.push_back(fmt::format("LABEL_{}", i));
  labels.problem_type = read_problem_type(c, problems);
  return labels;
}

void ask_for(const HeadRequest& head, HeadLabels& labels) {
  if (head.problem_type || labels.names != head.labels) labels.problem_type = head.problem_type;
  labels.names = head.labels;
  labels.of_tokens = head.of_tokens, labels.of_answers = head.answers_questions;
}

void write_labels(const HeadLabels& labels, const LabelKeys& keys, Node& node) {
  std::erase_if(node.entries(), [](const Node::Entry& entry) {
    return entry.first == "num_labels" || entry.first == "id2label" || entry.first == "label2id" ||
           entry.first == "problem_type";
  });
  const auto put = [&](const char* key, const Node& value) {
    if (!value.is_null()) node.at_or_add(key) = value;
  };
  if (labels.problem_type)
    put("problem_type", Node::scalar(config::Values<ProblemType>::write(*labels.problem_type).text(), /*quoted=*/true));
  else if ((labels.empty() || labels.of_answers) && keys.problem_type)
    put("problem_type", Node::scalar(*keys.problem_type, /*quoted=*/true));
  if (labels.empty() || labels.of_answers)
    return put("id2label", keys.id2label.node), put("label2id", keys.label2id.node);
  Node names = Node::map(), ids = Node::map();
  for (std::size_t i = 0; i < labels.names.size(); ++i) {
    names.at_or_add(std::to_string(i)) = Node::scalar(labels.names[i], /*quoted=*/true);
    ids.at_or_add(labels.names[i]) = config::Values<std::int64_t>::write(static_cast<std::int64_t>(i));
  }
  put("id2label", names), put("label2id", ids);
  if (labels.of_tokens) return;
  put("sentence_transformers", keys.sentence_transformers.node);
  if (const auto& name = keys.sbert_ce_default_activation_function)
    put("sbert_ce_default_activation_function", Node::scalar(*name, /*quoted=*/true));
}

}  // namespace hone::models
