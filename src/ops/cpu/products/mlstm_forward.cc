// A matrix memory forward; compiled once per instruction set.
//
// Letters: t tokens that read, s tokens that are read.
#include "ops/cpu/products/mlstm-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

constexpr std::int64_t kFewTokens = 4;  // so many go one by one, straight through the memory as it lies

template <class T>
struct ForwardRoom : MlstmSizes<T> {
  using W = Wide<T>;
  ForwardRoom(const MlstmShape& shape, void* room) : MlstmSizes<T>(shape), pieces(room), gates(pieces) {
    for (W** x : {&q, &k, &k_columns}) *x = pieces.template take<W>(kChunk * this->keys);
    for (W** x : {&v, &sums}) *x = pieces.template take<W>(kChunk * this->values);
    weights = pieces.template take<W>(kChunk * kChunk);
    held = {pieces.template take<W>(this->keys * this->values), pieces.template take<W>(this->keys)};
  }
  Pieces pieces;
  ChunkGates<W> gates;
  W *q, *k, *v;       // [row][size]
  W* k_columns;       // [key's place][row]
  W *weights, *sums;  // [t][s], [t][value's place]
  Held<W> held;
};

template <class T>
std::int64_t forward_room(const MlstmShape& shape) {
  return ForwardRoom<T>(shape, nullptr).pieces.taken();
}

template <class T>
class ForwardPass {
 public:
  using W = Wide<T>;
  using U = Units<W>;
  static constexpr int kWide = kLanes<W>;
  ForwardPass(const MlstmShape& shape, const MlstmRows<T>& rows, const MlstmState<T>& state,
              const MlstmResult<T>& result, void* room)
      : rows_(rows), state_(state), result_(result), x_(shape, room) {}

  void run() {
    if (state_.values) load_state();
    for (std::int64_t chunk = 0; chunk < x_.chunks; ++chunk) {
      begin(chunk);
      weigh();
      add_up();
      finish();
      if (chunk + 1 == x_.chunks && !state_.values) break;
      scale_columns(x_.k_columns, x_.keys, padded_, x_.gates.kept);
      take_in<T>(x_, x_.k_columns, x_.v, padded_, x_.gates.decay, x_.held, x_.held);
      m_ = x_.gates.next_m;
    }
    if (state_.values) store_state();
  }

 private:
  void begin(std::int64_t chunk) {
    first_ = chunk * kChunk, count_ = x_.count(chunk), padded_ = x_.rows(chunk);
    const MlstmShape& shape = x_.shape;
    pack<T>(rows_.q, first_, count_, padded_, shape.key_size, x_.keys, x_.q);
    pack<T>(rows_.k, first_, count_, padded_, shape.key_size, x_.keys, x_.k);
    pack<T>(rows_.v, first_, count_, padded_, shape.value_size, x_.values, x_.v);
    transpose(x_.k, x_.keys, padded_, x_.keys, x_.k_columns, kChunk);
    x_.gates.read(rows_, first_, count_, padded_, m_);
  }

