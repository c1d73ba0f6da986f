// The emulated GPU itself: it runs what is right and reports what is not.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/emulated_gpu.h"

namespace emulated {
namespace {

// What the kernel's launch says, in every order; "" for nothing.
std::string complaint(const std::function<void()>& kernel, int threads, std::size_t room_bytes = 0) {
  std::string said;
  for (const Order each : {Order::forward, Order::backward, Order::turns}) {
    order = each;
    try {
      Machine::launch({2, 1, 1}, threads, room_bytes, kernel);
    } catch (const std::exception& error) {
      said = error.what();
    }
  }
  order = Order::forward;
  return said;
}

TEST(EmulatedGpu, RunsEveryThreadOfEveryBlock) {
  std::vector<int> seen(3 * 2 * 64);
  Machine::launch({3, 2, 1}, 64, 0, [&] { ++seen[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x]; });
  EXPECT_EQ(seen, std::vector<int>(3 * 2 * 64, 1));
}
TEST(EmulatedGpu, ExchangesWithinWarps) {
  std::vector<int> turned(64), moved(64);
  Machine::launch({1, 1, 1}, 64, 0, [&] {
    const int t = static_cast<int>(threadIdx.x);
    turned[t] = __shfl_xor_sync(~0u, t, 3);
    moved[t] = __shfl_down_sync(~0u, t, 4);
  });
  for (int t = 0; t < 64; ++t) {
    EXPECT_EQ(turned[t], t ^ 3);
    EXPECT_EQ(moved[t], t % 32 + 4 < 32 ? t + 4 : t);
  }
}
TEST(EmulatedGpu, SharedMemoryNeedsABarrier) {
  const auto reversed = [](bool barrier) {
    std::vector<int> got(64);
    const auto kernel = [&] {
      __shared__ int shared[64];
      shared[threadIdx.x] = static_cast<int>(threadIdx.x);
      if (barrier) __syncthreads();
      got[threadIdx.x] = shared[63 - threadIdx.x];
    };
    EXPECT_EQ(complaint(kernel, 64), "");
    for (int t = 0; t < 64; ++t)
      if (got[t] != 63 - t) return false;
    return true;
  };
  EXPECT_TRUE(reversed(true));
  EXPECT_FALSE(reversed(false));
}
TEST(EmulatedGpu, ReportsWhoLeavesWhileOthersWait) {
  EXPECT_EQ(complaint([] { if (threadIdx.x != 40) __syncthreads(); }, 64),
            "threads have ended while others wait at a barrier");
}
TEST(EmulatedGpu, ReportsWarpsThatPart) {
  EXPECT_EQ(complaint([] { if (threadIdx.x < 40) __shfl_xor_sync(~0u, 1, 1); }, 64),
            "not all threads of a warp come to an exchange");
  EXPECT_EQ(complaint([] { __shfl_xor_sync(~0u, 1, threadIdx.x == 5 ? 2 : 1); }, 32),
            "threads of a warp come to different exchanges");
}
TEST(EmulatedGpu, ReportsAnAccessWhereNoneMayBegin) {
  alignas(16) const char memory[32] = {};
  EXPECT_EQ(complaint([&] { HONE_ACCESS(memory, 16); }, 32), "");
  EXPECT_EQ(complaint([&] { HONE_ACCESS(memory + 2, 16); }, 32), "an access of 16 bytes where none may begin");
}
TEST(EmulatedGpu, ReportsTrapsAndWhatIsBeyondTheRoom) {
  EXPECT_EQ(complaint([] { if (threadIdx.x == 3) __trap(); }, 32), "a kernel has trapped");
  const auto write = [](int place) {
    return [place] {
      HONE_SHARED_ROOM(int, room);
      if (threadIdx.x == 0) room[place] = 1;
    };
  };
  EXPECT_EQ(complaint(write(7), 32, 32), "");
  EXPECT_EQ(complaint(write(8), 32, 32), "a kernel wrote beyond the room that its block shares");
}
TEST(EmulatedGpu, GathersWhatAWarpHas) {
  std::vector<std::uint64_t> sums(64);
  const auto kernel = [&] {
    std::uint64_t sum = 0;
    for (const Machine::Given& each : Machine::now().gather({{threadIdx.x, 1000}})) sum += each.at[0] + each.at[1];
    sums[threadIdx.x] = sum;
  };
  EXPECT_EQ(complaint(kernel, 64), "");
  for (std::size_t t = 0; t < 64; ++t) EXPECT_EQ(sums[t], 32000 + 496 + (t < 32 ? 0 : 32 * 32));
}
TEST(EmulatedGpu, CopiesArriveWhereOneWaitsForThem) {
  alignas(16) static int from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[8];
  std::vector<int> seen;
  const auto kernel = [&] {
    if (threadIdx.x != 0 || blockIdx.x != 0) return;
    std::fill(std::begin(to), std::end(to), 9);
    seen.clear();
    copy_in_time(to, from, true), Machine::now().commit_copies();
    copy_in_time(to + 4, from + 4, false), Machine::now().commit_copies();
    for (const std::size_t left : {2, 1, 0}) {
      Machine::now().wait_for_copies(left);
      seen.insert(seen.end(), {to[0], to[4]});
    }
  };
  EXPECT_EQ(complaint(kernel, 32), "");
  EXPECT_EQ(seen, (std::vector<int>{9, 9, 1, 9, 1, 0}));
}

}  // namespace
}  // namespace emulated
