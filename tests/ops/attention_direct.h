// Attention of one head by a set of kernels, without tensors.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
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

// Rows as other heads' lie beside them: between them is what nobody may use or change.
class DirectRows {
 public:
  DirectRows(std::int64_t rows, std::int64_t size) : size_(size), values_(rows * (size + kGap), bf16(NAN)) {}
  DirectRows(const std::vector<bf16>& x, std::int64_t size) : DirectRows(std::ssize(x) / size, size) {
    for (std::int64_t i = 0; i < std::ssize(x); ++i) values_[place(i)] = x[i];
  }
  cpu::HeadRows<const bf16> read() const { return {values_.data(), size_ + kGap}; }
  cpu::HeadRows<bf16> write() { return {values_.data(), size_ + kGap}; }
  std::vector<bf16> take() const {
    std::vector<bf16> x;
    for (std::int64_t i = 0; i < std::ssize(values_); ++i)
      if (i % (size_ + kGap) < size_)
        x.push_back(values_[i]);
      else if (values_[i].x != bf16(NAN).x)
        throw std::logic_error("beside a row there is something else now");
    return x;
  }

 private:
  static constexpr std::int64_t kGap = 3;
  std::int64_t place(std::int64_t i) const { return i / size_ * (size_ + kGap) + i % size_; }
  std::int64_t size_;
  std::vector<bf16> values_;
};

// Backward as well if there are as many keys as queries; else there are no gradients.
inline DirectResult attend_directly(const cpu::AttentionForward<bf16>& forward,
                                    const cpu::AttentionBackward<bf16>& backward, const AttentionShape& shape,
                                    const DirectInputs& in, int byte) {
  const std::int64_t size = shape.size;
  const DirectRows q(in.q, size), k(in.k, size), v(in.v, size), dy(in.dy, size);
  DirectRows y(shape.queries, size), dq(shape.queries, size), dk(shape.keys, size), dv(shape.keys, size);
  DirectResult out{{}, {}, {}, {}, std::vector<float>(static_cast<std::size_t>(shape.queries))};
  {
    const DirectRoom keys(forward.key_room(shape), byte), work(forward.work_room(shape), byte);
    for (std::int64_t b = 0; b * cpu::kAttentionBlock < shape.keys; ++b)
      forward.pack_keys(shape, k.read(), v.read(), b, keys.get(), work.get());
    for (std::int64_t b = 0; b * cpu::kAttentionBlock < shape.queries; ++b)
      forward.attend(shape, q.read(), b, keys.get(), work.get(), y.write(), out.lse.data());
  }
  out.y = y.take();
  if (shape.keys != shape.queries) return out;
  const DirectRoom keys(backward.key_room(shape), byte), queries(backward.query_room(shape), byte),
      work(backward.work_room(shape), byte);
  const std::int64_t rows = backward.block, blocks = (shape.keys + rows - 1) / rows;
  const auto first_key_block = [&](std::int64_t block) {
    return shape.window > 0 ? std::max<std::int64_t>(0, block * rows - shape.window + 1) / rows : 0;
  };
  const auto last_key_block = [&](std::int64_t block) {
    const std::int64_t last = std::min(block * rows + rows, shape.queries) - 1;
    return std::min(shape.keys - 1, last + shape.ahead) / rows;
  };
  for (std::int64_t b = 0; b < blocks; ++b) {
    backward.pack_keys(shape, k.read(), v.read(), b, keys.get(), work.get());
    backward.pack_queries(shape, {q.read(), y.read(), dy.read(), out.lse.data()}, b, queries.get(), work.get());
  }
  for (std::int64_t of_keys = 0; of_keys < blocks; ++of_keys) {
    bool fresh = true;
    for (std::int64_t b = 0; b < blocks; ++b) {
      if (of_keys < first_key_block(b) || of_keys > last_key_block(b)) continue;
      const cpu::AttentionPair pair{keys.get(), of_keys, queries.get(), b, work.get()};
      backward.add_to_keys(shape, pair, std::exchange(fresh, false));
      backward.add_to_queries(shape, pair, of_keys == first_key_block(b));
      if (of_keys == last_key_block(b)) backward.finish_queries(shape, b, queries.get(), work.get(), dq.write());
    }
    backward.finish_keys(shape, of_keys, work.get(), dk.write(), dv.write());
  }
  out.dq = dq.take(), out.dk = dk.take(), out.dv = dv.take();
  return out;
}

// The greatest difference in shares of the greatest number; infinite if there is no number somewhere.
template <class X, class Y>
double direct_difference(const std::vector<X>& got, const std::vector<Y>& expected) {
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
  // Several blocks with ragged ends, and windows across them, of every number of steps.
  for (const std::int64_t size : {1, 32, 48, 64, 96, 256})
    for (const std::int64_t window : {0, 33, 300}) shapes.push_back({545, 545, size, window, 0.2});
  for (const std::int64_t length : {1, 31, 129, 300, 520}) {
    shapes.push_back({length, length, 64, 0, 0.3, {}, length});
    shapes.push_back({length, length, 64, 40, 0.3, {}, 39});
    shapes.push_back({length, length, 64, 290, 0.3, {}, 289});
  }
  for (const std::int64_t window : {31, 32, 33, 62, 63, 64, 65}) {  // edges at and about those of groups of rows
    shapes.push_back({130, 130, 64, window, 0.3});
    shapes.push_back({130, 130, 64, window, 0.3, {}, window - 1});
  }
  for (const double soft_cap : {0.0, 1.5})
    for (const double rate : {0.0, 0.4})
      for (const std::int64_t window : {0, 50}) {
        shapes.push_back({300, 300, 64, window, 0.3, {rate}, 0, soft_cap});
        shapes.push_back({290, 290, 32, window, 0.3, {rate}, window > 0 ? window - 1 : 290, soft_cap});
      }
  // Queries at the end of the keys; more keys than shares are kept of.
  for (const std::int64_t queries : {1, 30, 65, 200})
    for (const std::int64_t window : {0, 1, 50, 700}) shapes.push_back({queries, 1100, 64, window, 0.3});
  shapes.push_back({70, 230, 48, 0, 0.3, {0.4}, 0, 1.5});
  for (const double scale : {0.0, -0.3}) shapes.push_back({70, 70, 64, 40, scale});
  return shapes;
}

}  // namespace hone::ops::test
