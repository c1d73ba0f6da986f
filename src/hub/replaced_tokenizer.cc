// Telling tokenizers that transformers 5 replaces: for some types of models it takes a class of its own, whatever
// tokenizer_config.json says (its list of incorrect classes on the hub), which sets normalizer and pre-tokenizer.
#include "hub/replaced_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "hub/own_tokenizer.h"
#include "text/regex/scanners.h"

namespace hone::hub {
namespace {

using Json = nlohmann::json;

struct Replacing {
  std::string_view model_type, tokenizer_class, pattern;
};
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::array kReplacing{
    Replacing{"qwen2", "Qwen2Tokenizer", text::scanner_pattern(text::Scanner::qwen2)},
    Replacing{"qwen3_5", "Qwen3_5Tokenizer", kQwen35Pattern},
    Replacing{"qwen3_5_moe", "Qwen3_5Tokenizer", kQwen35Pattern},
    Replacing{"qwen3_5_moe_text", "Qwen3_5Tokenizer", kQwen35Pattern}};

// Of a tokenizer.json: whether the class sets what is there already.
bool splits_alike(const Json& file, std::string_view pattern) {
  const auto at = [](const Json& where, const char* pointer) {
    return where.value(Json::json_pointer(pointer), Json());
  };
  const Json steps = at(file, "/pre_tokenizer/pretokenizers");
  if (at(file, "/normalizer/type") != "NFC" || !steps.is_array() || steps.size() != 2) return false;
  return at(steps[0], "/type") == "Split" && at(steps[0], "/pattern/Regex") == pattern &&
         at(steps[0], "/behavior") == "Isolated" && at(steps[1], "/type") == "ByteLevel" &&
         at(steps[1], "/use_regex") == false && at(steps[1], "/add_prefix_space") == false;
}

}  // namespace

std::string replaced_tokenizer(const Model& model, const Tokenizer& tokenizer) {
  const config::Node hf_config = model.hf_config();
  const config::Node* type = hf_config.find("model_type");
  const auto found = std::find_if(kReplacing.begin(), kReplacing.end(),
                                  [&](const Replacing& one) { return type && one.model_type == type->text(); });
  if (found == kReplacing.end()) return "";
  const Json json = Json::parse(tokenizer_json(tokenizer), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || splits_alike(json, found->pattern)) return "";
  return fmt::format(
      "the tokenizer splits texts otherwise than {}, which transformers 5 takes for model_type {} whatever the files "
      "say: its AutoTokenizer will give other ids than hone; PreTrainedTokenizerFast.from_pretrained(folder) gives "
      "hone's",
      found->tokenizer_class, found->model_type);
}

}  // namespace hone::hub
