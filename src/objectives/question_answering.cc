// Questions about a text: where in it the answer begins and ends (Devlin et al., 2018; Rajpurkar et al., 2016 and
// 2018).
//
// Letters: B batch, T time, S documents, L tokens of the longest one.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/objective.h"
#include "hone/questions.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "objectives/answer_scores.h"
#include "objectives/answers.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr const char* kName = "question_answering";

struct AnswerSection {
  std::int64_t n_best = 20, max_answer_length = 30;
  double null_threshold = 0;
  static constexpr auto fields() {
    using C = AnswerSection;
    return std::tuple{
        field("n_best", &C::n_best, "Likeliest beginnings, ends and answers that evaluations look at.",
              {.low = 1, .high = 1000}),
        field("max_answer_length", &C::max_answer_length, "Tokens of an answer at most, in evaluations.",
              config::at_least(1)),
        field("null_threshold", &C::null_threshold,
              "Of data in which some questions have no answer: by how much the score of none must be above that of the "
              "best one.",
              {.low = -1e6, .high = 1e6})};
  }
};

// Exact match and F1 of a whole set, by SQuAD's rules: of version 2 where a question of it has no answer.
class AnswersRight final : public Evaluation {
 public:
  using Config = AnswerSection;
  explicit AnswersRight(const Config& config) : config_(config) {}

  RecordKind records() const override { return RecordKind::question; }
  void check(const Model& model) const override {
    require_question_answerer(model, std::string("evaluation ") + kName);
  }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const DocumentLogits made = logits_by_document(model.classifier()->logits(output, pass), batch);
    Sums sums{{"nll", host::number(answer_loss(made).sum)}, {"documents", static_cast<double>(batch.docs.size())}};
    if (!std::isfinite(sums["nll"])) throw nn::not_finite(model, "the loss");
    return sums;
  }

  // Of each document its record, the score of no answer, and the likeliest parts of the text.
  Tensor keep(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor logits_BT2 = host::read(model.classifier()->logits(output, pass).to(at::kFloat).contiguous());
    const Tensor places_BT = host::read(batch.labels_BT.contiguous());
    const auto logits = host::values<float>(logits_BT2);
    const auto places = host::values<std::int64_t>(places_BT);
    std::vector<float> rows;
    for (const Doc& doc : batch.docs) {
      const auto begin = static_cast<std::size_t>(doc.row * batch.length() + doc.begin);
      const auto size = static_cast<std::size_t>(doc.end - doc.begin);
      std::vector<float> starts(size), ends(size);
      for (std::size_t i = 0; i < size; ++i) starts[i] = logits[2 * (begin + i)], ends[i] = logits[2 * (begin + i) + 1];
      std::size_t first = 1;  // the first token is the one that stands for none
      while (first < size && places[begin + first] == -100) ++first;
      std::size_t last = first;
      while (last < size && places[begin + last] != -100) ++last;
      append(rows, doc.record,
             answers_in(starts, ends, static_cast<std::int64_t>(first), static_cast<std::int64_t>(last - first),
                        options(false)));
    }
    return host::tensor_of(rows, {std::ssize(batch.docs), width()});
  }

  Sums compare_in(const Dataset& data, const Tensor& kept) const override {
    std::map<const QuestionRecord*, std::size_t> numbers;
    std::vector<std::pair<std::vector<const QuestionDoc*>, std::vector<WindowAnswers>>> questions;
    bool may_be_none = false;
    for (std::int64_t row = 0; row < kept.size(0); ++row) {
      const float* values = host::values<float>(kept).data() + row * width();
      const QuestionDoc* doc = data.question(static_cast<std::int64_t>(values[0]));
      HONE_ASSERT(doc && doc->asked);
      may_be_none |= doc->asked->answers.empty();
      const auto [number, is_new] = numbers.try_emplace(doc->asked.get(), questions.size());
      if (is_new) questions.emplace_back();
      auto& [docs, windows] = questions[number->second];
      docs.push_back(doc), windows.push_back(window_in(values));
    }
    Sums sums;
    for (const auto& [docs, windows] : questions) {
      std::vector<std::string> good;
      for (const auto& one : docs[0]->asked->answers) good.push_back(one.text);
      const AnsweredQuestion answered = answer_of(docs, windows, options(may_be_none));
      const AnswerScore score = score_answer(answered.given.text, good, may_be_none);
      const std::string kind = good.empty() ? kWithout : kWith;
      sums[kind + "questions"] += 1, sums[kind + "exact"] += score.exact, sums[kind + "f1"] += score.f1;
    }
    return sums;
  }

  std::vector<std::string> names() const override {
    return {"loss", "exact_match", "f1", "answered_exact_match", "answered_f1", "unanswered_exact_match", "questions"};
  }

  // What is with and without answers apart, where there are both.
  Metrics result(const Sums& total) const override {
    const auto sum = [&](const std::string& name) {
      const auto found = total.find(name);
      return found == total.end() ? 0.0 : found->second;
    };
    const double documents = sum("documents"), with = sum(kWith + "questions"), without = sum(kWithout + "questions");
    if (documents == 0) throw Error(ErrorKind::data, "evaluation: no question");
    Metrics made{{"loss", sum("nll") / documents}};
    if (with + without == 0) return made;  // of a part of the set
    const auto both = [&](const char* name) { return (sum(kWith + name) + sum(kWithout + name)) / (with + without); };
    made["exact_match"] = both("exact"), made["f1"] = both("f1"), made["questions"] = with + without;
    if (with == 0 || without == 0) return made;
    made["answered_exact_match"] = sum(kWith + "exact") / with, made["answered_f1"] = sum(kWith + "f1") / with;
    made["unanswered_exact_match"] = sum(kWithout + "exact") / without;
    return made;
  }

 private:
  inline static const std::string kWith = "with/", kWithout = "without/";

  AnswerOptions options(bool may_be_none) const {
    return {config_.n_best, config_.max_answer_length,
            may_be_none ? std::optional(config_.null_threshold) : std::nullopt};
  }

  std::int64_t width() const { return 2 + 3 * config_.n_best; }
  // Numbers of records and tokens are whole in fp32 up to 2^24.
  void append(std::vector<float>& rows, std::int64_t record, const WindowAnswers& window) const {
    HONE_ASSERT(record < (1 << 24));
    rows.insert(rows.end(), {static_cast<float>(record), window.null_score});
    for (std::int64_t i = 0; i < config_.n_best; ++i) {
      const bool is_there = i < std::ssize(window.spans);
      const AnswerSpan span = is_there ? window.spans[static_cast<std::size_t>(i)] : AnswerSpan{-1, -1, 0};
      rows.insert(rows.end(), {static_cast<float>(span.start), static_cast<float>(span.end), span.score});
    }
  }
  WindowAnswers window_in(const float* values) const {
    WindowAnswers window{.spans = {}, .null_score = values[1]};
    for (const float* one = values + 2; one < values + width() && one[0] >= 0; one += 3)
      window.spans.push_back({static_cast<std::int64_t>(one[0]), static_cast<std::int64_t>(one[1]), one[2]});
    return window;
  }

  const Config config_;
};

