// A corrected memory's gradients; compiled once per instruction set. First the memories before each chunk are made
// again, then chunks are gone through from the last to the first, with the gradient of the memory behind them.
//
// A token's decay counts for all that is read behind it of what was written before it: those pairs' parts are added up
// as they are. (As differences of sums over all pairs, what is forgotten fast would have few digits in fp32.)
//
// Letters: t tokens that read or write, s tokens before them.
#include "ops/cpu/products/gated_delta-inl.h"

namespace hone::ops::cpu::CPU_CAPABILITY {
namespace {

template <class T>
struct BackwardRoom : DeltaSizes<T> {
  using W = Wide<T>;
  BackwardRoom(const DeltaShape& shape, void* room)
      : DeltaSizes<T>(shape), pieces(room), chunk(*this, pieces), writing(*this, pieces) {
    for (W** x : {&q_columns, &seen_columns, &dq, &dk}) *x = pieces.template take<W>(kChunk * this->keys);
    made = pieces.template take<W>(kChunk * most(kChunk, this->keys));
    for (W** x : {&dy, &dwritten, &dread, &written_columns}) *x = pieces.template take<W>(kChunk * this->values);
    for (W** x : {&weights_by_writer, &upper, &dqueries, &dqueries_by_writer, &dkeys, &dkeys_by_writer})
      *x = pieces.template take<W>(kChunk * kChunk);
    for (W** x : {&dstep, &by_memory, &to_memory, &so_far}) *x = pieces.template take<W>(kChunk);
    for (W** x : {&turned, &dturned}) *x = pieces.template take<W>(this->memory());
    gradients = pieces.template take<W>(shape.group * this->memory());
    before = pieces.template take<W>(most(0, this->chunks - 1) * shape.group * this->memory());
  }
  BackwardRoom(const BackwardRoom&) = delete;
  // The memory before a chunk; null: zeros.
  W* memory_before(std::int64_t chunk_number, std::int64_t head) const {
    if (chunk_number == 0) return nullptr;
    return before + ((chunk_number - 1) * this->shape.group + head) * this->memory();
  }
  Pieces pieces;
  DeltaChunk<T> chunk;
  DeltaWriting<T> writing;
  W *q_columns, *seen_columns;       // [key's place][row], the second times what t sees
  W *dq, *dk;                        // [row][size], over all heads of the group
  W* made;                           // [row][size], or [t][s]
  W *dy, *dwritten, *dread;          // [row][value's place]; dread: of memory^T k_t
  W* written_columns;                // [value's place][row]
  W *weights_by_writer, *upper;      // [s][t]
  W *dqueries, *dqueries_by_writer;  // of q_t k_s, [t][s], [s][t]
  W *dkeys, *dkeys_by_writer;        // of k_t k_s
  W *dstep, *by_memory, *to_memory;  // of t; of its sum of decays, by what it reads of the memory and is kept there
  W* so_far;                         // of t, what it reads of tokens before another one
  W *turned, *dturned;               // [value's place][key's place] of memory and gradient
  W *gradients, *before;             // of each head's memory behind the chunk; before each chunk
};

template <class T>
std::int64_t backward_room(const DeltaShape& shape) {
  return BackwardRoom<T>(shape, nullptr).pieces.taken();
}

template <class T>
class BackwardPass {
 public:
  using W = Wide<T>;
  using U = Units<W>;
  static constexpr int kWide = kLanes<W>;
  BackwardPass(const DeltaShape& shape, const DeltaRows<T>& rows, HeadRows<const T> dy, std::int64_t dy_head,
               const DeltaGradientRows<T>& gradients, void* room)
      : rows_(rows), dy_(dy), dy_head_(dy_head), to_(gradients), x_(shape, room) {}

  void run() {
    remember();
    for (std::int64_t chunk = x_.chunks - 1; chunk >= 0; --chunk) {
      begin(chunk);
      for (std::int64_t head = 0; head < x_.shape.group; ++head) {
        select(chunk, head);
        of_written();
        of_products();
        of_values();
        of_readers();
        of_writers();
        of_gates();
        if (chunk > 0) of_memory();
      }
      store_units(x_.chunk.q, x_.chunk.q_factors, x_.scale, x_.dq, to_.q);
      store_units(x_.chunk.k, x_.chunk.k_factors, W(1), x_.dk, to_.k);
    }
  }

 private:
  const ChunkDecay<W>& gates() const { return x_.writing.gates; }
  std::int64_t padded() const { return x_.chunk.padded; }

