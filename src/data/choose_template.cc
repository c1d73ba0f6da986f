// Finding the template that is meant, and the tokenizer's files with it.
#include "data/choose_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/env.h"
#include "base/strings.h"
#include "text/chat/chat_template.h"
#include "text/chat/named_templates.h"
#include "text/tokenizer/load.h"
#include "text/tokenizer/no_tokenizer.h"
#include "text/tokenizer/template_files.h"

namespace hone::data {
namespace {

constexpr std::uint64_t kTemplateBytes = 4'000'000;

std::string read_file(const std::string& path, std::vector<std::string> names, const std::string& option) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return InFile(path, ErrorKind::config).read_all(kTemplateBytes);
  for (const text::NamedTemplate& one : text::named_templates()) names.emplace_back(one.name);
  Error error(ErrorKind::config, fmt::format("{}: got {}, expected a file, the text of a template, or one of {}",
                                             option, hone::quoted(path), join(names, ", ")));
  const std::string near = nearest(path, names);
  if (near.empty()) throw error;
  throw std::move(error).hint("did you mean " + near + "?");
}

// A template that writes tokens which the tokenizer cuts up would teach the model something else.
void check_tokens(const text::NamedTemplate& chosen, const Tokenizer& tokenizer, const std::string& option) {
  const auto fail = [&](const std::string& missing) {
    throw Error(ErrorKind::config,
                fmt::format("{}: {} needs {}, which the tokenizer does not have", option, chosen.name, missing))
        .hint(
            "hone extend gives a model more tokens (--special-tokens); or choose one without special tokens (alpaca, "
            "zephyr), or write one with the tokenizer's own into a file");
  };
  const auto special = text::special_tokens_of(tokenizer);
  const auto is_eos = [](const auto& token) { return token.first == "eos_token"; };
  if (chosen.source.find("eos_token") != std::string::npos && std::none_of(special.begin(), special.end(), is_eos))
    fail("an end-of-sequence token (eos_token in tokenizer_config.json)");
  for (const std::string_view token : chosen.tokens)
    if (tokenizer.encode(token, false).ids.size() != 1) fail(fmt::format("the token {}", hone::quoted(token)));
}

// The template that is meant by a name of the tokenizer's own templates, a name of hone's, or a file.
std::string find_source(const std::string& chosen, const Tokenizer& tokenizer, const std::string& option) {
  std::vector<std::string> names;
  const std::vector<text::TemplateSource> sources = text::template_sources(tokenizer);
  for (const text::TemplateSource& own : sources) {
    if (own.name == chosen) return own.source;
    if (sources.size() > 1) names.push_back(own.name);
  }
  const text::NamedTemplate* named = text::find_template(chosen);
  if (!named) return read_file(chosen, std::move(names), option);
  check_tokens(*named, tokenizer, option);
  return named->source;
}

// chat_template.jinja instead of whatever was there.
text::Files files_with(const Tokenizer& tokenizer, const std::string& source) {
  text::Files files;
  for (const auto& [name, content] : tokenizer.files) {
    if (name == text::kTemplateFile || name.starts_with(text::kMoreTemplates)) continue;
    files.emplace_back(name, content);
    if (name != "tokenizer_config.json") continue;
    auto config = nlohmann::ordered_json::parse(content);
    if (config.erase("chat_template") > 0) files.back().second = config.dump(2);
  }
  files.emplace_back(text::kTemplateFile, source);
  return files;
}

}  // namespace

std::shared_ptr<const Tokenizer> with_chat_template(std::shared_ptr<const Tokenizer> tokenizer,
                                                    const std::string& chosen, const std::string& option) {
  if (chosen.empty()) return tokenizer;
  text::require_tokenizer(*tokenizer, option + ": a chat template");
  const bool is_text = chosen.find("{{") != std::string::npos || chosen.find("{%") != std::string::npos;
  const std::string source = is_text ? chosen : find_source(chosen, *tokenizer, option);
  const jinja::Template parsed(source, is_text ? option : chosen);  // says what is wrong with it, and where
  return text::make_tokenizer(files_with(*tokenizer, source), text::known_ids(*tokenizer), "tokenizer");
}

std::optional<std::int32_t> turn_end(const Tokenizer& tokenizer) {
  try {
    const auto chosen = text::ChatTemplate::of(tokenizer);
    return chosen ? chosen->turn_end(tokenizer) : std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    return std::nullopt;
  }
}

std::vector<std::int32_t> ends_of_answers(const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ends;
  if (tokenizer.eos_id) ends.push_back(*tokenizer.eos_id);
  const auto turn = turn_end(tokenizer);
  if (turn && turn != tokenizer.eos_id) ends.push_back(*turn);
  return ends;
}

}  // namespace hone::data
