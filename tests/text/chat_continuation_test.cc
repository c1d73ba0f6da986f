// What follows a turn that the model has written itself, and the calls in it.
#include "text/chat/chat_continuation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/files.h"
#include "text/chat/named_templates.h"
#include "text/chat/tool_calls.h"
#include "text/tokenizer/load.h"

namespace hone::text {
namespace {

using nlohmann::ordered_json;

// Bytes, the tokens of the built-in templates, and this template.
std::shared_ptr<const Tokenizer> bytes_with(const std::string& chat_template) {
  const Files files = {bytes_tokenizer_files()[0],
                       {"tokenizer_config.json", R"({"bos_token": "<|bos|>", "eos_token": "<|eos|>"})"},
                       {kTemplateFile, chat_template}};
  std::vector<NewToken> added;
  for (const NamedTemplate& one : named_templates())
    for (const std::string_view token : one.tokens) added.push_back({.content = std::string(token)});
  return add_tokens(*make_tokenizer(files, {}, "test"), added);
}

// The text behind a turn that ended with this token; "": with a letter.
std::string behind(const std::shared_ptr<const Tokenizer>& tokenizer, const ordered_json& messages,
                   const std::string& ended_by, const std::string& prompt = "") {
  const ChatContinuation made(ChatTemplate::of(*tokenizer), tokenizer);
  return made.text(messages, ended_by.empty() ? 'a' : *tokenizer->id_of(ended_by), prompt, "here");
}

const ordered_json kResults = {{{"role", "tool"}, {"name", "add"}, {"content", "4"}},
                               {{"role", "tool"}, {"name", "add"}, {"content", "5"}}};
const ordered_json kUser = {{{"role", "user"}, {"content", "higher"}}};

// What transformers writes behind <|im_end|>.
TEST(ChatContinuation, IsTheTemplatesTextBetweenTurns) {
  HONE_NEEDS_DATA(folder, "tokenizers/qwen3");
  const auto qwen = load_tokenizer(folder.string());
  EXPECT_EQ(behind(qwen, kResults, "<|im_end|>"),
            "\n<|im_start|>user\n<tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response><|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(behind(qwen, kUser, "<|im_end|>"), "\n<|im_start|>user\nhigher<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_TRUE(writes_tool_calls(*ChatTemplate::of(*qwen)));
}

TEST(ChatContinuation, EndsATurnThatTheModelHasNotEnded) {
  const auto chatml = bytes_with(find_template("chatml")->source);
  const std::string text = "<|im_start|>user\nhigher<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(behind(chatml, kUser, "<|im_end|>"), "\n" + text);
  EXPECT_EQ(behind(chatml, kUser, ""), "<|im_end|>\n" + text);
  EXPECT_EQ(behind(chatml, kUser, "<|eos|>"), "<|im_end|>\n" + text);
}

TEST(ChatContinuation, GoesByEachBuiltInTemplate) {
  const auto of = [](const char* name, const std::string& end) {
    return behind(bytes_with(find_template(name)->source), kUser, end);
  };
  EXPECT_EQ(of("alpaca", "<|eos|>"), "\n\n### Instruction:\nhigher\n\n### Response:\n");
  EXPECT_EQ(of("gemma", "<end_of_turn>"), "\n<start_of_turn>user\nhigher<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(of("llama3", "<|eot_id|>"),
            "<|start_header_id|>user<|end_header_id|>\n\nhigher<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
            "\n\n");
  EXPECT_EQ(of("mistral", "<|eos|>"), "[INST] higher [/INST]");
  EXPECT_EQ(of("zephyr", "<|eos|>"), "\n<|user|>\nhigher<|eos|>\n<|assistant|>\n");
}

TEST(ChatContinuation, BeginsTurnsAsThePromptHasBegunTheFirst) {
  const auto chatml = bytes_with(find_template("chatml")->source);
  const std::string user = "\n<|im_start|>user\nhigher<|im_end|>\n<|im_start|>assistant\n";
  const std::string prompt = "<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(behind(chatml, kUser, "<|im_end|>", prompt), user);
  EXPECT_EQ(behind(chatml, kUser, "<|im_end|>", prompt + "<think>\n\n</think>\n\n"), user + "<think>\n\n</think>\n\n");
  EXPECT_EQ(behind(chatml, kUser, "<|im_end|>", "Go. "), user);  // a text, which says nothing of turns
  // Where the template itself begins turns with an empty reasoning, and the record's variables have begun it otherwise.
  const auto thinks = bytes_with(std::string(find_template("chatml")->source) +
                                 "{% if add_generation_prompt %}{{ '<think>\\n\\n</think>' }}{% endif %}");
  EXPECT_EQ(behind(thinks, kUser, "<|im_end|>", prompt + "<think>\n\n</think>"), user + "<think>\n\n</think>");
  EXPECT_EQ(behind(thinks, kUser, "<|im_end|>", prompt + "<think>\n"), user + "<think>\n");
}

TEST(ChatContinuation, NeedsATemplateThatWritesWhatFollows) {
  const auto zephyr = bytes_with(find_template("zephyr")->source);
  EXPECT_HONE_ERROR(behind(zephyr, kResults, "<|eos|>"), data, "this chat template has no place for the role tool");
  const auto last = bytes_with("{{ messages[-1].content }}<|eos|>");
  EXPECT_HONE_ERROR(behind(last, kUser, "<|eos|>"), data, "messages[0].content");
  const auto upper = bytes_with("{% for m in messages %}{{ m.content }}{% endfor %}<|eos|>");
  EXPECT_HONE_ERROR(behind(upper, kUser, "<|eos|>"), data,
                    "here: cannot tell how the conversation goes on: the chat template writes no \"<|eos|>\" between");
}

// Results of tools without calls before them.
TEST(ChatContinuation, DoesWithoutCallsWhereATemplateHasNone) {
  const auto chatml = bytes_with(find_template("chatml")->source);
  EXPECT_EQ(behind(chatml, kResults, "<|im_end|>"),
            "\n<|im_start|>tool\n4<|im_end|>\n<|im_start|>tool\n5<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ToolCalls, AreFoundInAText) {
  const auto found = find_tool_calls(
      "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
      "<tool_call>{\"name\": \"now\"}</tool_call>");
  EXPECT_EQ(found.content, "Let me see.");
  EXPECT_EQ(found.unreadable, 0);
  EXPECT_EQ(found.calls.dump(), R"([{"type":"function","function":{"name":"add","arguments":{"a":1}}},)"
                                R"({"type":"function","function":{"name":"now","arguments":{}}}])");
}
TEST(ToolCalls, MayLackTheirEndWhereTheAnswerEnds) {
  EXPECT_EQ(find_tool_calls("<tool_call>{\"name\": \"now\"}").calls.size(), 1u);
}
TEST(ToolCalls, AreNotLookedForInReasoning) {
  const std::string call = "<tool_call>{\"name\": \"now\"}</tool_call>";
  const auto found = find_tool_calls("<think>\nPerhaps " + call + "?\n</think>\n\nYes. " + call);
  EXPECT_EQ(found.calls.size(), 1u);
  EXPECT_EQ(found.content, "<think>\nPerhaps " + call + "?\n</think>\n\nYes.");  // as templates take it apart
  EXPECT_TRUE(find_tool_calls("\n<think>Perhaps " + call).calls.empty());  // it has not ended
  EXPECT_TRUE(find_tool_calls("Perhaps " + call, /*reasons=*/true).calls.empty());
  EXPECT_EQ(find_tool_calls("Perhaps</think>" + call, /*reasons=*/true).calls.size(), 1u);
  EXPECT_EQ(find_tool_calls("<think>" + call + "<tool_call>1</tool_call></think>").unreadable, 0);
}
TEST(ToolCalls, MayHoldTheMarkOfTheirEnd) {
  const auto found = find_tool_calls(
      R"(a <tool_call>{"name": "f", "arguments": {"x": "\"</tool_call>", "y": 1}}</tool_call> b)");
  EXPECT_EQ(found.content, "a  b");
  EXPECT_EQ(found.calls.dump(),
            R"([{"type":"function","function":{"name":"f","arguments":{"x":"\"</tool_call>","y":1}}}])");
  // A text that is not ended takes nothing along.
  const auto two = find_tool_calls(R"(<tool_call>{"name</tool_call><tool_call>{"name": "now"}</tool_call>)");
  EXPECT_EQ(two.unreadable, 1);
  EXPECT_EQ(two.calls.size(), 1u);
  EXPECT_EQ(find_tool_calls(R"(<tool_call>{"name": "f", "arguments": {"x": "</tool_call>"}})").calls.size(), 1u);
}
TEST(ToolCalls, ThatAreNoneStayText) {
  for (const std::string text : {"<tool_call>add(1)</tool_call>", "<tool_call>{\"name\": 3}</tool_call>",
                                 "<tool_call>{\"name\": \"a\", \"arguments\": \"b\"}</tool_call>",
                                 "<tool_call>[1]</tool_call>", "<tool_call>{\"name\": \"a\""}) {
    const auto found = find_tool_calls("x " + text);
    EXPECT_EQ(found.unreadable, 1) << text;
    EXPECT_EQ(found.content, "x " + text);
    EXPECT_TRUE(found.calls.empty());
  }
  EXPECT_EQ(find_tool_calls("none at all </tool_call>").content, "none at all </tool_call>");
}

}  // namespace
}  // namespace hone::text
