// The forms of answers.
#include "serve/reply_json.h"

#include <gtest/gtest.h>

#include "hone/text.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

TEST(ReplyJson, HasCallsOfToolsAsTheApiHasThem) {
  const auto tokenizer = load_tokenizer("bytes");
  const ReplyHead head{"x", "m", 5, true};
  ChoiceText choice;
  choice.text = "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  choice.finish_reason = "stop", choice.has_tool_calls = true;
  const ordered_json whole = json_of(choice, *tokenizer, head);
  EXPECT_EQ(whole["finish_reason"], "tool_calls");
  EXPECT_EQ(whole["message"]["content"], "Let me see.");
  const ordered_json& call = whole["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "add");
  EXPECT_EQ(ordered_json::parse(call["function"]["arguments"].get<std::string>()), (ordered_json{{"a", 1}}));
  EXPECT_FALSE(call.contains("index"));
  const ordered_json part = part_of(choice, *tokenizer, head, false);
  EXPECT_EQ(part["delta"]["tool_calls"][0]["index"], 0);
  choice.has_tool_calls = false;
  EXPECT_EQ(json_of(choice, *tokenizer, head)["message"]["content"], choice.text);
  choice.has_tool_calls = true, choice.finish_reason = "length";
  EXPECT_EQ(json_of(choice, *tokenizer, head)["finish_reason"], "length");
}

TEST(ReplyJson, IsUtf8WhateverIsInIt) { EXPECT_EQ(dumped({{"a", "x\xff"}}), "{\"a\":\"x\xef\xbf\xbd\"}"); }

}  // namespace
}  // namespace hone::serve
