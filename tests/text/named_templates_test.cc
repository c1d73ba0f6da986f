// The built-in chat templates: what each writes, what is learnt of it, and what it refuses.
#include "text/chat/named_templates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/files.h"
#include "text/chat/chat_mask.h"
#include "text/tokenizer/load.h"

namespace hone::text {
namespace {

// Bytes, and the tokens of all templates.
std::shared_ptr<const Tokenizer> tokenizer() {
  const Files files = {bytes_tokenizer_files()[0],
                       {"tokenizer_config.json", R"({"bos_token": "<|bos|>", "eos_token": "<|eos|>"})"}};
  std::vector<NewToken> added;
  for (const NamedTemplate& one : named_templates())
    for (const std::string_view token : one.tokens) added.push_back({.content = std::string(token)});
  return add_tokens(*make_tokenizer(files, {}, "test"), added);
}

Conversation talk_of(const std::string& messages) { return {messages, "", "", "", -1}; }

constexpr const char* kTalk = R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " one\n"},
  {"role": "assistant", "content": "\n ONE "}, {"role": "user", "content": "two"},
  {"role": "assistant", "content": "TWO"}])";

std::string render(const NamedTemplate& named, const Conversation& talk, bool prompt = false) {
  const ChatTemplate made(named.source, std::string(named.name), special_tokens_of(*tokenizer()));
  return made.render(Chat::from(talk, "here"), {.generation_prompt = prompt}).text;
}

std::string learnt(const NamedTemplate& named, const Conversation& talk, Learnt which) {
  const auto bytes = tokenizer();
  const ChatTemplate made(named.source, std::string(named.name), special_tokens_of(*bytes));
  const ChatTokens tokens = chat_tokens(made, *bytes, talk, which, "here");
  EXPECT_TRUE(tokens.ends_turns) << named.name;
  std::vector<std::int32_t> ids;
  for (const std::int32_t label : tokens.tokens.labels)
    if (label != -100) ids.push_back(label);
  return bytes->decode(ids, false);
}

struct Expected {
  std::string text, prompt, learnt;  // all of it; what a generation prompt adds; the assistant's turns
};

const std::map<std::string_view, Expected> kExpected = {
    {"alpaca",
     {"<|bos|>Be brief.\n\n### Instruction:\none\n\n### Response:\nONE<|eos|>\n\n### Instruction:\ntwo\n\n### "
      "Response:\nTWO<|eos|>\n\n",
      "### Response:\n", "ONE<|eos|>TWO<|eos|>"}},
    {"chatml",
     {"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\nONE<|im_end|>\n"
      "<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\nTWO<|im_end|>\n",
      "<|im_start|>assistant\n", "ONE<|im_end|>TWO<|im_end|>"}},
    {"gemma",
     {"<|bos|><start_of_turn>user\nBe brief.\n\none<end_of_turn>\n<start_of_turn>model\nONE<end_of_turn>\n"
      "<start_of_turn>user\ntwo<end_of_turn>\n<start_of_turn>model\nTWO<end_of_turn>\n",
      "<start_of_turn>model\n", "ONE<end_of_turn>TWO<end_of_turn>"}},
    {"llama3",
     {"<|bos|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>"
      "\n\none<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nONE<|eot_id|><|start_header_id|>user"
      "<|end_header_id|>\n\ntwo<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nTWO<|eot_id|>",
      "<|start_header_id|>assistant<|end_header_id|>\n\n", "ONE<|eot_id|>TWO<|eot_id|>"}},
    {"mistral",
     {"<|bos|>[INST] Be brief.\n\none [/INST] ONE<|eos|>[INST] two [/INST] TWO<|eos|>", "", " ONE<|eos|> TWO<|eos|>"}},
    {"phi3",
     {"<|system|>\nBe brief.<|end|>\n<|user|>\none<|end|>\n<|assistant|>\nONE<|end|>\n<|user|>\ntwo<|end|>\n"
      "<|assistant|>\nTWO<|end|>\n",
      "<|assistant|>\n", "ONE<|end|>TWO<|end|>"}},
    {"zephyr",
     {"<|system|>\nBe brief.<|eos|>\n<|user|>\none<|eos|>\n<|assistant|>\nONE<|eos|>\n<|user|>\ntwo<|eos|>\n"
      "<|assistant|>\nTWO<|eos|>\n",
      "<|assistant|>\n", "ONE<|eos|>TWO<|eos|>"}}};

