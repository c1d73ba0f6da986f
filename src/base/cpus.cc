// Affinity, cores, OMP_NUM_THREADS; the control group's quota is in cgroup.cc.
#include "base/cpus.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/strings.h"

namespace hone {
namespace {

// Empty: unknown.
std::vector<int> affinity() {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  for (std::size_t words = 16; words <= 1 << 14; words *= 2) {  // the kernel refuses a mask that is too short for it
    std::vector<unsigned long> mask(words);
    if (sched_getaffinity(0, words * sizeof(unsigned long), reinterpret_cast<cpu_set_t*>(mask.data())) != 0) continue;
    std::vector<int> cpus;
    for (std::size_t cpu = 0; cpu < words * kBits; ++cpu)
      if (mask[cpu / kBits] >> (cpu % kBits) & 1) cpus.push_back(static_cast<int>(cpu));
    return cpus;
  }
  return {};
}

int machine_cpus() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

// A processor whose core is not told counts as one.
int count_cores(const std::vector<int>& cpus, const std::filesystem::path& root) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    std::string siblings;
    std::ifstream file(root / fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
    cores.insert(siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

// The first of "8" or "8,2"; what libgomp does not take is not taken here.
std::optional<int> parse_threads(const char* text) {
  if (!text) return std::nullopt;
  const auto count = parse_int(trim(split(text, ',')[0]));
  if (!count || *count < 1 || *count > 65536) return std::nullopt;
  return static_cast<int>(*count);
}

int within_quota(int count, const Cpus& cpus) {
  if (cpus.asked) return *cpus.asked;
  if (!cpus.quota) return count;
  return std::clamp(static_cast<int>(std::ceil(std::min(*cpus.quota, 65536.0) - 1e-6)), 1, count);
}

}  // namespace

Cpus find_cpus(const CpuSources& sources) {
  Cpus found;
  const auto variable = [&](const char* name) { return sources.variable ? sources.variable(name) : std::getenv(name); };
  found.machine = machine_cpus();
  std::vector<int> allowed = sources.allowed ? *sources.allowed : affinity();
  // libgomp has bound this thread to the first of its places: the mask says nothing about the process.
  if (variable("OMP_PROC_BIND") || variable("OMP_PLACES") || variable("GOMP_CPU_AFFINITY")) allowed.clear();
  if (allowed.empty())
    for (int cpu = 0; cpu < found.machine; ++cpu) allowed.push_back(cpu);
  found.allowed = static_cast<int>(allowed.size());
  found.machine = std::max(found.machine, found.allowed);
  found.cores = count_cores(allowed, sources.root);
  found.quota = cgroup_quota(sources.root);
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    found.asked = parse_threads(variable(name));
    if (!found.asked) continue;
    found.asked_by = name;
    break;
  }
  return found;
}

const Cpus& cpus() {
  static const Cpus found = find_cpus({});
  return found;
}

int threads_by_core(const Cpus& cpus) { return within_quota(cpus.cores, cpus); }
int threads_by_cpu(const Cpus& cpus) { return within_quota(cpus.allowed, cpus); }

std::string why_threads(const Cpus& cpus) {
  if (cpus.asked) return cpus.asked_by;
  if (threads_by_core(cpus) < cpus.cores) return fmt::format("the control group's quota is {:.4g} CPUs", *cpus.quota);
  if (cpus.allowed < cpus.machine) return fmt::format("allowed on {} of {} CPUs", cpus.allowed, cpus.machine);
  return "";
}

}  // namespace hone
