// Answers to choose from: forms of records, which documents they become, and what is refused.
#include <fmt/format.h>

#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Choices : public ::testing::Test {
 protected:
  static Dataset::Options options(std::int64_t max_length = 64) {
    Dataset::Options made;
    made.records = RecordKind::choice;
    made.packing = Packing::none;
    made.max_length = max_length;
    return made;
  }
  std::shared_ptr<const Dataset> make(const std::string& content, const Dataset::Options& how = options(),
                                      const std::map<std::string, std::string>& columns = {}) {
    std::vector<DataFile> all = files({folder_.write("a.jsonl", content)});
    all[0].columns = columns;
    return Dataset::make(all, *tokenizer_, how);
  }
  std::string refused(const std::string& choices, const std::string& answer) {
    const std::string line = fmt::format(R"({{"prompt": "ab", "choices": {}, "answer": {}}})", choices, answer);
    return error_of(ErrorKind::data, [&] { make(line + "\n"); });
  }
  // Which of the choices is the right one; they are documents in their order.
  static std::int64_t right_of(const Dataset& data) {
    const HostBatch batch = data.batch({0}, 0);
    std::int64_t right = -1;
    for (std::size_t i = 0; i < batch.docs.size(); ++i) {
      EXPECT_EQ(batch.docs[i].group, 0);
      EXPECT_NE(batch.docs[i].role, Role::none);
      if (batch.docs[i].role == Role::chosen) right = static_cast<std::int64_t>(i);
    }
    return right;
  }
  std::int64_t right(const std::string& choices, const std::string& answer) {
    const std::string line = fmt::format(R"({{"prompt": "ab", "choices": {}, "answer": {}}})", choices, answer);
    return right_of(*make(line + "\n"));
  }
  // What is scored of each of a row's documents, and what is before it.
  static std::vector<std::string> scored(const Dataset& data, std::int64_t row) {
    const HostBatch batch = data.batch({row}, 0);
    std::vector<std::string> all;
    for (const Doc& doc : batch.docs) {
      std::string before, text;
      for (auto at = static_cast<std::size_t>(doc.begin); at < static_cast<std::size_t>(doc.end); ++at) {
        const bool is_scored = at > static_cast<std::size_t>(doc.begin) && batch.labels[at - 1] != -100;
        (is_scored ? text : before) += static_cast<char>(batch.ids[at]);
      }
      all.push_back(before + "|" + text);
    }
    return all;
  }
  TempFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_ = std::make_shared<ByteTokenizer>();
};

TEST_F(Choices, AreDocumentsOfOneRow) {
  const auto data = make(
      "{\"prompt\": \"ab\", \"choices\": [\"c\", \"dé\", \"fgh\"], \"answer\": 1}\n"
      "{\"prompt\": \"x \", \"choices\": [\"y\", \" z\"], \"answer\": 0}\n");
  EXPECT_EQ(data->rows(), 2);
  EXPECT_EQ(right_of(*data), 1);
  EXPECT_THAT(scored(*data, 0), ElementsAre("ab| c", "ab| dé", "ab| fgh"));  // and no end of text
  EXPECT_THAT(scored(*data, 1), ElementsAre("x| y", "x|  z"));               // white space goes to the answers
  EXPECT_THAT(data->batch({0, 1}, 0).extra.at("characters").values, ElementsAre(1, 2, 3, 1, 2));
  EXPECT_EQ(data->report().records, 2);
}

TEST_F(Choices, AnswersAreSaidInSeveralWays) {
  const std::string plain = R"(["red", "green", "blue"])";
  for (const char* answer : {"1", "\"1\"", "\"B\"", "\"green\""}) EXPECT_EQ(right(plain, answer), 1) << answer;
  const std::string labelled = R"({"text": ["red", "green"], "label": ["1", "2"]})";
  EXPECT_EQ(right(labelled, "\"2\""), 1);
  EXPECT_EQ(right(labelled, "1"), 0);
  EXPECT_EQ(right(labelled, "\"red\""), 0);
  EXPECT_EQ(right(R"(["2", "1", "0"])", "\"1\""), 1);  // it means the same both ways
  EXPECT_EQ(right(R"(["2", "1", "0"])", "2"), 2);      // of a number its place
  EXPECT_EQ(right("[4, 5]", "1"), 1);
}

