// general.* of a GGUF file, in the words of llama.cpp's converter.
#include "hub/gguf/general.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/config.h"
#include "io/json.h"

namespace hone::gguf {
namespace {

using config::Node;

// "v0.3", "7B": not a word.
bool is_number_like(const std::string& word) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!word.empty() && digit(word[0])) return true;
  return word.size() > 1 && word[0] == 'v' && digit(word[1]) &&
         std::all_of(word.begin() + 1, word.end(), [&](char c) { return digit(c) || c == '.'; });
}

std::string capitalised(std::string word) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const bool upper = std::any_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (upper || is_number_like(word) || std::none_of(word.begin(), word.end(), letter)) return word;
  for (std::size_t i = 0; i < word.size(); ++i)
    if (letter(word[i]) && (i == 0 || !letter(word[i - 1])))
      word[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[i])));
  return word;
}

// "my-small-model": "My Small Model".
std::string title(const std::string& name) {
  std::vector<std::string> words;
  for (const std::string& part : split(replace_all(name, "-", " "), ' '))
    if (!part.empty()) words.push_back(capitalised(part));
  return join(words, " ");
}

// A name on the hub under keys that begin alike.
void named_keys(io::GgufKeys& keys, const std::string& prefix, const std::string& id) {
  const std::size_t slash = id.find('/');
  keys.set(prefix + "name", title(slash == id.npos ? id : id.substr(slash + 1)));
  if (slash == id.npos) return;
  keys.set(prefix + "organization", title(id.substr(0, slash)));
  keys.set(prefix + "repo_url", "https://huggingface.co/" + id);
}

// A text or a list of texts of the front matter.
std::vector<std::string> texts_of(const Node& card, const char* key) {
  const Node* value = card.find(key);
  if (!value || value->is_null()) return {};
  if (value->kind() == Node::Kind::scalar) return {value->text()};
  std::vector<std::string> texts;
  if (value->kind() == Node::Kind::list)
    for (const Node& item : value->items())
      if (item.kind() == Node::Kind::scalar) texts.push_back(item.text());
  return texts;
}

// What stands between two lines of three dashes at the card's beginning.
Node front_matter(const std::string& card) {
  constexpr std::string_view kLine = "---\n";
  if (!card.starts_with(kLine)) return Node::map();
  const std::size_t end = card.find("\n---", kLine.size() - 1);
  if (end == card.npos) return Node::map();
  Problems problems;
  const Node node = config::parse_yaml(card.substr(kLine.size(), end + 1 - kLine.size()), "README.md", problems);
  problems.raise("README.md");
  return node.is_map() ? node : Node::map();
}

void lineage_keys(io::GgufKeys& keys, const Node& card) {
  const auto list = [&](const char* key, const std::string& prefix) {
    const std::vector<std::string> ids = texts_of(card, key);
    if (ids.empty()) return;
    keys.set(prefix + "count", static_cast<std::uint32_t>(ids.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) named_keys(keys, fmt::format("{}{}.", prefix, i), ids[i]);
  };
  list("base_model", "general.base_model.");
  list("datasets", "general.dataset.");
}

void card_keys(io::GgufKeys& keys, const Node& card) {
  for (const auto& [from, key] : {std::pair{"license", "general.license"},
                                  {"license_name", "general.license.name"},
                                  {"license_link", "general.license.link"}})
    if (const std::vector<std::string> texts = texts_of(card, from); !texts.empty()) keys.set(key, join(texts, ","));
  lineage_keys(keys, card);
  std::vector<std::string> tags = texts_of(card, "tags");
  for (const std::string& task : texts_of(card, "pipeline_tag")) tags.push_back(task);
  if (!tags.empty()) keys.set("general.tags", tags);
  if (const std::vector<std::string> languages = texts_of(card, "language"); !languages.empty())
    keys.set("general.languages", languages);
}

void sampling_keys(io::GgufKeys& keys, const std::string& generation) {
  if (generation.empty()) return;
  const nlohmann::json json = io::parse_json(generation, "generation_config.json", io::kConfigJson);
  const auto number = [&](const char* from, const char* key) {
    if (const auto found = json.find(from); found != json.end() && found->is_number())
      keys.set(key, found->get<float>());
  };
  if (const auto found = json.find("top_k"); found != json.end() && found->is_number())
    keys.set("general.sampling.top_k", static_cast<std::int32_t>(found->get<double>()));
  number("top_p", "general.sampling.top_p");
  number("min_p", "general.sampling.min_p");
  number("temperature", "general.sampling.temp");
  number("repetition_penalty", "general.sampling.penalty_repeat");
}

}  // namespace

void general_keys(io::GgufKeys& keys, const General& general) {
  constexpr std::uint32_t kBlocksVersion = 2;  // of what the types of few bits look like
  keys.set(io::kGgufMaker, std::string(HONE_VERSION));
  keys.set("general.architecture", general.arch);
  keys.set("general.type", std::string("model"));
  sampling_keys(keys, general.generation);
  const std::size_t slash = general.name.find('/');
  keys.set("general.name", title(slash == std::string::npos ? general.name : general.name.substr(slash + 1)));
  if (slash != std::string::npos) keys.set("general.organization", title(general.name.substr(0, slash)));
  keys.set("general.size_label", general.size_label);
  card_keys(keys, front_matter(general.card));
  keys.set("general.file_type", general.file_type);
  keys.set("general.quantization_version", kBlocksVersion);
}

}  // namespace hone::gguf
