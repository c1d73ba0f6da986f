// CUDA's execution model on the CPU, for kernels in the dialect of src/ops/cuda/kernels: grids of blocks of threads,
// which wait for each other at barriers and exchange values within warps of 32.
//
// Every thread is a fiber. A warp runs until its threads wait for the block or have ended, then the next one: a kernel
// that trusts in what another warp has written without a barrier finds what is not there. Warps and blocks run from the
// first to the last or the other way round, or warps take turns at every exchange; what a block shares is spoiled
// before it begins. Kernels that are launched early find memory as it was, until they wait for what is before them
// (early_memory.h). Reported, as an exception: threads that end while others wait for them, warps whose threads do not
// come to the same exchange, gates that nobody opens, traps, accesses where none may begin, writing beyond the shared
// room, and early launches that do not wait. One OS thread at a time.
#pragma once

#include <ucontext.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Half.h>

// What of a block's memory is shared, by all of its kernels: one block runs at a time.
#define __shared__ __attribute__((section("emulated_shared"))) static
extern "C" char __start_emulated_shared[] __attribute__((weak));
extern "C" char __stop_emulated_shared[] __attribute__((weak));

#define HONE_EMULATED
#define HONE_KERNEL static inline void
#define HONE_KERNEL_OF(threads) HONE_KERNEL
#define HONE_KERNEL_ALONE(threads) HONE_KERNEL
#define HONE_KERNEL_TWICE(threads) HONE_KERNEL
#define HONE_UNROLL
#define HONE_LIST(type, count) List<type, count>
#define HONE_DEVICE static inline
#define HONE_ELEMENT inline
#define HONE_SHARED_ROOM(type, name) type* name = static_cast<type*>(emulated::Machine::now().room())
#define HONE_ACCESS(address, bytes) emulated::check_access(address, bytes)

namespace emulated {

inline void check_access(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0)
    throw std::runtime_error("an access of " + std::to_string(bytes) + " bytes where none may begin");
}

struct Place {
  unsigned x = 0, y = 0, z = 0;
};
inline Place threadIdx, blockIdx, blockDim, gridDim;

// Memory as kernels that are launched early find it: as it was, until they wait. None: as it is, always.
class EarlyMemory {
 public:
  virtual ~EarlyMemory() = default;
  virtual void show_before() = 0;
  virtual bool show_now() = 0;  // false: somebody has written meanwhile
};
inline EarlyMemory* early_memory = nullptr;

enum class Order { forward, backward, turns };
inline Order order = Order::forward;  // of warps and blocks, from the next launch on

class Machine {
 public:
  static constexpr int kLanes = 32;
  static constexpr std::size_t kStack = 64 << 10;
  static constexpr std::size_t kMostRoom = 226 << 10;  // less what kernels have in fixed places

  static Machine& now() { return *running(); }