  void remember() {
    for (std::int64_t chunk = 0; chunk + 1 < x_.chunks; ++chunk) {
      x_.chunk.select(chunk);
      x_.chunk.read_keys(rows_);
      for (std::int64_t head = 0; head < x_.shape.group; ++head) {
        const W* memory = x_.memory_before(chunk, head);
        x_.writing.run(rows_, x_.chunk, head, memory);
        std::memcpy(x_.seen_columns, x_.chunk.k_columns, kChunk * x_.keys * sizeof(W));
        scale_columns(x_.seen_columns, x_.keys, padded(), gates().kept);
        take_in_values<W>(x_.sizes(), x_.seen_columns, x_.writing.written, padded(), gates().decay, memory,
                          x_.memory_before(chunk + 1, head));
      }
    }
  }

  void begin(std::int64_t chunk) {
    x_.chunk.select(chunk);
    x_.chunk.read_keys(rows_);
    x_.chunk.read_queries(rows_);
    transpose(x_.chunk.q, x_.keys, padded(), x_.keys, x_.q_columns, kChunk);
    for (W* x : {x_.dq, x_.dk}) std::memset(x, 0, kChunk * x_.keys * sizeof(W));
  }

  void select(std::int64_t chunk, std::int64_t head) {
    head_ = head;
    memory_ = x_.memory_before(chunk, head);
    dmemory_ = chunk + 1 < x_.chunks ? x_.gradients + head * x_.memory() : nullptr;
    x_.writing.run(rows_, x_.chunk, head, memory_);
    pack<T>({dy_.data + head * dy_head_, dy_.stride}, x_.chunk.first, x_.chunk.count, padded(), x_.shape.value_size,
            x_.values, x_.dy);
    transpose(x_.writing.lower, kChunk, padded(), padded(), x_.upper, kChunk);
    transpose(x_.writing.written, x_.values, padded(), x_.values, x_.written_columns, kChunk);
    if (memory_) transpose(memory_, x_.values, x_.keys, x_.values, x_.turned, x_.keys);
    if (dmemory_) transpose(dmemory_, x_.values, x_.keys, x_.values, x_.dturned, x_.keys);
  }

  // to[row] (+)= factors[row] (null: 1) * of_memory[row] memory (null: nothing) + the sum of weights[row][from..to)
  // times `with`, where rows from the own one on are meant, or those up to it.
  struct Sum {
    std::int64_t wide;
    const W *of_memory = nullptr, *memory = nullptr;
    std::int64_t depth = 0;
    const W* factors = nullptr;
    const W *weights = nullptr, *with = nullptr;
    bool later = false;
  };
  void add_up(const Sum& s, W* to, bool add) const {
    each_tile(padded(), 0, s.wide / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                W* const at = to + row * s.wide + vector * kWide;
                Vec<W> x[R][V] = {};
                if (s.memory) {
                  multiply<U>(s.of_memory + row * s.depth, s.depth, s.memory + vector * kWide, s.wide, s.depth, x);
                  HONE_UNROLL
                  for (int r = 0; r < R; ++r) {
                    HONE_UNROLL
                    for (int i = 0; i < V; ++i) x[r][i] *= s.factors ? s.factors[row + r] : W(1);
                  }
                }
                if (s.weights) {
                  const std::int64_t from = s.later ? row : 0, end = s.later ? padded() : row + R;
                  multiply<U>(s.weights + row * kChunk + from, kChunk, s.with + from * s.wide + vector * kWide, s.wide,
                              end - from, x);
                }
                if (add) {
                  Vec<W> there[R][V];
                  load_tile(at, s.wide, there);
                  HONE_UNROLL
                  for (int r = 0; r < R; ++r) {
                    HONE_UNROLL
                    for (int i = 0; i < V; ++i) x[r][i] += there[r][i];
                  }
                }
                store_tile(x, at, s.wide);
              });
  }

  // From the result's gradient to that of what was written, and of what it was solved from.
  void of_written() {
    each_share(gates(), x_.chunk.queries_keys, padded(), x_.made,
               [&](std::int64_t, Vec<W> products, Vec<W> share) { return products * share; });
    transpose(x_.made, kChunk, padded(), padded(), x_.weights_by_writer, kChunk);
    Sum sum{.wide = x_.values, .weights = x_.weights_by_writer, .with = x_.dy, .later = true};
    if (dmemory_) sum.of_memory = x_.chunk.k, sum.memory = dmemory_, sum.depth = x_.keys, sum.factors = gates().kept;
    add_up(sum, x_.dwritten, /*add=*/false);
    solve_turned(x_.upper, padded(), x_.values, x_.dwritten);
  }

