// Roles of tokens.
#include "text/tokenizer/roles.h"

#include <algorithm>
#include <functional>

#include "io/json.h"
#include "text/tokenizer/load.h"

namespace hone::text {
namespace {

constexpr const char *kConfig = "tokenizer_config.json", *kMap = "special_tokens_map.json",
                     *kList = "added_tokens_decoder";

using ConfigChange = std::function<void(nlohmann::ordered_json&)>;
std::string changed(const std::string& content, const std::string& file, const ConfigChange& change) {
  nlohmann::ordered_json json = io::parse_ordered_json(content, file, kConfigFile);
  change(json);
  return json.dump(2, ' ', /*ensure_ascii=*/false) + "\n";
}

std::shared_ptr<const Tokenizer> made_again(Files files, const Tokenizer& before) {
  return make_tokenizer(std::move(files), known_ids(before), "the tokenizer");
}

}  // namespace

std::shared_ptr<const Tokenizer> with_roles(const Tokenizer& tokenizer, const Roles& roles) {
  for (const auto& [role, token] : roles) HONE_ASSERT(tokenizer.id_of(token));
  Files files = tokenizer.files;
  const bool has_config =
      std::any_of(files.begin(), files.end(), [](const auto& file) { return file.first == kConfig; });
  if (!has_config) files.emplace_back(kConfig, "{}");
  for (auto& [name, content] : files)
    if (name == kConfig || name == kMap)
      content = changed(content, name, [&](nlohmann::ordered_json& json) {
        for (const auto& [role, token] : roles) json[role] = token;
      });
  return made_again(std::move(files), tokenizer);
}

std::shared_ptr<const Tokenizer> with_tokens(const Tokenizer& tokenizer, const std::vector<NewToken>& tokens) {
  const auto made = add_tokens(tokenizer, tokens);
  Files files = made->files;
  const auto list = [&](nlohmann::ordered_json& json) {
    if (!json.contains(kList) || !json[kList].is_object()) return;
    for (const NewToken& token : tokens) {
      const std::string id = std::to_string(made->id_of(token.content).value());
      if (json[kList].contains(id)) continue;
      json[kList][id] = {{"content", token.content},         {"lstrip", token.left_strip},
                         {"normalized", token.normalized},   {"rstrip", token.right_strip},
                         {"single_word", token.single_word}, {"special", token.special}};
    }
  };
  for (auto& [name, content] : files)
    if (name == kConfig) content = changed(content, name, list);
  return made_again(std::move(files), *made);
}

}  // namespace hone::text