  // Runs the kernel's thread for every place of the grid. early: it waits itself for what was launched before.
  static void launch(Place grid, int threads, std::size_t room_bytes, const std::function<void()>& kernel,
                     int threads_y = 1, bool early = false) {
    if (room_bytes > kMostRoom) throw std::runtime_error("more room for a block than any GPU gives it");
    if (threads < kLanes || threads % kLanes != 0 || threads * threads_y > 512)
      throw std::runtime_error("a block of " + std::to_string(threads) + " threads; expected whole warps, 32 to 512");
    if (grid.x == 0 || grid.y == 0 || grid.y > 65535) throw std::runtime_error("a grid that CUDA refuses");
    Machine machine(threads * threads_y, room_bytes, kernel);
    machine.is_early_ = early;
    gridDim = grid;
    blockDim = {static_cast<unsigned>(threads), static_cast<unsigned>(threads_y), 1};
    const std::size_t blocks = static_cast<std::size_t>(grid.x) * grid.y;
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t b = order != Order::backward ? i : blocks - 1 - i;
      blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x), 0};
      machine.run_block();
    }
    if (early && !machine.has_waited_)  // who comes next would trust that all before it has ended
      throw std::runtime_error("a kernel is launched early and does not wait");
  }

  void* room() { return room_.data(); }

  void wait_for_block() { stop(State::at_barrier); }

  // For what was launched before: when nothing of the block can go on without it, no sooner.
  void wait_for_before() {
    has_waited_ = true;
    if (is_shown_before_) stop(State::at_wait);
  }

  // What the thread of the lane that `from` names has given; all threads of the warp come here with the same `from`.
  template <class T>
  T exchange(T value, int kind, int lanes) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    Thread& self = threads_[current_];
    std::memcpy(&self.value, &value, sizeof value);
    self.kind = kind;
    self.lanes = lanes;
    stop(State::at_exchange);
    std::memcpy(&value, &threads_[current_].received, sizeof value);
    return value;
  }

  // What all threads of the warp have given, by lane.
  struct Given {
    std::uint64_t at[4];
  };
  using OfWarp = std::array<Given, kLanes>;
  OfWarp gather(const Given& value) {
    threads_[current_].given = value;
    threads_[current_].kind = kAll;
    threads_[current_].lanes = 0;
    stop(State::at_exchange);
    return gathered_[current_ / kLanes];
  }

  // Copies that arrive when the thread waits for them, no sooner; from the last warp to the first, at once.
  struct Copy {
    void* to;
    std::size_t bytes;
    std::array<char, 16> what;
  };
  void copy_later(const Copy& copy) {
    if (order == Order::backward) arrive(copy);
    threads_[current_].asked.push_back(copy);
  }
  void commit_copies() { threads_[current_].on_their_way.push_back(std::exchange(threads_[current_].asked, {})); }
  void wait_for_copies(std::size_t left) {
    Thread& self = threads_[current_];
    for (auto& groups = self.on_their_way; groups.size() > left; groups.pop_front())
      for (const Copy& copy : groups.front()) {
        if (order != Order::backward) arrive(copy);
        self.hides = true;
      }
  }

  // Gates (mbarrier objects): a phase ends when so many have arrived; one waits for the end of the current phase, if it
  // is odd or even as one says. Copies that a thread lets arrive there come when nothing else can go on, no sooner;
  // from the last warp to the first, at once. Who has passed hides what they brought until it is shown.
  void make_gate(unsigned at, int arrivals) {
    if (arrivals <= 0) throw std::runtime_error("a gate that nobody opens");
    if (!gates_.emplace(at, Gate{arrivals, arrivals}).second) throw std::runtime_error("a gate is made twice");
    std::memcpy(bytes_at(at, sizeof kGateMark), &kGateMark, sizeof kGateMark);
  }
  void arrive(unsigned at) { count_arrival(gate_at(at)); }
  void arrive_with_copies(unsigned at) {
    Thread& self = threads_[current_];
    if (!self.on_their_way.empty()) throw std::runtime_error("copies are waited for in two ways");
    gate_at(at).arriving.push_back(std::exchange(self.asked, {}));
    if (order == Order::backward) let_arrive(gate_at(at));
  }
  void pass(unsigned at, bool odd) {
    for (; is_closed(gate_at(at), odd); stop(State::at_gate)) threads_[current_].gate = {at, odd};
    threads_[current_].hides_passed |= gate_at(at).brings;
  }

  // What the hardware reads itself: only what every thread has shown to it since its copies arrived, and no sooner than
  // a thread waits for it.
  void show_to_cores() { threads_[current_].hides = threads_[current_].hides_passed = false; }
  void read_later(std::function<void()> work) {
    for (const Thread& thread : threads_)
      if (thread.hides || (&thread == &threads_[current_] && thread.hides_passed))
        throw std::runtime_error("the hardware is to read what was not shown to it");
    threads_[current_].asked_of_cores.push_back(std::move(work));
  }
  void commit_group() {
    threads_[current_].groups.push_back(std::exchange(threads_[current_].asked_of_cores, {}));
  }
  void wait_for_groups(std::size_t left) {
    for (auto& groups = threads_[current_].groups; groups.size() > left; groups.pop_front())
      for (const auto& work : groups.front()) work();
  }

  // An address in the room as the hardware counts it: the room begins at no round one.
  static constexpr unsigned kRoomAddress = 0x430;
  unsigned shared_address(const void* x) const {
    return kRoomAddress + static_cast<unsigned>(static_cast<const char*>(x) - room_.data());
  }
  std::uint16_t value_at(unsigned address) const {
    std::uint16_t bits = 0;
    std::memcpy(&bits, room_.data() + (address - kRoomAddress), sizeof bits);
    return bits;
  }

  [[noreturn]] void trap() { throw std::runtime_error("a kernel has trapped"); }

 private:
  enum class State { ready, at_barrier, at_exchange, at_gate, at_wait, ended };
  struct Gate {
    int expected = 0, missing = 0;
    bool odd = false, brings = false;
    std::vector<std::vector<Copy>> arriving{};
  };
  struct GateWanted {
    unsigned at = 0;
    bool odd = false;
  };
  // Where a fiber goes on, for __builtin_longjmp: swapcontext() asks the system about signals each time, which took
  // half of these tests' time. A context is for its beginning alone.
  using Jump = void* [5];
  struct Thread {
    ucontext_t context;
    Jump left{};
    bool begun = false;
    std::unique_ptr<char[]> stack{new char[kStack]};
    State state = State::ready;
    std::uint64_t value = 0, received = 0;
    int kind = 0, lanes = 0;
    GateWanted gate;
    Given given{};
    std::vector<Copy> asked;
    std::deque<std::vector<Copy>> on_their_way;
    bool hides = false, hides_passed = false;
    std::vector<std::function<void()>> asked_of_cores;
    std::deque<std::vector<std::function<void()>>> groups;
  };

  Machine(int threads, std::size_t room_bytes, const std::function<void()>& kernel)
      : kernel_(kernel), threads_(static_cast<std::size_t>(threads)), room_bytes_(room_bytes),
        room_(room_bytes + kGuard), gathered_(static_cast<std::size_t>(threads) / kLanes) {
    before_ = running();
    running() = this;
  }
  ~Machine() {
    show_now();
    running() = before_;
  }
  Machine(const Machine&) = delete;

  static void arrive(const Copy& copy) { std::memcpy(copy.to, copy.what.data(), copy.bytes); }

  char* bytes_at(unsigned address, std::size_t bytes) {
    if (address % bytes != 0 || address < kRoomAddress || address - kRoomAddress + bytes > room_bytes_)
      throw std::runtime_error("a gate where none may be");
    return room_.data() + (address - kRoomAddress);
  }
  Gate& gate_at(unsigned at) {
    const auto found = gates_.find(at);
    if (found == gates_.end()) throw std::runtime_error("a gate that nobody has made");
    if (std::memcmp(bytes_at(at, sizeof kGateMark), &kGateMark, sizeof kGateMark) != 0)
      throw std::runtime_error("a gate has been written over");
    return found->second;
  }
  static bool is_closed(const Gate& gate, bool odd) { return gate.odd == odd; }
  static void count_arrival(Gate& gate) {
    if (--gate.missing > 0) return;
    gate.missing = gate.expected;
    gate.odd = !gate.odd;
  }
  static void let_arrive(Gate& gate) {
    for (const std::vector<Copy>& copies : std::exchange(gate.arriving, {})) {
      for (const Copy& copy : copies) arrive(copy);
      gate.brings |= !copies.empty();
      count_arrival(gate);
    }
  }
  // Lets through who can pass, if need be when copies have arrived; false: nobody can.
  bool open_gates() {
    for (const bool late : {false, true}) {
      bool any = false;
      for (Thread& thread : threads_) {
        if (thread.state != State::at_gate) continue;
        Gate& gate = gate_at(thread.gate.at);
        if (late) let_arrive(gate);
        if (is_closed(gate, thread.gate.odd)) continue;
        thread.state = State::ready;
        any = true;
      }
      if (any) return true;
    }
    return false;
  }

  // What was launched before has ended; false: it had, or nobody waits for it.
  bool end_what_is_before() {
    bool any = false;
    for (Thread& thread : threads_)
      if (thread.state == State::at_wait) thread.state = State::ready, any = true;
    if (any) check_now();
    return any;
  }
  void show_before() {
    if (!is_early_ || !early_memory) return;
    early_memory->show_before();
    is_shown_before_ = true;
  }
  bool show_now() { return !std::exchange(is_shown_before_, false) || early_memory->show_now(); }
  void check_now() {
    if (!show_now()) throw std::runtime_error("a kernel writes before it has waited");
  }

  static Machine*& running() {
    static Machine* machine = nullptr;
    return machine;
  }

  static void begin() {
    Machine& machine = now();
    try {
      machine.kernel_();
    } catch (...) {
      machine.failure_ = std::current_exception();
    }
    machine.threads_[machine.current_].state = State::ended;
    go_on(machine.scheduler_);
  }
  [[noreturn, gnu::noinline]] static void go_on(Jump& at) { __builtin_longjmp(at, 1); }
  // Comes back when somebody goes on at `from`. begins: there, for the first time.
  [[gnu::noinline]] static void leave(Jump& from, Jump& to, ucontext_t* begins) {
    if (__builtin_setjmp(from) != 0) return;
    if (begins) setcontext(begins);
    go_on(to);
  }

  void stop(State state) {
    threads_[current_].state = state;
    leave(threads_[current_].left, scheduler_, nullptr);
  }

  void resume(std::size_t thread) {
    current_ = thread;
    threadIdx = {static_cast<unsigned>(thread) % blockDim.x, static_cast<unsigned>(thread) / blockDim.x, 0};
    Thread& to = threads_[thread];
    leave(scheduler_, to.left, std::exchange(to.begun, true) ? nullptr : &to.context);
    if (failure_) std::rethrow_exception(failure_);
  }

  void run_block() {
    if (__start_emulated_shared)
      std::memset(__start_emulated_shared, 0xff,
                  static_cast<std::size_t>(__stop_emulated_shared - __start_emulated_shared));
    std::memset(room_.data(), 0xff, room_.size());
    for (Thread& thread : threads_) {
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.get();
      thread.context.uc_stack.ss_size = kStack;
      thread.context.uc_link = nullptr;
      makecontext(&thread.context, &Machine::begin, 0);
      thread.state = State::ready, thread.begun = false;
      thread.asked.clear(), thread.on_their_way.clear();
      thread.hides = thread.hides_passed = false, thread.asked_of_cores.clear(), thread.groups.clear();
    }
    gates_.clear();
    const std::size_t warps = threads_.size() / kLanes;
    show_before();
    do {
      bool more = true;
      while (more) {
        more = false;
        for (std::size_t i = 0; i < warps; ++i) more |= run_warp(order != Order::backward ? i : warps - 1 - i);
        if (!more) more = open_gates() || end_what_is_before();
      }
    } while (pass_barrier());
    check_now();
    for (std::size_t i = room_bytes_; i < room_.size(); ++i)
      if (room_[i] != '\xff') throw std::runtime_error("a kernel wrote beyond the room that its block shares");
  }

  // Until all of its threads wait for the block or at a gate or have ended, then false; where warps take turns, until
  // an exchange.
  bool run_warp(std::size_t warp) {
    const std::size_t first = warp * kLanes;
    do {
      int at_exchange = 0, at_gate = 0;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const std::size_t thread = first + (order != Order::backward ? lane : kLanes - 1 - lane);
        if (threads_[thread].state == State::ready) resume(thread);
      }
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        at_exchange += threads_[first + lane].state == State::at_exchange;
        const State state = threads_[first + lane].state;
        at_gate += state == State::at_gate || state == State::at_wait;
      }
      if (at_exchange == 0 || (at_gate > 0 && at_exchange + at_gate == kLanes)) return false;
      if (at_exchange < kLanes) throw std::runtime_error("not all threads of a warp come to an exchange");
      exchange_all(first);
    } while (order != Order::turns);
    return true;
  }

  void exchange_all(std::size_t first) {
    for (int lane = 0; lane < kLanes; ++lane) {
      Thread& thread = threads_[first + static_cast<std::size_t>(lane)];
      if (thread.kind != threads_[first].kind || thread.lanes != threads_[first].lanes)
        throw std::runtime_error("threads of a warp come to different exchanges");
      gathered_[first / kLanes][static_cast<std::size_t>(lane)] = thread.given;
      const int from = thread.kind == kXor ? lane ^ thread.lanes : lane + thread.lanes;
      thread.received = threads_[first + static_cast<std::size_t>(from < kLanes ? from : lane)].value;
      thread.state = State::ready;
    }
  }

  // False: all threads have ended.
  bool pass_barrier() {
    std::size_t waiting = 0;
    for (const Thread& thread : threads_) {
      waiting += thread.state == State::at_barrier;
      if (thread.state == State::at_gate) throw std::runtime_error("threads wait at a gate that nobody opens");
    }
    if (waiting == 0) return false;
    if (waiting < threads_.size()) throw std::runtime_error("threads have ended while others wait at a barrier");
    for (Thread& thread : threads_) thread.state = State::ready;
    return true;
  }

 public:
  static constexpr int kXor = 0, kDown = 1, kAll = 2;

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr std::uint64_t kGateMark = 0x6174652061676174;
  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  std::size_t room_bytes_;
  std::vector<char> room_;
  std::vector<OfWarp> gathered_;
  std::map<unsigned, Gate> gates_;
  Jump scheduler_{};
  std::size_t current_ = 0;
  std::exception_ptr failure_;
  bool is_early_ = false, is_shown_before_ = false, has_waited_ = false;
  Machine* before_ = nullptr;
};

