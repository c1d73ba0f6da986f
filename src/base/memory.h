// How much memory there is, and how much of it this process has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace hone {

struct MemoryFacts {
  std::uint64_t resident = 0, peak = 0;    // of this process: now, and at most so far
  std::uint64_t machine = 0, available = 0;  // of the machine: all, and what programs can still have
  // The tightest limit among the process's control group and those above it, and what that group uses, without what the
  // system gives up when it must (files it has read); nothing: there is none.
  std::optional<std::uint64_t> limit, limit_used;
  // Whichever is less: what is left of the machine or below the limit.
  std::uint64_t left() const;
};

// Bytes; 0 where the system does not say. `root`: where /proc and the control groups are, for tests.
MemoryFacts memory_facts(const std::filesystem::path& root = "/");

std::uint64_t resident_memory();  // of this process, now; quick

}  // namespace hone
