// Attention by latents of the short way: the first products; queries of their own latents, while what the token leaves
// comes into the cache; then each thread takes some heads from their queries to their results, in one go: it has them
// meet latents where these lie.
//
// Letters: R rows, H heads, K size of a query (P plain, then rotated), L size of a latent, E entry of the cache (a
// latent, then the rotated part of a key), V size of a value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/decoding/forms.h"
#include "nn/decoding/lines.h"
#include "nn/kv_cache.h"
#include "ops/cpu/products/decode.h"
#include "ops/cpu/rms_norm.h"
#include "ops/cpu/rope.h"

namespace hone::nn {

// What threads share, of all layers in turn.
template <class T>
struct LatentRoom {
  std::vector<T> low, q, left;    // [R,…] of q_down; [R,H,K], [R,E]
  std::vector<T> meeting, found;  // [R,H,E]: queries by latents, and what they give
  std::vector<T> made;            // [R,H,V]

  // REQUIRES: of all layers before the first of them takes pointers.
  void fit(const LatentForm& f, std::int64_t rows) {
    const auto widen = [&](std::vector<T>& room, std::int64_t columns) {
      room.resize(std::max<std::size_t>(room.size(), rows * columns));
    };
    if (f.q_down.weight_OI.defined()) widen(low, f.q_down.weight_OI.size(0));
    widen(q, f.heads * f.query_size()), widen(left, f.entry());
    widen(meeting, f.heads * f.entry()), widen(found, f.heads * f.entry()), widen(made, f.heads * f.values);
  }
};

// What each thread has for itself.
template <class T>
struct LatentOwn {
  std::vector<T> part;  // of a head, of all rows
  std::vector<ops::cpu::Wide<T>> scores, inv_rms;
  std::vector<std::int64_t> positions;  // of a row, as often as the thread has heads
};

template <class T>
class FewLatent {
  using W = ops::cpu::Wide<T>;
  using Mine = LatentOwn<T>;

 public:
  // REQUIRES: form and room live on.
  FewLatent(const LatentForm& form, ProductMaker<T>& make, LatentRoom<T>& room, T* added) : f_(form), room_(room) {
    if (has_low()) {
      make.add(first_, form.q_down, nullptr, room.low.data());
      second_ = make.line(form.q, nullptr, room.q.data());
    } else {
      make.add(first_, form.q, nullptr, room.q.data());
    }
    make.add(first_, form.kv_down, nullptr, room.left.data());
    out_ = make.line(form.out, room.made.data(), added);
  }

  // positions: of the rows' tokens. The last barrier is the caller's.
  void run(std::span<const std::int64_t> positions, const KvCache::Room& cache, const ops::RopeTable& rope, Own<T>& own,
           Mine& mine, const ops::Member& me) const {
    const std::int64_t rows = std::ssize(positions);
    fit(rows, cache, mine);
    multiply(first_, rows, own, me);
    me.wait();
    for (std::int64_t row = me.number; row < rows; row += me.size) leave(row, positions[row], cache, rope, mine);
    if (has_low()) {
      for (std::int64_t row = 0; row < rows; ++row)
        norm(room_.low.data() + row * low_size(), f_.q_norm, low_size(), own.normed.data() + row * low_size(), mine);
      multiply(second_, rows, own, me);
    }
    me.wait();
    const std::int64_t first = me.begin(f_.heads), last = me.end(f_.heads);
    if (first < last) attend(positions, first, last, cache, rope, mine);
    me.wait();
    multiply(out_, rows, own, me);
  }
  // Of the thread's own normed rows, for the second products.
  std::int64_t normed_size(std::int64_t rows) const { return has_low() ? rows * low_size() : 0; }

 private:
  bool has_low() const { return f_.q_down.weight_OI.defined(); }
  std::int64_t low_size() const { return f_.q_down.weight_OI.size(0); }

  void fit(std::int64_t rows, const KvCache::Room& cache, Mine& mine) const {
    const auto widen = [](auto& room, std::int64_t size) { room.resize(std::max<std::size_t>(room.size(), size)); };
    widen(mine.part, rows * std::max(f_.plain, f_.latent)), widen(mine.inv_rms, 1);
    widen(mine.scores, f_.heads * cache.k_RGCK.size(2));
  }

  void norm(const T* x, const at::Tensor& weight, std::int64_t size, T* y, Mine& mine) const {
    ops::cpu::rms_norm_kernels<T>().forward(x, nullptr, {ProductMaker<T>::data(weight)}, static_cast<W>(f_.eps), 1,
                                            size, nullptr, y, mine.inv_rms.data());
  }

