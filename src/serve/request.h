// What OpenAI's API asks for at /v1/completions and /v1/chat/completions, read and checked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "hone/generate.h"
#include "serve/refused.h"

namespace hone::serve {

// What is served, and how requests are understood.
struct Served {
  std::string name = {};
  const Model* model = nullptr;
  std::shared_ptr<const Tokenizer> tokenizer = {};
  GenerateConfig defaults = {}, chat_defaults = {};  // for what a request leaves open; of a chat with its turns' end
  std::int64_t max_length = 0;                       // tokens of a prompt and its answer
  std::int64_t most_answers = 0;                     // of one request
  // What the model continues for {messages, tools, documents, chat_template_kwargs}; empty: there is no chat template.
  // Throws Error.
  std::function<std::string(const nlohmann::ordered_json&)> chat_text = {};
  std::function<bool(const std::string&)> template_reads = {};  // whether the chat template has this name in it
  bool finds_tool_calls = false;                                // in what is answered to a chat with tools
  std::shared_ptr<const Tokenizer> chat_tokenizer = {};  // of a chat's text, where pictures ask for another one
  // Of a chat's pictures and the tokens of its text, which are widened; empty: the model reads none. Throws Error.
  std::function<std::vector<DocPicture>(const nlohmann::ordered_json&, std::vector<std::int32_t>&)> place_pictures = {};
};

struct Request {
  bool is_chat = false, stream = false, include_usage = false, echo = false, has_tools = false;
  std::int64_t n = 1;           // answers to each prompt
  std::int64_t log_probs = -1;  // of how many likeliest tokens beside each; below 0: none
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::string> texts;  // of the prompts, where they are echoed
  std::vector<DocPicture> pictures;  // of a chat
  std::shared_ptr<const GenerateConfig> config;
  std::int64_t answers() const { return n * std::ssize(prompts); }
};

// Throws Refused. Nothing of a request is passed over: a field that is not known is refused, and one that asks for what
// is not there; null is a field that is not given.
Request read_completion(const nlohmann::ordered_json& body, const Served& served);
Request read_chat(const nlohmann::ordered_json& body, const Served& served);

}  // namespace hone::serve
