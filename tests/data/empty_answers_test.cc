// Answers that say nothing are counted: a field that was not filled in teaches a model to be silent.
#include "data/empty_answers.h"

#include "support.h"

namespace hone::data {
namespace {

class EmptyAnswers : public ::testing::Test {
 protected:
  AnswerCounts count(const std::string& lines, Dataset::Options options = {}, const std::string& name = "d.jsonl") {
    options.max_length = 64;
    const auto tokenizer = load_tokenizer("bytes");
    std::vector<DataFile> files(1);
    files[0].path = folder_.write(name, lines);
    return count_answers(*Dataset::make(files, *tokenizer, options), *tokenizer);
  }
  void expect(const AnswerCounts& counts, std::int64_t empty, std::int64_t answers) {
    EXPECT_EQ(counts.empty, empty);
    EXPECT_EQ(counts.answers, answers);
  }
  test::TempFolder folder_;
};

TEST_F(EmptyAnswers, OfPromptsAreCounted) {
  expect(count(R"({"prompt": "q", "completion": ""}
{"prompt": "one", "completion": "  \n"}
{"prompt": "two", "completion": "yes"}
)"), 2, 3);
  expect(count("prompt,completion\nq,\nr,yes\n", {}, "d.csv"), 1, 2);
}

TEST_F(EmptyAnswers, PackedOnesAreCountedEachForItself) {
  for (const Packing packing : {Packing::none, Packing::best_fit, Packing::concat}) {
    Dataset::Options options;
    options.packing = packing;
    std::string lines;
    for (int i = 0; i < 20; ++i)
      lines += R"({"prompt": "ask)" + std::to_string(i) + R"(", "completion": ")" + (i % 4 == 0 ? "" : "x") + "\"}\n";
    expect(count(lines, options), 5, 20);
  }
}

// A text of one token and its end looks as a prompt of one token with nothing behind it.
TEST_F(EmptyAnswers, TextsHaveNone) {
  expect(count("{\"text\": \"x\"}\n{\"text\": \"long\"}\n"), 0, 0);
  expect(count("{\"text\": \"x\"}\n{\"prompt\": \"one\", \"completion\": \"\"}\n"), 1, 1);
}

}  // namespace
}  // namespace hone::data
