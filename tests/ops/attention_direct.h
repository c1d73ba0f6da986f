// Attention of one head by a set of kernels, without tensors.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "ops/cpu/products/attention.h"

namespace hone::ops::test {

using cpu::AttentionShape;
using cpu::bf16;

// [rows, size] each: q and dy of the queries, k and v of the keys.
struct DirectInputs {
  std::vector<bf16> q, k, v, dy;
  std::vector<std::uint32_t> words;  // of dropout
};
struct DirectResult {
  std::vector<bf16> y, dq, dk, dv;
  std::vector<float> lse;
};

inline DirectInputs direct_inputs(AttentionShape& shape) {
  std::mt19937 random(static_cast<unsigned>(shape.queries * 1000 + shape.size));
  std::normal_distribution<float> normal;
  DirectInputs in;
  const auto fill = [&](std::vector<bf16>& x, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows * shape.size; ++i) x.emplace_back(normal(random));
  };
  fill(in.q, shape.queries), fill(in.k, shape.keys), fill(in.v, shape.keys), fill(in.dy, shape.queries);
  for (std::int64_t i = 0; i < shape.keys + 2 * cpu::kAttentionBlock; ++i)
    in.words.push_back(static_cast<std::uint32_t>(random()));
  shape.dropout.queries = in.words.data();
  shape.dropout.keys = in.words.data();
  return in;
}

// Memory as it comes: full of `byte`.
class DirectRoom {
 public:
  DirectRoom(std::int64_t bytes, int byte)
      : memory_(static_cast<char*>(::operator new(static_cast<std::size_t>(bytes), std::align_val_t(64)))) {
    std::memset(memory_.get(), byte, static_cast<std::size_t>(bytes));
  }
  void* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(char* memory) const { ::operator delete(memory, std::align_val_t(64)); }
  };
  std::unique_ptr<char, Free> memory_;
};

// Backward as well if there are as many keys as queries.
inline DirectResult attend_directly(const cpu::AttentionForward<bf16>& forward,
                                    const cpu::AttentionBackward<bf16>& backward, const AttentionShape& shape,
                                    const DirectInputs& in, int byte) {
  constexpr std::int64_t kBlock = cpu::kAttentionBlock;
  const std::int64_t size = shape.size, blocks = (shape.queries + kBlock - 1) / kBlock,
                     key_blocks = (shape.keys + kBlock - 1) / kBlock;
  const auto read = [&](const std::vector<bf16>& x) { return cpu::HeadRows<const bf16>{x.data(), size}; };
  const auto write = [&](std::vector<bf16>& x) { return cpu::HeadRows<bf16>{x.data(), size}; };
  const auto first_key_block = [&](std::int64_t block) {
    const std::int64_t place = block * kBlock + shape.keys - shape.queries;
    return shape.window > 0 ? std::max<std::int64_t>(0, place - shape.window + 1) / kBlock : 0;
  };
  const auto last_key_block = [&](std::int64_t block) {
    const std::int64_t last = std::min(block * kBlock + kBlock, shape.queries) - 1 + shape.keys - shape.queries;
    return std::min(shape.keys - 1, last + shape.ahead) / kBlock;
  };
  DirectResult out{in.q, in.q, in.k, in.v, std::vector<float>(static_cast<std::size_t>(shape.queries))};
  {
    const DirectRoom keys(forward.key_room(shape), byte), work(forward.work_room(shape), byte);
    for (std::int64_t b = 0; b < key_blocks; ++b)
      forward.pack_keys(shape, read(in.k), read(in.v), b, keys.get(), work.get());
    for (std::int64_t b = 0; b < blocks; ++b)
      forward.attend(shape, read(in.q), b, keys.get(), work.get(), write(out.y), out.lse.data());
  }
  if (shape.keys != shape.queries) return out;
  const DirectRoom keys(backward.key_room(shape), byte), queries(backward.query_room(shape), byte),
      work(backward.work_room(shape), byte);
  for (std::int64_t b = 0; b < blocks; ++b) {
    backward.pack_keys(shape, read(in.k), read(in.v), b, keys.get(), work.get());
    backward.pack_queries(shape, {read(in.q), read(out.y), read(in.dy), out.lse.data()}, b, queries.get(), work.get());
  }
  for (std::int64_t k = 0; k < key_blocks; ++k) {
    bool fresh = true;
    for (std::int64_t q = 0; q < blocks; ++q) {
      if (k < first_key_block(q) || k > last_key_block(q)) continue;
      const cpu::AttentionPair pair{keys.get(), k, queries.get(), q, work.get()};
      backward.add_to_keys(shape, pair, std::exchange(fresh, false));
      backward.add_to_queries(shape, pair, k == first_key_block(q));
      if (k == last_key_block(q)) backward.finish_queries(shape, q, queries.get(), work.get(), write(out.dq));
    }
    backward.finish_keys(shape, k, work.get(), write(out.dk), write(out.dv));
  }
  return out;
}

// The greatest difference in shares of the greatest number; infinite if there is no number somewhere.
template <class X>
double direct_difference(const std::vector<X>& got, const std::vector<X>& expected) {
  double most = 0, largest = 1e-3;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i]));
    if (!(difference <= most)) most = std::isnan(difference) ? INFINITY : difference;
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return most / largest;
}

inline std::vector<AttentionShape> direct_shapes() {
  std::vector<AttentionShape> shapes;
  for (const std::int64_t size : {8, 24, 64, 80, 128})
    for (const std::int64_t length : {1, 15, 16, 31, 32, 33, 127, 128, 129, 300})
      for (const std::int64_t window : {0, 1, 40, 130}) shapes.push_back({length, length, size, window, 0.3});
  for (const std::int64_t window : {0, 50}) shapes.push_back({300, 300, 64, window, 0.3, {0.4}});
  for (const std::int64_t window : {0, 50}) shapes.push_back({30, 230, 64, window, 0.3});
  for (const std::int64_t length : {1, 31, 129, 300}) {
    shapes.push_back({length, length, 64, 0, 0.3, {}, length});
    shapes.push_back({length, length, 64, 40, 0.3, {}, 39});
    shapes.push_back({length, length, 64, 0, 0.3, {}, 0, 1.5});
  }
  return shapes;
}

}  // namespace hone::ops::test
