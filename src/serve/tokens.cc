#include "serve/tokens.h"

#include <fmt/format.h>

#include "generate/rows.h"
#include "serve/chat.h"
#include "serve/reply_json.h"
#include "serve/tools.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

std::vector<std::int32_t> ids_of_text(const ordered_json& prompt, Fields& fields, const Tokenized& tokenized) {
  if (!prompt.is_string()) Fields::wrong("prompt", prompt, "a text");
  const bool special = fields.flag("add_special_tokens", true);
  const std::string text = prompt.get<std::string>();
  if (special && tokenized.goes_on) return generate::prompt_ids(*tokenized.tokenizer, text);
  return tokenized.tokenizer->encode(text, special).ids;
}

void tokenize(const Tokenized& tokenized, const HttpRequest& request, const Reply& reply) {
  const ordered_json body = body_of(request);
  Fields fields(body);
  require_model(fields, tokenized.name);
  const bool as_texts = fields.flag("return_token_strs", false);
  const ordered_json *prompt = fields.find("prompt"), *messages = fields.find("messages");
  if ((prompt != nullptr) == (messages != nullptr))
    throw Refused(400, "expected a prompt, or messages", prompt ? "messages" : "prompt");
  if (messages && !tokenized.chat) throw Refused(400, "the model has no chat template", "messages");
  const std::vector<std::int32_t> ids =
      prompt ? ids_of_text(*prompt, fields, tokenized) : tokenized.chat(fields);
  fields.require_all_read();
  ordered_json texts;
  if (as_texts)
    for (const std::int32_t id : ids) texts.push_back(tokenized.tokenizer->token_of(id).value_or(""));
  reply.send(200, dumped({{"count", ids.size()},
                          {"max_model_len", tokenized.max_length},
                          {"tokens", ids},
                          {"token_strs", std::move(texts)}}));
}

void detokenize(const Tokenized& tokenized, const HttpRequest& request, const Reply& reply) {
  const ordered_json body = body_of(request);
  Fields fields(body);
  require_model(fields, tokenized.name);
  const ordered_json* tokens = fields.find("tokens");
  if (!tokens) throw Refused(400, "tokens: missing", "tokens");
  fields.require_all_read();
  const std::int64_t most = tokenized.tokenizer->vocab_size();
  if (!tokens->is_array()) Fields::wrong("tokens", *tokens, fmt::format("a list of token ids below {}", most));
  const std::vector<std::int32_t> ids = Fields::ids(*tokens, most, "tokens");
  reply.send(200, dumped({{"prompt", tokenized.tokenizer->decode(ids, /*skip_special=*/false)}}));
}

}  // namespace

std::vector<Front::Route> token_routes(const Tokenized& tokenized) {
  const auto route = [&](const char* path, auto answer) {
    return Front::Route{path, [tokenized, answer](const auto& asked, const auto& reply) {
                          answer(tokenized, asked, reply);
                        }, /*is_models=*/false};
  };
  return {route("/tokenize", tokenize), route("/detokenize", detokenize)};
}

std::vector<Front::Route> token_routes(const Served& served) {
  Tokenized tokenized{served.name, served.max_length, served.tokenizer, /*goes_on=*/true, {}};
  if (served.chat_text)
    tokenized.chat = [&served](Fields& fields) {
      const bool is_whole = !fields.flag("add_generation_prompt", true);
      ordered_json row = read_messages(fields, served, is_whole);
      const AskedTools tools = read_tools(fields, served);
      if (!tools.tools.is_null()) row["tools"] = tools.tools;
      fields.only("add_special_tokens", {false}, "the chat template has them where they belong");
      read_last_message(fields);
      return chat_prompt(row, served, is_whole).ids;
    };
  return token_routes(tokenized);
}

}  // namespace hone::serve
