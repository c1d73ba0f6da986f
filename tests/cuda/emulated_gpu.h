// CUDA's kernels on the CPU, for what tests can know of them without a GPU: each thread of a block is a fiber; fibers
// go on in an order that chance gives, some of them far ahead of others, and wait for one another where CUDA's threads
// do: who reads what another thread has not written yet, or not read yet, is found out. Blocks run one after another.
//
// A block whose threads can never meet (one has left, or warps come to different places) is an error, not a wait.
// Include this, then src/ops/cuda/kernels/prelude.cuh, then kernels, each in a namespace of its own.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace hone::test::gpu {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

// Threads that wait for one another.
struct Meeting {
  unsigned size = 0, arrived = 0, done = 0;  // done: how often they have met
};

class Block {
 public:
  static Block& now() { return *current_; }

  Block(Dim block, Dim grid, unsigned number) : dim(block), grid(grid), number_(number) {
    all_.size = block.x;
    for (unsigned first = 0; first < block.x; first += 32) warps_.push_back({std::min(32u, block.x - first), 0, 0});
  }

  void run(const std::function<void()>& kernel) {
    kernel_ = &kernel;
    current_ = this;
    for (unsigned i = 0; i < dim.x; ++i) begin();
    std::vector<unsigned> order(dim.x);
    std::iota(order.begin(), order.end(), 0);
    for (unsigned idle = 0, round = 0, slow = 0; !order.empty(); ++round) {
      std::shuffle(order.begin(), order.end(), chance_);
      if (round % 40 == 0) slow = chance_() % 4;  // of the warps, which is left behind
      moved_ = false;
      for (const unsigned thread : order) {
        if (idle < 8 && thread / 32 % 4 == slow && dim.x > 32) continue;
        thread_ = thread;
        swapcontext(&scheduler_, &fibers_[thread_]->context);
      }
      std::erase_if(order, [&](unsigned thread) { return fibers_[thread]->ended; });
      idle = moved_ ? 0 : idle + 1;
      if (idle > 10) throw std::logic_error("a block's threads wait for one another in different places");
    }
  }

  void meet() { meet(all_); }
  template <class W>
  W exchange(W x, unsigned with) {
    static_assert(sizeof(W) <= 8);
    std::memcpy(&fibers_[thread_]->shown, &x, sizeof x);
    meet(warps_[thread_ / 32]);
    W other;
    std::memcpy(&other, &fibers_.at(thread_ / 32 * 32 + with)->shown, sizeof other);
    meet(warps_[thread_ / 32]);
    return other;
  }
  unsigned thread() const { return thread_; }
  unsigned number() const { return number_; }

  const Dim dim, grid;

 private:
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(64 << 10);
    bool ended = false;
    std::uint64_t shown = 0;
  };

  void begin() {
    fibers_.push_back(std::make_unique<Fiber>());
    Fiber& fiber = *fibers_.back();
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, &Block::go, 0);
  }
  static void go() {
    Block& block = now();
    (*block.kernel_)();
    block.fibers_[block.thread_]->ended = block.moved_ = true;
  }
  void meet(Meeting& meeting) {
    const unsigned before = meeting.done;
    if (++meeting.arrived == meeting.size) meeting.arrived = 0, ++meeting.done, moved_ = true;
    while (meeting.done == before) swapcontext(&fibers_[thread_]->context, &scheduler_);
    moved_ = true;
  }

  static inline Block* current_ = nullptr;
  const unsigned number_;
  const std::function<void()>* kernel_ = nullptr;
  ucontext_t scheduler_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  unsigned thread_ = 0;
  bool moved_ = false;
  std::minstd_rand chance_{1 + number_};
  Meeting all_;
  std::vector<Meeting> warps_;
};

// kernel<<<blocks, threads>>>.
inline void launch(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
  for (unsigned i = 0; i < blocks; ++i) Block({threads}, {blocks}, i).run(kernel);
}

}  // namespace hone::test::gpu

#define __device__
#define __global__
#define __shared__ static
#define threadIdx (hone::test::gpu::Dim{hone::test::gpu::Block::now().thread(), 0, 0})
#define blockIdx (hone::test::gpu::Dim{hone::test::gpu::Block::now().number(), 0, 0})
#define blockDim (hone::test::gpu::Block::now().dim)
#define gridDim (hone::test::gpu::Block::now().grid)
#define __syncthreads() hone::test::gpu::Block::now().meet()

namespace hone::test::gpu::kernels {
using std::exp, std::log, std::erf, std::tanh, std::sqrt, std::isinf;

template <class W>
W shuffle_xor(W x, int lanes) {
  return Block::now().exchange(x, (Block::now().thread() % 32) ^ static_cast<unsigned>(lanes));
}
inline float as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline unsigned as_bits(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
}  // namespace hone::test::gpu::kernels

#define __shfl_xor_sync(mask, x, lanes) hone::test::gpu::kernels::shuffle_xor(x, lanes)
#define __uint_as_float(x) hone::test::gpu::kernels::as_float(x)
#define __float_as_uint(x) hone::test::gpu::kernels::as_bits(x)
