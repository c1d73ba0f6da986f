// Where the documents of a batch are, however it says so.
#pragma once

#include <vector>

#include "hone/batch.h"

namespace hone::nn {

// batch.docs; if there are none, what segments_BT says; if that is undefined, every row is one document.
std::vector<Doc> docs_of(const Batch& batch);

}  // namespace hone::nn
