// Prompts as tokens, and what stands behind them.
#include "data/asked_tokens.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/strings.h"
#include "hone/error.h"
#include "io/json.h"
#include "text/chat/chat_turns.h"
#include "text/chat/chat_printed.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

constexpr std::size_t kShownAnswer = 60;  // bytes of one in a message

// As the model is to go on with it.
Ids prompt_ids(const std::string& prompt, const std::optional<Conversation>& chat, const Tokenising& how,
               const std::string& place) {
  const Tokenizer& tokenizer = how.tokenizer;
  const auto text_of_chat = [&] {
    return text::prompt_text(how.chat_template(), *chat, place, text::kTrainingDate);
  };
  if (chat) return tokenizer.encode(during("rendering " + place, text_of_chat), false).ids;
  Ids ids = tokenizer.encode(prompt, true).ids;
  if (tokenizer.adds_eos && !ids.empty() && ids.back() == tokenizer.eos_id) ids.pop_back();
  return ids;
}

Ids answer_ids(const std::string& text, const Tokenizer& tokenizer, const std::string& place) {
  Ids answer = tokenizer.encode(text, false).ids;
  if (trim(tokenizer.decode(answer, /*skip_special=*/false)) != text)
    throw Error(ErrorKind::data, fmt::format("{}: the answer {} does not come out of the tokenizer as it went in",
                                             place, hone::quoted(text.substr(0, kShownAnswer))))
        .hint("its normaliser changes the text; write the answer in the form that the tokenizer gives");
  return answer;
}

std::string filled(const std::string& pattern, const std::string& prompt, const std::string& context) {
  constexpr std::string_view kPrompt = "{prompt}", kContext = "{privileged_context}";
  std::string text;
  for (std::size_t i = 0; i < pattern.size();) {
    const auto at = [&](std::string_view name) { return pattern.compare(i, name.size(), name) == 0; };
    if (at(kPrompt))
      text += prompt, i += kPrompt.size();
    else if (at(kContext))
      text += context, i += kContext.size();
    else
      text += pattern[i++];
  }
  return text;
}

// The text of a message; of one in parts, that of its texts.
std::string text_of_message(const json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return "";
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  for (const json& part : *content)
    if (part.is_object() && part.value("type", "") == "text")
      text += (text.empty() ? "" : " ") + part.value("text", std::string());
  return text;
}

Ids teacher_ids(const AskedRecord& record, const Tokenising& how, const std::string& place) {
  if (record.answer.empty())
    throw Error(ErrorKind::data, place + ": no answer, which the teacher is shown; expected one in every record")
        .hint("columns: {answer: privileged_context} reads it from another field");
  if (!record.chat) return prompt_ids(filled(how.teacher_prompt, record.prompt, record.answer), {}, how, place);
  Conversation chat = *record.chat;
  json messages = io::parse_ordered_json(chat.messages, place);
  json& last = messages.back();
  if (last.value("role", "") != "user")
    throw Error(ErrorKind::data, fmt::format("{}: the last message is of the role {}; expected the user's, which the "
                                             "teacher's prompt is made of",
                                             place, hone::quoted(last.value("role", ""))));
  last["content"] = filled(how.teacher_prompt, text_of_message(last), record.answer);
  chat.messages = messages.dump();
  return prompt_ids("", chat, how, place);
}

}  // namespace

RecordTokens from_asked(const AskedRecord& record, const Tokenising& how, const std::string& place) {
  RecordTokens tokens;
  tokens.ids = prompt_ids(record.prompt, record.chat, how, place);
  tokens.labels.assign(tokens.ids.size(), -100);
  if (tokens.ids.empty() || (record.answer.empty() && how.teacher_prompt.empty())) return tokens;
  const Ids behind = how.teacher_prompt.empty() ? answer_ids(record.answer, how.tokenizer, place)
                                                : teacher_ids(record, how, place);
  tokens.ids.insert(tokens.ids.end(), behind.begin(), behind.end());
  tokens.labels.insert(tokens.labels.end(), behind.begin(), behind.end());
  return tokens;
}

}  // namespace hone::data
