// Templates and special tokens among a tokenizer's files.
#include "text/tokenizer/template_files.h"

#include <fmt/format.h>

#include <map>

#include "text/parts/component.h"
#include "text/tokenizer/special_config.h"

namespace hone::text {
namespace {

constexpr std::string_view kEnding = ".jinja";

// The tokenizer was made from these files, so they hold JSON.
nlohmann::json json_file(const Tokenizer& tokenizer, std::string_view name) {
  for (const auto& [known, content] : tokenizer.files)
    if (known == name) return nlohmann::json::parse(content);
  return nlohmann::json::object();
}

using ByName = std::map<std::string, TemplateSource>;

void put(ByName& all, const std::string& name, std::string where, std::string source) {
  all[name] = {name, std::move(where), std::move(source)};
}

ByName in_files(const Tokenizer& tokenizer) {
  ByName all;
  for (const auto& [file, content] : tokenizer.files)
    if (file == kTemplateFile) put(all, "default", file, content);
  for (const auto& [file, content] : tokenizer.files)
    if (file.starts_with(kMoreTemplates) && file.ends_with(kEnding))
      put(all, file.substr(kMoreTemplates.size(), file.size() - kMoreTemplates.size() - kEnding.size()), file, content);
  return all;
}

ByName in_config(const Tokenizer& tokenizer) {
  const std::string where = "tokenizer_config.json: chat_template";
  const nlohmann::json config = json_file(tokenizer, "tokenizer_config.json");
  const auto found = config.find("chat_template");
  ByName all;
  if (found == config.end() || found->is_null()) return all;
  const auto text_of = [&](const nlohmann::json& value) {
    if (!value.is_string())
      throw Error(ErrorKind::config, fmt::format("{}: got {}, expected the text of a template, or a list of objects "
                                                 "with name and template",
                                                 where, value.type_name()));
    return value.get<std::string>();
  };
  const auto put_named = [&](const std::string& name, const nlohmann::json& source) {
    put(all, name, where + ": " + name, text_of(source));
  };
  if (found->is_array())
    for (const auto& one : *found) put_named(text_of(member(one, "name")), member(one, "template"));
  else if (found->is_object())
    for (const auto& [name, source] : found->items()) put_named(name, source);
  else
    put(all, "default", where, text_of(*found));
  return all;
}

}  // namespace

std::vector<TemplateSource> template_sources(const Tokenizer& tokenizer) {
  ByName all = in_files(tokenizer);
  if (all.empty()) all = in_config(tokenizer);
  std::vector<TemplateSource> sources;
  for (auto& [name, source] : all) sources.push_back(std::move(source));
  return sources;
}

SpecialTokens special_tokens_of(const Tokenizer& tokenizer) {
  SpecialTokens tokens;
  for (const auto& [name, token] : read_special_config(tokenizer.files, "tokenizer").named)
    tokens.emplace_back(name, token.content);
  return tokens;
}

}  // namespace hone::text