TEST(NamedTemplates, WriteTurnsAndPromptsOfTheirForm) {
  ASSERT_EQ(named_templates().size(), kExpected.size());
  for (const NamedTemplate& named : named_templates()) {
    const Expected& expected = kExpected.at(named.name);
    EXPECT_EQ(find_template(named.name), &named);
    EXPECT_EQ(render(named, talk_of(kTalk)), expected.text) << named.name;
    EXPECT_EQ(render(named, talk_of(kTalk), true), expected.text + expected.prompt) << named.name;
  }
  EXPECT_EQ(find_template("nothing"), nullptr);
}

TEST(NamedTemplates, LearnTheAssistantsTurnsAndTheirEnds) {
  for (const NamedTemplate& named : named_templates()) {
    const std::string all = kExpected.at(named.name).learnt;
    EXPECT_EQ(learnt(named, talk_of(kTalk), Learnt::assistant), all) << named.name;
    const std::string last = all.substr(all.find('>') + 1);
    EXPECT_EQ(learnt(named, talk_of(kTalk), Learnt::last), last) << named.name;
    Conversation pair = talk_of(kTalk);
    pair.prompt = 4;
    EXPECT_EQ(learnt(named, pair, Learnt::completion), last) << named.name;
  }
}

TEST(NamedTemplates, RefuseWhatTheyHaveNoPlaceFor) {
  for (const NamedTemplate& named : named_templates()) {
    Conversation talk = talk_of(R"([{"role": "user", "content": "a"}])");
    talk.tools = R"([{"type": "function", "function": {"name": "f"}}])";
    EXPECT_HONE_ERROR(render(named, talk), data, "no place for tools");
    EXPECT_HONE_ERROR(render(named, talk_of(R"([{"role": "user", "content": ["a"]}])")), data, "expects a text");
    EXPECT_HONE_ERROR(render(named, talk_of(R"([{"role": "assistant", "content": null}])")), data, "expects a text");
    EXPECT_HONE_ERROR(
        render(named, talk_of(R"([{"role": "assistant", "content": "", "tool_calls": [{"function": {}}]}])")), data,
        "no place for tool calls");
    if (named.name == "chatml" || named.name == "llama3") continue;  // any role, anywhere
    EXPECT_HONE_ERROR(render(named, talk_of(R"([{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}])")),
                      data, "no place for the role tool of message 2");
    EXPECT_HONE_ERROR(
        render(named, talk_of(R"([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}])")), data,
        "no place for the role system of message 2");
  }
  for (const char* name : {"gemma", "mistral"})
    EXPECT_HONE_ERROR(render(*find_template(name),
                             talk_of(R"([{"role": "system", "content": "a"}, {"role": "assistant", "content": "b"}])")),
                      data, "expects the user after the system message");
}

// What generation begins with and what is learnt behind it are the tokens of one text.
TEST(NamedTemplates, BeginAnswersWhereGenerationBegins) {
  const auto data = ::hone::test::test_data("tokenizers");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  for (const char* name : {"gpt2", "mistral-7b-instruct", "minimind"})
    for (const NamedTemplate& named : named_templates()) {
      // GPT-2 cuts two line ends at the end of the prompt otherwise than before a word: such turns are refused.
      if (std::string_view(name) == "gpt2" && named.name == "llama3") continue;
      std::vector<NewToken> added;
      for (const std::string_view token : named.tokens) added.push_back({.content = std::string(token)});
      const auto tokenizer = add_tokens(*load_tokenizer(*data / name), added);
      const ChatTemplate made(named.source, std::string(named.name), special_tokens_of(*tokenizer));
      const Conversation asked = talk_of(R"([{"role": "user", "content": "hi"}])");
      const std::string prompt = made.render(Chat::from(asked, "here"), {.generation_prompt = true}).text;
      const std::vector<std::int32_t> before = tokenizer->encode(prompt, false).ids;
      const Conversation talk =
          talk_of(R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "\n Yes, ok\n"}])");
      const Tokens tokens = chat_tokens(made, *tokenizer, talk, Learnt::assistant, "here").tokens;
      SCOPED_TRACE(std::string(name) + " " + std::string(named.name));
      ASSERT_GT(tokens.ids.size(), before.size());
      EXPECT_TRUE(std::equal(before.begin(), before.end(), tokens.ids.begin()));
      const auto first = std::find_if(tokens.labels.begin(), tokens.labels.end(), [](auto id) { return id != -100; });
      EXPECT_EQ(static_cast<std::size_t>(first - tokens.labels.begin()), before.size());
      EXPECT_EQ(tokenizer->decode({*first}, false).find('\n'), std::string::npos);
    }
}

}  // namespace
}  // namespace hone::text
