// Calls of tools in what a model has written.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/chat/chat_template.h"

namespace hone::text {

// Around a call, and around what a model thinks before it answers.
struct CallMarks {
  static constexpr std::string_view begin = "<tool_call>", end = "</tool_call>", think = "<think>",
                                    thought = "</think>";
};

// Whether models with this template write their calls as find_tool_calls() reads them: it says <tool_call>, as those of
// Hermes and Qwen, and nothing of <function=, which begins calls of another form.
bool writes_tool_calls(const ChatTemplate& chat_template);

// An answer's text without its calls and the white space around them, and these as messages have them.
struct ToolCalls {
  std::string content;
  nlohmann::ordered_json calls =
      nlohmann::ordered_json::array();  // {"type": "function", "function": {name, arguments}}
  std::int64_t unreadable = 0;          // between the marks of a call, but none; they stay in the content
};
// <tool_call>{"name": ..., "arguments": {...}}</tool_call>; the last one may lack its end, where a stop text has cut
// it. Behind the last </think> alone: what is called in reasoning is thought of, and stays in the content. So does all
// of a text whose reasoning has not ended: one that begins with <think>, or `reasons`, where its prompt has begun it.
ToolCalls find_tool_calls(std::string_view text, bool reasons = false);
// The same of a text that was held to a form of calls (text/form/calls.h), whose reasoning has one end, the first one:
// another </think> is a part of what a call says.
ToolCalls find_held_calls(std::string_view text, bool reasons);

}  // namespace hone::text
