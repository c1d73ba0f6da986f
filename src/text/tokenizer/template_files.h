// What a tokenizer's files hold for chats: the templates, and the special tokens that templates call by name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/text.h"

namespace hone::text {

inline constexpr const char* kTemplateFile = "chat_template.jinja";
inline constexpr std::string_view kMoreTemplates = "additional_chat_templates/";  // <name>.jinja in this folder

struct TemplateSource {
  std::string name;  // "default" where the files give none
  std::string where, source;
};

// As transformers: chat_template.jinja and those of additional_chat_templates; only where there are none of these,
// chat_template of tokenizer_config.json: a text, or several by name. Each name once, in order.
std::vector<TemplateSource> template_sources(const Tokenizer& tokenizer);

using SpecialTokens = std::vector<std::pair<std::string, std::string>>;  // "bos_token", its text; ...
SpecialTokens special_tokens_of(const Tokenizer& tokenizer);

}  // namespace hone::text
