// The sources of kernels, which are part of the program.
#pragma once

#include <string_view>

namespace hone::ops::cuda_table {

// Of kernels/<name>, as "rms_norm.cu" and "types.h", and of src/optim/elements, as "elements/adam.h"; empty: there is
// none. Written by CMake.
std::string_view kernel_source(std::string_view name);

}  // namespace hone::ops::cuda_table
