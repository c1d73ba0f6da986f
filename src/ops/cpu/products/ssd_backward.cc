// A state space's gradients; compiled once per instruction set. First the states before each chunk are made again, then
// chunks are gone through from the last to the first, with the gradient of the state behind them.
//
// A token's decay counts for all that is read behind it of what was written before it: those pairs' parts are added up
// as they are, as of a memory that is corrected (gated_delta_backward.cc).
//
// Letters: t tokens that read, s tokens up to them that write.
#include "ops/cpu/products/ssd-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
struct BackwardRoom : SsdSizes<T> {
  using W = Wide<T>;
  BackwardRoom(const SsdShape& shape, void* room)
      : SsdSizes<T>(shape), pieces(room), chunk(*this, pieces), writing(*this, pieces) {
    for (W** x : {&columns, &c_columns, &dc, &db}) *x = pieces.template take<W>(kChunk * this->keys);
    made = pieces.template take<W>(kChunk * most(kChunk, this->keys));
    for (W** x : {&dy, &dwritten, &written_columns}) *x = pieces.template take<W>(kChunk * this->values);
    for (W** x : {&by_writer, &dproducts}) *x = pieces.template take<W>(kChunk * kChunk);
    for (W** x : {&by_state, &to_state, &so_far}) *x = pieces.template take<W>(kChunk);
    for (W** x : {&turned, &dturned}) *x = pieces.template take<W>(this->memory());
    gradients = pieces.template take<W>(shape.heads * this->memory());
    before = pieces.template take<W>(most(0, this->chunks - 1) * shape.heads * this->memory());
  }
  BackwardRoom(const BackwardRoom&) = delete;
  // The state before a chunk; null: zeros.
  W* state_before(std::int64_t chunk_number, std::int64_t head) const {
    if (chunk_number == 0) return nullptr;
    return before + ((chunk_number - 1) * this->shape.heads + head) * this->memory();
  }
  Pieces pieces;
  SsdChunk<T> chunk;
  SsdWriting<T> writing;
  W *columns, *c_columns;           // [size's place][row], the first as it is needed
  W *dc, *db;                       // [row][size], over all heads
  W* made;                          // [row][size], or [t][s]
  W *dy, *dwritten;                 // [row][value's place]
  W* written_columns;               // [value's place][row]
  W* by_writer;                     // [s][t]
  W* dproducts;                     // of c_t b_s, [t][s]
  W *by_state, *to_state, *so_far;  // of t; of its sum of decays, by what it reads of the state and is kept there; what
                                    // it reads of tokens before another one
  W *turned, *dturned;              // [value's place][size's place] of state and gradient
  W *gradients, *before;            // of each head's state behind the chunk; before each chunk
};

template <class T>
std::int64_t backward_room(const SsdShape& shape) {
  return BackwardRoom<T>(shape, nullptr).pieces.taken();
}

template <class T>
class BackwardPass {
 public:
  using W = Wide<T>;
  using U = Units<W>;
  static constexpr int kWide = kLanes<W>;
  BackwardPass(const SsdShape& shape, const SsdRows<T>& rows, HeadRows<const T> dy, std::int64_t dy_head,
               const SsdGradientRows<T>& gradients, void* room)
      : rows_(rows), dy_(dy), dy_head_(dy_head), to_(gradients), x_(shape, room) {}

  void run() {
    remember();
    for (std::int64_t chunk = x_.chunks - 1; chunk >= 0; --chunk) {
      begin(chunk);
      for (std::int64_t head = 0; head < x_.shape.heads; ++head) {
        select(chunk, head);
        of_written();
        of_x();
        of_products();
        of_readers();
        of_writers();
        of_gates();
        if (chunk > 0) of_state();
      }
      store_rows(x_.dc, to_.c);
      store_rows(x_.db, to_.b);
    }
  }

 private:
  const ChunkDecay<W>& gates() const { return x_.writing.gates; }
  std::int64_t padded() const { return x_.chunk.padded; }

  void remember() {
    for (std::int64_t chunk = 0; chunk + 1 < x_.chunks; ++chunk) {
      x_.chunk.select(chunk);
      x_.chunk.read_b(rows_);
      for (std::int64_t head = 0; head < x_.shape.heads; ++head) {
        x_.writing.run(rows_, x_.chunk, head);
        x_.writing.take_in(x_.chunk, x_.state_before(chunk, head), x_.state_before(chunk + 1, head), x_.columns);
      }
    }
  }

