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

// A block whose first warp copies a line for the second one, of two gates: it is there, and it has been read. `skipped`
// is what one of them forgets.
enum class Skipped { nothing, making, copies, passing, showing, reading };
void copy_lines(Skipped skipped, int lines, std::vector<int>& got) {
  HONE_SHARED_ROOM(char, room);
  Machine& machine = Machine::now();
  const unsigned there = machine.shared_address(room), read = there + 8, lane = threadIdx.x % Machine::kLanes;
  auto* to = reinterpret_cast<int*>(room + 16);
  alignas(16) static int from[4 * Machine::kLanes];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4 * Machine::kLanes; ++i) from[i] = i;
    machine.make_gate(there, Machine::kLanes);
    if (skipped != Skipped::making) machine.make_gate(read, Machine::kLanes);
  }
  machine.wait_for_block();
  for (int line = 0; line < lines; ++line) {
    if (threadIdx.x < Machine::kLanes) {
      machine.pass(read, line % 2 == 0);
      copy_in_time(to + 4 * lane, from + 4 * lane, true);
      if (skipped != Skipped::copies) machine.arrive_with_copies(there);
    } else {
      if (skipped != Skipped::passing) machine.pass(there, line % 2 != 0);
      if (skipped != Skipped::showing) machine.show_to_cores();
      machine.read_later([&got, to, lane] { got[lane] += to[4 * lane + 1]; });
      machine.commit_group(), machine.wait_for_groups(0);
      for (int i = 0; i < 4; ++i) to[4 * lane + static_cast<unsigned>(i)] = -1000;
      if (skipped != Skipped::reading) machine.arrive(read);
    }
  }
}
TEST(EmulatedGpu, GatesOpenWhenAllHaveArrived) {
  const auto said = [](Skipped skipped, int lines) {
    std::vector<int> got(Machine::kLanes);
    const auto kernel = [&] {
      if (blockIdx.x == 0) copy_lines(skipped, lines, got);
    };
    const std::string complained = complaint(kernel, 64, 16 + 16 * Machine::kLanes);
    bool right = true;
    for (int lane = 0; lane < Machine::kLanes; ++lane)  // in each of three orders
      right &= got[static_cast<std::size_t>(lane)] == 3 * lines * (4 * lane + 1);
    return complained.empty() && !right ? std::string("other values") : complained;
  };
  EXPECT_EQ(said(Skipped::nothing, 5), "");
  EXPECT_EQ(said(Skipped::making, 1), "a gate that nobody has made");
  EXPECT_EQ(said(Skipped::copies, 1), "threads wait at a gate that nobody opens");
  EXPECT_NE(said(Skipped::passing, 1), "");  // other values, or who reads first lets nobody copy
  EXPECT_EQ(said(Skipped::showing, 1), "the hardware is to read what was not shown to it");
  EXPECT_EQ(said(Skipped::reading, 1), "");
  EXPECT_EQ(said(Skipped::reading, 2), "threads wait at a gate that nobody opens");
}
TEST(EmulatedGpu, ReportsGatesThatAreWrittenOverOrMadeTwice) {
  const auto said = [](int times, bool over) {
    const auto kernel = [=] {
      HONE_SHARED_ROOM(std::uint64_t, room);
      if (threadIdx.x != 0) return;
      const unsigned gate = Machine::now().shared_address(room);
      for (int i = 0; i < times; ++i) Machine::now().make_gate(gate, 1);
      if (over) room[0] = 0;
      Machine::now().arrive(gate);
    };
    return complaint(kernel, 32, 8);
  };
  EXPECT_EQ(said(1, false), "");
  EXPECT_EQ(said(2, false), "a gate is made twice");
  EXPECT_EQ(said(1, true), "a gate has been written over");
}

