// The tools of a chat: which of them its answer may call, or has to.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "serve/fields.h"
#include "serve/form_maker.h"
#include "serve/served.h"
#include "text/form/calls.h"

namespace hone::serve {

struct AskedTools {
  nlohmann::ordered_json tools = {};       // as the chat template reads them; null: there are none
  bool is_named = false;                   // the one function that has to be called was named
  std::optional<text::CallForm> form = {};  // that answers are held to; nothing: none
  const char* asked_by = "tool_choice";    // the field that asked for it
};

// Reads tools, tool_choice and parallel_tool_calls. Throws Refused.
AskedTools read_tools(Fields& fields, const Served& served);

// What makes the form of an answer that goes on from a prompt of this text; empty: it is held to none.
FormMaker maker_of_calls(AskedTools asked, const std::string& prompt, const Served& served);

// Whether a prompt has begun what a model thinks before it answers.
bool begins_thinking(const std::string& prompt);

}  // namespace hone::serve
