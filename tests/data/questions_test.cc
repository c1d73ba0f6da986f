// Questions about a text: windows against transformers' run_qa (tools/golden/golden_questions.py), what a data set
// makes of them, and what is refused.
#include "data/questions.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hone/data_in_memory.h"
#include "hone/questions.h"
#include "support.h"

namespace hone::test {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kQuestions = "tests/golden/data/questions";

ordered_json golden_questions() {
  std::ifstream file(kQuestions / "golden.json");
  return ordered_json::parse(file);
}

std::vector<QuestionRecord> golden_records() {
  std::ifstream file(kQuestions / "squad.jsonl");
  const std::string path = "squad.jsonl";
  std::vector<QuestionRecord> records;
  for (std::string line; std::getline(file, line);)
    records.push_back(data::read_question(
        ordered_json::parse(line), {.question = "question", .context = "context", .answers = "answers", .id = "id"},
        {path, 1}));
  return records;
}

class Questions : public ::testing::TestWithParam<const char*> {
 protected:
  static Dataset::Options options(std::int64_t max_length = 42, std::int64_t stride = 9) {
    Dataset::Options made;
    made.records = RecordKind::question;
    made.packing = Packing::none;
    made.max_length = max_length;
    made.questions.doc_stride = stride;
    return made;
  }
  std::shared_ptr<const Dataset> squad(const Dataset::Options& how) const {
    std::vector<DataFile> files(1);
    files[0].path = (kQuestions / "squad.jsonl").string();
    return Dataset::make(files, *tokenizer_, how);
  }
  std::string refused(const std::string& line, const Dataset::Options& how = options()) {
    std::vector<DataFile> files(1);
    files[0].path = folder_.write("bad.jsonl", line + "\n");
    return error_of(ErrorKind::data, [&] { Dataset::make(files, *tokenizer_, how); });
  }

  const ordered_json golden_ = golden_questions();
  const std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer((kQuestions / GetParam()).string());
  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Tokenizers, Questions, testing::Values("wordpiece", "bytelevel"),
                         [](const auto& info) { return info.param; });

TEST_P(Questions, WindowsAreThoseOfRunQa) {
  const std::vector<QuestionRecord> records = golden_records();
  for (const ordered_json& cut : golden_.at("features").at(GetParam())) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      SCOPED_TRACE(cut.at("max_length").dump() + ": " + records[i].question);
      const auto windows =
          data::question_windows(records[i], *tokenizer_, cut.at("max_length"), cut.at("doc_stride"), "test");
      const ordered_json& expected = cut.at("records").at(i);
      ASSERT_EQ(windows.size(), expected.size());
      for (std::size_t w = 0; w < windows.size(); ++w) {
        const data::QuestionWindow& window = windows[w];
        EXPECT_EQ(ordered_json(window.ids), expected[w].at("ids"));
        ordered_json types = ordered_json::array();
        for (std::size_t t = 0; t < window.ids.size(); ++t) types.push_back(t >= window.tags.second ? 1 : 0);
        EXPECT_EQ(types, expected[w].at("types"));
        EXPECT_EQ(window.doc.first, expected[w].at("first"));
        EXPECT_EQ(ordered_json(in_characters(records[i].context, window.doc.bytes)), expected[w].at("places"));
        std::size_t start = window.labels.size(), end = start;
        for (std::size_t t = 0; t < window.labels.size(); ++t) {
          const auto place = static_cast<AnswerPlace>(window.labels[t]);
          if (place == AnswerPlace::start || place == AnswerPlace::start_and_end) start = t;
          if (place == AnswerPlace::end || place == AnswerPlace::start_and_end) end = t;
          const bool of_text = t >= window.doc.first && t < window.doc.first + window.doc.bytes.size();
          EXPECT_EQ(window.labels[t] != -100, of_text || (t == 0 && start == 0)) << t;
        }
        EXPECT_EQ(start, expected[w].at("start"));
        EXPECT_EQ(end, expected[w].at("end"));
      }
    }
  }
}

TEST_P(Questions, ADataSetHasADocumentForEachWindow) {
  const auto data = squad(options());
  const ordered_json& cut = golden_.at("features").at(GetParam()).at(2);
  std::int64_t row = 0;
  for (const ordered_json& record : cut.at("records")) {
    for (const ordered_json& window : record) {
      const HostRow docs = data->row(row++);
      ASSERT_EQ(docs.size(), 1u);
      EXPECT_EQ(ordered_json(docs[0].ids), window.at("ids"));
      EXPECT_EQ(docs[0].targets.size(), docs[0].ids.size());
      EXPECT_EQ(docs[0].group, -1);
      EXPECT_EQ(docs[0].targets.at(window.at("start").get<std::size_t>()),
                static_cast<std::int64_t>(window.at("start") == window.at("end") ? AnswerPlace::start_and_end
                                                                                 : AnswerPlace::start));
      EXPECT_EQ(docs[0].per_token.contains("token_type_ids"), std::string(GetParam()) == "wordpiece");
      const QuestionDoc* doc = data->question(docs[0].record);
      ASSERT_TRUE(doc && doc->asked);
      EXPECT_EQ(doc->first, window.at("first"));
    }
  }
  EXPECT_EQ(data->rows(), row);
  EXPECT_EQ(data->report().records, 10);
  EXPECT_EQ(data->report().split, 9);
  EXPECT_EQ(data->labels(), data::answer_places());
  EXPECT_EQ(data->record_name(data->row(row - 1)[0].record), (kQuestions / "squad.jsonl").string() + ":10");
}

