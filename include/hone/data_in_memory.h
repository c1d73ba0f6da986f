// Data sets of records in memory. Torch-free.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hone/data.h"

namespace hone {

// As Dataset::make() of files. Records are called by `name` and their number, counted from 1: "chats:17"; there is no
// cache. Throws Error(data).
HONE_API std::shared_ptr<const Dataset> make_dataset(const std::vector<Record>& records, const std::string& name,
                                                     const Tokenizer& tokenizer, const Dataset::Options& options);

}  // namespace hone
