// A matrix memory's gradients; compiled once per instruction set. First the memory before each chunk is made again,
// then chunks are gone through from the last to the first, with the gradient of the memory behind them.
//
// Of the gates, sums of t's weights over s are q dq, and of s's over t k dk: what the logarithm of t's forget gate gets
// is the sum of their difference from t on (Beck et al., 2025, arXiv:2503.14376). What e^m divides cancels in the
// result but for eps: with that m has a gradient of its own, which goes to the token whose level is the largest.
//
// Letters: t tokens that read, s tokens that are read.
#include "ops/cpu/products/mlstm-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
struct BackwardRoom : MlstmSizes<T> {
  using W = Wide<T>;
  BackwardRoom(const MlstmShape& shape, void* room) : MlstmSizes<T>(shape), pieces(room), gates(pieces) {
    const std::int64_t memory = this->keys * this->values;
    for (W** x : {&q, &k, &q_columns, &k_columns}) *x = pieces.template take<W>(kChunk * this->keys);
    for (W** x : {&v, &dy, &dy_columns}) *x = pieces.template take<W>(kChunk * this->values);
    for (W** x : {&weights, &dweights, &dweights_by_reader}) *x = pieces.template take<W>(kChunk * kChunk);
    made = pieces.template take<W>(kChunk * most(this->keys, this->values));
    for (W** x : {&ddivisor, &dm, &read, &difference}) *x = pieces.template take<W>(kChunk);
    for (W** x : {&turned, &dturned}) *x = pieces.template take<W>(memory);
    gradient = {pieces.template take<W>(memory), pieces.template take<W>(this->keys)};
    values_before = pieces.template take<W>(most(0, this->chunks - 1) * memory);
    keys_before = pieces.template take<W>(most(0, this->chunks - 1) * this->keys);
    m_before = pieces.template take<W>(this->chunks);
  }
  // The memory before a chunk; the first one finds nothing.
  Held<W> before(std::int64_t chunk) const {
    if (chunk == 0) return {nullptr, nullptr};
    return {values_before + (chunk - 1) * this->keys * this->values, keys_before + (chunk - 1) * this->keys, false};
  }
  Pieces pieces;
  ChunkGates<W> gates;
  W *q, *k, *v, *dy;                           // [row][size]; dy: the gradient of what is divided
  W *q_columns, *k_columns, *dy_columns;       // [place][row]
  W *weights, *dweights, *dweights_by_reader;  // [s][t], [s][t], [t][s]
  W* made;                                     // [row][size]
  W *ddivisor, *dm, *read, *difference;        // of t: gradients, seen * scale; q dq - k dk
  W *turned, *dturned;                         // [value's place][key's place] of the memory and its gradient
  Held<W> gradient;                            // of the memory behind the chunk
  W *values_before, *keys_before, *m_before;
};

template <class T>
std::int64_t backward_room(const MlstmShape& shape) {
  return BackwardRoom<T>(shape, nullptr).pieces.taken();
}

template <class T>
class BackwardPass {
 public:
  using W = Wide<T>;
  using U = Units<W>;
  static constexpr int kWide = kLanes<W>;
  BackwardPass(const MlstmShape& shape, const MlstmRows<T>& rows, const MlstmOutput<T>& output,
               const MlstmGradientRows<T>& gradients, void* room)
      : rows_(rows), output_(output), to_(gradients), x_(shape, room) {}

  void run() {
    remember();
    for (std::int64_t chunk = x_.chunks - 1; chunk >= 0; --chunk) {
      begin(chunk);
      weigh();
      of_queries();
      of_keys();
      of_values();
      of_m();
      of_forget_gates();
      if (chunk > 0) of_memory();
    }
  }

 private:
  void select(std::int64_t chunk) { first_ = chunk * kChunk, count_ = x_.count(chunk), padded_ = x_.rows(chunk); }
  void pack_keys_and_values() {
    pack<T>(rows_.k, first_, count_, padded_, x_.shape.key_size, x_.keys, x_.k);
    pack<T>(rows_.v, first_, count_, padded_, x_.shape.value_size, x_.values, x_.v);
  }

  void remember() {
    x_.m_before[0] = 0;
    for (std::int64_t chunk = 0; chunk + 1 < x_.chunks; ++chunk) {
      select(chunk);
      pack_keys_and_values();
      x_.gates.read(rows_, first_, count_, padded_, x_.m_before[chunk]);
      transpose(x_.k, x_.keys, padded_, x_.keys, x_.k_columns, kChunk);
      scale_columns(x_.k_columns, x_.keys, padded_, x_.gates.kept);
      Held<W> next = x_.before(chunk + 1);
      take_in<T>(x_, x_.k_columns, x_.v, padded_, x_.gates.decay, x_.before(chunk), next);
      x_.m_before[chunk + 1] = x_.gates.next_m;
    }
  }

