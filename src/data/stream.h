// Data that are read while they are trained on: a window of records at a time is tokenised, cut, packed and shuffled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hone/data.h"

namespace hone::data {

// Whether an entry is without length or says stream, so that all are read as streams.
bool is_stream(const std::vector<DataFile>& files);

// Opens nothing yet. Several entries are mixed by their weights, which are shares of the tokens; a window ends where it
// has as many tokens as options.window rows can hold or, of a single entry, where that begins again. Rows are shuffled
// within their window. The data end with the first entry that can be read only once. A row is a function of the seed
// and of what the entries give. Throws Error(config, data).
std::shared_ptr<const TrainingData> open_stream(const std::vector<DataFile>& files,
                                                std::shared_ptr<const Tokenizer> tokenizer,
                                                const Dataset::Options& options);

// How many documents records of texts to embed or to rank have.
struct RecordSizes {
  std::int64_t most = 0;
  double mean = 0;
};
// Of the first records of each of the stream's entries, which are read for it, once; nothing: they are pipes, whose
// records are gone once they are read, or no records of texts. What is wrong with a record is left to who trains on it.
std::optional<RecordSizes> sizes_of_first(const TrainingData& stream);

// What the first window would be; reads it. Throws Error(data) where it has no row.
std::shared_ptr<const Dataset> first_window(const TrainingData& stream);

}  // namespace hone::data
