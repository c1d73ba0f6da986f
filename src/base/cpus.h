// The processors that this process may use, and how many threads that makes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hone {

struct Cpus {
  int machine = 1;              // of the whole machine
  int allowed = 1;              // by the affinity mask (taskset, cpusets)
  int cores = 1;                // that these are threads of: fewer where the processor has SMT
  std::optional<double> quota;  // how many the control group's quota pays for (docker --cpus, Kubernetes' limits)
  std::optional<int> asked;     // by OMP_NUM_THREADS, else MKL_NUM_THREADS
  std::string asked_by;
};

// Of this process, asked once. Thread-safe.
const Cpus& cpus();

// What was asked for, else one per core, or per processor, within the quota rounded up: a fraction of a processor is
// used by a thread that rests for the other part. Always at least 1.
int threads_by_core(const Cpus& cpus);  // for arithmetic, which gains nothing from SMT
int threads_by_cpu(const Cpus& cpus);   // for text
// Why threads_by_core() is less than what the machine has; "" when it is not.
std::string why_threads(const Cpus& cpus);

// Where find_cpus() looks; the members are there for tests.
struct CpuSources {
  std::filesystem::path root = "/";
  std::optional<std::vector<int>> allowed;       // default: of the calling thread
  const char* (*variable)(const char*) = nullptr;  // default: std::getenv
};
Cpus find_cpus(const CpuSources& sources);
// The least quota of the process's control group and those above it, versions 1 and 2; nothing: there is none.
std::optional<double> cgroup_quota(const std::filesystem::path& root);

}  // namespace hone
