// What the program tells libgomp before it is loaded is not seen afterwards. That libgomp has seen it: threads.test.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace {

TEST(OpenMPSpin, TheEnvironmentIsWhatTheProgramWasStartedWith) {
  std::ifstream file("/proc/self/environ", std::ios::binary);
  std::vector<std::string> started, now;
  for (std::string entry; std::getline(file, entry, '\0');) started.push_back(entry);
  for (char** entry = environ; *entry; ++entry) now.emplace_back(*entry);
  std::sort(started.begin(), started.end());
  std::sort(now.begin(), now.end());
  EXPECT_EQ(now, started);
}

}  // namespace
