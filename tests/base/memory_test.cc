// Memory as /proc and control groups of both versions say; on folders that look like them.
#include "base/memory.h"

#include <gtest/gtest.h>

#include "harness/files.h"

namespace hone {
namespace {

class MemoryOf : public test::WithFolder {
 protected:
  void SetUp() override {
    folder_.write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    600 kB\n");
  }
  void group(const std::string& type, const std::string& options, const std::string& line) {
    folder_.write("proc/self/mountinfo",
                  "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - " + type + " " + type + " " + options + "\n");
    folder_.write("proc/self/cgroup", line + "\n");
  }
  void write(const std::string& name, const std::string& text) { folder_.write("sys/fs/cgroup/" + name, text + "\n"); }
  MemoryFacts facts() { return memory_facts(folder_.path()); }
};

TEST_F(MemoryOf, AMachineWithoutGroups) {
  const MemoryFacts found = facts();
  EXPECT_EQ(found.machine, 1000u * 1024);
  EXPECT_EQ(found.available, 600u * 1024);
  EXPECT_FALSE(found.limit);
  EXPECT_EQ(found.left(), 600u * 1024);
}
TEST_F(MemoryOf, TheTightestGroupCountsAndFilesThatCanGoDoNot) {
  group("cgroup2", "rw", "0::/jobs/mine");
  write("jobs/memory.max", "400000");
  write("jobs/memory.current", "390000");
  write("jobs/memory.stat", "anon 100000\ninactive_file 90000");
  write("jobs/mine/memory.max", "max");
  write("jobs/mine/memory.current", "200000");
  EXPECT_EQ(facts().limit, 400000u);
  EXPECT_EQ(facts().limit_used, 300000u);
  EXPECT_EQ(facts().left(), 100000u);
  write("jobs/mine/memory.max", "210000");  // tighter
  EXPECT_EQ(facts().limit, 210000u);
  EXPECT_EQ(facts().left(), 10000u);
  write("jobs/mine/memory.current", "220000");
  EXPECT_EQ(facts().left(), 0u);
}
TEST_F(MemoryOf, OfVersion1) {
  group("cgroup", "rw,memory", "4:memory:/jobs");
  write("jobs/memory.limit_in_bytes", "9223372036854771712");  // none
  write("jobs/memory.usage_in_bytes", "100");
  EXPECT_FALSE(facts().limit);
  write("jobs/memory.limit_in_bytes", "500000");
  write("jobs/memory.stat", "total_inactive_file 40");
  EXPECT_EQ(facts().limit, 500000u);
  EXPECT_EQ(facts().limit_used, 60u);
}
TEST(Memory, OfThisProcessGrowsWithIt) {
  const std::uint64_t before = resident_memory();
  EXPECT_GT(before, 0u);
  std::vector<char> taken(64 << 20, 1);
  EXPECT_GE(resident_memory(), before + (60 << 20));
  const MemoryFacts found = memory_facts();
  EXPECT_GE(found.peak, before + (60 << 20));
  EXPECT_GT(found.machine, found.resident);
  EXPECT_GE(found.machine, found.available);
  EXPECT_EQ(taken.back(), 1);
}

}  // namespace
}  // namespace hone
