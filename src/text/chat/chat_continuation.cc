// Text between the turns.
#include "text/chat/chat_continuation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "hone/error.h"
#include "text/chat/chat_printed.h"
#include "text/chat/chat_turns.h"

namespace hone::text {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kTurn = 1;  // the number of the assistant's message in the small conversation

const ordered_json kQuestion = {{"role", "user"}, {"content", "a question"}};

bool is_tool(const ordered_json& message) { return message.value("role", "") == "tool"; }

// A turn like the one that was written; with calls: as many as there are results of tools, by their names.
ordered_json turn_before(const ordered_json& messages, bool with_calls) {
  ordered_json turn{{"role", "assistant"}, {"content", "an answer"}};
  for (const ordered_json& one : messages)
    if (with_calls && is_tool(one)) {
      const std::string name = one.contains("name") && one["name"].is_string() ? one["name"] : "tool";
      turn["tool_calls"].push_back(
          {{"type", "function"}, {"function", {{"name", name}, {"arguments", ordered_json::object()}}}});
    }
  return turn;
}

bool has_tools(const ordered_json& messages) { return std::any_of(messages.begin(), messages.end(), is_tool); }

}  // namespace

ChatContinuation::ChatContinuation(std::shared_ptr<const ChatTemplate> chat_template,
                                   std::shared_ptr<const Tokenizer> tokenizer)
    : template_(std::move(chat_template)), tokenizer_(std::move(tokenizer)) {
  turn_end_ = template_->turn_end(*tokenizer_);
  if (turn_end_) turn_end_text_ = tokenizer_->token_of(*turn_end_).value_or("");
  try {
    const Chat asked = Chat::from({ordered_json{kQuestion}.dump(), "", "", "", -1}, "a sample");
    const auto render = [&](bool prompt) {
      return template_->render(asked, {.generation_prompt = prompt, .now = kTrainingDate}).text;
    };
    const std::string with = render(true), without = render(false);
    if (with.starts_with(without)) asking_ = with.substr(without.size());
    const std::vector<std::int32_t> ids = tokenizer_->encode(asking_, false).ids;
    const bool has_mark = !ids.empty() && tokenizer_->is_special(ids[0]);
    mark_ = has_mark ? tokenizer_->token_of(ids[0]).value_or(asking_) : asking_;
  } catch (const Error&) {  // a template that wants other conversations
  }
}

jinja::Template::Rendered ChatContinuation::rendered(const ordered_json& messages, bool with_calls,
                                                     const std::string& where) const {
  ordered_json all = ordered_json::array({kQuestion, turn_before(messages, with_calls)});
  for (const ordered_json& one : messages) all.push_back(one);
  Chat chat = chat_for(*template_, {all.dump(), "", "", "", -1}, where);
  // A tokenizer may have a template of its own for tools; those of the record stand in the prompt.
  if (template_->has_one_for_tools() && has_tools(messages)) chat.tools = jinja::Value::list({});
  auto made = template_->render(chat, {.generation_prompt = true, .now = kTrainingDate});
  check_printed(*template_, chat, made, where);
  return made;
}

// Some templates have results of tools, but no calls: the model writes these as a text. Where no token ends turns, the
// end of a call would not be found.
jinja::Template::Rendered ChatContinuation::rendered(const ordered_json& messages, const std::string& where) const {
  if (has_tools(messages) && !turn_end_text_.empty()) try {
      return rendered(messages, /*with_calls=*/true, where);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
    }
  return rendered(messages, /*with_calls=*/false, where);
}

std::size_t ChatContinuation::end_of_turn(const jinja::Template::Rendered& rendered, std::int32_t ended_by,
                                          const std::string& where) const {
  const auto fail = [&](const std::string& fact) -> void {
    throw Error(ErrorKind::data, fmt::format("{}: cannot tell how the conversation goes on: {}", where, fact))
        .hint("answer with {\"text\": ...}, which follows the model's turn as it is");
  };
  std::size_t end = 0, next = rendered.text.size();  // of the turn's own text, and the first of what follows
  for (const jinja::Stretch& one : rendered.origins)
    if (one.source == Chat::source_of(kTurn)) end = std::max(end, one.end);
  if (end == 0) fail("the chat template leaves out the assistant's turn before it");
  for (const jinja::Stretch& one : rendered.origins)
    if (one.source > Chat::source_of(kTurn)) next = std::min(next, one.begin);
  if (turn_end_text_.empty()) return end;
  const std::size_t at = rendered.text.find(turn_end_text_, end);
  if (at >= next)
    fail(fmt::format("the chat template writes no {} between the assistant's turn and what follows",
                     hone::quoted(turn_end_text_)));
  return ended_by == *turn_end_ ? at + turn_end_text_.size() : at;
}

// Variables of the record may have said how a turn begins (with an empty reasoning, or within one).
std::string ChatContinuation::asking_in(const std::string& prompt) const {
  const std::size_t at = prompt.rfind(mark_);
  if (at == std::string::npos) return asking_;
  const std::string own = prompt.substr(at);
  const auto differ = std::mismatch(own.begin(), own.end(), asking_.begin(), asking_.end());
  const auto same = static_cast<std::size_t>(differ.first - own.begin());
  return same > mark_.size() || own == asking_ || mark_ == asking_ ? own : asking_;
}

std::string ChatContinuation::text(const ordered_json& messages, std::int32_t ended_by, const std::string& prompt,
                                   const std::string& where) const {
  const auto whole = during("going on behind a turn of the model's", [&] { return rendered(messages, where); });
  std::string text = whole.text.substr(end_of_turn(whole, ended_by, where));
  if (asking_.empty() || !text.ends_with(asking_)) return text;
  return text.substr(0, text.size() - asking_.size()) + asking_in(prompt);
}

}  // namespace hone::text