  // By which t sees each s, 0 where s comes later; their sums.
  void weigh() {
    std::memset(x_.weights, 0, padded_ * kChunk * sizeof(W));
    each_tile(padded_, 0, padded_ / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                if (vector * kWide >= row + R) return;
                Vec<W> x[R][V] = {};
                multiply<U>(x_.q + row * x_.keys, x_.keys, x_.k_columns + vector * kWide, kChunk, x_.keys, x);
                HONE_UNROLL
                for (int r = 0; r < R; ++r) {
                  HONE_UNROLL
                  for (int i = 0; i < V; ++i) {
                    const auto level = load_lanes<Vec<W>>(x_.gates.level + (vector + i) * kWide);
                    x[r][i] = up_to_row<W>(x[r][i] * x_.scale * exp_of(level - x_.gates.top[row + r]), row + r,
                                           (vector + i) * kWide);
                  }
                }
                store_tile(x, x_.weights + row * kChunk + vector * kWide, kChunk);
              });
    for (std::int64_t t = 0; t < count_; ++t) {
      const W* w = x_.weights + t * kChunk;
      W sum = sum_over<W>(padded_, [&](std::int64_t i, auto part) { return load(w + i, part); });
      W* q = x_.q + t * x_.keys;
      if (!x_.held.empty) {
        const W seen = x_.gates.seen[t] * x_.scale;
        each_vector<W>(x_.keys, [&](std::int64_t i, auto part) { store(q + i, load(q + i, part) * seen, part); });
        sum += sum_over<W>(x_.keys,
                           [&](std::int64_t i, auto part) { return load(q + i, part) * load(x_.held.keys + i, part); });
      }
      result_.divisor[first_ + t] = sum;
    }
  }

  void add_up() {
    each_tile(padded_, 0, x_.values / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                if (!x_.held.empty)
                  multiply<U>(x_.q + row * x_.keys, x_.keys, x_.held.values + vector * kWide, x_.values, x_.keys, x);
                multiply<U>(x_.weights + row * kChunk, kChunk, x_.v + vector * kWide, x_.values, row + R, x);
                store_tile(x, x_.sums + row * x_.values + vector * kWide, x_.values);
              });
  }

  void finish() {
    for (std::int64_t t = 0; t < count_; ++t) {
      const W factor = Division<W>(result_.divisor[first_ + t], x_.gates.least_divisor(t), x_.shape.eps).factor;
      const W* sum = x_.sums + t * x_.values;
      T* h = result_.h.data + (first_ + t) * result_.h.stride;
      each_vector<W>(x_.shape.value_size,
                     [&](std::int64_t i, auto part) { store(h + i, load(sum + i, part) * factor, part); });
    }
  }

  void load_state() {
    const std::int64_t size = x_.shape.value_size;
    std::memset(x_.held.values, 0, x_.keys * x_.values * sizeof(W));
    std::memset(x_.held.keys, 0, x_.keys * sizeof(W));
    for (std::int64_t k = 0; k < x_.shape.key_size; ++k)
      std::memcpy(x_.held.values + k * x_.values, state_.values + k * size, size * sizeof(W));
    std::memcpy(x_.held.keys, state_.keys, x_.shape.key_size * sizeof(W));
    m_ = *state_.m;
    x_.held.empty = false;
  }
  void store_state() {
    const std::int64_t size = x_.shape.value_size;
    for (std::int64_t k = 0; k < x_.shape.key_size; ++k)
      std::memcpy(state_.values + k * size, x_.held.values + k * x_.values, size * sizeof(W));
    std::memcpy(state_.keys, x_.held.keys, x_.shape.key_size * sizeof(W));
    *state_.m = m_;
  }

  const MlstmRows<T>& rows_;
  const MlstmState<T>& state_;
  const MlstmResult<T>& result_;
  ForwardRoom<T> x_;
  std::int64_t first_ = 0, count_ = 0, padded_ = 0;  // of the chunk
  W m_ = 0;
};

// One token: the memory takes it in, and gives what it reads.
template <class T>
void step(const ForwardRoom<T>& x, const MlstmRows<T>& rows, const MlstmState<T>& state, const MlstmResult<T>& result,
          std::int64_t t) {
  using W = Wide<T>;
  const MlstmShape& shape = x.shape;
  pack<T>(rows.q, t, 1, 1, shape.key_size, x.keys, x.q);
  pack<T>(rows.k, t, 1, 1, shape.key_size, x.keys, x.k);
  pack<T>(rows.v, t, 1, 1, shape.value_size, x.values, x.v);
  const W kept = *state.m + log_sigmoid(rows.forget[t * rows.gate_stride]), input = rows.input[t * rows.gate_stride];
  const W m = kept > input ? kept : input, decay = std::exp(kept - m), taken = std::exp(input - m);
  W divisor = 0;
  for (std::int64_t i = 0; i < x.values; ++i) x.sums[i] = 0;
  for (std::int64_t k = 0; k < shape.key_size; ++k) {
    const W key = x.k[k] * taken, query = x.q[k] * x.scale;
    W* held = state.values + k * shape.value_size;
    each_vector<W>(shape.value_size, [&](std::int64_t i, auto part) {
      const Vec<W> now = load(held + i, part) * decay + load(x.v + i, part) * key;
      store(held + i, now, part);
      store(x.sums + i, load(x.sums + i, part) + now * query, part);
    });
    state.keys[k] = state.keys[k] * decay + key;
    divisor += state.keys[k] * query;
  }
  *state.m = m;
  result.divisor[t] = divisor;
  const W factor = Division<W>(divisor, std::exp(-m), shape.eps).factor;
  T* h = result.h.data + t * result.h.stride;
  each_vector<W>(shape.value_size,
                 [&](std::int64_t i, auto part) { store(h + i, load(x.sums + i, part) * factor, part); });
}

template <class T>
void run_forward(const MlstmShape& shape, const MlstmRows<T>& rows, const MlstmState<T>& state,
                 const MlstmResult<T>& result, void* room) {
  if (!state.values || shape.tokens > kFewTokens) return ForwardPass<T>(shape, rows, state, result, room).run();
  const ForwardRoom<T> x(shape, room);
  for (std::int64_t t = 0; t < shape.tokens; ++t) step<T>(x, rows, state, result, t);
}

}  // namespace

template <class T>
MlstmForward<T> mlstm_forward() {
  return {forward_room<T>, run_forward<T>};
}
HONE_INSTANTIATE_KERNELS(MlstmForward, mlstm_forward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
