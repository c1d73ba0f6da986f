// Tensor files that commands write for comparisons.
#pragma once

#include <string>

#include "hone/data.h"
#include "hone/model.h"

namespace hone::cli {

inline constexpr const char* kLogits = "logits";  // what such a file says that it holds

// fp32 logits of each row of `data`, one row at a time: logits.<row>, [T,V]. An older such file is replaced.
void write_logits(const CausalLm& model, const Dataset& data, const std::string& path);

}  // namespace hone::cli
