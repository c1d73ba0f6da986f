// From config.json to a model without memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "config/hf_keys.h"
#include "config/texts_half.h"
#include "hone/config_read.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "hub/fresh.h"
#include "hub/packed/quantization_config.h"
#include "hub/published_config.h"
#include "hub/tied_head.h"
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
            "hone inspect models lists those that read pictures; of others it takes the texts' half where it has that");
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

// A whole whose texts' half has a type of its own, by which classifiers are known, and not the whole's with "_text";
// of other types hone has the half alone, as Mistral Small 4, which goes by the name of those before it. transformers 5
// takes their heads to be tied where nothing is said of it, and a head of their own that the files have.
struct WithOwnTexts {
  std::string_view whole;
  std::vector<std::string_view> texts;
};

const WithOwnTexts* with_own_texts(std::string_view whole) {
  static const std::vector<WithOwnTexts> all{{"internvl", {"llama", "qwen2", "qwen3"}},
                                             {"lfm2_vl", {"lfm2"}},
                                             {"mistral3", {"mistral", "ministral3"}}};
  const auto found = std::find_if(all.begin(), all.end(), [&](const WithOwnTexts& one) { return one.whole == whole; });
  return found == all.end() ? nullptr : &*found;
}

// Of T5 and its relatives transformers 5 writes that the head is tied, whether or not it is, and takes one that the
// files have; so it does with some that read pictures.
Node with_own_head(const Node& given, const std::string& file) {
  const auto is = [&](const char* key, std::string_view text) {
    const Node* value = given.find(key);
    return value && value->kind() == Node::Kind::scalar && value->text() == text;
  };
  const bool unscaled = is("model_type", "mt5") || ((is("model_type", "t5") || is("model_type", "umt5")) &&
                                                    is("scale_decoder_outputs", "false"));
  const Node* type = given.find("model_type");
  const bool of_pictures = type && type->kind() == Node::Kind::scalar && with_own_texts(type->text());
  const std::filesystem::path path(file);  // of a fresh model it is a name of a section
  const bool is_saved = path.filename() == "config.json" && !path.parent_path().empty();
  const bool may_be_untied = (unscaled && is("tie_word_embeddings", "true")) ||
                             (of_pictures && !is("tie_word_embeddings", "false"));
  if (!may_be_untied || !is_saved) return given;
  if (of_pictures ? !hub::has_other_head(file) : !hub::has_tensor(file, hub::kHead)) return given;
  Node config = given;
  config.at_or_add("tie_word_embeddings") = config::Values<bool>::write(false);
  return config;
}

std::set<std::string> names_of(config::AnyOptions& options) {
  std::set<std::string> names;
  for (const config::OptionInfo& option : options.describe()) names.insert(option.path);
  return names;
}

}  // namespace

namespace {

// "": it says none, or one that hone has not.
std::string known_type(const Node& node) {
  const Node* type = node.is_map() ? node.find("model_type") : nullptr;
  const bool known = type && type->kind() == Node::Kind::scalar && registries().models.find(type->text());
  return known ? type->text() : "";
}

// The half of a whole that hone has, too, where it goes by its name, gemma3_text of gemma3, or has one of its own.
std::optional<Node> half_for_labels(const Node& hf_config) {
  Node half = config::texts_half(hf_config);
  const std::string whole = known_type(hf_config), own = known_type(half);
  if (whole.empty() || !hf_config.find("vision_config")) return std::nullopt;
  if (own.empty() || (own != whole + "_text" && !with_own_texts(whole))) return std::nullopt;
  return half;
}

bool has_half_alone(const Node& hf_config) {
  const WithOwnTexts* whole = with_own_texts(known_type(hf_config));
  if (!whole || !hf_config.find("vision_config")) return false;
  const std::string texts = known_type(config::texts_half(hf_config));
  return !texts.empty() && std::find(whole->texts.begin(), whole->texts.end(), texts) == whole->texts.end();
}

}  // namespace

bool hub::has_whole(const Node& hf_config) { return !known_type(hf_config).empty() && !has_half_alone(hf_config); }

Node hub::of_texts(const Node& given) {
  const Node hf_config = in_transformers_form(given);
  if (const auto half = half_for_labels(hf_config); half && config::is_of_classifier(hf_config)) return *half;
  if (has_whole(hf_config)) return config::with_texts_section(hf_config);
  Node half = config::texts_half(hf_config);
  return known_type(half).empty() ? hf_config : half;
}

Node hub::half_of(const Node& hf_config, const std::string& file) {
  Node half = config::texts_half(config::with_texts_section(hf_config));
  const Node* type = half.find("model_type");
  if (!hf_config.find("vision_config"))
    throw Error(ErrorKind::config, fmt::format("model.texts_only: {} is of texts alone", file));
  if (known_type(half).empty())
    throw Error(ErrorKind::config, fmt::format("model.texts_only: {}: hone has no model of texts of type {}", file,
                                               type ? type->text() : "(not said)"));
  return half;
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
  const auto half = head.labels.empty() ? std::nullopt : half_for_labels(given);
  const Node hf_config = with_own_head(half ? *half : hub::of_texts(given), file);
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
