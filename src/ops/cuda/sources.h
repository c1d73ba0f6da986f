// The sources of kernels, which are part of the program.
#pragma once

#include <span>
#include <string_view>

namespace hone::ops::cuda_table {

// Of kernels/<name>, as "rms_norm.cu" and "types.h", and of src/optim/elements, as "elements/adam.h"; empty: there is
// none. Written by CMake.
std::string_view kernel_source(std::string_view name);
// The headers of kernels/, which any of its sources may include; written by CMake, too.
std::span<const std::string_view> kernel_headers();

// Of kernels/<source>.cu; the names live as long as the program.
struct Kernel {
  const char *source, *name;
  std::string_view element = {};  // the file of src/optim/elements whose text stands before the source; "": none does
};

}  // namespace hone::ops::cuda_table