inline void __syncthreads() { Machine::now().wait_for_block(); }
inline void __syncwarp() { Machine::now().gather({}); }
inline void __trap() { Machine::now().trap(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  return Machine::now().exchange(value, Machine::kXor, lanes);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int lanes) {
  return Machine::now().exchange(value, Machine::kDown, lanes);
}

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  const Machine::OfWarp all = Machine::now().gather({{static_cast<std::uint64_t>(value)}});
  return static_cast<T>(all[static_cast<std::size_t>(lane)].at[0]);
}
inline unsigned __ballot_sync(unsigned, bool is) {
  const Machine::OfWarp all = Machine::now().gather({{is ? 1u : 0u}});
  unsigned made = 0;
  for (int lane = 0; lane < Machine::kLanes; ++lane)
    made |= static_cast<unsigned>(all[static_cast<std::size_t>(lane)].at[0]) << lane;
  return made;
}

// Tensor cores, as PTX describes them: ldmatrix.x4 (turned: .trans), movmatrix, mma.m16n8k16, cp.async.
inline int own_lane() { return static_cast<int>(threadIdx.x) % Machine::kLanes; }

inline void load_matrices(unsigned (&to)[4], const void* row, bool turned) {
  check_access(row, 16);
  const Machine::OfWarp rows = Machine::now().gather({{reinterpret_cast<std::uint64_t>(row)}});
  const auto value = [&](int matrix, int r, int c) {
    std::uint16_t bits = 0;
    const auto* at = reinterpret_cast<const char*>(rows[static_cast<std::size_t>(8 * matrix + r)].at[0]);
    std::memcpy(&bits, at + 2 * c, sizeof bits);
    return static_cast<unsigned>(bits);
  };
  const int line = own_lane() / 4, pair = own_lane() % 4 * 2;
  for (int m = 0; m < 4; ++m)
    to[m] = turned ? value(m, pair, line) | value(m, pair + 1, line) << 16
                   : value(m, line, pair) | value(m, line, pair + 1) << 16;
}