  void begin(std::int64_t chunk) {
    select(chunk);
    pack_keys_and_values();
    pack<T>(rows_.q, first_, count_, padded_, x_.shape.key_size, x_.keys, x_.q);
    pack<T>(output_.dh, first_, count_, padded_, x_.shape.value_size, x_.values, x_.dy);
    x_.gates.read(rows_, first_, count_, padded_, x_.m_before[chunk]);
    held_ = x_.before(chunk);
    for (std::int64_t t = 0; t < padded_; ++t) x_.read[t] = held_.empty ? W(0) : x_.gates.seen[t] * x_.scale;
    divide();
    transpose(x_.q, x_.keys, padded_, x_.keys, x_.q_columns, kChunk);
    transpose(x_.dy, x_.values, padded_, x_.values, x_.dy_columns, kChunk);
    if (!held_.empty) transpose(held_.values, x_.values, x_.keys, x_.values, x_.turned, x_.keys);
    if (!x_.gradient.empty) transpose(x_.gradient.values, x_.values, x_.keys, x_.values, x_.dturned, x_.keys);
  }

  // From the result's gradient to those of what was divided, and of the divisor.
  void divide() {
    for (std::int64_t t = 0; t < count_; ++t) {
      const W divisor = output_.divisor[first_ + t];
      const Division<W> division(divisor, x_.gates.least_divisor(t), x_.shape.eps);
      const W factor = division.factor;
      const T* h = output_.h.data + (first_ + t) * output_.h.stride;
      W* dy = x_.dy + t * x_.values;
      const W along = sum_over<W>(x_.shape.value_size,
                                  [&](std::int64_t i, auto part) { return load(dy + i, part) * load(h + i, part); });
      each_vector<W>(x_.values, [&](std::int64_t i, auto part) { store(dy + i, load(dy + i, part) * factor, part); });
      x_.ddivisor[t] = division.by_divisor ? (divisor < 0 ? along : -along) * factor : W(0);
      x_.dm[t] = -along * factor * static_cast<W>(x_.shape.eps);
    }
    for (std::int64_t t = count_; t < padded_; ++t) x_.ddivisor[t] = 0;
  }

