// What a label may be, and what the labels of a file's documents mean to a data set.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/place.h"
#include "hone/data.h"

namespace hone::data {

// Whether it is tokens that have the labels of such records.
inline bool are_of_tokens(RecordKind records) {
  return records == RecordKind::tagged || records == RecordKind::steps || records == RecordKind::question;
}

// Whether such a record is a query with texts, or a text alone, whose documents share a row.
inline bool are_texts(RecordKind records) { return records == RecordKind::embedding || records == RecordKind::ranked; }

// What a field says, as LabelledRecord::label has it: a name or a whole number, as text; of several labels a JSON list
// of them; of regression a number, of several a JSON list. White space around a label is none of it. The same label is
// always the same text. Throws Error(data).
std::string label_of(const nlohmann::ordered_json& value, ProblemType problem, const std::string& field,
                     const Place& place);
// Of a text, as a table's cell is: several labels are a JSON list, or names between commas; "" has none.
std::string label_of(const std::string& text, ProblemType problem, const std::string& field, const Place& place);

// A table's cells have no types: one that is written as a number with a point is one, as in JSON. Throws Error(data)
// where labels are names.
void check_cell(const std::string& cell, ProblemType problem, const std::string& field, const Place& place);

// The labels that such texts have, in the order of a data set's: by value if all are whole numbers, else by name; of
// regression LABEL_0 and so on, as many as there are numbers in the first.
std::vector<std::string> labels_in(const std::vector<std::string>& texts, ProblemType problem);

// Labels that nobody has named and that only small and capital letters tell apart, or how a number is written.
void warn_of_alike_labels(const std::vector<std::string>& labels, const std::string& paths);

// Names and whole numbers among labels that nobody has named. Throws Error(data).
void require_one_kind(const std::vector<std::string>& labels, const std::string& paths);

// The targets of a file's documents, by the index of their label's text in the file's store.
class Targets {
 public:
  Targets() = default;
  using Fail = std::function<Error(std::size_t text, const std::string& fact)>;
  // texts: of the store. Throws what `fail` makes of the index of a text that does not fit the labels.
  Targets(const std::vector<std::string>& texts, const std::vector<std::string>& labels, ProblemType problem,
          const Fail& fail);
  // Of tokens: where no label is a whole number, one that is counts the labels from 0, and false and true are 0 and 1.
  static Targets of_tokens(const std::vector<std::string>& texts, const std::vector<std::string>& labels,
                           const Fail& fail);
  bool empty() const { return ends_.empty() && numbers_.empty(); }
  std::vector<std::int64_t> labels(std::size_t text) const;  // their indices; of regression none
  std::vector<double> numbers(std::size_t text) const;       // one for each label: its number, or 1 where it is there

 private:
  std::size_t width_ = 0;             // of labels
  std::vector<std::int64_t> labels_;  // of all texts, one after the other
  std::vector<std::size_t> ends_;     // of text i
  std::vector<double> numbers_;       // of regression: width_ of each text
};

// A document's target as it is shown: a label, those that it has, or, of regression, its numbers. target: the column of
// its batch.
std::string shown_target(const HostColumn& target, std::size_t doc, const std::vector<std::string>& labels,
                         bool is_regression);

}  // namespace hone::data
