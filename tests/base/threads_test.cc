// The queue between threads and the worker's exception.
#include "base/threads.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace hone {
namespace {

TEST(BoundedQueue, KeepsOrderAndNothingIsLost) {
  BoundedQueue<int> queue(3);
  Worker producer("producer", [&] {
    for (int i = 0; i < 1000; ++i) queue.push(i);
    queue.close();
  });
  for (int i = 0; i < 1000; ++i) {
    ASSERT_LE(queue.size(), 3u);
    ASSERT_EQ(queue.pop(), i);
  }
  EXPECT_EQ(queue.pop(), std::nullopt);
  producer.join();
}

TEST(BoundedQueue, HandsOverAnExceptionAfterTheValuesBeforeIt) {
  BoundedQueue<int> queue(3);
  queue.push(1);
  queue.fail(std::make_exception_ptr(std::runtime_error("broken")));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_THROW(queue.pop(), std::runtime_error);
  EXPECT_FALSE(queue.push(2));
}

TEST(BoundedQueue, CancelReleasesAWaitingProducer) {
  BoundedQueue<int> queue(1);
  std::atomic<bool> refused = false;
  Worker producer("producer", [&] {
    while (queue.push(0)) {
    }
    refused = true;
  });
  queue.pop();
  queue.cancel();
  producer.join();
  EXPECT_TRUE(refused);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BoundedQueue, ManyOnBothSides) {
  BoundedQueue<int> queue(4);
  std::atomic<int> sum = 0;
  std::vector<Worker> makers, takers;
  for (int t = 0; t < 3; ++t) {
    takers.emplace_back("taker", [&] {
      while (const auto value = queue.pop()) sum += *value;
    });
    makers.emplace_back("maker", [&] {
      for (int i = 1; i <= 100; ++i) queue.push(i);
    });
  }
  for (Worker& maker : makers) maker.join();
  queue.close();
  for (Worker& taker : takers) taker.join();
  EXPECT_EQ(sum, 3 * 5050);
}

TEST(Worker, GivesItsExceptionToWhoeverJoins) {
  Worker worker("fails", [] { throw std::runtime_error("inside"); });
  EXPECT_THROW(worker.join(), std::runtime_error);
  EXPECT_FALSE(worker.running());
  EXPECT_NO_THROW(worker.join());
}

TEST(Worker, BlocksStopSignals) {
  bool blocked = false;
  Worker worker("signals", [&] {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, nullptr, &set);
    blocked = sigismember(&set, SIGTERM) == 1 && sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGUSR1) == 1;
  });
  worker.join();
  EXPECT_TRUE(blocked);
  sigset_t here;
  pthread_sigmask(SIG_BLOCK, nullptr, &here);
  EXPECT_EQ(sigismember(&here, SIGTERM), 0);
}

}  // namespace
}  // namespace hone
