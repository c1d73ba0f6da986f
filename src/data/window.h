// Some records of a stream as a data set of their own: a window.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/token_store.h"
#include "data/tokenise.h"
#include "hone/data.h"

namespace hone::data {

// Throws Error(config) for options that no data set can have.
void check_options(const std::vector<DataFile>& files, const Dataset::Options& options);

inline constexpr const char* kNothingLearnt =
    "a document needs two tokens, a completion one, and labels must not all be -100; see `hone inspect data`";

// How many of a record's tokens come to stand in rows; others are cut off or learn nothing.
std::int64_t tokens_in_rows(const Record& record, const RecordTokens& tokens, const std::function<std::string()>& name,
                            const Tokenizer& tokenizer, const Dataset::Options& options);

// Cut and packed as any data set. The store's lines are the records' numbers, which `names` knows; title: what to call
// it. It may be without a row.
std::shared_ptr<const Dataset> pack_window(std::shared_ptr<const TokenStore> store, const std::string& title,
                                           std::function<std::string(std::int64_t record)> names,
                                           const Tokenizer& tokenizer, const Dataset::Options& options);

}  // namespace hone::data