  // Rotated parts of some heads of a row, `stride` apart, to where they are looked for.
  void turn(const T* x, std::int64_t heads, std::int64_t stride, std::int64_t position, const ops::RopeTable& rope,
            T* to, std::int64_t to_stride, Mine& mine) const {
    const std::int64_t half = f_.rotated / 2;
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < half; ++i) {
        const T* from = x + h * stride;
        to[h * to_stride + i] = f_.neighbours ? from[2 * i] : from[i];
        to[h * to_stride + half + i] = f_.neighbours ? from[2 * i + 1] : from[half + i];
      }
    mine.positions.assign(heads, position);
    ops::cpu::rope_kernels<T>().rotate({.x = to,
                                        .x_stride = to_stride,
                                        .cos = host::values<W>(rope.cos).data(),
                                        .sin = host::values<W>(rope.sin).data(),
                                        .rows = mine.positions.data(),
                                        .tokens = heads,
                                        .heads = 1,
                                        .half = half,
                                        .y = to,
                                        .y_stride = to_stride});
  }

  T* entries(const KvCache::Room& cache, std::int64_t row) const {
    return host::mutable_values<T>(cache.k_RGCK).data() + row * cache.k_RGCK.size(2) * f_.entry();
  }

  // What the row's token leaves for itself and later ones.
  void leave(std::int64_t row, std::int64_t position, const KvCache::Room& cache, const ops::RopeTable& rope,
             Mine& mine) const {
    const T* left = room_.left.data() + row * f_.entry();
    T* entry = entries(cache, row) + cache.held[row] * f_.entry();
    norm(left, f_.kv_norm, f_.latent, entry, mine);
    turn(left + f_.latent, 1, f_.rotated, position, rope, entry + f_.latent, f_.rotated, mine);
  }

  // Heads [first, last) of all rows.
  void attend(std::span<const std::int64_t> positions, std::int64_t first, std::int64_t last,
              const KvCache::Room& cache, const ops::RopeTable& rope, Mine& mine) const {
    const std::int64_t rows = std::ssize(positions), size = f_.query_size(), entry = f_.entry();
    const auto at = [&](std::int64_t row) { return (row * f_.heads + first) * entry; };
    for (std::int64_t row = 0; row < rows; ++row) {
      T* q = room_.q.data() + (row * f_.heads + first) * size;
      turn(q + f_.plain, last - first, size, positions[row], rope, room_.meeting.data() + at(row) + f_.latent, entry,
           mine);
      grow(q, (last - first) * size, 1, size, positions[row]);
      grow(room_.meeting.data() + at(row) + f_.latent, f_.rotated, last - first, entry, positions[row]);
    }
    for (std::int64_t h = first; h < last; ++h) meet(h, rows, mine);
    for (std::int64_t row = 0; row < rows; ++row)
      ops::cpu::decode_kernels<T>().attend({.q = room_.meeting.data() + at(row),
                                            .k = entries(cache, row),
                                            .v = entries(cache, row),
                                            .heads = last - first,
                                            .length = cache.held[row] + 1,
                                            .size = entry,
                                            .scale = static_cast<W>(f_.scale),
                                            .room = mine.scores.data(),
                                            .y = room_.found.data() + at(row)});
    for (std::int64_t h = first; h < last; ++h) make_values(h, rows, mine);
  }

  // Runs of `count` values, `stride` apart.
  void grow(T* x, std::int64_t count, std::int64_t runs, std::int64_t stride, std::int64_t position) const {
    if (f_.growth == 0) return;
    const W periods = static_cast<W>(position / f_.growth_length);
    const W by = static_cast<W>(static_cast<T>(std::log1p(periods) * static_cast<W>(f_.growth) + 1));
    for (std::int64_t r = 0; r < runs; ++r)
      for (std::int64_t i = 0; i < count; ++i) {
        T& value = x[r * stride + i];
        value = static_cast<T>(static_cast<W>(value) * by);
      }
  }

  const T* weight(std::int64_t head) const {
    return ProductMaker<T>::data(f_.expand_HXL) + head * (f_.plain + f_.values) * f_.latent;
  }
  // Of all rows a head's first `size` values, side by side.
  const T* gathered(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t size, Mine& mine) const {
    if (rows == 1) return x;
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(x + r * stride, size, mine.part.data() + r * size);
    return mine.part.data();
  }

  // q (W c) = (q W) c: the plain part of a head's queries, by latents.
  void meet(std::int64_t head, std::int64_t rows, Mine& mine) const {
    const T* q = room_.q.data() + head * f_.query_size();
    const std::int64_t stride = f_.heads * f_.entry();
    Product<T> p{gathered(q, rows, f_.heads * f_.query_size(), f_.plain, mine), weight(head), nullptr, rows, f_.plain,
                 f_.latent, room_.meeting.data() + head * f_.entry(), stride};
    p.turned = f_.latent;
    ops::multiply(p);
  }
  // A sum of W c is W times the sum.
  void make_values(std::int64_t head, std::int64_t rows, Mine& mine) const {
    const T* found = room_.found.data() + head * f_.entry();
    ops::multiply(Product<T>{gathered(found, rows, f_.heads * f_.entry(), f_.latent, mine),
                             weight(head) + f_.plain * f_.latent, nullptr, rows, f_.latent, f_.values,
                             room_.made.data() + head * f_.values, f_.heads * f_.values});
  }

  const LatentForm& f_;
  LatentRoom<T>& room_;
  Line<T> first_, second_, out_;
};

}  // namespace hone::nn