// What blocks that run together complain of, or nothing.
std::string together(unsigned blocks, const std::function<void()>& kernel, std::size_t room = 0) {
  std::string said;
  for (const Order each : {Order::forward, Order::backward, Order::turns}) {
    order = each;
    try {
      Machine::launch_together(blocks, 64, room, kernel);
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
  }
  order = Order::forward;
  return said;
}

TEST(EmulatedGpu, BlocksThatRunTogetherWaitForOneAnother) {
  std::vector<int> given(4);
  const auto pass_on = [&](bool last_begins) {
    return together(4, [&] {
      __shared__ int own;
      if (threadIdx.x == 0) own = static_cast<int>(blockIdx.x);
      __syncthreads();
      if (threadIdx.x != 33) return;
      const auto at = static_cast<std::size_t>(own);
      if (own > 0 || !last_begins)
        while (given[(at + 3) % 4] == 0) Machine::now().wait_for_grid();
      given[at] = own + 1;  // what the block shares is its own, though others ran meanwhile
    });
  };
  EXPECT_EQ(pass_on(true), "");
  EXPECT_EQ(given, (std::vector<int>{1, 2, 3, 4}));
  given.assign(4, 0);
  EXPECT_EQ(pass_on(false), "blocks wait for one another without end");
}

TEST(EmulatedGpu, SomeWarpsWaitForOneAnother) {
  const auto said = [](int threads) {
    return complaint(
        [=] {
          if (threadIdx.x < 32) Machine::now().wait_for_some(threads);
        },
        64, 0);
  };
  EXPECT_EQ(said(32), "");
  EXPECT_EQ(said(64), "threads wait for others that do not come");
}

TEST(EmulatedGpu, CopiesInBulkAreThoseThatWereExpected) {
  alignas(16) static char from[64] = {7};
  const auto said = [](unsigned expected, unsigned copied, bool passes) {
    char got = 0;
    const auto kernel = [&] {
      HONE_SHARED_ROOM(std::uint64_t, room);
      if (threadIdx.x != 0) return;
      const unsigned gate = Machine::now().shared_address(room);
      Machine::now().make_gate(gate, 1);
      Machine::now().expect_bytes(gate, expected);
      Machine::now().copy_in_bulk(gate, room + 2, from, copied);
      if (passes) Machine::now().pass(gate, false);
      got = reinterpret_cast<char*>(room + 2)[0];
    };
    const std::string complained = complaint(kernel, 32, 16 + 64);
    return complained.empty() && passes && got != 7 ? std::string("not there") : complained;
  };
  EXPECT_EQ(said(32, 32, true), "");
  EXPECT_EQ(said(32, 32, false), "");
  EXPECT_EQ(said(32, 16, true), "fewer bytes are copied than a gate expects");
  EXPECT_EQ(said(16, 32, true), "copies in bulk that are not expected");
  EXPECT_EQ(said(24, 24, true), "copies in bulk that are not expected");
}

// Memory of two numbers, of which the second one has been made since.
struct TwoNumbers final : EarlyMemory {
  TwoNumbers() { early_memory = this; }
  ~TwoNumbers() override { early_memory = nullptr; }
  void show_before() override { first = at[0], at[1] = -1; }
  bool show_now() override {
    const bool is_untouched = at[0] == first && at[1] == -1;
    at[1] = 2;
    return is_untouched;
  }
  int at[2] = {1, 2}, first = 0;
};
TEST(EmulatedGpu, EarlyLaunchesFindWhatIsBeforeThemWhenTheyHaveWaited) {
  TwoNumbers memory;
  int before = 0, now = 0;
  const auto kernel = [&] {
    if (threadIdx.x >= 32) return __syncthreads();
    before = memory.at[1] + __shfl_xor_sync(~0u, 0, 1);
    Machine::now().wait_for_before();
    now = memory.at[1];
    __syncthreads();
  };
  for (const Order each : {Order::forward, Order::backward, Order::turns}) {
    order = each;
    for (const bool early : {true, false}) {
      Machine::launch({3, 1, 1}, 64, 0, kernel, 1, early);
      EXPECT_EQ(before, early ? -1 : 2);
      EXPECT_EQ(now, 2);
    }
  }
  order = Order::forward;
}
TEST(EmulatedGpu, ReportsEarlyLaunchesThatWriteOrEndBeforeTheyWait) {
  TwoNumbers memory;
  const auto said = [](const std::function<void()>& kernel) {
    try {
      Machine::launch({2, 1, 1}, 32, 0, kernel, 1, /*early=*/true);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto wait = [] { Machine::now().wait_for_before(); };
  EXPECT_EQ(said([&] { wait(), memory.at[0] = 3; }), "");
  EXPECT_EQ(said([&] {
              if (blockIdx.x == 0) wait();
            }),
            "");
  EXPECT_EQ(said([&] { memory.at[0] = 4, wait(); }), "a kernel writes before it has waited");
  EXPECT_EQ(said([&] {}), "a kernel is launched early and does not wait");
}

}  // namespace
}  // namespace emulated
