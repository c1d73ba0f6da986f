// What a rank says of others before it ends.
#include "dist/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace hone::dist {
namespace {

Place one_of_two(const Store& store, double limit) {
  Place place;
  place.limit_seconds = limit;
  place.size = place.local_size = 2, place.port = store.port(), place.store_is_served = true;
  return place;
}

// Both ranks of a job, each with its watchdog.
struct Two {
  Store store = Store::serve("127.0.0.1", 0);
  Watchdog one = dog(0), other = dog(1);
  Watchdog dog(int rank) const {
    Place place = one_of_two(store, 1);
    place.rank = rank;
    return Watchdog(Store::connect(place.address, place.port, 5), place);
  }
};

// A rank that waits for another one, which never comes.
void wait_long() { std::this_thread::sleep_for(std::chrono::seconds(20)); }

class WatchdogDeathTest : public ::testing::Test {
 protected:
  WatchdogDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(WatchdogDeathTest, NamesWhoIsSilentAndWhereItWas) {
  const auto rank = [] {
    Store store = Store::serve("127.0.0.1", 0);
    const Place place = one_of_two(store, 1);
    store.set("beat/1", "17 5 step 3, saving");
    Watchdog dog(Store::connect(place.address, place.port, 5), place);
    wait_long();
  };
  EXPECT_EXIT(rank(), ::testing::ExitedWithCode(7),
              "rank 1 has not been heard of for 1 s; it was last at step 3, saving");
}

TEST_F(WatchdogDeathTest, TellsWhatTheLauncherSays) {
  const auto rank = [] {
    Store store = Store::serve("127.0.0.1", 0);
    const Place place = one_of_two(store, 60);
    Watchdog dog(Store::connect(place.address, place.port, 5), place);
    store.set(kLostKey, "rank 1 was killed");
    wait_long();
  };
  EXPECT_EXIT(rank(), ::testing::ExitedWithCode(7), "error: rank 1 was killed");
}

TEST_F(WatchdogDeathTest, NoticesThatTheLauncherIsGone) {
  const auto rank = [] {
    auto store = std::make_unique<Store>(Store::serve("127.0.0.1", 0));
    const Place place = one_of_two(*store, 60);
    Watchdog dog(Store::connect(place.address, place.port, 5), place);
    store.reset();
    wait_long();
  };
  EXPECT_EXIT(rank(), ::testing::ExitedWithCode(7), "error: the launcher is gone");
}

// A connection that closed: whoever does not beat any more is found at once.
TEST_F(WatchdogDeathTest, SuspicionFindsWhoIsLost) {
  const auto rank = [] {
    Store store = Store::serve("127.0.0.1", 0);
    const Place place = one_of_two(store, 600);
    store.set("beat/1", "17 5 step 3");
    Watchdog dog(Store::connect(place.address, place.port, 5), place);
    dog.suspect();
    wait_long();
  };
  EXPECT_EXIT(rank(), ::testing::ExitedWithCode(7), "rank 1 has not been heard of for 2 s");
}

// Another rank has told its error already: quietly, with its exit code.
TEST_F(WatchdogDeathTest, EndsWithARankThatHasToldItsError) {
  const auto rank = [] {
    Store store = Store::serve("127.0.0.1", 0);
    const Place place = one_of_two(store, 60);
    Watchdog dog(Store::connect(place.address, place.port, 5), place);
    store.set(kToldKey, "4 rank 1: data.jsonl:3: not JSON");
    wait_long();
  };
  EXPECT_EXIT(rank(), ::testing::ExitedWithCode(4), "^$");
}

// One that lives and does not come: it is named, by one of those that wait, and nothing ends.
TEST(Watchdog, WhoeverIsBehindIsNamed) {
  Store store = Store::serve("127.0.0.1", 0);
  Place place = one_of_two(store, 1);
  place.size = 3;
  std::vector<std::unique_ptr<Watchdog>> dogs;
  ::testing::internal::CaptureStderr();
  for (place.rank = 0; place.rank < 3; ++place.rank)
    dogs.push_back(std::make_unique<Watchdog>(Store::connect(place.address, place.port, 5), place));
  dogs[1]->at("step 7, saving");
  dogs[0]->begin_exchange(), dogs[2]->begin_exchange();
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  dogs[1]->begin_exchange();
  for (const auto& dog : dogs) dog->end_exchange();
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  for (const auto& dog : dogs) dog->leave();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: has waited 1 s for rank 1, which is at step 7, saving\n");
}

// Of four in groups of two: who is in another group is not waited for, whatever it has come to.
TEST(Watchdog, WhoeverIsBehindInAGroupIsNamed) {
  Store store = Store::serve("127.0.0.1", 0);
  Place place = one_of_two(store, 1);
  place.size = 4;
  std::vector<std::unique_ptr<Watchdog>> dogs;
  ::testing::internal::CaptureStderr();
  for (place.rank = 0; place.rank < 4; ++place.rank)
    dogs.push_back(std::make_unique<Watchdog>(Store::connect(place.address, place.port, 5), place));
  for (const auto& dog : dogs) dog->begin_exchange(), dog->end_exchange();
  dogs[3]->at("step 7, saving");
  dogs[2]->begin_exchange(/*within=*/2);
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  dogs[3]->begin_exchange(2);
  for (const auto& dog : dogs) dog->end_exchange();
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  for (const auto& dog : dogs) dog->leave();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: has waited 1 s for rank 3, which is at step 7, saving\n");
}

// The host has begun an exchange and gone on: its device has nothing to do until the other one comes.
TEST(Watchdog, WhomADeviceWaitsForIsNamed) {
  Two ranks;
  std::atomic<bool> stands_still = true;
  ranks.other.at("step 7, reading data");
  ::testing::internal::CaptureStderr();
  ranks.one.begin_exchange(), ranks.one.end_exchange();
  ranks.one.watch([&] { return stands_still.load(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  stands_still = false;
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  ranks.one.watch(nullptr);
  ranks.one.leave(), ranks.other.leave();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: has waited 1 s for rank 1, which is at step 7, reading data\n");
}

TEST(Watchdog, WhoHasLeftIsNotMissed) {
  Store store = Store::serve("127.0.0.1", 0);
  const Place place = one_of_two(store, 1);
  store.set("beat/1", "left");
  Watchdog dog(Store::connect(place.address, place.port, 5), place);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_TRUE(dog.all_have_left());
}

TEST(Watchdog, ThoseWhoBeatAreLeftInPeace) {
  Two ranks;
  ranks.one.at("step 5");
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_NE(ranks.store.find("beat/0").value_or("").find("step 5"), std::string::npos);
}

}  // namespace
}  // namespace hone::dist
