// From config.json to a model without memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "config/hf_keys.h"
#include "config/texts_half.h"
#include "hone/config_read.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/fresh.h"
#include "hub/packed/quantization_config.h"
#include "hub/weight_names.h"

namespace hone {
namespace {

using config::Node;

// What the model's own options are read from; own: their names.
Node meaningful(const Node& config, const std::set<std::string>& own, Problems& problems) {
  Node node = Node::map({}, config.mark());
  for (const auto& [key, value] : config.entries()) {
    if (config::changes_nothing(key) && !own.contains(key)) continue;
    // Null in somebody's file says that the key is not made use of; in a recipe it is one that was left unfinished.
    if (value.is_null() && !own.contains(key) && value.mark().file.ends_with(".json")) continue;
    if (key == "quantization_config") {
      hub::read_quantization(value, problems);  // whoever loads weights reads it again
      continue;
    }
    if (key == "type" && config.find("model_type")) {
      problems.add(key, "got both type and model_type", "", value.mark());
      continue;
    }
    node.at_or_add(key == "type" ? "model_type" : key) = value;
  }
  return node;
}

// A recipe's `type` is config.json's model_type.
std::string model_type_of(const Node& node, const std::string& file) {
  const Node* type = node.find("model_type");
  if (!type) type = node.find("type");
  if (!type || type->kind() != Node::Kind::scalar)
    throw Error(ErrorKind::config, fmt::format("{}: model_type: missing; expected one of {}", file,
                                               fmt::join(registries().models.names(), ", ")));
  return type->text();
}

const auto& entry_of(const Node& hf_config, const std::string& file) {
  const std::string type = model_type_of(hf_config, file);
  const auto* entry = registries().models.find(type);
  if (entry) return *entry;
  const bool has_half = registries().models.find(type + "_text") != nullptr;
  const std::string near = has_half ? type + "_text" : config::nearest(type, registries().models.names());
  if (hf_config.find("text_config") && hf_config.find("vision_config"))
    throw Error(ErrorKind::config,
                fmt::format("{}: model_type: {} is a model of texts and images, which hone has not", file, type))
        .hint(
            "hone's models are of texts alone; where it has the texts' half, as of Gemma 3 and Qwen3.5, it takes that");
  throw Error(ErrorKind::config, fmt::format("{}: model_type: got \"{}\", expected one of {}{}", file, type,
                                             fmt::join(registries().models.names(), ", "),
                                             near.empty() ? "" : "; did you mean " + near + "?"))
      .hint("models of other types come by hone --plugin FILE COMMAND");
}

// Whether the model will have a classification head by config.json alone.
bool has_architecture(const Node& hf_config, std::string_view end) {
  const Node* architectures = hf_config.find("architectures");
  return architectures && architectures->kind() == Node::Kind::list &&
         std::any_of(architectures->items().begin(), architectures->items().end(), [&](const Node& name) {
           return name.kind() == Node::Kind::scalar && name.text().ends_with(end);
         });
}

std::set<std::string> names_of(config::AnyOptions& options) {
  std::set<std::string> names;
  for (const config::OptionInfo& option : options.describe()) names.insert(option.path);
  return names;
}

}  // namespace

Node hub::of_texts(const Node& hf_config) {
  const auto is_known = [](const Node& node) {
    const Node* type = node.is_map() ? node.find("model_type") : nullptr;
    return type && type->kind() == Node::Kind::scalar && registries().models.find(type->text());
  };
  if (is_known(hf_config)) return config::with_texts_section(hf_config);
  Node half = config::texts_half(hf_config);
  return is_known(half) ? half : hf_config;
}

std::vector<std::string> hub::keys_without_effect(const Node& given, const std::string& file) {
  const Node hf_config = of_texts(given);
  std::set<std::string> own = names_of(*entry_of(hf_config, file).options());
  const bool classifies = has_architecture(hf_config, "ForSequenceClassification") ||
                          has_architecture(hf_config, "ForTokenClassification");
  if (!classifies)
    for (const char* key : {"num_labels", "id2label", "label2id", "problem_type"}) own.erase(key);
  const bool has_head = classifies || has_architecture(hf_config, "ForQuestionAnswering") ||
                        has_architecture(hf_config, "ForMaskedLM") || has_architecture(hf_config, "BertForPreTraining");
  if (!has_head) own.erase("architectures");
  std::vector<std::string> keys;
  for (const auto& [key, value] : hf_config.entries())
    if (config::changes_nothing(key) && !own.contains(key)) keys.push_back(key);
  return keys;
}

void hub::find_problems(const Node& given, Problems& problems) {
  Node hf_config = of_texts(given);
  const Node* type = hf_config.find("model_type");
  if (!type) type = hf_config.find("type");
  const auto* entry = type && type->kind() == Node::Kind::scalar ? registries().models.find(type->text()) : nullptr;
  if (!entry) return;
  if (!hf_config.find("vocab_size"))  // the tokenizer will say whether there are such tokens
    std::erase_if(hf_config.entries(), [](const auto& one) { return one.first.ends_with("_token_id"); });
  const auto options = entry->options();
  options->read(meaningful(hf_config, names_of(*options), problems), problems, "");
}

std::unique_ptr<Model> build_model(const Node& given, const std::string& file, const HeadRequest& head) {
  if (!given.is_map())
    throw Error(ErrorKind::config, fmt::format("{}: expected a model's configuration, a JSON object", file));
  const Node hf_config = hub::of_texts(given);
  const auto* entry = &entry_of(hf_config, file);
  const auto options = entry->options();
  Problems problems;
  options->read(meaningful(hf_config, names_of(*options), problems), problems, "");
  problems.raise(file);
  auto model = during("building the model of " + file, [&] {
    auto made = entry->make(*options, head);
    hub::check_weight_names(*made);
    return made;
  });
  if (!head.labels.empty() && !model->classifier()) require_classifier(*model, "labels to be learnt");
  if (head.masked_lm) require_masked_lm(*model, "masked tokens to be learnt");
  return model;
}

}  // namespace hone
