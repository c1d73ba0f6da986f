// A model as it is served.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hone/generate.h"

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
  // The same without the beginning of an answer; there where chat_text is.
  std::function<std::string(const nlohmann::ordered_json&)> whole_chat_text = {};
  std::function<bool(const std::string&)> template_reads = {};  // whether the chat template has this name in it
  bool finds_tool_calls = false;                                // in what is answered to a chat with tools
  std::shared_ptr<const Tokenizer> chat_tokenizer = {};  // of a chat's text, where pictures ask for another one
  // Of a chat's pictures and the tokens of its text, which are widened; empty: the model reads none. Throws Error.
  std::function<std::vector<DocPicture>(const nlohmann::ordered_json&, std::vector<std::int32_t>&)> place_pictures = {};
};

}  // namespace hone::serve
