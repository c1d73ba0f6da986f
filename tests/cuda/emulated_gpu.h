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
  ~Machine() {
    show_now();
    running() = before_;
  }

  // Runs the kernel's thread for every place of the grid. early: it waits itself for what was launched before.
  static void launch(Place grid, int threads, std::size_t room_bytes, const std::function<void()>& kernel,
                     int threads_y = 1, bool early = false) {
    begin_launch(grid, threads, room_bytes, threads_y);
    Machine machine(threads * threads_y, room_bytes, kernel);
    machine.is_early_ = early;
    const std::size_t blocks = static_cast<std::size_t>(grid.x) * grid.y;
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t b = order != Order::backward ? i : blocks - 1 - i;
      blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x), 0};
      machine.begin_block();
      machine.run();
    }
    if (early && !machine.has_waited_)  // who comes next would trust that all before it has ended
      throw std::runtime_error("a kernel is launched early and does not wait");
  }

  // The same for blocks that are there at once and wait for one another: each goes on until nothing of it can.
  static void launch_together(unsigned blocks, int threads, std::size_t room_bytes,
                              const std::function<void()>& kernel) {
    begin_launch({blocks, 1, 1}, threads, room_bytes, 1);
    constexpr int kMostRounds = 20000;
    struct Restored {
      Machine* before = running();
      ~Restored() { running() = before; }
    } restored;
    std::vector<std::unique_ptr<Machine>> machines;
    for (unsigned b = 0; b < blocks; ++b) machines.emplace_back(new Machine(threads, room_bytes, kernel));
    std::size_t ended = 0;
    for (int round = 0; ended < blocks; ++round) {
      if (round == kMostRounds) throw std::runtime_error("blocks wait for one another without end");
      for (unsigned i = 0; i < blocks; ++i) {
        const unsigned b = order != Order::backward ? i : blocks - 1 - i;
        blockIdx = {b, 0, 0};
        if (!machines[b]->has_ended_) ended += machines[b]->run_on() ? 1 : 0;
      }
    }
  }

  void* room() { return room_.data(); }

  void wait_for_block() { stop(State::at_barrier); }
  // For so many threads of the block.
  void wait_for_some(int threads) {
    threads_[current_].of_barrier = threads;
    stop(State::at_some);
  }
  // Other blocks go on.
  void wait_for_grid() { stop(State::at_grid); }

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
  // Copies in bulk: an arrival that comes with so many bytes.
  void expect_bytes(unsigned at, unsigned bytes) {
    Gate& gate = gate_at(at);
    if (gate.bytes > 0) throw std::runtime_error("a gate expects copies while others are on their way");
    gate.bytes = bytes;
    gate.arriving.emplace_back();
  }
  void copy_in_bulk(unsigned at, void* to, const void* from, unsigned bytes) {
    Gate& gate = gate_at(at);
    bytes_at(shared_address(to), 1), bytes_at(shared_address(to) + bytes - 1, 1);
    if (bytes % 16 != 0 || bytes > gate.bytes) throw std::runtime_error("copies in bulk that are not expected");
    check_access(from, 16), check_access(to, 16);
    for (unsigned i = 0; i < bytes; i += 16) {
      Copy copy{static_cast<char*>(to) + i, 16, {}};
      std::memcpy(copy.what.data(), static_cast<const char*>(from) + i, 16);
      gate.arriving.back().push_back(copy);
    }
    gate.bytes -= bytes;
    if (order == Order::backward && gate.bytes == 0) let_arrive(gate);
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
  enum class State { ready, at_barrier, at_some, at_exchange, at_gate, at_wait, at_grid, ended };
  struct Gate {
    int expected = 0, missing = 0;
    bool odd = false, brings = false;
    unsigned bytes = 0;  // expected, of copies that nobody has asked for yet
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
    int kind = 0, lanes = 0, of_barrier = 0;
    GateWanted gate;
    Given given{};
    std::vector<Copy> asked;
    std::deque<std::vector<Copy>> on_their_way;
    bool hides = false, hides_passed = false;
    std::vector<std::function<void()>> asked_of_cores;
    std::deque<std::vector<std::function<void()>>> groups;
  };

  static void begin_launch(Place grid, int threads, std::size_t room_bytes, int threads_y) {
    if (room_bytes > kMostRoom) throw std::runtime_error("more room for a block than any GPU gives it");
    if (threads < kLanes || threads % kLanes != 0 || threads * threads_y > 512)
      throw std::runtime_error("a block of " + std::to_string(threads) + " threads; expected whole warps, 32 to 512");
    if (grid.x == 0 || grid.y == 0 || grid.y > 65535) throw std::runtime_error("a grid that CUDA refuses");
    gridDim = grid;
    blockDim = {static_cast<unsigned>(threads), static_cast<unsigned>(threads_y), 1};
  }

  Machine(int threads, std::size_t room_bytes, const std::function<void()>& kernel)
      : kernel_(kernel), threads_(static_cast<std::size_t>(threads)), room_bytes_(room_bytes),
        room_(room_bytes + kGuard), gathered_(static_cast<std::size_t>(threads) / kLanes) {
    before_ = running();
    running() = this;
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
    if (gate.bytes > 0) throw std::runtime_error("fewer bytes are copied than a gate expects");
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

  // Those that wait for as many as there are.
  bool pass_some() {
    bool any = false;
    std::map<int, int> waiting;
    for (const Thread& thread : threads_)
      if (thread.state == State::at_some) ++waiting[thread.of_barrier];
    for (Thread& thread : threads_)
      if (thread.state == State::at_some && waiting[thread.of_barrier] == thread.of_barrier)
        thread.state = State::ready, any = true;
    return any;
  }

  static std::size_t shared_bytes() {
    return __start_emulated_shared ? static_cast<std::size_t>(__stop_emulated_shared - __start_emulated_shared) : 0;
  }

  // Of a block that others run beside: until nothing of it can go on; true: it has ended. What it shares in fixed
  // places comes and goes with it.
  bool run_on() {
    Machine* const before = std::exchange(running(), this);
    if (!has_begun_)
      begin_block();
    else if (shared_bytes() > 0)
      std::memcpy(__start_emulated_shared, shared_.data(), shared_.size());
    has_begun_ = true;
    for (Thread& thread : threads_)
      if (thread.state == State::at_grid) thread.state = State::ready;
    run();
    if (shared_bytes() > 0) shared_.assign(__start_emulated_shared, __stop_emulated_shared);
    running() = before;
    has_ended_ = true;
    for (const Thread& thread : threads_) has_ended_ = has_ended_ && thread.state == State::ended;
    return has_ended_;
  }

  void begin_block() {
    if (shared_bytes() > 0) std::memset(__start_emulated_shared, 0xff, shared_bytes());
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
  }

  // Until all threads have ended, or some wait for other blocks and the others for them.
  void run() {
    const std::size_t warps = threads_.size() / kLanes;
    show_before();
    do {
      bool more = true;
      while (more) {
        more = false;
        for (std::size_t i = 0; i < warps; ++i) more |= run_warp(order != Order::backward ? i : warps - 1 - i);
        if (!more) more = pass_some() || open_gates() || end_what_is_before();
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
        at_gate += state == State::at_gate || state == State::at_wait || state == State::at_grid;
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

  // False: all threads have ended, or wait for other blocks.
  bool pass_barrier() {
    std::size_t waiting = 0;
    for (const Thread& thread : threads_)
      if (thread.state == State::at_grid) return false;
    for (const Thread& thread : threads_) {
      waiting += thread.state == State::at_barrier;
      if (thread.state == State::at_gate) throw std::runtime_error("threads wait at a gate that nobody opens");
      if (thread.state == State::at_some) throw std::runtime_error("threads wait for others that do not come");
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
  bool has_begun_ = false, has_ended_ = false;
  std::vector<char> shared_;  // of a block that others run beside, while they do
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

#include "cuda/emulated_cores.h"
