// Answers from scores against transformers' postprocess_qa_predictions, and SQuAD's measures
// (tools/golden/golden_questions.py).
#include "objectives/answers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/questions.h"
#include "hone/data.h"
#include "hone/text.h"
#include "objectives/answer_scores.h"

namespace hone::objectives {
namespace {

using Golden = nlohmann::ordered_json;

const std::filesystem::path kGoldens = "tests/golden/data/questions";

Golden golden() {
  std::ifstream file(kGoldens / "golden.json");
  return Golden::parse(file);
}

// Of each record of the file.
std::vector<std::vector<QuestionDoc>> golden_docs(const Tokenizer& tokenizer) {
  std::vector<std::vector<QuestionDoc>> all;
  std::ifstream file(kGoldens / "squad.jsonl");
  const std::string path = "squad.jsonl";
  for (std::string line; std::getline(file, line);) {
    const auto asked = std::make_shared<const QuestionRecord>(data::read_question(
        Golden::parse(line), {.question = "question", .context = "context", .answers = "answers"}, {path, 1}));
    all.emplace_back();
    for (data::QuestionWindow& window : data::question_windows(*asked, tokenizer, 60, 12, "test")) {
      all.back().push_back(std::move(window.doc));
      all.back().back().asked = asked;
    }
  }
  return all;
}

TEST(Answers, AreThoseOfRunQa) {
  const Golden all = golden();
  const auto tokenizer = load_tokenizer((kGoldens / "wordpiece").string());
  const auto docs = golden_docs(*tokenizer);
  ASSERT_EQ(docs.size(), all.at("answers").size());
  for (std::size_t i = 0; i < docs.size(); ++i) {
    const Golden& one = all.at("answers").at(i);
    for (const Golden& wanted : one.at("cases")) {
      SCOPED_TRACE(std::to_string(i) + ": " + wanted.dump().substr(0, 60));
      AnswerOptions options{wanted.at("n_best"), wanted.at("max_answer_length"), {}};
      if (!wanted.at("null_threshold").is_null()) options.null_threshold = wanted.at("null_threshold").get<double>();
      std::vector<const QuestionDoc*> own;
      std::vector<WindowAnswers> windows;
      for (std::size_t w = 0; w < docs[i].size(); ++w) {
        own.push_back(&docs[i][w]);
        const auto starts = one.at("logits").at(w).at(0).get<std::vector<float>>(),
                   ends = one.at("logits").at(w).at(1).get<std::vector<float>>();
        windows.push_back(answers_in(starts, ends, own[w]->first, std::ssize(own[w]->bytes), options));
      }
      const AnsweredQuestion made = answer_of(own, windows, options);
      EXPECT_EQ(made.given.text, wanted.at("given"));
      EXPECT_NEAR(made.null_difference, wanted.at("null_difference").get<double>(), 1e-5);
      ASSERT_EQ(made.best.size(), wanted.at("best").size());
      for (std::size_t n = 0; n < made.best.size(); ++n) {
        EXPECT_EQ(made.best[n].text, wanted.at("best").at(n).at(0));
        EXPECT_NEAR(made.best[n].score, wanted.at("best").at(n).at(1).get<double>(), 1e-5);
        EXPECT_NEAR(made.best[n].probability, wanted.at("best").at(n).at(2).get<double>(), 1e-6);
      }
    }
  }
}

TEST(Answers, AreMeasuredAsSquadDoes) {
  const Golden all = golden();
  EXPECT_GT(all.at("scores").size(), 10u);
  for (const Golden& one : all.at("scores")) {
    SCOPED_TRACE(one.dump());
    const auto good = one.at("good").get<std::vector<std::string>>();
    const std::string given = one.at("given");
    EXPECT_EQ(normalised_answer(given), one.at("normal"));
    const AnswerScore second = score_answer(given, good, true);
    EXPECT_EQ(second.exact, one.at("second").at(0).get<double>());
    EXPECT_NEAR(second.f1, one.at("second").at(1).get<double>(), 1e-12);
    if (one.at("first").is_null()) continue;
    const AnswerScore first = score_answer(given, good, false);
    EXPECT_EQ(first.exact, one.at("first").at(0).get<double>());
    EXPECT_NEAR(first.f1, one.at("first").at(1).get<double>(), 1e-12);
  }
}

// A text without a part that may be an answer.
TEST(Answers, OfNothingThereIsNone) {
  QuestionDoc doc{.asked = std::make_shared<QuestionRecord>(), .first = 2};
  const std::vector<float> scores{1, 2, 3};
  const WindowAnswers window = answers_in(scores, scores, 2, 0, {});
  EXPECT_TRUE(window.spans.empty());
  const AnsweredQuestion made = answer_of({&doc}, {window}, {});
  EXPECT_EQ(made.given.text, "");
  EXPECT_EQ(made.given.probability, 1);
}

}  // namespace
}  // namespace hone::objectives
