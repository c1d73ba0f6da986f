// A state space of channels, forward and backward, token by token: a channel is a lane. Compiled once per instruction
// set.
#include "ops/cpu/selective_scan.h"

#include "ops/cpu/products/pieces-inl.h"
#include "ops/cpu/vec-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kStretch = 32;  // tokens whose states the backward pass has at hand

// Vectors of the states of as many channels as a vector has lanes, one behind another.
template <class W>
HONE_INLINE Vec<W> at(const W* vectors, std::int64_t k) {
  return load_lanes<Vec<W>>(vectors + k * kLanes<W>);
}
template <class W>
HONE_INLINE void put(W* vectors, std::int64_t k, const Vec<W>& x) {
  store_lanes(vectors + k * kLanes<W>, x);
}
template <class W>
void clear(W* vectors, std::int64_t count) {
  std::memset(vectors, 0, static_cast<std::size_t>(count) * kRegisterBytes);
}

// What comes of one token: held = e^(step rate) held + step x b, for each state; each(k, kept, held) is told.
template <class T, class Part, class Each>
HONE_INLINE void take_in(const ScanArgs<T>& a, const Wide<T>* rate, std::int64_t t, std::int64_t i, Part part,
                         Wide<T>* held, Each&& each) {
  using W = Wide<T>;
  const Vec<W> step = load(a.step + t * a.all_channels + i, part), x = load(a.x + t * a.all_channels + i, part),
               written = step * x;
  const W* b = a.b + t * a.states;
  for (std::int64_t k = 0; k < a.states; ++k) {
    const Vec<W> kept = exp_of(step * at(rate, k)), now = kept * at(held, k) + written * b[k];
    put<W>(held, k, now);
    each(k, kept, now);
  }
}

template <class T, class Part>
void load_rates(const ScanArgs<T>& a, std::int64_t i, Part part, Wide<T>* rate) {
  for (std::int64_t k = 0; k < a.states; ++k) put<Wide<T>>(rate, k, load(a.rate + k * a.all_channels + i, part));
}

template <class T>
std::int64_t room_of(const ScanArgs<T>& a) {
  return 2 * a.states * kRegisterBytes;
}

template <class T>
void scan(const ScanArgs<T>& a, Wide<T>* state, T* y, void* room) {
  using W = Wide<T>;
  W *rate = static_cast<W*>(room), *held = rate + a.states * kLanes<W>;
  each_vector<W>(a.channels, [&](std::int64_t i, auto part) {
    load_rates(a, i, part, rate);
    clear(held, a.states);
    if (state)
      for (std::int64_t k = 0; k < a.states; ++k) put<W>(held, k, load(state + k * a.all_channels + i, part));
    const Vec<W> skip = load(a.skip + i, part);
    for (std::int64_t t = 0; t < a.tokens; ++t) {
      const W* c = a.c + t * a.states;
      Vec<W> sum = skip * load(a.x + t * a.all_channels + i, part);
      take_in<T>(a, rate, t, i, part, held, [&](std::int64_t k, Vec<W>, Vec<W> now) HONE_LAMBDA { sum += now * c[k]; });
      store(y + t * a.all_channels + i, sum, part);
    }
    if (state)
      for (std::int64_t k = 0; k < a.states; ++k) store(state + k * a.all_channels + i, at(held, k), part);
  });
}

// All by vectors of channels: the states before each stretch; of one stretch what it kept and held after each token,
// behind what it began with; b's and c's gradients, yet to be added up over lanes; what a stretch gives the one before
// it, and rates with their gradients.
template <class T>
struct BackwardRoom {
  using W = Wide<T>;
  BackwardRoom(const ScanArgs<T>& a, void* room) : pieces(room), size(a.states * kLanes<W>) {
    vectors = (a.channels + kLanes<W> - 1) / kLanes<W>;
    stretches = (a.tokens + kStretch - 1) / kStretch;
    begins = pieces.template take<W>(vectors * stretches * size);
    for (W** x : {&given, &rate, &drate}) *x = pieces.template take<W>(vectors * size);
    held = pieces.template take<W>((kStretch + 1) * size);
    for (W** x : {&kept, &b, &c}) *x = pieces.template take<W>(kStretch * size);
  }
  BackwardRoom(const BackwardRoom&) = delete;
  W* begin_of(std::int64_t vector, std::int64_t stretch) const {
    return begins + (vector * stretches + stretch) * size;
  }

  Pieces pieces;
  std::int64_t size, vectors = 0, stretches = 0;
  W *begins, *given, *rate, *drate, *held, *kept, *b, *c;
};

template <class T>
std::int64_t backward_room_of(const ScanArgs<T>& a) {
  return BackwardRoom<T>(a, nullptr).pieces.taken();
}

template <class T>
class BackwardScan {
 public:
  using W = Wide<T>;
  BackwardScan(const ScanArgs<T>& a, const T* dy, const ScanGradients<T>& to, void* room)
      : a_(a), dy_(dy), to_(to), x_(a, room) {}

