// The patterns of well-known pre-tokenizers, as tokenizer.json spells them.
#include "hub/gguf/pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace hone::gguf {
namespace {

constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigitWords = R"(\p{N})";
constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoderWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200kWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Known {
  std::string_view name;
  std::vector<std::string_view> patterns;
  std::optional<bool> ignore_merges = {};  // nothing: either
};
const std::vector<Known>& known() {
  static const std::vector<Known> all = {{"gpt-2", {kGpt2Words}},
                                         {"smollm", {kDigitWords, kGpt2Words}},
                                         {"llama-bpe", {kLlama3Words}, true},
                                         {"dbrx", {kLlama3Words}, false},
                                         {"qwen2", {kQwen2Words}},
                                         {"qwen35", {kQwen35Words}},
                                         {"seed-coder", {kSeedCoderWords}},
                                         {"tekken", {kTekkenWords}},
                                         {"gpt-4o", {kO200kWords}}};
  return all;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool flag_at(const nlohmann::json& object, const char* key, bool absent) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : absent;
}

// The steps of sequences within sequences.
void flatten(const nlohmann::json& step, std::vector<const nlohmann::json*>& steps) {
  if (!step.is_object()) return;
  if (text_at(step, "type") != "Sequence") return steps.push_back(&step);
  if (const auto inner = step.find("pretokenizers"); inner != step.end())
    for (const nlohmann::json& one : *inner) flatten(one, steps);
}

// Every piece that is matched, and every piece between, is a word; or the pattern matches all there is.
std::optional<std::string> pattern_of(const nlohmann::json& step) {
  const std::string behavior = text_at(step, "behavior");
  const bool invert = flag_at(step, "invert", false);
  if (!(behavior == "Isolated" && !invert) && !(behavior == "Removed" && invert)) return std::nullopt;
  const auto pattern = step.find("pattern");
  if (pattern == step.end() || !pattern->is_object()) return std::nullopt;
  const std::string regex = text_at(*pattern, "Regex");
  // Some files have line ends themselves in a class, and not what stands for them.
  return regex.empty() ? std::nullopt : std::optional(replace_all(replace_all(regex, "\r", "\\r"), "\n", "\\n"));
}

std::optional<std::vector<std::string>> patterns_of(const nlohmann::json& pre_tokenizer) {
  std::vector<const nlohmann::json*> steps;
  flatten(pre_tokenizer, steps);
  std::vector<std::string> patterns;
  bool byte_level = false;
  for (const nlohmann::json* step : steps) {
    const std::string type = text_at(*step, "type");
    if (type == "ByteLevel") {
      byte_level = true;
      if (flag_at(*step, "use_regex", true)) patterns.emplace_back(kGpt2Words);
    } else if (type == "Digits" && flag_at(*step, "individual_digits", false)) {
      patterns.emplace_back(kDigitWords);
    } else if (const auto pattern = type == "Split" ? pattern_of(*step) : std::nullopt) {
      patterns.push_back(*pattern);
    } else {
      return std::nullopt;
    }
  }
  return byte_level ? std::optional(patterns) : std::nullopt;
}

}  // namespace

std::string pre_tokenizer_name(const nlohmann::json& pre_tokenizer, bool merges, bool ignore_merges) {
  const auto patterns = patterns_of(pre_tokenizer);
  if (!patterns) return "";
  if (!merges && !ignore_merges) return "gpt-2";
  for (const Known& one : known())
    if (std::equal(patterns->begin(), patterns->end(), one.patterns.begin(), one.patterns.end()) &&
        one.ignore_merges.value_or(ignore_merges) == ignore_merges)
      return std::string(one.name);
  return "";
}

bool adds_blank(const nlohmann::json& pre_tokenizer) {
  std::vector<const nlohmann::json*> steps;
  flatten(pre_tokenizer, steps);
  return std::any_of(steps.begin(), steps.end(), [](const nlohmann::json* step) {
    return text_at(*step, "type") == "ByteLevel" && flag_at(*step, "add_prefix_space", true);
  });
}

}  // namespace hone::gguf