TEST_F(Choices, ColumnsNameOtherFields) {
  const auto data = make("{\"ctx\": \"ab\", \"endings\": [\"c\", \"d\"], \"label\": \"1\", \"more\": 3}\n", options(),
                         {{"prompt", "ctx"}, {"choices", "endings"}, {"answer", "label"}});
  EXPECT_EQ(right_of(*data), 1);
}

TEST_F(Choices, LongPromptsLoseTheirStartAlike) {
  const auto data = make("{\"prompt\": \"abcdefgh\", \"choices\": [\"x\", \"yyyy\"], \"answer\": 0}\n", options(8));
  EXPECT_THAT(scored(*data, 0), ElementsAre("fgh| x", "fgh| yyyy"));
  EXPECT_EQ(data->report().cut_prompts, 1);
}

TEST_F(Choices, AnswersThatDoNotFitAreNotCompared) {
  const auto data = make("{\"prompt\": \"ab\", \"choices\": [\"x\", \"much too long\"], \"answer\": 0}\n"
                         "{\"prompt\": \"ab\", \"choices\": [\"x\", \"y\"], \"answer\": 0}\n",
                         options(8));
  EXPECT_EQ(data->rows(), 1);
  EXPECT_EQ(data->report().dropped, 1);
  EXPECT_EQ(data->report().records, 2);
}

TEST_F(Choices, AlikeOnesStay) {
  EXPECT_EQ(make("{\"prompt\": \"a\", \"choices\": [\"x\", \"y\", \"x\"], \"answer\": 1}\n")->rows(), 1);
}

TEST_F(Choices, TheCacheKeepsThem) {
  Dataset::Options how = options();
  how.cache_folder = folder_.file("cache");
  const std::string line = "{\"prompt\": \"ab\", \"choices\": [\"c\", \"de\"], \"answer\": 1}\n";
  const auto first = make(line, how), again = make(line, how);
  EXPECT_EQ(first->batch({0}, 0).ids, again->batch({0}, 0).ids);
  EXPECT_EQ(again->batch({0}, 0).extra.at("characters").values, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(right_of(*again), 1);
  EXPECT_EQ(first->fingerprint(), again->fingerprint());
}

TEST_F(Choices, WhatIsNoQuestionIsRefused) {
  EXPECT_THAT(refused("[\"x\", \"y\"]", "2"), HasSubstr("a.jsonl:1: field \"answer\": got 2, expected 0 to 1"));
  EXPECT_THAT(refused("[\"x\", \"y\"]", "-1"), HasSubstr("got -1, expected 0 to 1"));
  EXPECT_THAT(refused("[\"x\", \"y\"]", "\"z\""), HasSubstr("got \"z\", expected 0 to 1, a letter"));
  EXPECT_THAT(refused("[\"x\", \"y\"]", "1.0"), HasSubstr("field \"answer\": got a number"));
  EXPECT_THAT(refused(R"({"text": ["x", "y"], "label": ["A", "B"]})", "\"C\""), HasSubstr("one of the labels \"A\""));
  EXPECT_THAT(refused(R"({"text": ["x", "y"], "label": ["A"]})", "\"A\""), HasSubstr("2 texts and 1 label"));
  EXPECT_THAT(refused(R"(["2", "1", "0"])", "\"2\""), HasSubstr("it is a choice, and says the place of another"));
  EXPECT_THAT(refused("[\"x\"]", "0"), HasSubstr("field \"choices\": got 1 choice, expected at least two"));
  EXPECT_THAT(refused("[\"x\", \" \"]", "0"), HasSubstr("an empty text in the list"));
  EXPECT_THAT(refused("\"x\"", "0"), HasSubstr("got a string, expected a list of texts"));
  const auto error = [&](const std::string& line) { return error_of(ErrorKind::data, [&] { make(line + "\n"); }); };
  EXPECT_THAT(error(R"({"question": "a", "options": ["x", "y"], "gold": 1})"),
              HasSubstr("columns: {prompt: question, choices: options, answer: gold}"));
  EXPECT_THAT(error(R"({"prompt": "", "choices": ["x", "y"], "answer": 1})"), HasSubstr("the prompt is empty"));
  const auto table = [&] {
    Dataset::make(files({folder_.write("t.csv", "prompt,choices,answer\na,b,0\n")}), *tokenizer_, options());
  };
  EXPECT_THAT(error_of(ErrorKind::data, table), HasSubstr("choices in a text table; expected JSON Lines or Parquet"));
}

}  // namespace
}  // namespace hone::test
