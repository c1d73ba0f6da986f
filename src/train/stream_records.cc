// How many documents a record of a stream has.
#include "train/stream_records.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "data/labels.h"
#include "data/stream.h"

namespace hone::training {
namespace {

constexpr std::int64_t kMostRows = 256;  // of a set

// Of rows that are a record each.
StreamRecords of_evaluation_sets(const std::vector<EvalSet>& evals, const StreamRecords& otherwise) {
  StreamRecords found{0, 0, StreamRecords::By::evaluation_sets};
  std::int64_t rows = 0;
  for (const EvalSet& set : evals)
    for (std::int64_t row = 0; row < std::min(kMostRows, set.data->rows()); ++row, ++rows) {
      const std::int64_t documents = std::ssize(set.data->row(row));
      found.most = std::max(found.most, documents);
      found.mean += static_cast<double>(documents);
    }
  if (rows == 0) return otherwise;
  found.mean /= static_cast<double>(rows);
  return found;
}

}  // namespace

StreamRecords stream_records(const Needs& needs, const TrainingData& stream, const std::vector<EvalSet>& evals) {
  if (needs.records == RecordKind::preference || needs.records == RecordKind::judged) return {2, 2};
  if (!data::are_texts(needs.records) || needs.texts_alone) return {};
  if (const auto first = data::sizes_of_first(stream))
    return {first->most, first->mean, StreamRecords::By::first_records};
  const bool embedded = needs.records == RecordKind::embedding;
  return of_evaluation_sets(evals, {embedded ? 3 : 2, embedded ? 3.0 : 2.0, StreamRecords::By::nobody});
}

std::string told(const StreamRecords& records) {
  using By = StreamRecords::By;
  if (records.by == By::kind) return "";
  const std::string texts = counted(records.most, "text");
  if (records.by == By::nobody)
    return fmt::format("memory is counted for {} a record: nobody knows how many a pipe's have", texts);
  return fmt::format("memory is counted for {} a record, as {} have", texts,
                     records.by == By::first_records ? "the first ones" : "those of data.eval");
}

}  // namespace hone::training
