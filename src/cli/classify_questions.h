// What a model that answers questions says where in a text the answer stands: for hone classify.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/model_place.h"
#include "data/place.h"
#include "data/templates.h"
#include "hone/model.h"
#include "hone/questions.h"
#include "hone/text.h"
#include "objectives/answers.h"

namespace hone::cli {

struct QuestionFlags : ModelFlags {
  using Base = ModelFlags;
  std::vector<std::string> question, context;
  std::optional<std::int64_t> n_best, max_answer_length, doc_stride;
  std::optional<double> null_threshold;
  static constexpr auto own_fields() {
    using C = QuestionFlags;
    return std::tuple{
        field("question", &C::question, 
              "Of a model that answers questions: a question about --context; may be given several times."),
        field("context", &C::context,
              "The text that holds the answer; given several times, of each --question its own."),
        field("n_best", &C::n_best, "So many answers to each question, the likeliest first; default: one.",
              {.low = 1, .high = 1000}),
        field("max_answer_length", &C::max_answer_length, "Tokens of an answer at most; default: 30.",
              config::at_least(1)),
        field("doc_stride", &C::doc_stride,
              "Tokens that two windows of a long context share; default: what the model's run had, else 128, or a "
              "quarter of --max-length.",
              config::at_least(0)),
        field("null_threshold", &C::null_threshold,
              "There may be no answer: it is none where its score is by more than this above that of the best one; "
              "default: there always is one.",
              {.low = -1e6, .high = 1e6})};
  }
  static constexpr auto fields() { return std::tuple_cat(own_fields(), Base::fields()); }
  bool any() const {
    return !question.empty() || !context.empty() || n_best || max_answer_length || doc_stride || null_threshold;
  }
};

class QuestionAnswers {
 public:
  struct How {
    std::map<std::string, std::string> columns = {};  // of question, context, id
    std::int64_t max_length = 0, doc_stride = 0, batch_size = 8;  // of windows
    bool json = false;
  };
  // Throws Error(usage) for columns that are not read.
  QuestionAnswers(const Model& model, const Tokenizer& tokenizer, const QuestionFlags& flags, How how);
  // An object with question and context. Throws Error(data).
  void add(nlohmann::ordered_json value, const data::Place& place);
  void add(QuestionRecord asked, const data::Place& place);
  void flush();
  std::int64_t answered() const { return answered_; }
  const std::set<std::string>& unread() const { return unread_; }

 private:
  struct Asked {
    std::vector<QuestionDoc> docs;
    std::vector<HostRow> rows;  // the windows
  };
  std::string text_at(const nlohmann::ordered_json& value, const char* known, const data::Place& place) const;
  std::vector<objectives::WindowAnswers> answers_to(const std::vector<HostRow>& rows,
                                                    const std::vector<const QuestionDoc*>& docs) const;
  nlohmann::ordered_json json_of(const objectives::FoundAnswer& answer, const QuestionRecord& asked) const;
  void print(const objectives::AnsweredQuestion& answered, const QuestionRecord& asked) const;

  const Model& model_;
  const Tokenizer& tokenizer_;
  const QuestionFlags flags_;
  const How how_;
  const objectives::AnswerOptions options_;
  const data::ColumnTemplates templates_;
  std::vector<Asked> waiting_;
  std::set<std::string> unread_;
  std::int64_t windows_ = 0, answered_ = 0;
};

}  // namespace hone::cli
