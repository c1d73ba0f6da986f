#include "serve/reply_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat/tool_calls.h"
#include "text/form/token_texts.h"
#include "text/unicode/unicode.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

// A number in JSON: minus infinity is none.
double finite(double log_prob) { return std::max(log_prob, -9999.0); }

// A byte each, as numbers.
ordered_json bytes_of(const std::string& text) {
  ordered_json bytes = ordered_json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

ordered_json told(const Tokenizer& tokenizer, std::int32_t id, double log_prob) {
  const std::string text = token_text(tokenizer, id);
  // Clients join the bytes of tokens that have a part of a character each.
  const bool in_parts = text.find(text::kReplacementChar) != std::string::npos;
  const std::string bytes = in_parts ? text::bytes_of_token(tokenizer, id, /*first=*/false) : "";
  return {{"token", text}, {"logprob", finite(log_prob)}, {"bytes", bytes_of(bytes.empty() ? text : bytes)}};
}

ordered_json chat_log_probs(const ChoiceText& choice, const Tokenizer& tokenizer) {
  ordered_json content = ordered_json::array();
  for (const ToldToken& one : choice.tokens) {
    ordered_json token = told(tokenizer, one.id, one.log_probs.chosen);
    token["top_logprobs"] = ordered_json::array();
    for (const auto& [id, log_prob] : one.log_probs.likeliest)
      token["top_logprobs"].push_back(told(tokenizer, id, log_prob));
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}};
}

ordered_json text_log_probs(const ChoiceText& choice, const Tokenizer& tokenizer) {
  ordered_json tokens = ordered_json::array(), own = ordered_json::array(), top = ordered_json::array(),
               offsets = ordered_json::array();
  for (const ToldToken& one : choice.tokens) {
    const std::string text = token_text(tokenizer, one.id);
    tokens.push_back(text);
    offsets.push_back(one.offset);
    if (!one.has_log_probs) {
      own.push_back(nullptr), top.push_back(nullptr);
      continue;
    }
    own.push_back(finite(one.log_probs.chosen));
    ordered_json likeliest = ordered_json::object();
    for (const auto& [id, log_prob] : one.log_probs.likeliest) {
      const std::string other = token_text(tokenizer, id);
      if (!likeliest.contains(other)) likeliest[other] = finite(log_prob);  // likeliest first
    }
    top.push_back(std::move(likeliest));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(own)},
          {"top_logprobs", std::move(top)},
          {"text_offset", std::move(offsets)}};
}

ordered_json log_probs_of(const ChoiceText& choice, const Tokenizer& tokenizer, bool is_chat) {
  if (choice.tokens.empty()) return nullptr;
  return is_chat ? chat_log_probs(choice, tokenizer) : text_log_probs(choice, tokenizer);
}

// Calls as the API has them: arguments are a text, and each has an id.
ordered_json calls_of(const ordered_json& found, const ReplyHead& head, bool is_part) {
  ordered_json calls = ordered_json::array();
  for (const ordered_json& call : found) {
    ordered_json made = {
        {"id", fmt::format("call_{}_{}", head.id, calls.size())},
        {"type", "function"},
        {"function", {{"name", call["function"]["name"]}, {"arguments", call["function"]["arguments"].dump()}}}};
    if (is_part) made["index"] = calls.size();
    calls.push_back(std::move(made));
  }
  return calls;
}

// The text as a message, and why it ends.
std::pair<ordered_json, std::string> message_of(const ChoiceText& choice, const ReplyHead& head, bool is_part) {
  ordered_json message;
  if (!is_part) message["role"] = "assistant";
  if (choice.has_tool_calls) {
    const auto find = choice.is_held ? text::find_held_calls : text::find_tool_calls;
    const text::ToolCalls found = find(choice.text, choice.begins_thinking);
    if (!found.calls.empty()) {
      message["content"] = found.content.empty() ? ordered_json() : ordered_json(found.content);
      message["tool_calls"] = calls_of(found.calls, head, is_part);
      // As OpenAI's API has it: a call that was not the model's choice is no reason to end.
      const bool is_reason = choice.finish_reason == "stop" && !choice.is_named_call;
      return {std::move(message), is_reason ? "tool_calls" : choice.finish_reason};
    }
  }
  message["content"] = choice.text;
  return {std::move(message), choice.finish_reason};
}

ordered_json reason_of(const std::string& reason) { return reason.empty() ? ordered_json() : ordered_json(reason); }

}  // namespace

std::string token_text(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string alone = tokenizer.decode({id}, /*skip_special=*/false);
  std::string twice = tokenizer.decode({id, id}, /*skip_special=*/false);
  return twice.starts_with(alone) ? twice.substr(alone.size()) : alone;
}

ordered_json json_of(const ChoiceText& choice, const Tokenizer& tokenizer, const ReplyHead& head) {
  ordered_json log_probs = log_probs_of(choice, tokenizer, head.is_chat);
  if (!head.is_chat)
    return {{"index", choice.index},
            {"text", choice.text},
            {"logprobs", std::move(log_probs)},
            {"finish_reason", reason_of(choice.finish_reason)}};
  auto [message, reason] = message_of(choice, head, /*is_part=*/false);
  return {{"index", choice.index},
          {"message", std::move(message)},
          {"logprobs", std::move(log_probs)},
          {"finish_reason", reason_of(reason)}};
}

ordered_json part_of(const ChoiceText& choice, const Tokenizer& tokenizer, const ReplyHead& head, bool first) {
  if (!head.is_chat) return json_of(choice, tokenizer, head);
  auto [delta, reason] = message_of(choice, head, /*is_part=*/true);
  if (choice.text.empty())
    delta = first ? ordered_json{{"role", "assistant"}, {"content", ""}} : ordered_json::object();
  return {{"index", choice.index},
          {"delta", std::move(delta)},
          {"logprobs", log_probs_of(choice, tokenizer, true)},
          {"finish_reason", reason_of(reason)}};
}

ordered_json reply_of(const ReplyHead& head, ordered_json choices, const Usage* usage, bool is_part) {
  const char* object = !head.is_chat ? "text_completion" : is_part ? "chat.completion.chunk" : "chat.completion";
  ordered_json reply = {{"id", (head.is_chat ? "chatcmpl-" : "cmpl-") + head.id},
                        {"object", object},
                        {"created", head.created},
                        {"model", head.model},
                        {"choices", std::move(choices)}};
  if (usage)
    reply["usage"] = {{"prompt_tokens", usage->prompt_tokens},
                      {"completion_tokens", usage->completion_tokens},
                      {"total_tokens", usage->prompt_tokens + usage->completion_tokens},
                      {"prompt_tokens_details", {{"cached_tokens", usage->cached_tokens}}}};
  return reply;
}

ordered_json error_of(const Refused& refused) {
  const auto or_null = [](const std::string& text) { return text.empty() ? ordered_json() : ordered_json(text); };
  const char* type = refused.status >= 500   ? "server_error"
                     : refused.status == 401 ? "authentication_error"
                                             : "invalid_request_error";
  return {{"error",
           {{"message", refused.message},
            {"type", type},
            {"param", or_null(refused.param)},
            {"code", or_null(refused.code)}}}};
}

ordered_json models_of(const std::string& name, std::int64_t max_length, std::int64_t created) {
  ordered_json model = {{"id", name},
                        {"object", "model"},
                        {"created", created},
                        {"owned_by", "hone"},
                        {"max_model_len", max_length}};
  return {{"object", "list"}, {"data", ordered_json::array({std::move(model)})}};
}

std::string dumped(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace hone::serve