// movmatrix.m8n8.trans.
inline unsigned move_matrix(unsigned word) {
  const Machine::OfWarp all = Machine::now().gather({{word}});
  const auto line = static_cast<unsigned>(own_lane()) / 4, pair = static_cast<unsigned>(own_lane()) % 4 * 2;
  const auto value = [&](unsigned row) {
    return static_cast<unsigned>(all[4 * row + line / 2].at[0] >> (16 * (line % 2)) & 0xffff);
  };
  return value(pair) | value(pair + 1) << 16;
}

template <class Widen>
void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, Widen&& widen) {
  const auto both = [](unsigned low, unsigned high) { return low | static_cast<std::uint64_t>(high) << 32; };
  const Machine::OfWarp all = Machine::now().gather({{both(a[0], a[1]), both(a[2], a[3]), both(b0, b1)}});
  // Of a lane's word w, its register r, half of it.
  const auto value = [&](int lane, int w, int r, int half) {
    const std::uint64_t word = all[static_cast<std::size_t>(lane)].at[w];
    return widen(static_cast<unsigned short>(word >> (32 * r + 16 * half)));
  };
  const int group = own_lane() / 4, pair = own_lane() % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    const int below = i / 2, column = pair + i % 2;  // row group, or group + 8
    for (int k = 0; k < 16; ++k) {
      const int holder = k % 8 / 2, later = k / 8;
      c[i] += value(4 * group + holder, later, below, k % 2) * value(4 * column + holder, 2, later, k % 2);
    }
  }
}

