// The forms of answers.
#include "serve/reply_json.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

// Of a text's tokens, joined as clients do it.
std::string joined_bytes(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  ChoiceText choice;
  for (const std::int32_t id : ids) choice.tokens.push_back({.id = id, .has_log_probs = true});
  const ordered_json whole = json_of(choice, tokenizer, {"x", "m", 5, true});
  std::string joined;
  for (const ordered_json& token : whole["logprobs"]["content"])
    for (const ordered_json& byte : token["bytes"]) joined += static_cast<char>(byte.get<int>());
  return joined;
}

TEST(ReplyJson, HasTheTrueBytesOfTokensThatArePartsOfCharacters) {
  const std::string text = " caf\u00e9 \U0001F600\U0001F9D1\u200D\U0001F680 \u4E2D\u6587 \uFFFD";
  std::vector<std::string> folders = {"bytes"};
  if (const char* data = std::getenv("HONE_TEST_DATA"))
    for (const char* name : {"gpt2", "minimind", "qwen3", "mistral-7b-instruct"})
      folders.push_back(std::string(data) + "/tokenizers/" + name);
  for (const std::string& folder : folders) {
    SCOPED_TRACE(folder);
    const auto tokenizer = load_tokenizer(folder);
    const std::vector<std::int32_t> ids = tokenizer->encode(text, /*special=*/false).ids;
    const std::string joined = joined_bytes(*tokenizer, ids);
    // A blank that a tokenizer puts before a text is a token's own.
    EXPECT_EQ(joined.substr(joined.find("caf")), text.substr(1));
  }
}

TEST(ReplyJson, IsUtf8WhateverIsInIt) { EXPECT_EQ(dumped({{"a", "x\xff"}}), "{\"a\":\"x\xef\xbf\xbd\"}"); }

}  // namespace
}  // namespace hone::serve
