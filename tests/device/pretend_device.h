// A device that is not the host, for machines without one: its tensors lie in memory of their own, under the name
// "pretend", and everything that is computed with them is computed by LibTorch's CPU kernels.
//
// There are several of them. Each is as strict as a GPU: a kernel that gets a tensor of the host, or of another one,
// beside its own is refused, and so is who looks at its memory as if it were the host's. What a GPU would make the host
// wait for is counted: values that it reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/recording.h"

namespace hone::test {

// How many there are: four, or so many as this variable of the environment says.
constexpr const char* kPretendDevices = "HONE_TEST_DEVICES";

// Registers the device; once per process, before the first tensor.
void use_pretend_device();
// What is there beside the host: GPUs, or else the pretended ones. Never both, since LibTorch's autograd knows one kind
// of device in a process beside the host.
std::vector<at::Device> devices_beside_the_host();
// As one that is the host sees its tensor; for what stands for a library of the device. Throws for one of the host.
at::Tensor pretend_memory(const at::Tensor& x);

std::int64_t pretend_waits();  // copies to and from the host that are not queued, values that were asked for

// What the device remembers instead of doing it, and does when it is told to: as on a GPU, what is made meanwhile holds
// no values before, and who waits for the device, or gives it what lies in host memory, is refused.
std::unique_ptr<ops::Recording> make_pretend_recording();
std::int64_t pretend_replays();  // so far

}  // namespace hone::test