// All windows of a question are on one side; what is trained on keeps no texts, and lies in the cache.
TEST_P(Questions, HeldOutQuestionsAreHeldOutWhole) {
  Dataset::Options how = options();
  const auto [held, rest] = squad(how)->split(0.3, 5);
  std::set<std::string> there;
  for (std::int64_t row = 0; row < held->rows(); ++row)
    there.insert(held->question(held->row(row)[0].record)->asked->id);
  for (std::int64_t row = 0; row < rest->rows(); ++row)
    EXPECT_FALSE(there.contains(rest->question(rest->row(row)[0].record)->asked->id));
  EXPECT_EQ(there.size(), 3u);
  EXPECT_EQ(held->rows() + rest->rows(), squad(how)->rows());
}

TEST_P(Questions, TheCacheGivesTheSameRows) {
  Dataset::Options how = options();
  const auto fresh = squad(how);
  how.cache_folder = folder_.file("cache"), how.questions.keep_texts = false;
  squad(how);
  const auto cached = squad(how);
  EXPECT_EQ(cached->question(0), nullptr);
  ASSERT_EQ(cached->rows(), fresh->rows());
  for (std::int64_t row = 0; row < fresh->rows(); ++row) {
    EXPECT_EQ(cached->row(row)[0].ids, fresh->row(row)[0].ids);
    EXPECT_EQ(cached->row(row)[0].targets, fresh->row(row)[0].targets);
    EXPECT_EQ(cached->row(row)[0].per_token, fresh->row(row)[0].per_token);
  }
  how.questions.doc_stride = 8;
  EXPECT_NE(squad(how)->fingerprint(), cached->fingerprint());
}

TEST_P(Questions, PackedWindowsShareRowsOfMaxLength) {
  Dataset::Options how = options(60, 12);
  how.packing = Packing::best_fit;
  const auto data = squad(how);
  std::int64_t documents = 0;
  for (std::int64_t row = 0; row < data->rows(); ++row) {
    std::size_t length = 0;
    for (const HostDoc& doc : data->row(row)) length += doc.ids.size(), ++documents;
    EXPECT_LE(length, 60u);
  }
  EXPECT_EQ(documents, data->report().pieces);
  EXPECT_LT(data->rows(), documents);
}

TEST_P(Questions, RecordsInMemoryAndOtherForms) {
  const QuestionRecord one{.question = "Who?", .context = "Ada met Bo.", .answers = {{"Ada", 0}}};
  const auto data = make_dataset({Record{.content = one, .line = 1}}, "here", *tokenizer_, options(200));
  EXPECT_EQ(data->rows(), 1);
  const std::string list = R"({"question": "Who?", "context": "Ada met Bo.",
      "answers": [{"text": "Bo", "answer_start": 8}, {"text": "Ada", "answer_start": 0}]})";
  const std::string path = "here";
  const QuestionRecord read = data::read_question(
      ordered_json::parse(list), {.question = "question", .context = "context", .answers = "answers"}, {path, 1});
  EXPECT_EQ(read.answers.at(0).text, "Bo");
  EXPECT_EQ(read.answers.at(1).start, 0);
}

TEST_P(Questions, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(refused(R"({"question": "Who?", "context": "Ada met Bo."})"),
              HasSubstr("bad.jsonl:1: no field \"answers\"; found \"context\", \"question\"; expected question, "));
  EXPECT_THAT(
      refused(R"({"question": "Who?", "context": "Ada met Bo.", "answers": {"text": ["Bo"], "answer_start": [4]}})"),
      HasSubstr("field \"answers\": got \"Bo\" at 4, expected \"me\", which stands there"));
  EXPECT_THAT(refused(R"({"question": "Who?", "context": "Ada", "answers": {"text": ["Bo"], "answer_start": [40]}})"),
              HasSubstr("got \"Bo\" at 40, expected a place in the context"));
  EXPECT_THAT(refused(R"({"question": "Who?", "context": "Ada", "answers": {"text": ["Ada"], "answer_start": []}})"),
              HasSubstr("got 1 text and 0 places, expected a place for each text"));
  EXPECT_THAT(refused(R"({"question": "Who?", "context": "Ada", "answers": "Ada"})"), HasSubstr("got a string"));
  EXPECT_THAT(refused(R"({"question": "Who?", "context": "Ada", "answers": {"text": ["Ada"], "answer_start": [0]}, )"
                      R"("is_impossible": true})"),
              HasSubstr("field \"is_impossible\": got true, expected false, as there are answers"));
  EXPECT_THAT(refused(R"({"question": " ", "context": "Ada", "answers": []})"),
              HasSubstr("question: got an empty text, expected one"));
  EXPECT_THAT(refused(R"({"question": "Who?", "context": "Ada met Bo and others.", "answers": []})", options(6)),
              HasSubstr("bad.jsonl:1: the question leaves 0 tokens for the context, of 6; expected one at least\n"
                        "  hint: raise data.max_length"));
  EXPECT_THAT(
      refused(R"({"question": "Who?", "context": "Ada met Bo and others in London.", "answers": []})", options(16, 12)),
      HasSubstr("of 16; expected more than the 12 that windows share\n  hint: raise data.max_length, or lower "
                "objective.doc_stride"));
  const ByteTokenizer bytes;
  EXPECT_THAT(error_of(ErrorKind::config,
                       [&] {
                         const QuestionRecord one{.question = "Who?", .context = "Ada."};
                         data::question_windows(one, bytes, 64, 8, "here");
                       }),
              HasSubstr("puts no texts together"));
}

}  // namespace
}  // namespace hone::test
