// How many threads LibTorch and the kernels work with.
#pragma once

#include <string>

namespace hone {

// From now on arithmetic takes threads_by_core(cpus()) threads. For programs, at their start.
void use_default_threads();

// "2 threads", and why they are less than the machine's cores if they are.
std::string describe_threads();

}  // namespace hone