  void run() {
    each_vector<W>(a_.channels, [&](std::int64_t i, auto part) { begin(i / kLanes<W>, i, part); });
    for (std::int64_t stretch = x_.stretches - 1; stretch >= 0; --stretch) {
      const std::int64_t first = stretch * kStretch, last = least(first + kStretch, a_.tokens);
      clear(x_.b, (last - first) * a_.states), clear(x_.c, (last - first) * a_.states);
      each_vector<W>(a_.channels, [&](std::int64_t i, auto part) {
        again(x_.begin_of(i / kLanes<W>, stretch), x_.rate + i / kLanes<W> * x_.size, first, last, i, part);
        back(i / kLanes<W> * x_.size, first, last, i, part);
      });
      for (std::int64_t i = 0; i < (last - first) * a_.states; ++i) {
        to_.b[first * a_.states + i] = sum_of<W>(at(x_.b, i));
        to_.c[first * a_.states + i] = sum_of<W>(at(x_.c, i));
      }
    }
    each_vector<W>(a_.channels, [&](std::int64_t i, auto part) {
      for (std::int64_t k = 0; k < a_.states; ++k) {
        W* to = to_.rate + k * a_.all_channels + i;
        store(to, load(to, part) + at(x_.drate + i / kLanes<W> * x_.size, k), part);
      }
    });
  }

 private:
  // The states before each stretch.
  template <class Part>
  void begin(std::int64_t vector, std::int64_t i, Part part) {
    W *rate = x_.rate + vector * x_.size, *held = x_.held;
    load_rates(a_, i, part, rate);
    clear(x_.given + vector * x_.size, a_.states), clear(x_.drate + vector * x_.size, a_.states);
    clear(held, a_.states);
    for (std::int64_t stretch = 0; stretch < x_.stretches; ++stretch) {
      std::memcpy(x_.begin_of(vector, stretch), held, x_.size * sizeof(W));
      if (stretch + 1 == x_.stretches) break;
      for (std::int64_t t = stretch * kStretch; t < (stretch + 1) * kStretch; ++t)
        take_in<T>(a_, rate, t, i, part, held, [](std::int64_t, Vec<W>, Vec<W>) HONE_LAMBDA {});
    }
  }

  // What a stretch kept and held.
  template <class Part>
  void again(const W* before, const W* rate, std::int64_t first, std::int64_t last, std::int64_t i, Part part) {
    std::memcpy(x_.held, before, x_.size * sizeof(W));
    for (std::int64_t t = first; t < last; ++t) {
      W *held = x_.held + (t - first + 1) * x_.size, *kept = x_.kept + (t - first) * x_.size;
      std::memcpy(held, held - x_.size, x_.size * sizeof(W));
      take_in<T>(a_, rate, t, i, part, held,
                 [&](std::int64_t k, Vec<W> share, Vec<W>) HONE_LAMBDA { put<W>(kept, k, share); });
    }
  }

  template <class Part>
  void back(std::int64_t place, std::int64_t first, std::int64_t last, std::int64_t i, Part part) {
    W *rate = x_.rate + place, *drate = x_.drate + place, *given = x_.given + place;
    const Vec<W> skip = load(a_.skip + i, part);
    Vec<W> dskip = load(to_.skip + i, part);
    for (std::int64_t t = last - 1; t >= first; --t) {
      const std::int64_t own = t * a_.all_channels + i, in_room = (t - first) * x_.size;
      const Vec<W> dy = load(dy_ + own, part), x = load(a_.x + own, part), step = load(a_.step + own, part);
      const Vec<W> written = step * x;
      const W *b = a_.b + t * a_.states, *c = a_.c + t * a_.states;
      W *held = x_.held + in_room, *kept = x_.kept + in_room, *db = x_.b + in_room, *dc = x_.c + in_room;
      Vec<W> dwritten{}, dstep{};
      for (std::int64_t k = 0; k < a_.states; ++k) {
        const Vec<W> dheld = at(given, k) + dy * c[k], passed = dheld * at(kept, k), ddecay = passed * at(held, k);
        put<W>(dc, k, at(dc, k) + dy * at(held + x_.size, k));
        put<W>(db, k, at(db, k) + dheld * written);
        put<W>(drate, k, at(drate, k) + ddecay * step);
        put<W>(given, k, passed);
        dwritten += dheld * b[k];
        dstep += ddecay * at(rate, k);
      }
      store(to_.x + own, dwritten * step + dy * skip, part);
      store(to_.step + own, dwritten * x + dstep, part);
      dskip += dy * x;
    }
    store(to_.skip + i, dskip, part);
  }

  const ScanArgs<T>& a_;
  const T* dy_;
  const ScanGradients<T>& to_;
  BackwardRoom<T> x_;
};

}  // namespace

template <class T>
ScanKernels<T> scan_kernels() {
  return {room_of<T>, scan<T>, backward_room_of<T>,
          [](const ScanArgs<T>& a, const T* dy, const ScanGradients<T>& to, void* room) {
            BackwardScan<T>(a, dy, to, room).run();
          }};
}
HONE_INSTANTIATE_KERNELS(ScanKernels, scan_kernels)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