  // Of q_t k_s and k_t k_s, and of steps by the latter.
  void of_products() {
    with_written(x_.dy, x_.made);
    each_share(gates(), x_.made, padded(), x_.dqueries,
               [&](std::int64_t, Vec<W> products, Vec<W> share) { return products * share; });
    with_written(x_.dwritten, x_.made);
    each_share(gates(), x_.made, padded(), x_.dkeys,
               [&](std::int64_t, Vec<W> products, Vec<W> share) { return -products * share; });
    for (std::int64_t t = 0; t < padded(); ++t) {
      W* row = x_.dkeys + t * kChunk;
      for (std::int64_t s = t; s < padded(); ++s) row[s] = 0;
      x_.dstep[t] = dot<W>(row, x_.chunk.keys_keys + t * kChunk, padded());
      each_vector<W>(padded(),
                     [&](std::int64_t i, auto part) { store(row + i, load(row + i, part) * gates().step[t], part); });
    }
    transpose(x_.dqueries, kChunk, padded(), padded(), x_.dqueries_by_writer, kChunk);
    transpose(x_.dkeys, kChunk, padded(), padded(), x_.dkeys_by_writer, kChunk);
  }
  void with_written(const W* of, W* to) const {
    each_tile(padded(), 0, padded() / kWide,
              [&]<int R, int V>(Int<R>, Int<V>, std::int64_t row, std::int64_t vector) HONE_LAMBDA {
                Vec<W> x[R][V] = {};
                if (vector * kWide < row + R)
                  multiply<U>(of + row * x_.values, x_.values, x_.written_columns + vector * kWide, kChunk, x_.values,
                              x);
                store_tile(x, to + row * kChunk + vector * kWide, kChunk);
              });
  }

  void of_values() {
    for (std::int64_t t = 0; t < padded(); ++t) {
      const W *d = x_.dwritten + t * x_.values, step = gates().step[t], read = -step * gates().seen[t];
      x_.dstep[t] += dot<W>(d, x_.writing.above + t * x_.values, x_.values);
      W* dread = x_.dread + t * x_.values;
      each_vector<W>(x_.values, [&](std::int64_t i, auto part) { store(dread + i, load(d + i, part) * read, part); });
      if (t >= x_.chunk.count) continue;
      T* to = to_.v.data + head_ * to_.value_head + (x_.chunk.first + t) * to_.v.stride;
      each_vector<W>(x_.shape.value_size,
                     [&](std::int64_t i, auto part) { store(to + i, load(d + i, part) * step, part); });
    }
  }

  // Of queries, and of keys with which t looks for what it is to write.
  void of_readers() {
    for (std::int64_t t = 0; t < padded(); ++t) x_.by_memory[t] = 0;
    read_by({.wide = x_.keys,
             .of_memory = x_.dy,
             .memory = x_.turned,
             .depth = x_.values,
             .factors = gates().seen,
             .weights = x_.dqueries,
             .with = x_.chunk.k},
            x_.chunk.q, x_.dq);
    read_by({.wide = x_.keys,
             .of_memory = x_.dread,
             .memory = x_.turned,
             .depth = x_.values,
             .weights = x_.dkeys,
             .with = x_.chunk.k},
            x_.chunk.k, x_.dk);
  }
  void read_by(Sum sum, const W* readers, W* to) {
    if (memory_) {
      Sum through = sum;
      through.weights = nullptr;
      add_up(through, x_.made, /*add=*/false);
      for (std::int64_t t = 0; t < padded(); ++t)
        x_.by_memory[t] += dot<W>(readers + t * x_.keys, x_.made + t * x_.keys, x_.keys);
    }
    sum.memory = nullptr;
    add_up(sum, x_.made, /*add=*/memory_ != nullptr);
    add_to_group(to);
  }

  // Of keys under which s is written.
  void of_writers() {
    for (std::int64_t s = 0; s < padded(); ++s) x_.to_memory[s] = 0;
    if (dmemory_) {
      add_up({.wide = x_.keys,
              .of_memory = x_.writing.written,
              .memory = x_.dturned,
              .depth = x_.values,
              .factors = gates().kept},
             x_.made, /*add=*/false);
      for (std::int64_t s = 0; s < padded(); ++s)
        x_.to_memory[s] = dot<W>(x_.chunk.k + s * x_.keys, x_.made + s * x_.keys, x_.keys);
    }
    add_up({.wide = x_.keys, .weights = x_.dqueries_by_writer, .with = x_.chunk.q, .later = true}, x_.made,
           /*add=*/dmemory_ != nullptr);
    add_up({.wide = x_.keys, .weights = x_.dkeys_by_writer, .with = x_.chunk.k, .later = true}, x_.made, /*add=*/true);
    add_to_group(x_.dk);
  }
  void add_to_group(W* to) const {
    each_vector<W>(padded() * x_.keys, [&](std::int64_t i, auto part) {
      store(to + i, load(to + i, part) + load(x_.made + i, part), part);
    });
  }

