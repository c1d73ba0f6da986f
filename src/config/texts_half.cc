// From a model of texts and images to its texts' half.
#include "config/texts_half.h"

namespace hone::config {
namespace {

constexpr const char *kTied = "tie_word_embeddings", *kTiedToo = "tie_embedding";

bool is_classifier(const Node& config) {
  const Node* architectures = config.find("architectures");
  if (!architectures || architectures->kind() != Node::Kind::list) return false;
  for (const Node& name : architectures->items())
    if (name.kind() == Node::Kind::scalar &&
        (name.text().ends_with("ForSequenceClassification") || name.text().ends_with("ForTokenClassification")))
      return true;
  return false;
}

}  // namespace

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
  if (is_classifier(config))
    for (const char* key : {"architectures", "id2label", "label2id", "num_labels", "problem_type"})
      take(key, /*wins=*/true);
  return node;
}

}  // namespace hone::config
