// Memory, as /proc and the control groups say.
#include "base/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/cgroup.h"
#include "base/strings.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // not there, or "max"
}

// Of lines such as "MemTotal:  65536 kB" or "inactive_file 4096".
std::optional<std::uint64_t> line_of(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t value = 0;
    if (words >> key >> value && key == name) return value;
  }
  return std::nullopt;
}

void take_group(const CgroupFolder& folder, MemoryFacts& facts) {
  constexpr std::uint64_t kNone = std::uint64_t{1} << 62;  // what version 1 says where there is no limit
  const auto limit = number_in(folder.path / (folder.second ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = number_in(folder.path / (folder.second ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used || *limit >= kNone) return;
  const auto files =
      line_of(folder.path / "memory.stat", folder.second ? "inactive_file" : "total_inactive_file").value_or(0);
  const std::uint64_t kept = *used - std::min(files, *used);
  const auto left = [](std::uint64_t most, std::uint64_t taken) { return most - std::min(most, taken); };
  if (facts.limit && left(*facts.limit, *facts.limit_used) <= left(*limit, kept)) return;
  facts.limit = limit, facts.limit_used = kept;
}

std::uint64_t resident_in(const fs::path& statm) {
  std::ifstream file(statm);
  std::uint64_t all = 0, resident = 0;
  return file >> all >> resident ? resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

std::uint64_t resident_memory() { return resident_in("/proc/self/statm"); }

std::uint64_t MemoryFacts::left() const {
  std::uint64_t least = available;
  if (limit) least = std::min(least, *limit - std::min(*limit, *limit_used));
  return least;
}

MemoryFacts memory_facts(const fs::path& root) {
  MemoryFacts facts;
  facts.resident = resident_in(root / "proc/self/statm");
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  facts.peak = std::max(facts.resident, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
  facts.machine = line_of(root / "proc/meminfo", "MemTotal:").value_or(0) * 1024;
  facts.available = line_of(root / "proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  for (const CgroupFolder& folder : cgroup_folders(root, "memory")) take_group(folder, facts);
  return facts;
}

}  // namespace hone
