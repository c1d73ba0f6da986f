// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>

namespace hone {

// Of the machine, and of the control group where that has a limit (docker --memory, Kubernetes' limits): the least of
// what is left. root: where /proc is looked for; there for tests.
std::uint64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace hone