class QuestionAnswering final : public Objective {
 public:
  struct Config : AnswerSection {
    using Base = AnswerSection;
    std::int64_t doc_stride = 128;
    static constexpr auto own_fields() {
      using C = Config;
      return std::tuple{field("doc_stride", &C::doc_stride,
                              "Tokens that two windows of a text share, where it is longer than data.max_length has "
                              "room for beside the question.",
                              config::at_least(0))};
    }
    static constexpr auto fields() { return std::tuple_cat(own_fields(), AnswerSection::fields()); }
  };
  explicit QuestionAnswering(const Config& config) : config_(config) {}

  Needs needs() const override {
    return {.records = RecordKind::question, .questions = {.doc_stride = config_.doc_stride}};
  }
  void check(const Model& model) const override { require_question_answerer(model, std::string("objective ") + kName); }
  std::vector<std::string> evaluations() const override { return {}; }
  std::vector<std::shared_ptr<const Evaluation>> further_evaluations() const override {
    return {std::make_shared<AnswersRight>(config_)};
  }

  Sums sums(const Batch& batch) const override { return {{"windows", static_cast<double>(batch.docs.size())}}; }
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const AnswerLoss made = answer_loss(logits_by_document(model.classifier()->logits(output, pass), batch));
    LossTerms result;
    result.terms.push_back({"loss", made.sum, "windows"});
    result.means.push_back(
        {"accuracy", made.right_S.sum(at::kDouble),
         at::full({}, static_cast<double>(batch.docs.size()), made.right_S.options().dtype(at::kDouble))});
    return result;
  }

 private:
  const Config config_;
};

}  // namespace

void register_question_answering(Registries& hone) {
  hone.objectives.add<QuestionAnswering>(kName, "Say where in a text the answer to a question begins and ends.");
  hone.evals.add<AnswersRight>(kName, "Loss, exact match and F1 of answers that are part of a text (SQuAD's).");
}

}  // namespace hone::objectives
