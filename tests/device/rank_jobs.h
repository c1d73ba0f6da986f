// What several ranks do on devices. Ranks are processes here: this program, which each of them is started as once more.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "train/support.h"

namespace hone::test {

class RankJobs : public ::testing::Test {
 protected:
  RankJobs();
  // One job more: a small run into the folder `name`, on the host with plain ATen. Where that is done already, it goes
  // on from step 4. Of a name with "waits" steps are timed instead.
  void add(const std::string& name, const std::string& device, Overrides overrides);
  int start(int ranks);  // all jobs; the exit code
  double waits(const std::string& name, int rank) const;  // of a step, for the pretended device
  // All ranks fail at one job; what one after another says.
  std::string fails(int ranks, const std::string& device, const Overrides& overrides = {});
  TempFolder folder_;

 private:
  std::filesystem::path jobs() const { return folder_.path() / "jobs"; }
  int count_ = 0;
  std::set<std::string> done_;
  std::map<std::string, std::string> file_of_;
};

inline const std::pair<std::string, std::string> kShares{"parallel.fsdp", "-1"};

}  // namespace hone::test
