// A rank that fails while others wait for it: they are woken, and all go on by new ways.
#include <ATen/ATen.h>

#include <chrono>
#include <functional>
#include <thread>

#include "dist/ranks.h"
#include "hone/error.h"

namespace hone {
namespace {

ErrorKind kind_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::bug;
}

std::vector<std::string> all(int size) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < size; ++rank) texts.push_back(std::to_string(rank));
  return texts;
}

TEST(MeetAgain, WakesThoseThatWaitAndGoesOn) {
  for (const int size : {2, 4})
    test::on_ranks(size, [&](const World& world) {
      const bool fails = world.rank() == 1;
      world.wait();
      if (!fails) EXPECT_EQ(kind_of([&] { world.wait(); }), kFailedElsewhere);
      EXPECT_EQ(world.meet_again(fails ? "why" : "not why"), "why");
      EXPECT_EQ(world.gather(std::to_string(world.rank())), all(size));
      EXPECT_EQ(world.total(at::ones({5})).sum().item<double>(), 5 * size);
    });
}

// What the one that fails has sent before comes still; the error is not that of who looks for it first.
TEST(MeetAgain, ComesBehindWhatWasSent) {
  test::on_ranks(3, [](const World& world) {
    if (world.rank() != 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(world.gather(std::to_string(world.rank())), all(3));
    if (world.rank() != 2) EXPECT_EQ(kind_of([&] { world.wait(); }), kFailedElsewhere);
    EXPECT_EQ(world.meet_again(world.rank() == 2 ? "why" : ""), "why");
  });
}

TEST(MeetAgain, IsOfGroupsToo) {
  test::on_ranks(4, [](const World& world) {
    const World group = world.among(2);
    group.wait();
    if (world.rank() != 3) EXPECT_EQ(kind_of([&] { (world.rank() == 2 ? group : world).wait(); }), kFailedElsewhere);
    world.meet_again("why");
    const int first = world.rank() / 2 * 2;
    EXPECT_EQ(group.gather(std::to_string(world.rank())),
              (std::vector<std::string>{std::to_string(first), std::to_string(first + 1)}));
  });
}

// Where all fail, each by itself, the first one's words are everybody's.
TEST(MeetAgain, IsOfAllThatFailByThemselves) {
  std::vector<std::string> heard(3);
  test::on_ranks(3, [&](const World& world) {
    heard[static_cast<std::size_t>(world.rank())] = world.meet_again("why " + std::to_string(world.rank()));
    world.wait();
  });
  EXPECT_EQ(heard[1], heard[0]);
  EXPECT_EQ(heard[2], heard[0]);
}

}  // namespace
}  // namespace hone
