// A device that is not the host, for machines without one: its tensors lie in memory of their own, under the name
// "pretend", and everything that is computed with them is computed by LibTorch's CPU kernels.
//
// It is as strict as a GPU: a kernel that gets a tensor of the host beside its own is refused, and so is who looks at
// its memory as if it were the host's. What a GPU would make the host wait for is counted: values that it reads.
#pragma once

#include <cstdint>

namespace hone::test {

// Registers the device; once per process, before the first tensor.
void use_pretend_device();

std::int64_t pretend_waits();  // copies to the host and values that were asked for, so far

}  // namespace hone::test
