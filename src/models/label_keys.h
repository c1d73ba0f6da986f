// What config.json says of a classification head, and the labels that it means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"

namespace hone::models {

struct LabelKeys {
  std::optional<std::vector<std::string>> architectures;
  std::optional<std::string> problem_type;
  config::Open num_labels, id2label, label2id;
  config::Open sentence_transformers;
  std::optional<std::string> sbert_ce_default_activation_function;

  static constexpr auto fields() {
    using C = LabelKeys;
    return std::tuple{
        field("architectures", &C::architectures,
              "Which head the folder has: with one ForSequenceClassification it is read, with one "
              "ForTokenClassification that for tokens, of encoders with one ForQuestionAnswering that for answers and "
              "with one ForMaskedLM that for masked tokens; others of encoders are passed over."),
        field("problem_type", &C::problem_type,
              "What a classification head is for: single_label_classification, multi_label_classification or "
              "regression; not said: one label of several, or a score."),
        field("num_labels", &C::num_labels, "Labels of a classification head that id2label does not name."),
        field("id2label", &C::id2label, "Names of the labels: {0: ham, 1: spam}."),
        field("label2id", &C::label2id, "The same the other way round; follows from id2label."),
        field("sentence_transformers", &C::sentence_transformers,
              "Of a cross-encoder of that package: by its activation_fn hone classify shows a score."),
        field("sbert_ce_default_activation_function", &C::sbert_ce_default_activation_function,
              "The same, as older versions of the package wrote it.")};
  }
};

// Of a classification head; without names there is none. One name alone is a score.
struct HeadLabels {
  std::vector<std::string> names;
  std::optional<ProblemType> problem_type;  // nothing: it is not said
  bool of_tokens = false;                   // each token has one of them
  bool of_answers = false;                  // they are kPlacesOfAnswers, which config.json does not name
  const char* class_end() const {
    return of_answers  ? "ForQuestionAnswering"
           : of_tokens ? "ForTokenClassification"
                       : "ForSequenceClassification";
  }
  bool empty() const { return names.empty(); }
};

// Those of the head that config.json describes, with transformers' names where it gives none.
HeadLabels read_labels(const LabelKeys& keys, Problems& problems);

// Those of the head that is asked for instead. REQUIRES: it has labels.
void ask_for(const HeadRequest& head, HeadLabels& labels);

// Puts id2label, label2id and problem_type there, in place of what was read: of a head's labels; of none, as they came.
void write_labels(const HeadLabels& labels, const LabelKeys& keys, config::Node& node);

}  // namespace hone::models