// wgmma.m64nNk16 of matrices in the block's room, whose rows of 128 bytes are swizzled (layout 1 of a descriptor): a
// row holds a line's depths, or, turned, 64 lines of a depth.
struct InRoom {
  std::uint64_t descriptor;
  bool turned;
};
inline unsigned address_in_room(const InRoom& x, unsigned line, unsigned depth) {
  const auto bytes = [&](int from) { return static_cast<unsigned>(x.descriptor >> from & 0x3fff) * 16; };
  const unsigned leading = bytes(16), stride = bytes(32);
  const unsigned from_begin = x.turned ? line / 64 * leading + line % 64 * 2 + depth / 8 * stride + depth % 8 * 128
                                       : line / 8 * stride + line % 8 * 128 + depth * 2;
  const unsigned place = bytes(0) + from_begin;
  return place ^ (place >> 7 & 7) << 4;
}
// A thread's first row and column of a product; its sums are as in mma's.
struct OwnSums {
  unsigned row, pair;
};
inline OwnSums own_sums() {
  const auto lane = static_cast<unsigned>(own_lane());
  return {threadIdx.x / Machine::kLanes % 4 * 16 + lane / 4, lane % 4 * 2};
}
inline void check_matrix(const InRoom& x) {
  if (x.descriptor >> 62 != 1 || (x.descriptor >> 49 & 7) != 0) throw std::runtime_error("a matrix in another order");
}
template <class Widen, int kSums>
void group_multiply(float (&c)[kSums], InRoom left, InRoom right, bool add, Widen widen) {
  check_matrix(left), check_matrix(right);
  Machine::now().read_later([&c, left, right, add, widen, own = own_sums()] {
    const auto value = [&](const InRoom& x, unsigned line, unsigned depth) {
      return widen(Machine::now().value_at(address_in_room(x, line, depth)));
    };
    for (unsigned i = 0; i < kSums; ++i) {
      float sum = add ? c[i] : 0;
      for (unsigned depth = 0; depth < 16; ++depth)
        sum += value(left, own.row + i / 2 % 2 * 8, depth) * value(right, i / 4 * 8 + own.pair + i % 2, depth);
      c[i] = sum;
    }
  });
}
// The left factor in the registers of a warp's threads, as mma's.
template <class Widen, int kSums>
void group_multiply_held(float (&c)[kSums], const unsigned (&a)[4], InRoom right, bool add, Widen widen) {
  check_matrix(right);
  const auto both = [](unsigned low, unsigned high) { return low | static_cast<std::uint64_t>(high) << 32; };
  const Machine::Given own{{both(a[0], a[1]), both(a[2], a[3])}};
  Machine::now().read_later([&c, &a, own, all = Machine::now().gather(own), both, right, add, widen, of = own_sums(),
                             group = static_cast<unsigned>(own_lane()) / 4] {
    if (both(a[0], a[1]) != own.at[0] || both(a[2], a[3]) != own.at[1])
      throw std::runtime_error("registers that the hardware reads have been written");
    const auto left = [&](unsigned below, unsigned depth) {
      const std::uint64_t word = all[4 * group + depth % 8 / 2].at[depth / 8];
      return widen(static_cast<unsigned short>(word >> (32 * below + 16 * (depth % 2))));
    };
    for (unsigned i = 0; i < kSums; ++i) {
      if (!add) c[i] = 0;
      for (unsigned depth = 0; depth < 16; ++depth)
        c[i] += left(i / 2 % 2, depth) *
                widen(Machine::now().value_at(address_in_room(right, i / 4 * 8 + of.pair + i % 2, depth)));
    }
  });
}

inline void copy_in_time(void* to, const void* from, bool there, std::size_t bytes = 16) {
  check_access(to, bytes);
  check_access(from, bytes);
  Machine::Copy copy{to, bytes, {}};
  if (there) std::memcpy(copy.what.data(), from, bytes);
  Machine::now().copy_later(copy);
}

inline float float_of_half(std::uint16_t bits) { return c10::detail::fp16_ieee_to_fp32_value(bits); }
inline std::uint16_t half_of_float(float x) { return c10::detail::fp16_ieee_from_fp32_value(x); }

}  // namespace emulated
