// How many threads: affinity, cores, control groups of both versions, OMP_NUM_THREADS; on folders that look like /proc
// and /sys.
#include "base/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>

#include "base/memory.h"
#include "harness/files.h"

namespace hone {
namespace {

const char* no_variable(const char*) { return nullptr; }

class CgroupQuota : public ::testing::Test {
 protected:
  void mount(const std::string& within, const std::string& at, const std::string& type, const std::string& options) {
    mounts_ +=
        "31 23 0:28 " + within + " " + at + " rw,relatime shared:9 - " + type + " " + type + " " + options + "\n";
    folder_.write("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/root rw\n" + mounts_);
  }
  void groups(const std::string& lines) { folder_.write("proc/self/cgroup", lines); }
  void write(const std::string& path, const std::string& text) { folder_.write(path, text + "\n"); }
  std::optional<double> quota() { return cgroup_quota(folder_.path()); }

  test::TempFolder folder_;
  std::string mounts_;
};

TEST_F(CgroupQuota, NothingWithoutControlGroups) {
  EXPECT_EQ(quota(), std::nullopt);
  groups("");
  EXPECT_EQ(quota(), std::nullopt);
  groups("nonsense\n0::/a\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(CgroupQuota, OfVersion2IsTheLeastOfTheGroupAndThoseAboveIt) {
  mount("/", "/sys/fs/cgroup", "cgroup2", "rw");
  groups("0::/jobs/mine\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/jobs/mine/cpu.max", "max 100000");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/jobs/cpu.max", "400000 100000");
  EXPECT_EQ(quota(), 4.0);
  write("sys/fs/cgroup/jobs/mine/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/jobs/other/cpu.max", "10000 100000");  // not ours
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/jobs/cpu.max", "25000 50000");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CgroupQuota, MemoryIsTheLeastOfTheMachinesAndItsGroups) {
  const auto free = [&] { return memory_facts(folder_.path()).left(); };
  folder_.write("proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    8000 kB\n");
  EXPECT_EQ(free(), 8000u * 1024);
  mount("/", "/sys/fs/cgroup", "cgroup2", "rw");
  groups("0::/jobs/mine\n");
  write("sys/fs/cgroup/jobs/mine/memory.max", "max");
  EXPECT_EQ(free(), 8000u * 1024);
  write("sys/fs/cgroup/jobs/memory.max", "5000000");
  write("sys/fs/cgroup/jobs/memory.current", "3000000");
  EXPECT_EQ(free(), 2000000u);
  write("sys/fs/cgroup/jobs/memory.stat", "anon 2000000\ninactive_file 1000000");  // a cache, which can go
  EXPECT_EQ(free(), 3000000u);
  write("sys/fs/cgroup/jobs/memory.current", "6000000");
  EXPECT_EQ(free(), 0u);
}

TEST_F(CgroupQuota, OfVersion2InAContainerThatSeesItsGroupAsTheRoot) {
  mount("/", "/sys/fs/cgroup", "cgroup2", "rw,nsdelegate");
  groups("0::/\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2.0);
}

TEST_F(CgroupQuota, OfVersion1IsThatOfTheCpuController) {
  mount("/", "/sys/fs/cgroup/cpuset", "cgroup", "rw,cpuset");
  mount("/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct");
  groups("5:cpuset:/set\n4:cpu,cpuacct:/slice/job\n1:name=systemd:/x\n");
  write("sys/fs/cgroup/cpu,cpuacct/slice/job/cpu.cfs_period_us", "100000");
  write("sys/fs/cgroup/cpu,cpuacct/slice/job/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/fs/cgroup/cpu,cpuacct/slice/job/cpu.cfs_quota_us", "250000");
  EXPECT_EQ(quota(), 2.5);
  write("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_period_us", "50000");
  write("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(quota(), 1.0);
}

// Docker without a namespace of its own: the paths are the host's, the mount is the container's part of them.
TEST_F(CgroupQuota, OfAContainerThatSeesTheHostsPaths) {
  mount("/docker/c0ffee", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu");
  groups("4:cpu:/docker/c0ffee/inner\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000");
  EXPECT_EQ(quota(), 3.0);
  write("sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000");
  write("sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "100000");
  EXPECT_EQ(quota(), 1.0);
  groups("4:cpu:/docker/c0ffeebabe\n");  // another container, whose name begins alike
  EXPECT_EQ(quota(), 3.0);
  groups("4:cpu:/../elsewhere\n");
  EXPECT_EQ(quota(), 3.0);
}

TEST_F(CgroupQuota, OfBothVersionsAtOnceIsTheLess) {
  mount("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu");
  mount("/", "/sys/fs/cgroup/unified", "cgroup2", "rw");
  groups("1:cpu:/a\n0::/b\n");
  write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000");
  write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000");
  EXPECT_EQ(quota(), 2.0);
  write("sys/fs/cgroup/unified/b/cpu.max", "100000 100000");
  EXPECT_EQ(quota(), 1.0);
}

TEST_F(CgroupQuota, IsFoundBelowAMountPointWithABlank) {
  mount("/", "/control\\040groups", "cgroup2", "rw");
  groups("0::/a\n");
  write("control groups/a/cpu.max", "100000 50000");
  EXPECT_EQ(quota(), 2.0);
}

TEST(Cpus, ThreadsOfOneCoreCountOnceForArithmetic) {
  const test::TempFolder folder;
  for (int cpu = 0; cpu < 8; ++cpu)  // 0 and 4 are one core, 1 and 5, ...
    folder.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
                 std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n");
  const auto find = [&](std::vector<int> allowed) {
    return find_cpus({folder.path(), std::move(allowed), no_variable});
  };
  const Cpus all = find({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(threads_by_core(all), 4);
  EXPECT_EQ(threads_by_cpu(all), 8);
  EXPECT_EQ(threads_by_core(find({0, 4})), 1);
  EXPECT_EQ(threads_by_core(find({0, 5, 6})), 3);
  EXPECT_EQ(threads_by_core(find({8, 9})), 2);  // nothing is known of these
}

TEST(Cpus, AQuotaIsRoundedUpAndNeverBelowOne) {
  Cpus cpus{.machine = 8, .allowed = 8, .cores = 8, .quota = 1.5, .asked = {}, .asked_by = {}};
  EXPECT_EQ(threads_by_core(cpus), 2);
  EXPECT_EQ(why_threads(cpus), "the control group's quota is 1.5 CPUs");
  cpus.quota = 2;
  EXPECT_EQ(threads_by_core(cpus), 2);
  cpus.quota = 0.1;
  EXPECT_EQ(threads_by_core(cpus), 1);
  cpus.quota = 100;
  EXPECT_EQ(threads_by_core(cpus), 8);
  EXPECT_EQ(why_threads(cpus), "");
  cpus.allowed = cpus.cores = 3;
  EXPECT_EQ(threads_by_core(cpus), 3);
  EXPECT_EQ(why_threads(cpus), "allowed on 3 of 8 CPUs");
}

TEST(Cpus, WhatTheUserAsksForIsTaken) {
  const test::TempFolder nothing;
  static std::string omp, mkl;
  const auto find = [&](std::string first, std::string second) {
    omp = std::move(first), mkl = std::move(second);
    return find_cpus({nothing.path(), std::vector<int>{0, 1}, [](const char* name) -> const char* {
                        if (std::string_view(name) == "OMP_NUM_THREADS") return omp.empty() ? nullptr : omp.c_str();
                        return std::string_view(name) == "MKL_NUM_THREADS" && !mkl.empty() ? mkl.c_str() : nullptr;
                      }});
  };
  EXPECT_EQ(threads_by_core(find("7", "")), 7);  // more than there are processors, too
  EXPECT_EQ(threads_by_cpu(find("7", "3")), 7);
  EXPECT_EQ(why_threads(find("7", "")), "OMP_NUM_THREADS");
  EXPECT_EQ(threads_by_core(find(" 4 , 2", "")), 4);
  EXPECT_EQ(threads_by_core(find("", "3")), 3);
  EXPECT_EQ(why_threads(find("", "3")), "MKL_NUM_THREADS");
  for (const char* wrong : {"0", "-1", "many", "1e3", ","}) EXPECT_EQ(threads_by_core(find(wrong, "")), 2) << wrong;
}

TEST(Cpus, AMaskThatIsOpenMPsOwnIsNotTheProcesss) {
  const test::TempFolder nothing;
  const Cpus bound = find_cpus({nothing.path(), std::vector<int>{0}, [](const char* name) -> const char* {
                                  return std::string_view(name) == "OMP_PROC_BIND" ? "true" : nullptr;
                                }});
  EXPECT_EQ(bound.allowed, bound.machine);
}

TEST(Cpus, OfThisProcessFollowItsAffinity) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(find_cpus({"/", {}, no_variable}).allowed, CPU_COUNT(&all));
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Cpus found = find_cpus({"/", {}, no_variable});
  sched_setaffinity(0, sizeof all, &all);
  EXPECT_EQ(found.allowed, 1);
  EXPECT_EQ(threads_by_core(found), 1);
  EXPECT_EQ(threads_by_cpu(found), 1);
}

}  // namespace
}  // namespace hone