  void begin(std::int64_t chunk) {
    x_.chunk.select(chunk);
    x_.chunk.read_b(rows_);
    x_.chunk.read_c(rows_);
    transpose(x_.chunk.c, x_.keys, padded(), x_.keys, x_.c_columns, kChunk);
    for (W* x : {x_.dc, x_.db}) std::memset(x, 0, kChunk * x_.keys * sizeof(W));
  }

  void select(std::int64_t chunk, std::int64_t head) {
    head_ = head;
    state_ = x_.state_before(chunk, head);
    dstate_ = chunk + 1 < x_.chunks ? x_.gradients + head * x_.memory() : nullptr;
    x_.writing.run(rows_, x_.chunk, head);
    pack<T>({dy_.data + head * dy_head_, dy_.stride}, x_.chunk.first, x_.chunk.count, padded(), x_.shape.value_size,
            x_.values, x_.dy);
    transpose(x_.writing.written, x_.values, padded(), x_.values, x_.written_columns, kChunk);
    if (state_) transpose(state_, x_.values, x_.keys, x_.values, x_.turned, x_.keys);
    if (dstate_) transpose(dstate_, x_.values, x_.keys, x_.values, x_.dturned, x_.keys);
  }

  // to[row] = factors[row] * (of[row] matrix), [depth][wide].
  void through(const W* of, const W* matrix, std::int64_t depth, std::int64_t wide, const W* factors, W* to) const {
    each_tile(padded(), 0, wide / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                multiply<U>(of + row * depth, depth, matrix + vector * kWide, wide, depth, x);
                HONE_UNROLL
                for (int r = 0; r < R; ++r) {
                  HONE_UNROLL
                  for (int i = 0; i < V; ++i) x[r][i] *= factors[row + r];
                }
                store_tile(x, to + row * wide + vector * kWide, wide);
              });
  }
  // to[row] += the sum of weights[row][from..to) times `with`: rows up to the own one, or from it on.
  void among(const W* weights, const W* with, std::int64_t wide, bool later, W* to) const {
    each_tile(padded(), 0, wide / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                W* const at = to + row * wide + vector * kWide;
                Vec<W> x[R][V];
                load_tile(at, wide, x);
                const std::int64_t from = later ? row : 0, end = later ? padded() : row + R;
                multiply<U>(weights + row * kChunk + from, kChunk, with + from * wide + vector * kWide, wide,
                            end - from, x);
                store_tile(x, at, wide);
              });
  }

  void of_written() {
    if (dstate_)
      through(x_.chunk.b, dstate_, x_.keys, x_.values, gates().kept, x_.dwritten);
    else
      std::memset(x_.dwritten, 0, padded() * x_.values * sizeof(W));
    each_share(gates(), x_.chunk.products, padded(), x_.made,
               [&](std::int64_t, Vec<W> products, Vec<W> share) { return products * share; });
    transpose(x_.made, kChunk, padded(), padded(), x_.by_writer, kChunk);
    among(x_.by_writer, x_.dy, x_.values, /*later=*/true, x_.dwritten);
  }

  void of_x() {
    const W skip = rows_.skip[head_];
    for (std::int64_t t = 0; t < x_.chunk.count; ++t) {
      const std::int64_t at = (x_.chunk.first + t) * rows_.gate_stride + head_;
      const W *d = x_.dwritten + t * x_.values, *dy = x_.dy + t * x_.values, *x = x_.writing.x + t * x_.values;
      const W step = gates().step[t];
      to_.step[at] = dot<W>(d, x, x_.values);
      to_.skip[at] = dot<W>(dy, x, x_.values);
      T* to = to_.x.data + head_ * to_.x_head + (x_.chunk.first + t) * to_.x.stride;
      each_vector<W>(x_.shape.value_size, [&](std::int64_t i, auto part) {
        store(to + i, load(d + i, part) * step + load(dy + i, part) * skip, part);
      });
    }
  }

  void of_products() {
    each_tile(padded(), 0, padded() / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                if (vector * kWide < row + R)
                  multiply<U>(x_.dy + row * x_.values, x_.values, x_.written_columns + vector * kWide, kChunk,
                              x_.values, x);
                store_tile(x, x_.made + row * kChunk + vector * kWide, kChunk);
              });
    each_share(gates(), x_.made, padded(), x_.dproducts,
               [&](std::int64_t, Vec<W> products, Vec<W> share) { return products * share; });
    transpose(x_.dproducts, kChunk, padded(), padded(), x_.by_writer, kChunk);
  }

  // Of C: what came through the state, and its part in the sums of decays; then what tokens gave each other.
  void of_readers() {
    for (std::int64_t t = 0; t < padded(); ++t) x_.by_state[t] = 0;
    if (state_) {
      through(x_.dy, x_.turned, x_.values, x_.keys, gates().seen, x_.made);
      add_through(x_.chunk.c, x_.by_state, x_.dc);
    }
    among(x_.dproducts, x_.chunk.b, x_.keys, /*later=*/false, x_.dc);
  }
  void of_writers() {
    for (std::int64_t s = 0; s < padded(); ++s) x_.to_state[s] = 0;
    if (dstate_) {
      through(x_.writing.written, x_.dturned, x_.values, x_.keys, gates().kept, x_.made);
      add_through(x_.chunk.b, x_.to_state, x_.db);
    }
    among(x_.by_writer, x_.chunk.c, x_.keys, /*later=*/true, x_.db);
  }
  void add_through(const W* by, W* dots, W* to) const {
    for (std::int64_t t = 0; t < padded(); ++t) dots[t] = dot<W>(by + t * x_.keys, x_.made + t * x_.keys, x_.keys);
    each_vector<W>(padded() * x_.keys, [&](std::int64_t i, auto part) {
      store(to + i, load(to + i, part) + load(x_.made + i, part), part);
    });
  }

  void of_gates() {
    W passing = state_ && dstate_ ? gates().decay * dot<W>(state_, dstate_, x_.memory()) : W(0);
    for (std::int64_t t = padded() - 2; t >= 0; --t) x_.by_state[t] += x_.by_state[t + 1];
    for (std::int64_t t = 0; t < padded(); ++t) x_.so_far[t] = 0;
    W *const pairs = x_.made, *const by_writer = x_.dproducts;  // which have been read
    each_vector<W>(padded() * kChunk, [&](std::int64_t i, auto part) {
      store(pairs + i, load(x_.dproducts + i, part) * load(x_.chunk.products + i, part), part);
    });
    transpose(pairs, kChunk, padded(), padded(), by_writer, kChunk);
    for (std::int64_t t = 0; t < x_.chunk.count; ++t) {
      W of_pairs = 0;
      for (std::int64_t reader = t / kWide * kWide; reader < padded(); reader += kWide)
        of_pairs += sum_of<W>(from_row<W>(load_lanes<Vec<W>>(x_.so_far + reader), t, reader));
      to_.decay[(x_.chunk.first + t) * rows_.gate_stride + head_] = of_pairs + x_.by_state[t] + passing;
      passing += x_.to_state[t];
      for (std::int64_t reader = 0; reader < padded(); reader += kWide)
        store_lanes(x_.so_far + reader,
                    load_lanes<Vec<W>>(x_.so_far + reader) + load_lanes<Vec<W>>(by_writer + t * kChunk + reader));
    }
  }

  // The gradient of the state before the chunk.
  void of_state() {
    std::memcpy(x_.columns, x_.c_columns, kChunk * x_.keys * sizeof(W));
    scale_columns(x_.columns, x_.keys, padded(), gates().seen);
    take_in_values<W>(x_.sizes(), x_.columns, x_.dy, padded(), gates().decay, dstate_,
                      x_.gradients + head_ * x_.memory());
  }

  void store_rows(const W* gradients, HeadRows<W> to) const {
    for (std::int64_t t = 0; t < x_.chunk.count; ++t)
      std::memcpy(to.data + (x_.chunk.first + t) * to.stride, gradients + t * x_.keys, x_.shape.key_size * sizeof(W));
  }

  const SsdRows<T>& rows_;
  const HeadRows<const T> dy_;
  const std::int64_t dy_head_;
  const SsdGradientRows<T>& to_;
  BackwardRoom<T> x_;
  std::int64_t head_ = 0;
  const W* state_ = nullptr;   // before the chunk; null: zeros
  const W* dstate_ = nullptr;  // its gradient behind it; null: nobody reads it
};

template <class T>
void run_backward(const SsdShape& shape, const SsdRows<T>& rows, HeadRows<const T> dy, std::int64_t dy_head,
                  const SsdGradientRows<T>& gradients, void* room) {
  BackwardPass<T>(shape, rows, dy, dy_head, gradients, room).run();
}

}  // namespace

template <class T>
SsdBackward<T> ssd_backward() {
  return {backward_room<T>, run_backward<T>};
}
HONE_INSTANTIATE_KERNELS(SsdBackward, ssd_backward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