  void of_gates() {
    W through = memory_ && dmemory_ ? gates().decay * dot<W>(memory_, dmemory_, x_.memory()) : W(0);
    for (std::int64_t t = padded() - 2; t >= 0; --t) x_.by_memory[t] += x_.by_memory[t + 1];
    for (std::int64_t t = 0; t < padded(); ++t) x_.so_far[t] = 0;
    W *const pairs = x_.made, *const by_writer = x_.dqueries;  // which have been read
    each_vector<W>(padded() * kChunk, [&](std::int64_t i, auto part) {
      store(pairs + i,
            load(x_.dqueries + i, part) * load(x_.chunk.queries_keys + i, part) +
                load(x_.dkeys + i, part) * load(x_.chunk.keys_keys + i, part),
            part);
    });
    transpose(pairs, kChunk, padded(), padded(), by_writer, kChunk);
    for (std::int64_t t = 0; t < x_.chunk.count; ++t) {
      const std::int64_t at = (x_.chunk.first + t) * rows_.gate_stride + head_;
      W of_pairs = 0;
      for (std::int64_t reader = t / kWide * kWide; reader < padded(); reader += kWide)
        of_pairs += sum_of<W>(from_row<W>(load_lanes<Vec<W>>(x_.so_far + reader), t, reader));
      to_.decay[at] = of_pairs + x_.by_memory[t] + through;
      to_.step[at] = x_.dstep[t];
      through += x_.to_memory[t];
      for (std::int64_t reader = 0; reader < padded(); reader += kWide)
        store_lanes(x_.so_far + reader,
                    load_lanes<Vec<W>>(x_.so_far + reader) + load_lanes<Vec<W>>(by_writer + t * kChunk + reader));
    }
  }

  // The gradient of the memory before the chunk.
  void of_memory() {
    W* gradient = x_.gradients + head_ * x_.memory();
    std::memcpy(x_.seen_columns, x_.q_columns, kChunk * x_.keys * sizeof(W));
    scale_columns(x_.seen_columns, x_.keys, padded(), gates().seen);
    take_in_values<W>(x_.sizes(), x_.seen_columns, x_.dy, padded(), gates().decay, dmemory_, gradient);
    take_in_values<W>(x_.sizes(), x_.chunk.k_columns, x_.dread, padded(), W(1), gradient, gradient);
  }

  // From the gradients of units to those of what they were made of.
  void store_units(const W* units, const W* factors, W scale, const W* gradients, HeadRows<T> to) const {
    const std::int64_t size = x_.shape.key_size;
    for (std::int64_t t = 0; t < x_.chunk.count; ++t) {
      const W *unit = units + t * x_.keys, *d = gradients + t * x_.keys;
      const W along = dot<W>(unit, d, x_.keys) / (scale * scale), factor = factors[t];
      T* row = to.data + (x_.chunk.first + t) * to.stride;
      each_vector<W>(size, [&](std::int64_t i, auto part) {
        store(row + i, (load(d + i, part) - load(unit + i, part) * along) * factor, part);
      });
    }
  }

  const DeltaRows<T>& rows_;
  const HeadRows<const T> dy_;
  const std::int64_t dy_head_;
  const DeltaGradientRows<T>& to_;
  BackwardRoom<T> x_;
  std::int64_t head_ = 0;
  const W* memory_ = nullptr;   // before the chunk; null: zeros
  const W* dmemory_ = nullptr;  // its gradient behind it; null: nobody reads it
};

template <class T>
void run_backward(const DeltaShape& shape, const DeltaRows<T>& rows, HeadRows<const T> dy, std::int64_t dy_head,
                  const DeltaGradientRows<T>& gradients, void* room) {
  BackwardPass<T>(shape, rows, dy, dy_head, gradients, room).run();
}

}  // namespace

template <class T>
DeltaBackward<T> delta_backward() {
  return {backward_room<T>, run_backward<T>};
}
HONE_INSTANTIATE_KERNELS(DeltaBackward, delta_backward)

}  // namespace hone::ops::cpu::CPU_CAPABILITY
