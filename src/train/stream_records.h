// How many documents a record of a stream has, which is not known before it is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/objective.h"
#include "hone/run_parts.h"

namespace hone::training {

struct StreamRecords {
  enum class By { kind, first_records, evaluation_sets, nobody };
  std::int64_t most = 1;
  double mean = 1;
  By by = By::kind;  // what says so; nobody: a query with two texts is taken for granted
};

// Of a stream beside these sets. Pairs have two documents, and texts to embed or to rank as many as the first records
// have; of a pipe those of the evaluation sets.
StreamRecords stream_records(const Needs& needs, const TrainingData& stream, const std::vector<EvalSet>& evals);

// "memory is counted for 5 texts a record, as the first ones have"; "": their number is that of the kind.
std::string told(const StreamRecords& records);

}  // namespace hone::training
