// Kernels of ours for NVIDIA GPUs: sources that are part of the program (kernels/*.cu), compiled by NVRTC when one of
// them is needed first, for the GPU that is there, and kept on disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hone::ops::cuda {

// The sources by their names without ".cu"; each begins with the prelude. Written by CMake.
std::string source_of(const std::string& name);  // "": there is none
std::vector<std::string> source_names();

// PTX of a source for an architecture, as "compute_90". Needs no GPU. Throws Error(bug) with the compiler's words.
std::string compiled(const std::string& name, const std::string& architecture);

// One of a launch's arguments: the address of its value, which must live until then.
using Arguments = std::vector<void*>;

// On the current device's current stream, which nobody waits for. `function`: "rms_norm_bf16" of the source
// "rms_norm". Throws Error(bug): the driver refuses it.
void launch(const std::string& source, const std::string& function, std::int64_t blocks, std::int64_t threads,
            const Arguments& arguments);

}  // namespace hone::ops::cuda
