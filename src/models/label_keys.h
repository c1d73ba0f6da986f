// What config.json says of a classification head, and the labels that it means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::models {

struct LabelKeys {
  std::optional<std::vector<std::string>> architectures;
  std::optional<std::string> problem_type;
  config::Open num_labels, id2label, label2id;

  static constexpr auto fields() {
    using C = LabelKeys;
    return std::tuple{
        field("architectures", &C::architectures,
              "Which head the folder has: with one ForSequenceClassification it is read, with one ForMaskedLM that for "
              "masked tokens; others of encoders are passed over."),
        field("problem_type", &C::problem_type,
              "Of a classification head: single_label_classification; of one label regression, too."),
        field("num_labels", &C::num_labels, "Labels of a classification head that id2label does not name."),
        field("id2label", &C::id2label, "Names of the labels: {0: ham, 1: spam}."),
        field("label2id", &C::label2id, "The same the other way round; follows from id2label.")};
  }
};

// The labels of the head that config.json describes, with transformers' names where it gives none; empty: it has none.
// One alone is a score.
std::vector<std::string> read_labels(const LabelKeys& keys, Problems& problems);

// Puts id2label, label2id and problem_type there: of a head's labels; of none, as they came.
void write_labels(const std::vector<std::string>& labels, const LabelKeys& keys, config::Node& node);

}  // namespace hone::models
