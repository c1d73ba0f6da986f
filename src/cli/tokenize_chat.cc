// Reads records as training does, and shows their tokens one by one.
#include "cli/tokenize_chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/option_words.h"
#include "base/progress.h"
#include "base/strings.h"
#include "cli/shown_token.h"
#include "data/fields.h"
#include "data/indexed_line.h"
#include "data/template_variables.h"
#include "data/tokenise.h"
#include "io/json.h"
#include "text/chat/chat_mask.h"
#include "text/chat/chat_printed.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;
constexpr io::JsonLimits kInput{.bytes = 64'000'000, .keeps_integers = true};

void print_colored(const Tokenizer& tokenizer, const Tokens& tokens) {
  bool starts_line = true;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::string text = shown_token(tokenizer, tokens.ids[i]);
    std::cout << (tokens.labels[i] == -100 ? "\x1b[2m" : "\x1b[32m") << text << "\x1b[0m";
    starts_line = text.ends_with("\\n");
    if (starts_line) std::cout << '\n';
  }
  if (!starts_line) std::cout << '\n';
}

void print_plain(const Tokenizer& tokenizer, const Tokens& tokens) {
  for (std::size_t i = 0; i < tokens.ids.size(); ++i)
    std::cout << fmt::format("{:>7}  {:<6}  {}\n", tokens.ids[i], tokens.labels[i] == -100 ? "-" : "learnt",
                             shown_token(tokenizer, tokens.ids[i]));
}

void print_json(const Tokenizer& tokenizer, const Tokens& tokens) {
  ordered_json texts = ordered_json::array();
  for (const std::int32_t id : tokens.ids) texts.push_back(tokenizer.token_of(id).value_or(""));
  std::cout << ordered_json{{"ids", tokens.ids}, {"labels", tokens.labels}, {"tokens", texts}}.dump(
                   -1, ' ', false, ordered_json::error_handler_t::replace)
            << '\n';
}

void print_one(const Tokenizer& tokenizer, const Tokens& tokens, bool json) {
  if (json) return print_json(tokenizer, tokens);
  use_escapes(1) ? print_colored(tokenizer, tokens) : print_plain(tokenizer, tokens);
  const auto learnt =
      static_cast<std::int64_t>(tokens.labels.size()) - std::count(tokens.labels.begin(), tokens.labels.end(), -100);
  std::cout << fmt::format("{} tokens, {} learnt\n", tokens.ids.size(), learnt);
}

// The text of which a record's tokens are made.
std::string rendered(const Record& record, const data::Tokenising& how, const std::string& source) {
  if (const auto* text = record.as<TextRecord>()) return text->text;
  if (const auto* pair = record.as<PromptRecord>()) return pair->prompt + pair->completion;
  const std::string place = fmt::format("{}:{}", source, data::line_words(record.line));
  const auto* conversation = record.as<ChatRecord>();
  if (!conversation) throw Error(ErrorKind::data, place + ": --rendered: a record of ids has no text");
  const text::Chat chat = text::chat_for(how.chat_template(), conversation->chat, place);
  return during("rendering " + place, [&] {
    const auto rendered = how.chat_template().render(chat, {.now = text::kTrainingDate});
    text::check_variables(how.chat_template(), chat, place);
    return rendered.text;
  });
}

void print_rendered(const std::string& text, bool json) {
  if (json)
    std::cout << ordered_json{{"text", text}}.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  else
    std::cout << text << '\n';
}

}  // namespace

void print_chats(const Tokenizer& tokenizer, const std::string& input, const ChatPrinting& how) {
  data::FieldMap fields({how.source, {}, {}});
  const data::Tokenising tokenising(tokenizer, true, how.loss);
  const auto print = [&](const ordered_json& value, std::int64_t line) {
    Record record;
    fields.read(value, {how.source, line}, record);
    if (auto* chat = std::get_if<ChatRecord>(&record.content))
      chat->chat.variables = data::with_others(chat->chat.variables, how.variables);
    const WordsOfFlags words;  // of how it is tokenised; that of which fields are read it has none
    if (how.rendered) return print_rendered(rendered(record, tokenising, how.source), how.json);
    print_one(tokenizer, data::to_tokens(record, tokenising, how.source), how.json);
  };
  if (trim(input).starts_with('[')) {
    print({{"messages", io::parse_ordered_json(input, how.source, kInput)}}, 1);
    return;
  }
  std::int64_t line = 0;
  for (const std::string& text : split(input, '\n')) {
    ++line;
    if (!trim(text).empty()) print(io::parse_ordered_json_line(text, how.source, line, kInput), line);
  }
}

}  // namespace hone::cli
