// Answers that a model writes, compared with what they should be: what all such measures share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generate/writers.h"
#include "hone/config_read.h"
#include "hone/evaluation.h"
#include "hone/generate.h"

namespace hone::evals {

// How answers are written, by GenerateConfig's names: what is not given is as the model's folder says, but that nothing
// is drawn.
struct WritingSection {
  std::optional<std::int64_t> max_new_tokens, num_beams, min_new_tokens, no_repeat_ngram_size, forced_bos_token_id;
  std::optional<double> length_penalty, repetition_penalty;
  double temperature = 0, top_p = 1;
  std::int64_t top_k = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
  std::string regex, json_schema;
  static constexpr auto fields() {
    using C = WritingSection;
    return std::tuple{
        field("max_new_tokens", &C::max_new_tokens,
              "Tokens of an answer at most; default: what the model's generation_config.json says, or 128.",
              config::at_least(1)),
        field("num_beams", &C::num_beams,
              "Answers that are followed side by side, of which the likeliest is compared; default: as "
              "generation_config.json says, or 1.",
              {.low = 1, .high = 1024}),
        field("length_penalty", &C::length_penalty,
              "Of beams: the power of an answer's length by which its score is divided; default likewise, or 1."),
        field("min_new_tokens", &C::min_new_tokens, "Tokens of an answer at least; default likewise, or 0.",
              config::at_least(0)),
        field("no_repeat_ngram_size", &C::no_repeat_ngram_size,
              "So many tokens in a row come once in an answer at most; default likewise, or any number of times.",
              config::at_least(0)),
        field("repetition_penalty", &C::repetition_penalty,
              "Above 1: tokens already there become less likely; default likewise, or 1.",
              {.low = 1e-6, .high = 1e6}),
        field("forced_bos_token_id", &C::forced_bos_token_id,
              "Token that an answer of a model with an encoder begins with, such as a language's; default likewise, or "
              "any.",
              config::at_least(0)),
        field("temperature", &C::temperature,
              "Above 0: tokens are drawn, and logits divided by it; 0: always the likeliest token.",
              config::at_least(0)),
        field("top_k", &C::top_k, "With a temperature: among so many of the likeliest tokens; 0 = all.",
              config::at_least(0)),
        field("top_p", &C::top_p,
              "With a temperature: among the likeliest tokens that together have this probability; 1 = all.",
              {.low = 0, .high = 1}),
        field("seed", &C::seed, "Of what is drawn: each record's answer is the same each time."),
        field("stop", &C::stop,
              "Texts that end an answer and are no part of it; default: as the model's folder says."),
        field("regex", &C::regex, "Regular expression that an answer matches as a whole; default: none."),
        field("json_schema", &C::json_schema, "JSON Schema that an answer is JSON by, as text; default: none.")};
  }
  void validate(Problems& problems) const;
};

// An answer without the white space around it, and what would have been good, of which there is at least one.
struct WrittenAnswer {
  std::string text;
  std::vector<std::string> references;
};

// Of each prompt, and of each source of a model that has an encoder. A prompt is what precedes the last tokens in a row
// that are learnt: of a conversation its last answer is written anew.
class WrittenAnswers : public Evaluation, public generate::WritingMeasure {
 public:
  WrittenAnswers(std::string name, WritingSection how) : name_(std::move(name)), how_(std::move(how)) {}
  bool writes_answers() const final { return true; }
  void check(const Model& model) const final;
  void check_data(const DataReport& data) const final;
  void check_writing(const Model& model, const Tokenizer& tokenizer, const GenerateConfig& of_folder) const final;
  Sums measure(const Model&, const Output&, const Batch&, Pass&) const final;  // never: measure_in()
  Sums measure_in(const EvaluationSet& set, const Model& model, const Output& output, const Batch& batch,
                  Pass& pass) const final;
  std::vector<std::string> names() const final;
  Metrics result(const Sums& total) const final;

 protected:
  virtual void add(const WrittenAnswer& answer, Sums& sums) const = 0;
  virtual std::vector<std::string> own_names() const = 0;
  // Of sums that add() has made, of so many answers, at least one.
  virtual Metrics own_result(const Sums& total, double answers) const = 0;

 private:
  const std::string name_;
  const WritingSection how_;
};

}  // namespace hone::evals
