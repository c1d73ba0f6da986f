// What OpenAI's API asks for at /v1/completions and /v1/chat/completions, read and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hone/generate.h"
#include "serve/form_maker.h"
#include "serve/served.h"

namespace hone::serve {

struct Request {
  bool is_chat = false, stream = false, include_usage = false, echo = false, has_tools = false;
  bool is_named_call = false;    // the answer calls the one tool that was named
  bool begins_thinking = false;  // the prompt has begun what the model thinks before it answers
  std::int64_t n = 1;            // answers to each prompt
  std::int64_t log_probs = -1;   // of how many likeliest tokens beside each; below 0: none
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::string> texts;              // of the prompts, where they are echoed
  std::vector<DocPicture> pictures;            // of a chat
  FormMaker make_form = {};                    // empty: answers are held to none
  std::shared_ptr<text::TokenForm> form = {};  // that it made
  std::string form_by = {};                    // the field that asked for it
  bool holds_calls = false;                    // it is that of calls of tools
  std::shared_ptr<const GenerateConfig> config;
  std::int64_t answers() const { return n * std::ssize(prompts); }
};

// Throws Refused. Nothing of a request is passed over: a field that is not known is refused, and one that asks for what
// is not there; null is a field that is not given.
Request read_completion(const nlohmann::ordered_json& body, const Served& served);
Request read_chat(const nlohmann::ordered_json& body, const Served& served);

}  // namespace hone::serve
