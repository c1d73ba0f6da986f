// Conversations that wait for an answer.
#include "cli/chat_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "data/conversations.h"
#include "data/pictures.h"
#include "data/template_variables.h"
#include "hone/error.h"
#include "text/chat/chat_printed.h"

namespace hone::cli {

using nlohmann::ordered_json;

namespace {

// What is asked; a record has one of them.
constexpr const char* kAsked[] = {"messages", "conversations", "prompt", "text"};
// Beside it.
constexpr const char* kFields[] = {"system", "tools", "documents", "chat_template_kwargs"};
constexpr const char* kPictures[] = {"images", "image"};

std::string system_of(const ordered_json& row, const data::Place& place) {
  if (!row.contains("system") || row["system"].is_null()) return "";
  if (row["system"].is_string()) return row["system"].get<std::string>();
  throw Error(ErrorKind::data, fmt::format("{}: field \"system\": got {}, expected a string", place.text(),
                                           data::type_of(row["system"])));
}

}  // namespace

ChatPrompts::ChatPrompts(std::shared_ptr<const Tokenizer> tokenizer, std::string system, std::string variables,
                         bool reads_pictures)
    : tokenizer_(std::move(tokenizer)),
      template_(text::ChatTemplate::of(*tokenizer_)),
      system_(std::move(system)),
      variables_(std::move(variables)),
      reads_pictures_(reads_pictures) {
  if (!template_)
    throw Error(ErrorKind::config, "--chat: the tokenizer has no chat template")
        .hint("put a chat_template.jinja beside its tokenizer.json, or give one by --chat-template");
  data::check_variables(variables_, "--chat-template-kwargs");
}

Conversation ChatPrompts::of_user(const std::string& text, std::size_t pictures) const {
  ordered_json messages = ordered_json::array();
  if (!system_.empty()) messages.push_back(data::message("system", system_));
  messages.push_back(data::message("user", text));
  if (pictures > 0) {
    ordered_json parts(pictures, data::image_part());
    parts.push_back({{"type", "text"}, {"text", text}});
    messages.back()["content"] = std::move(parts);
  }
  return {messages.dump(), "", "", variables_, -1};
}

void ChatPrompts::refuse_fields(const ordered_json& row, const data::Place& place) {
  for (const char* field : kFields)
    if (row.contains(field) && !row[field].empty() && row[field] != "")
      throw Error(ErrorKind::data, fmt::format("{}: field \"{}\": only with --chat", place.text(), field));
}

void ChatPrompts::add_unread(const ordered_json& row, bool reads_pictures, std::set<std::string>& names) {
  std::set<std::string_view> known(std::begin(kAsked), std::end(kAsked));
  known.insert(std::begin(kFields), std::end(kFields));
  if (reads_pictures) known.insert(std::begin(kPictures), std::end(kPictures));
  for (const auto& [name, value] : row.items())
    if (!known.contains(name)) names.insert(name);
}

bool ChatPrompts::asks(const ordered_json& row) {
  return std::any_of(std::begin(kAsked), std::end(kAsked),
                     [&](const char* field) { return row.contains(field) && !row[field].is_null(); });
}

std::string ChatPrompts::field_of(const ordered_json& row, const data::Place& place) {
  std::string found;
  for (const char* field : kAsked) {
    if (!row.contains(field) || row[field].is_null()) continue;
    if (!found.empty())
      throw Error(ErrorKind::data, fmt::format("{}: fields \"{}\" and \"{}\"; expected one of them: each says what is "
                                               "asked",
                                               place.text(), found, field));
    found = field;
  }
  return found;
}

bool ChatPrompts::is_conversation(const ordered_json& row, const data::Place& place) {
  const std::string field = field_of(row, place);
  return field == "messages" || field == "conversations" || (field == "prompt" && row[field].is_array());
}

std::vector<PictureFile> ChatPrompts::pictures_of(const ordered_json& row, const data::Place& place) {
  for (const std::string field : kPictures)
    if (const auto found = row.find(field); found != row.end() && !found->is_null())
      return data::pictures_of(*found, data::picture_folder(place.path, ""), {field, place});
  return {};
}

Conversation ChatPrompts::of_row(const ordered_json& row, const data::Place& place,
                                 std::vector<PictureFile>& pictures) const {
  const std::string field = field_of(row, place);
  ordered_json messages = data::read_messages(row[field], field, place);
  while (!messages.empty() && messages.back()["role"] == "assistant") messages.erase(messages.size() - 1);
  if (messages.empty()) throw Error(ErrorKind::data, place.text() + ": nothing that the assistant could answer");
  return with_fields(row, std::move(messages), place, pictures);
}

Conversation ChatPrompts::of_prompt(const std::string& text, const ordered_json& row, const data::Place& place,
                                    std::vector<PictureFile>& pictures) const {
  return with_fields(row, ordered_json::array({data::message("user", text)}), place, pictures);
}

Conversation ChatPrompts::with_fields(const ordered_json& row, ordered_json messages, const data::Place& place,
                                      std::vector<PictureFile>& pictures) const {
  const std::string system = system_of(row, place);
  if (!system.empty() || (!system_.empty() && messages[0]["role"] != "system"))
    messages.insert(messages.begin(), data::message("system", system.empty() ? system_ : system));
  if (reads_pictures_)
    pictures = data::place_pictures(messages, pictures_of(row, place), data::picture_folder(place.path, ""), place);
  const auto text_of = [&](const char* name) {
    const bool there = row.contains(name) && !row[name].is_null();
    return there ? data::template_json(row[name], place) : std::string();
  };
  Conversation conversation{data::template_json(messages, place), "", text_of("documents"),
                            text_of("chat_template_kwargs"), -1};
  if (row.contains("tools")) {
    const ordered_json tools = data::read_tools(row["tools"], "tools", place);
    if (!tools.is_null()) conversation.tools = data::template_json(tools, place);
  }
  conversation.variables = data::with_others(conversation.variables, variables_);
  return conversation;
}

void ChatPrompts::append(Conversation& conversation, const std::string& answer, const std::string& next) {
  ordered_json messages = ordered_json::parse(conversation.messages);
  messages.push_back(data::message("assistant", answer));
  messages.push_back(data::message("user", next));
  conversation.messages = messages.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string ChatPrompts::printed(const Conversation& conversation, bool begins_answer) const {
  const auto now = static_cast<std::int64_t>(wall_seconds());
  return text::prompt_text(*template_, data::for_template(conversation, *template_, reads_pictures_), "the prompt",
                           now, begins_answer);
}

std::string ChatPrompts::text_of(const Conversation& conversation) const {
  return printed(conversation, /*begins_answer=*/true);
}

std::string ChatPrompts::whole_text_of(const ordered_json& row, const data::Place& place) const {
  const std::string field = field_of(row, place);
  std::vector<PictureFile> pictures;
  return printed(with_fields(row, data::read_messages(row[field], field, place), place, pictures),
                 /*begins_answer=*/false);
}

void ChatPrompts::add_turn_end(GenerateConfig& config) const {
  const std::optional<std::int32_t> end = template_->turn_end(*tokenizer_, variables_);
  if (!end) return;
  if (config.eos_token_id.empty() && tokenizer_->eos_id) config.eos_token_id.push_back(*tokenizer_->eos_id);
  config.eos_token_id.push_back(*end);
}

}  // namespace hone::cli
