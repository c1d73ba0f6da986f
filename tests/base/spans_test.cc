// Stretches of time: who is told of which.
#include "base/spans.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/sections.h"

namespace hone::spans {
namespace {

class Ear final : public Listener {
 public:
  ~Ear() override { leave(*this); }
  void heard(const Stretch& stretch) noexcept override { all.push_back(stretch); }
  std::vector<std::string> names() const {
    std::vector<std::string> made;
    for (const Stretch& one : all) made.emplace_back(one.name);
    return made;
  }
  std::vector<Stretch> all;
};

TEST(Spans, AreToldAtTheirEndToWhoListens) {
  { const Span nobody("before"); }
  Ear ear;
  listen(ear, /*ops=*/false);
  {
    const Span outer("step");
    const Span inner("data");
    const sections::Timed section(sections::Section::loss);
  }
  leave(ear);
  { const Span nobody("after"); }
  EXPECT_EQ(ear.names(), (std::vector<std::string>{"data", "step"}));
  EXPECT_LE(ear.all[1].begin, ear.all[0].begin);
  EXPECT_LE(ear.all[0].end, ear.all[1].end);
  EXPECT_EQ(ear.all[0].thread, this_thread());
}
TEST(Spans, OpsAreToldToWhoAsksForThem) {
  Ear phases, ops;
  listen(phases, false), listen(ops, true);
  { const sections::Timed section(sections::Section::attention); }
  EXPECT_TRUE(phases.all.empty());
  ASSERT_EQ(ops.names(), std::vector<std::string>{"attention"});
  EXPECT_EQ(ops.all[0].kind, Kind::op);
  EXPECT_TRUE(heeded(Kind::op));
  leave(ops);
  EXPECT_FALSE(heeded(Kind::op));
  EXPECT_TRUE(heeded(Kind::phase));
}
TEST(Spans, OnesThatBeganBeforeAnybodyListenedAreNotTold) {
  Ear ear;
  {
    const Span span("early");
    listen(ear, false);
  }
  EXPECT_TRUE(ear.all.empty());
}
TEST(Spans, SayWhichThreadTheyWereOn) {
  Ear ear;
  listen(ear, false);
  std::thread([] { const Span span("elsewhere"); }).join();
  ASSERT_EQ(ear.all.size(), 1u);
  EXPECT_NE(ear.all[0].thread, this_thread());
}

}  // namespace
}  // namespace hone::spans
