// From a model of texts and images to its texts' half.
#include "config/texts_half.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace hone::config {
namespace {

constexpr const char *kTied = "tie_word_embeddings", *kTiedToo = "tie_embedding";

constexpr auto kOfTexts = std::to_array<std::string_view>(
    {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
     "num_key_value_heads", "head_dim", "hidden_act", "max_position_embeddings", "initializer_range", "rms_norm_eps",
     "use_sliding_window", "sliding_window", "max_window_layers", "layer_types", "attention_dropout",
     "rope_parameters", "rope_scaling", "rope_theta", "bos_token_id", "eos_token_id", "pad_token_id"});

}  // namespace

bool is_of_classifier(const Node& config) {
  const Node* architectures = config.is_map() ? config.find("architectures") : nullptr;
  if (!architectures || architectures->kind() != Node::Kind::list) return false;
  for (const Node& name : architectures->items())
    if (name.kind() == Node::Kind::scalar &&
        (name.text().ends_with("ForSequenceClassification") || name.text().ends_with("ForTokenClassification")))
      return true;
  return false;
}

Node texts_half(const Node& config) {
  const Node* texts = config.is_map() ? config.find("text_config") : nullptr;
  if (!texts || !texts->is_map() || !config.find("vision_config")) return config;
  Node node = *texts;
  const auto take = [&](const char* key, bool wins) {
    const Node* said = config.find(key);
    if (said && !said->is_null() && (wins || !node.find(key))) node.at_or_add(key) = *said;
  };
  // transformers ties by what the class says that the folder names; LFM2's has another name for it, which wins.
  if (config.find(kTied) || config.find(kTiedToo))
    std::erase_if(node.entries(), [](const Node::Entry& entry) { return entry.first == kTiedToo; });
  for (const char* key : {kTied, kTiedToo}) take(key, /*wins=*/true);
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) take(key, /*wins=*/true);
  for (const char* key : {"dtype", "torch_dtype", "quantization_config"}) take(key, /*wins=*/false);
  if (is_of_classifier(config))
    for (const char* key : {"architectures", "id2label", "label2id", "num_labels", "problem_type"})
      take(key, /*wins=*/true);
  return node;
}

Node with_texts_section(const Node& config) {
  if (!config.is_map() || !config.find("vision_config") || config.find("text_config")) return config;
  Node whole = Node::map({}, config.mark()), texts = Node::map({}, config.mark());
  for (const auto& [key, value] : config.entries()) {
    const bool of_texts = std::find(kOfTexts.begin(), kOfTexts.end(), key) != kOfTexts.end();
    (of_texts ? texts : whole).at_or_add(key) = value;
  }
  whole.at_or_add("text_config") = std::move(texts);
  return whole;
}

const Node& of_words(const Node& config) {
  const Node* texts = config.is_map() && config.find("vision_config") ? config.find("text_config") : nullptr;
  return texts && texts->is_map() ? *texts : config;
}

Node& of_words(Node& config) { return const_cast<Node&>(of_words(std::as_const(config))); }

}  // namespace hone::config
