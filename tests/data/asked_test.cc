// Prompts that the model answers: forms of records, what is one row, what is refused.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "data/choose_template.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Dataset::Options asked(std::int64_t max_length = 64) {
  Dataset::Options options;
  options.records = RecordKind::asked;
  options.packing = Packing::none;
  options.max_length = max_length;
  return options;
}

class AskedRecords : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> make(const std::string& content, const Dataset::Options& options = asked(),
                                      const std::string& name = "a.jsonl") {
    return Dataset::make(files({folder_.write(name, content)}), *tokenizer_, options);
  }
  std::string refused(const std::string& content, const Dataset::Options& options = asked()) {
    return error_of(ErrorKind::data, [&] { make(content, options); });
  }
  std::string prompt_of(const HostBatch& batch, std::size_t row = 0) {
    std::string text;
    const Doc& doc = batch.docs[row];
    for (std::int64_t i = doc.row * batch.length + doc.begin; i < doc.row * batch.length + doc.end; ++i) {
      text += static_cast<char>(batch.ids[static_cast<std::size_t>(i)]);
      if (batch.labels[static_cast<std::size_t>(i)] != -100) break;
    }
    return text;
  }
  TempFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_ = std::make_shared<ByteTokenizer>();
};

TEST_F(AskedRecords, TheAnswerLiesBehindThePromptWithLabels) {
  const auto data = make("{\"prompt\": \"1+1=\", \"answer\": 2}\n{\"prompt\": \"ab\"}\n");
  EXPECT_EQ(data->rows(), 2);
  EXPECT_EQ(data->report().asked, 2);
  EXPECT_EQ(data->report().without_answer, 1);
  const HostBatch batch = data->batch({0, 1}, 9);
  EXPECT_THAT(batch.ids, ElementsAre('1', '+', '1', '=', '2', 'a', 'b', 9, 9, 9));
  EXPECT_THAT(batch.labels, ElementsAre(-100, -100, -100, '2', -100, -100, -100, -100, -100, -100));
}

TEST_F(AskedRecords, AnswersThatAreNoTextAreTheirJson) {
  const auto data =
      make("{\"prompt\": \"a\", \"answer\": {\"tests\": [1, 2]}}\n{\"prompt\": \"a\", \"answer\": \" x \"}\n");
  EXPECT_EQ(data->report().supervised, static_cast<std::int64_t>(std::string("{\"tests\":[1,2]}x").size()));
}

TEST_F(AskedRecords, ConversationsAreAskedUpToWhereTheAssistantBegins) {
  tokenizer_ = data::with_chat_template(load_tokenizer("bytes"),
                                        "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content }}{% endfor %}{% if "
                                        "add_generation_prompt %}{{ '<assistant>' }}{% endif %}",
                                        "template");
  const std::string expected = "<system>brief<user>hi<assistant>";
  for (
      const char* record :
      {R"({"system": "brief", "prompt": [{"role": "user", "content": "hi"}], "answer": "yes"})",
       R"({"messages": [{"role": "system", "content": "brief"}, {"role": "user", "content": "hi"}], "answer": "yes"})",
       R"({"conversations": [{"from": "system", "value": "brief"}, {"from": "human", "value": "hi"}], "answer": "yes"})",
       R"({"system": "brief", "instruction": "hi", "answer": "yes"})"}) {
    SCOPED_TRACE(record);
    EXPECT_EQ(prompt_of(make(std::string(record) + "\n", asked(256))->batch({0}, 0)), expected);
  }
}

TEST_F(AskedRecords, WhatIsTooLongIsNeverCut) {
  const std::string lines = "{\"prompt\": \"abcdef\", \"answer\": \"gh\"}\n{\"prompt\": \"ab\", \"answer\": \"c\"}\n";
  const auto data = make(lines, asked(7));
  EXPECT_EQ(data->rows(), 1);
  EXPECT_EQ(data->report().dropped, 1);
  Dataset::Options strict = asked(7);
  strict.overlong = Overlong::error;
  EXPECT_THAT(refused(lines, strict), HasSubstr("a.jsonl:1: 8 tokens; expected at most max_length 7"));
}

TEST_F(AskedRecords, TablesHaveThem) {
  const auto data = make("prompt,answer\n1+1=,2\n", asked(), "a.csv");
  EXPECT_EQ(prompt_of(data->batch({0}, 0)), "1+1=");
}

TEST_F(AskedRecords, AreHeldOutAndKept) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += fmt::format("{{\"prompt\": \"p{}\", \"answer\": \"{}\"}}\n", i, i);
  Dataset::Options options = asked();
  options.cache_folder = folder_.file("cache");
  const auto first = make(lines, options), again = make(lines, options);
  EXPECT_EQ(first->fingerprint(), again->fingerprint());
  const auto [held_out, rest] = again->split(0.25, 1);
  EXPECT_EQ(held_out->rows(), 5);
  EXPECT_EQ(rest->rows(), 15);
}

TEST_F(AskedRecords, OtherRecordsAreOneError) {
  EXPECT_THAT(refused("{\"question\": \"a\", \"solution\": \"b\"}\n"),
              HasSubstr("columns: {prompt: question, answer: solution}"));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"solution\": \"b\"}\n"), HasSubstr("columns: {answer: solution}"));
  EXPECT_THAT(refused("{\"prompt\": \"\", \"answer\": \"b\"}\n"), HasSubstr("the prompt is empty"));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"messages\": []}\n"), HasSubstr("more than one field is a prompt"));
  EXPECT_THAT(refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                      "\"content\": \"b\"}]}\n"),
              HasSubstr("the last message is the assistant's"));
  EXPECT_THAT(refused("[1]\n"), HasSubstr("expected an object with a prompt"));
}

}  // namespace
}  // namespace hone::test
