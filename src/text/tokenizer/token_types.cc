// Whether the tokens of a pair of texts have types.
#include "text/tokenizer/token_types.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/tokenizer/json_tokenizer.h"

namespace hone::text {
namespace {

// Of transformers 5.24, those whose model_input_names have token_type_ids; "Fast" behind a name is none of it.
constexpr std::string_view kClasses[] = {
    "BertTokenizer",   "ElectraTokenizer",   "ConvBertTokenizer", "MobileBertTokenizer", "SqueezeBertTokenizer",
    "LayoutLMTokenizer", "LxmertTokenizer",  "DebertaTokenizer",  "DebertaV2Tokenizer",  "FNetTokenizer",
    "CanineTokenizer", "MarkupLMTokenizer"};
// Types of models whose tokenizer is of such a class where none is said.
constexpr std::string_view kModels[] = {"bert",       "electra",  "convbert", "mobilebert",  "squeezebert",
                                        "layoutlm",   "ernie",    "nezha",    "nomic_bert",  "megatron-bert",
                                        "distilbert", "deberta",  "fnet",     "deberta-v2",  "visual_bert",
                                        "canine",     "markuplm", "lxmert",   "retribert"};

}  // namespace

bool says_token_types(const std::string& tokenizer_config, const std::string& model_type) {
  const auto json = nlohmann::json::parse(tokenizer_config, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("model_input_names") && json["model_input_names"].is_array()) {
    const auto& names = json["model_input_names"];
    return std::find(names.begin(), names.end(), "token_type_ids") != names.end();
  }
  if (json.is_object() && json.contains("tokenizer_class") && json["tokenizer_class"].is_string()) {
    std::string name = json["tokenizer_class"];
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    return std::find(std::begin(kClasses), std::end(kClasses), name) != std::end(kClasses);
  }
  return model_type.empty() || std::find(std::begin(kModels), std::end(kModels), model_type) != std::end(kModels);
}

bool gives_token_types(const Tokenizer& tokenizer) {
  const auto* json = dynamic_cast<const JsonTokenizer*>(&tokenizer);
  return !json || json->gives_types;
}

}  // namespace hone::text