  // By which t sees each s, and the gradient of their product.
  void weigh() {
    std::memset(x_.weights, 0, padded_ * kChunk * sizeof(W));
    std::memset(x_.dweights, 0, padded_ * kChunk * sizeof(W));
    each_tile(padded_, 0, padded_ / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                if ((vector + V) * kWide <= row) return;
                const std::int64_t at = row * kChunk + vector * kWide;
                Vec<W> x[R][V] = {}, dx[R][V] = {};
                multiply<U>(x_.k + row * x_.keys, x_.keys, x_.q_columns + vector * kWide, kChunk, x_.keys, x);
                HONE_UNROLL
                for (int i = 0; i < V; ++i) {
                  const auto ddivisor = load_lanes<Vec<W>>(x_.ddivisor + (vector + i) * kWide);
                  HONE_UNROLL
                  for (int r = 0; r < R; ++r) dx[r][i] = ddivisor;
                }
                multiply<U>(x_.v + row * x_.values, x_.values, x_.dy_columns + vector * kWide, kChunk, x_.values, dx);
                HONE_UNROLL
                for (int r = 0; r < R; ++r) {
                  HONE_UNROLL
                  for (int i = 0; i < V; ++i) {
                    const auto top = load_lanes<Vec<W>>(x_.gates.top + (vector + i) * kWide);
                    const Vec<W> seen =
                        from_row<W>(exp_of(x_.gates.level[row + r] - top) * x_.scale, row + r, (vector + i) * kWide);
                    x[r][i] *= seen, dx[r][i] *= seen;
                  }
                }
                store_tile(x, x_.weights + at, kChunk);
                store_tile(dx, x_.dweights + at, kChunk);
              });
    transpose(x_.dweights, kChunk, padded_, padded_, x_.dweights_by_reader, kChunk);
  }

  // made[row] = (made of the memory by `of_memory` [row][depth] and `memory` [depth][place], plus `more`'s values times
  // the row's `amount`) times the row's factor, plus the product of `weights` over rows [from(row), to(row)) of `with`.
  struct Sum {
    std::int64_t wide;  // of what is made
    const W *of_memory = nullptr, *memory = nullptr;
    std::int64_t depth = 0;
    const W *more = nullptr, *amounts = nullptr;  // amounts null: 1
    const W* factors = nullptr;
    const W *weights = nullptr, *with = nullptr;
    bool later = false;  // rows from `row` on; else those up to it
  };
  void add_up(const Sum& s) {
    each_tile(padded_, 0, s.wide / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                if (s.memory) {
                  multiply<U>(s.of_memory + row * s.depth, s.depth, s.memory + vector * kWide, s.wide, s.depth, x);
                  HONE_UNROLL
                  for (int r = 0; r < R; ++r) {
                    const W amount = s.amounts ? s.amounts[row + r] : W(1);
                    HONE_UNROLL
                    for (int i = 0; i < V; ++i) {
                      if (s.more) x[r][i] += load_lanes<Vec<W>>(s.more + (vector + i) * kWide) * amount;
                      x[r][i] *= s.factors[row + r];
                    }
                  }
                }
                const std::int64_t from = s.later ? row : 0, to = s.later ? padded_ : row + R;
                multiply<U>(s.weights + row * kChunk + from, kChunk, s.with + from * s.wide + vector * kWide, s.wide,
                            to - from, x);
                store_tile(x, x_.made + row * s.wide + vector * kWide, s.wide);
              });
  }
  void store_rows(HeadRows<T> to, std::int64_t size, std::int64_t wide) const {
    for (std::int64_t r = 0; r < count_; ++r) {
      T* row = to.data + (first_ + r) * to.stride;
      const W* made = x_.made + r * wide;
      each_vector<W>(size, [&](std::int64_t i, auto part) { store(row + i, load(made + i, part), part); });
    }
  }

  void of_queries() {
    Sum sum{.wide = x_.keys, .weights = x_.dweights_by_reader, .with = x_.k};
    if (!held_.empty)
      sum.of_memory = x_.dy, sum.memory = x_.turned, sum.depth = x_.values, sum.more = held_.keys,
      sum.amounts = x_.ddivisor, sum.factors = x_.read;
    add_up(sum);
    store_rows(to_.q, x_.shape.key_size, x_.keys);
    for (std::int64_t t = 0; t < count_; ++t)
      x_.difference[t] = dot<W>(x_.q + t * x_.keys, x_.made + t * x_.keys, x_.keys);
  }

  void of_keys() {
    Sum sum{.wide = x_.keys, .weights = x_.dweights, .with = x_.q, .later = true};
    if (!x_.gradient.empty)
      sum.of_memory = x_.v, sum.memory = x_.dturned, sum.depth = x_.values, sum.more = x_.gradient.keys,
      sum.factors = x_.gates.kept;
    add_up(sum);
    store_rows(to_.k, x_.shape.key_size, x_.keys);
    for (std::int64_t s = 0; s < count_; ++s) {
      const W of_input = dot<W>(x_.k + s * x_.keys, x_.made + s * x_.keys, x_.keys);
      to_.input[(first_ + s) * rows_.gate_stride] = of_input;
      x_.difference[s] -= of_input;
    }
  }

  void of_values() {
    Sum sum{.wide = x_.values, .weights = x_.weights, .with = x_.dy, .later = true};
    if (!x_.gradient.empty)
      sum.of_memory = x_.k, sum.memory = x_.gradient.values, sum.depth = x_.keys, sum.factors = x_.gates.kept;
    add_up(sum);
    store_rows(to_.v, x_.shape.value_size, x_.values);
  }

  // m_t is the logarithms' sum at t, and the level of the highest, which has the sum at its own place with a minus.
  void of_m() {
    W of_earlier = 0;
    const auto give = [&](std::int64_t highest, W dm) {
      if (highest < 0) return void(of_earlier += dm);
      to_.input[(first_ + highest) * rows_.gate_stride] += dm;
      x_.difference[highest] -= dm;
    };
    give(x_.gates.highest[count_ - 1], dm_of_later_);
    for (std::int64_t t = 0; t < count_; ++t) {
      x_.difference[t] += x_.dm[t];
      give(x_.gates.highest[t], x_.dm[t]);
    }
    dm_of_later_ = of_earlier;
  }

  void of_forget_gates() {
    for (std::int64_t t = count_ - 1; t >= 0; --t) {
      const std::int64_t at = (first_ + t) * rows_.gate_stride;
      from_here_ += static_cast<double>(x_.difference[t]);
      to_.forget[at] = static_cast<W>(from_here_) / (1 + std::exp(rows_.forget[at]));  // log sigmoid's slope
    }
  }

  // The gradient of the memory before the chunk.
  void of_memory() {
    scale_columns(x_.q_columns, x_.keys, padded_, x_.read);
    Held<W>& d = x_.gradient;
    for (std::int64_t k = 0; k < x_.keys; ++k)
      d.keys[k] =
          (d.empty ? W(0) : d.keys[k] * x_.gates.decay) + dot<W>(x_.q_columns + k * kChunk, x_.ddivisor, padded_);
    take_in_values<W>(x_.sizes(), x_.q_columns, x_.dy, padded_, x_.gates.decay, d.empty ? nullptr : d.values, d.values);
    d.empty = false;
  }

  const MlstmRows<T>& rows_;
  const MlstmOutput<T>& output_;
  const MlstmGradientRows<T>& to_;
  BackwardRoom<T> x_;
  Held<W> held_{nullptr, nullptr};
  std::int64_t first_ = 0, count_ = 0, padded_ = 0;  // of the chunk
  double from_here_ = 0;                             // the differences' sum, of tokens gone through
  W dm_of_later_ = 0;                                // of tokens gone through whose highest is not among them
};

template <class T>
void run_backward(const MlstmShape& shape, const MlstmRows<T>& rows, const MlstmOutput<T>& output,
                  const MlstmGradientRows<T>& gradients, void* room) {
  BackwardPass<T>(shape, rows, output, gradients, room).run();
}

}  // namespace

template <class T>
MlstmBackward<T> mlstm_backward() {
  return {backward_room<T>, run_backward<T>};
}
HONE_INSTANTIATE_KERNELS(MlstmBackward, mlstm_backward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
