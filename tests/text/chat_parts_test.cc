// Parts of messages that are learnt: Axolotl's choice of tokens (tools/golden/golden_message_parts.py), and what
// becomes of it in a whole conversation.
#include "text/chat/chat_parts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "text/chat/chat_mask.h"
#include "text/tokenizer/load.h"

namespace hone::text {
namespace {

using nlohmann::ordered_json;

std::ifstream parts_golden(const char* name) { return std::ifstream(std::string(HONE_SOURCE_DIR) + name); }

const Tokenizer& parts_tokenizer() {
  static const std::shared_ptr<const Tokenizer> made = [] {
    std::ifstream file = parts_golden("/tests/golden/text/chat.jsonl");
    std::string line;
    std::getline(file, line);
    const ordered_json first = ordered_json::parse(line);
    return make_tokenizer(
        {{"tokenizer.json", first["tokenizer"].dump()}, {"tokenizer_config.json", first["config"].dump()}}, {},
        "golden");
  }();
  return *made;
}

TEST(ChatParts, AreTheTokensThatAxolotlLearns) {
  std::ifstream file = parts_golden("/tests/golden/text/message_parts.jsonl");
  int checked = 0;
  for (const ordered_json& line : ordered_json::parse(file)) {
    const std::string content = line["content"], expected = line["learnt"];
    SCOPED_TRACE(content + " " + line["parts"].dump());
    std::vector<MessagePart> parts;
    for (const ordered_json& one : line["parts"])
      parts.push_back({one["begin_offset"], one["end_offset"], one["train"]});
    const Encoding encoding = parts_tokenizer().encode(content, false);
    const auto found = learnt_tokens(encoding, content, 0, content.size(), content, parts);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->learnt.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == '-') continue;
      EXPECT_EQ(found->learnt[i], expected[i] == '1') << "token " << i;
      ++checked;
    }
  }
  EXPECT_GT(checked, 2000);
}

constexpr const char* kTurns =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr const char* kBlocks =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content | trim }}<|im_end|>{% endgeneration %}{% else %}{{ m.content | trim }}<|im_end|>{% endif %}\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

ordered_json part(int begin, int end, bool train) {
  return {{"begin_offset", begin}, {"end_offset", end}, {"train", train}};
}
ordered_json turn(const char* role, const std::string& content, ordered_json parts = nullptr) {
  return {{"role", role}, {"content", content}, {"train_detail", std::move(parts)}};
}

std::string learnt_of(const ordered_json& messages, const char* source = kTurns, Learnt learnt = Learnt::assistant) {
  const ChatTemplate chat(source, "template", special_tokens_of(parts_tokenizer()));
  const ChatTokens made = chat_tokens(chat, parts_tokenizer(), {messages.dump(), "", "", "", -1}, learnt, "here");
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < made.tokens.ids.size(); ++i)
    if (made.tokens.labels[i] != -100) ids.push_back(made.tokens.ids[i]);
  return parts_tokenizer().decode(ids, false);
}

// The offsets are characters, of the content as the record has it; a turn's end is learnt with the turn.
TEST(ChatParts, OfATurnAreLearntWithItsEnd) {
  const auto parts = [](int begin, int end, bool train) { return ordered_json::array({part(begin, end, train)}); };
  for (const char* source : {kTurns, kBlocks}) {
    SCOPED_TRACE(source);
    const ordered_json asked = turn("user", "é é", parts(0, 1, false));
    const auto learnt = [&](const std::string& content, ordered_json chosen) {
      return learnt_of({asked, turn("assistant", content, std::move(chosen))}, source);
    };
    EXPECT_EQ(learnt("x,é,y", parts(2, 2, true)), "é<|im_end|>");
    EXPECT_EQ(learnt(" x,é,y ", parts(3, 3, true)), "é<|im_end|>") << "of the content as it is, not as it is written";
    EXPECT_EQ(learnt("a z", parts(0, 2, false)), "<|im_end|>");
    EXPECT_EQ(learnt("a z", ordered_json::array()), "a z<|im_end|>") << "nothing is said";
    const ordered_json two{turn("user", "q"), turn("assistant", "a b", parts(0, 0, true)), turn("user", "q"),
                           turn("assistant", "c d", parts(1, 2, true))};
    EXPECT_EQ(learnt_of(two, source), "a<|im_end|> d<|im_end|>");
    EXPECT_EQ(learnt_of(two, source, Learnt::last), " d<|im_end|>");
  }
}

// What a template writes itself where a turn begins is not of the parts.
TEST(ChatParts, LeaveOutWhatTheTemplateWritesBeforeThem) {
  const std::string thinks =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}no,no\n{% endif %}"
      "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const ordered_json parts = ordered_json::array({part(2, 2, true)});
  const ordered_json two{turn("user", "q"), turn("assistant", "a b", parts), turn("assistant", "c d")};
  EXPECT_EQ(learnt_of({two[0], two[1]}, thinks.c_str()), "b<|im_end|>");
  EXPECT_EQ(learnt_of({two[0], two[2], two[1]}, thinks.c_str()), "no,no\nc d<|im_end|>b<|im_end|>");
}

TEST(ChatParts, ThatCannotBeAreErrors) {
  const auto answer = [](ordered_json parts, const std::string& content = "abc") {
    return ordered_json{turn("user", "q"), turn("assistant", content, std::move(parts))};
  };
  EXPECT_HONE_ERROR(learnt_of(answer(ordered_json::array({part(0, 3, true)}))), data,
                    "here: messages[1]: train_detail[0]: got characters 0 to 3, expected some of the content's 3");
  EXPECT_HONE_ERROR(learnt_of(answer(ordered_json::array({part(2, 1, true)}))), data, "got characters 2 to 1");
  EXPECT_HONE_ERROR(learnt_of(answer("all")), data, "train_detail: expected a list");
  EXPECT_HONE_ERROR(learnt_of(answer(ordered_json::array({1}))), data, "train_detail[0]: expected an object");
  EXPECT_HONE_ERROR(learnt_of(answer(ordered_json::array({{{"begin_offset", 0}, {"weight", 0}}}))), data,
                    "train_detail[0]: weight: no such key; expected begin_offset, end_offset and train");
  EXPECT_HONE_ERROR(learnt_of(answer(ordered_json::array({{{"begin_offset", 0}}}))), data,
                    "train_detail[0]: end_offset: expected a whole number");
  EXPECT_HONE_ERROR(learnt_of(answer(ordered_json::array({{{"begin_offset", 0}, {"end_offset", 1}}}))), data,
                    "train: expected true or false");
  EXPECT_HONE_ERROR(learnt_of(answer(ordered_json::array({part(0, 0, true)})), kTurns, Learnt::all), data,
                    "but loss is all");
  EXPECT_HONE_ERROR(learnt_of({turn("user", "q", ordered_json::array({part(0, 0, true)})), turn("assistant", "a")}),
                    data, "messages[0]: train_detail: chooses parts that are learnt, but only the assistant's");
  const char* twice =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  EXPECT_HONE_ERROR(learnt_of(answer(ordered_json::array({part(0, 0, true)})), twice), data,
                    "cannot tell where the content is");
}

}  // namespace
}  // namespace hone::text
