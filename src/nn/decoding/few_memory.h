// Layers with memories of the short way: products with the convolution of what each thread has made, the memory's step
// by heads, and the product behind it, with a barrier behind each of the first two. A memory of channels has one more:
// what its step is made of comes of all channels.
//
// Letters: R rows, M columns of what the first products make, C convolved channels, T taps, H heads, V their size; of
// channels: S states, J what steps are made of and what writes and reads states.
#pragma once

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "nn/decoding/forms.h"
#include "nn/decoding/lines.h"
#include "nn/kv_cache.h"
#include "ops/cpu/products/gated_delta.h"
#include "ops/cpu/products/ssd.h"
#include "ops/cpu/rms_norm.h"
#include "ops/cpu/selective_scan.h"
#include "ops/cpu/short_conv.h"

namespace hone::nn {

inline std::int64_t columns_of(const MemoryForm& form) {
  std::int64_t columns = 0;
  for (const ops::LinearWeight& w : form.in) columns += w.weight_OI.size(0);
  return columns;
}
// How wide what the last product reads is.
inline std::int64_t read_of(const MemoryForm& form) { return form.out.weight_OI.size(1); }

// What threads share, of all layers in turn.
template <class T>
struct MemoryRoom {
  std::vector<T> made, mixed, read;  // [R,M], [R,C], [R,H V]
  std::vector<T> selected, steps;    // of channels: [R,J], [R,C]

  // REQUIRES: of all layers before the first of them takes pointers.
  void fit(const MemoryForm& form, std::int64_t rows) {
    const auto widen = [&](std::vector<T>& room, std::int64_t columns) {
      room.resize(std::max<std::size_t>(room.size(), rows * columns));
    };
    widen(made, columns_of(form)), widen(read, read_of(form));
    widen(mixed, form.convolution.weight_CT.size(0));
    if (form.kind != MemoryForm::Kind::channels) return;
    widen(selected, form.selection.weight_OI.size(0)), widen(steps, form.to_steps.weight_OI.size(0));
  }
};

// What each thread has for itself.
template <class T>
struct MemoryOwn {
  using W = ops::cpu::Wide<T>;
  std::vector<T> window;  // [T,C]
  std::vector<T> normed;  // of a few heads
  std::vector<W> decay, step;
  std::vector<T> selected;        // of channels: of a row's, what writes and reads states
  std::vector<W> wide, inv_rms;   // the same, of all rows; of one
  struct alignas(64) Block {
    char bytes[64];
  };
  std::vector<Block> room;  // of kernels
  void* room_of(std::int64_t bytes) {
    room.resize(std::max<std::size_t>(room.size(), (bytes + sizeof(Block) - 1) / sizeof(Block)));
    return room.data();
  }
};

template <class T>
class FewMemory {
  using W = ops::cpu::Wide<T>;
  using Mine = MemoryOwn<T>;
  using Kind = MemoryForm::Kind;
  using NormOf = MemoryForm::NormOf;

 public:
  // REQUIRES: form and room live on.
  FewMemory(const MemoryForm& form, ProductMaker<T>& make, MemoryRoom<T>& room, T* added)
      : form_(form), room_(room), columns_(columns_of(form)), read_(read_of(form)) {
    for (const ops::LinearWeight& w : form.in) {
      first_column_.push_back(first_column_.empty() ? 0 : first_column_.back() + in_.products.back().outs);
      make.add(in_, w, nullptr, room.made.data() + first_column_.back(), columns_);
    }
    out_ = make.line(form.out, is_normed_late() ? nullptr : room.read.data(), added);
    const auto wide = [](const at::Tensor& x) { return x.defined() ? x.to(wide_type()) : x; };
    taps_TC_ = wide(form.convolution.weight_CT).t().contiguous();
    if (form.convolution.bias_C.defined()) bias_C_ = wide(form.convolution.bias_C).contiguous();
    if (form.scale_M.defined()) scale_M_ = wide(form.scale_M).contiguous();
    if (form.norm_groups > 1) ones_.assign(read_ / form.norm_groups, T(1));
    if (form.kind != Kind::channels) return;
    select_ = make.line(form.selection, room.mixed.data(), room.selected.data());
    steps_ = make.line(form.to_steps, nullptr, room.steps.data());
    if (form.is_selection_normed) ones_.assign(std::max(form.rank, form.key_size), T(1));
  }

  // The three parts of a step; a barrier behind each is the caller's. The first reads the thread's own normed rows.
  void begin(std::int64_t rows, const KvCache::Room& cache, Own<T>& own, Mine& mine, const ops::Member& me) const {
    const bool at_once = form_.kind != Kind::convolution;
    multiply(in_, rows, own, me, [&](std::size_t i, std::int64_t first, std::int64_t last) {
      const std::int64_t begin = first_column_[i] + first, end = first_column_[i] + last;
      if (scale_M_.defined()) scale_made(rows, begin, end);
      if (at_once) convolve_made(rows, begin, end, cache, mine);
    });
  }
  void go_on(std::int64_t rows, const KvCache::Room& cache, Own<T>& own, Mine& mine, const ops::Member& me) const {
    if (form_.kind == Kind::convolution)
      convolve_gated(rows, cache, mine, me);
    else if (form_.kind == Kind::channels)
      step_channels(rows, cache, own, mine, me);
    else
      step(rows, cache, own, mine, me);
  }
  void end(std::int64_t rows, Own<T>& own, const ops::Member& me) const {
    if (is_normed_late()) norm_late(rows, own);
    multiply(out_, rows, own, me);
  }
  // Of the thread's own normed rows, for later products.
  std::int64_t normed_size(std::int64_t rows) const {
    return is_normed_late() ? rows * read_ : form_.kind == Kind::channels ? rows * form_.rank : 0;
  }

 private:
  static constexpr std::int64_t kSharedHeads = 8;  // of states, as the op shares them (ops/cpu/table/ssd.cc)

  static constexpr at::ScalarType wide_type() { return c10::CppTypeToScalarType<W>::value; }
  // A norm of all heads together: each thread makes it before the product.
  bool is_normed_late() const { return form_.kind == Kind::state && form_.norm_of != NormOf::none; }
  static const W* wide(const at::Tensor& x) { return host::values<W>(x).data(); }
  const T* made(std::int64_t row, std::int64_t column) const { return room_.made.data() + row * columns_ + column; }
  std::int64_t channels() const { return taps_TC_.size(1); }

  // Channels [channel, channel + count) of a row's newest token, which becomes the cache's.
  void convolve(const T* x, std::int64_t row, std::int64_t channel, std::int64_t count, const KvCache::Room& cache,
                T* to, Mine& mine) const {
    const std::int64_t all = channels(), taps = taps_TC_.size(0);
    mine.window.resize(std::max<std::size_t>(mine.window.size(), taps * all));
    T* newest = host::mutable_values<T>(cache.newest_RTC).data() + row * (taps - 1) * all + channel;
    T* window = mine.window.data() + channel;
    for (std::int64_t t = 0; t + 1 < taps; ++t) std::copy_n(newest + t * all, count, window + t * all);
    std::copy_n(x, count, window + (taps - 1) * all);
    for (std::int64_t t = 0; t + 1 < taps; ++t) std::copy_n(window + (t + 1) * all, count, newest + t * all);
    ops::cpu::short_conv_kernels<T>().forward({.x = window + (taps - 1) * all,
                                               .weight = wide(taps_TC_) + channel,
                                               .bias = bias_C_.defined() ? wide(bias_C_) + channel : nullptr,
                                               .silu = form_.convolution.silu,
                                               .tokens = 1,
                                               .channels = count,
                                               .taps = taps,
                                               .before = taps - 1,
                                               .y = to,
                                               .stride = all});
  }

  void scale_made(std::int64_t rows, std::int64_t first, std::int64_t last) const {
    const W* by = wide(scale_M_);
    for (std::int64_t r = 0; r < rows; ++r) {
      T* row = room_.made.data() + r * columns_;
      for (std::int64_t i = first; i < last; ++i) row[i] = static_cast<T>(static_cast<W>(row[i]) * by[i]);
    }
  }

  // What of columns [first, last) is convolved.
  void convolve_made(std::int64_t rows, std::int64_t first, std::int64_t last, const KvCache::Room& cache,
                     Mine& mine) const {
    for (const MemoryForm::Run& run : form_.convolved) {
      const std::int64_t begin = std::max(first, run.column), end = std::min(last, run.column + run.count);
      if (begin >= end) continue;
      const std::int64_t channel = run.channel + begin - run.column;
      for (std::int64_t r = 0; r < rows; ++r)
        convolve(made(r, begin), r, channel, end - begin, cache, room_.mixed.data() + r * channels() + channel, mine);
    }
  }

  // Gates of what is read, gates of what is made of it, and values, side by side.
  void convolve_gated(std::int64_t rows, const KvCache::Room& cache, Mine& mine, const ops::Member& me) const {
    const std::int64_t all = channels(), first = me.begin(all), count = me.end(all) - first;
    if (count == 0) return;
    mine.normed.resize(std::max<std::size_t>(mine.normed.size(), count));
    const auto gated = [count](const T* gate, const T* x, T* to) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<W>(gate[i]) * static_cast<W>(x[i]));
    };
    for (std::int64_t r = 0; r < rows; ++r) {
      T* to = room_.read.data() + r * all + first;
      gated(made(r, first), made(r, 2 * all + first), mine.normed.data());
      convolve(mine.normed.data(), r, first, count, cache, to, mine);
      gated(made(r, all + first), to, to);
    }
  }

  void step(std::int64_t rows, const KvCache::Room& cache, Own<T>& own, Mine& mine, const ops::Member& me) const {
    const std::int64_t group = form_.heads / form_.groups;
    const std::int64_t some = form_.kind == Kind::state ? std::min(kSharedHeads, group) : group;  // heads of a task
    const std::int64_t shares = (group + some - 1) / some, tasks = form_.groups * shares;
    mine.decay.resize(some), mine.step.resize(some);
    mine.normed.resize(std::max<std::size_t>(mine.normed.size(), some * form_.value_size));
    for (std::int64_t task = me.number; task < rows * tasks; task += me.size) {
      const std::int64_t row = task / tasks, of_group = task % tasks / shares, begin = task % shares * some;
      const Heads heads{row, of_group, begin, std::min(some, group - begin), of_group * group + begin};
      if (form_.kind == Kind::delta)
        step_delta(heads, cache, own, mine);
      else
        step_state(heads, cache, mine);
    }
  }

  // Some heads of a group of a row; begin: in the group, first: of all.
  struct Heads {
    std::int64_t row, group, begin, count, first;
  };
  const T* at(const MemoryForm::Columns& columns, const Heads& h, std::int64_t size) const {
    return made(h.row, columns.first + h.group * columns.from_group_to_group + h.begin * size);
  }
  W* state(const KvCache::Room& cache, const Heads& h) const {
    const std::int64_t one = form_.key_size * form_.value_size;
    return host::mutable_values<W>(cache.matrix_RHKV).data() + (h.row * form_.heads + h.first) * one;
  }
  T* read(const Heads& h) const { return room_.read.data() + h.row * read_ + h.first * form_.value_size; }
  static W softplus(W x) { return x > 20 ? x : std::log1p(std::exp(x)); }

  void step_delta(const Heads& h, const KvCache::Room& cache, Own<T>& own, Mine& mine) const {
    const T *step = at(form_.step, h, 1), *decay = at(form_.decay, h, 1);
    for (std::int64_t i = 0; i < h.count; ++i) {
      mine.step[i] = 1 / (1 + std::exp(-static_cast<W>(step[i]))) * static_cast<W>(form_.step_scale);
      mine.decay[i] = -wide(form_.rate_H)[h.first + i] *
                      softplus(static_cast<W>(decay[i]) + wide(form_.bias_H)[h.first + i]);
    }
    const std::int64_t keys = form_.groups * form_.key_size, size = form_.value_size, all = channels();
    const T* mixed = room_.mixed.data() + h.row * all;
    const ops::cpu::DeltaShape shape{1, form_.key_size, size, h.count};
    const auto kernels = ops::cpu::delta_forward<T>();
    kernels.run(shape,
                {{mixed + h.group * form_.key_size, all},
                 {mixed + keys + h.group * form_.key_size, all},
                 {mixed + 2 * keys + h.first * size, all},
                 size,
                 mine.decay.data(),
                 mine.step.data(),
                 h.count},
                state(cache, h), {read(h), read_}, size, mine.room_of(kernels.room(shape)));
    ops::cpu::rms_norm_kernels<T>().forward(read(h), nullptr, {ProductMaker<T>::data(form_.norm)},
                                            static_cast<W>(form_.eps), h.count, size, nullptr, mine.normed.data(),
                                            own.inv_rms.data());
    ops::cpu::gated_kernels<T>().forward(ops::Activation::silu, at(form_.gate, h, size), mine.normed.data(),
                                         h.count * size, read(h));
  }

  void step_state(const Heads& h, const KvCache::Room& cache, Mine& mine) const {
    const T* given = at(form_.step, h, 1);
    for (std::int64_t i = 0; i < h.count; ++i) {
      const W step = softplus(static_cast<W>(given[i]) + wide(form_.bias_H)[h.first + i]);
      mine.step[i] = std::clamp(step, static_cast<W>(form_.least_step), static_cast<W>(form_.most_step));
      mine.decay[i] = mine.step[i] * -wide(form_.rate_H)[h.first + i];
    }
    const std::int64_t inner = form_.heads * form_.value_size, states = form_.groups * form_.key_size,
                       size = form_.value_size, all = channels();
    const T* mixed = room_.mixed.data() + h.row * all;
    const ops::cpu::SsdShape shape{1, form_.key_size, size, h.count};
    const auto kernels = ops::cpu::ssd_forward<T>();
    kernels.run(shape,
                {{mixed + inner + states + h.group * form_.key_size, all},
                 {mixed + inner + h.group * form_.key_size, all},
                 {mixed + h.first * size, all},
                 size,
                 mine.decay.data(),
                 mine.step.data(),
                 h.count,
                 wide(form_.skip_H) + h.first},
                state(cache, h), {read(h), read_}, size, mine.room_of(kernels.room(shape)));
    if (form_.norm_of != NormOf::then_gated)
      ops::cpu::gated_kernels<T>().forward(ops::Activation::silu, at(form_.gate, h, size), read(h), h.count * size,
                                           read(h));
  }

  // Each thread reads what all channels make of themselves, and goes on with its own ones.
  void step_channels(std::int64_t rows, const KvCache::Room& cache, Own<T>& own, Mine& mine,
                     const ops::Member& me) const {
    multiply(select_, rows, own, me);
    me.wait();
    const std::int64_t states = form_.key_size, all = form_.rank + 2 * states;
    mine.selected.resize(2 * states), mine.wide.resize(rows * 2 * states), mine.inv_rms.resize(1);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* row = room_.selected.data() + r * all;
      select(row, form_.step_norm, form_.rank, own.normed.data() + r * form_.rank, mine);
      select(row + form_.rank, form_.write_norm, states, mine.selected.data(), mine);
      select(row + form_.rank + states, form_.read_norm, states, mine.selected.data() + states, mine);
      std::copy_n(mine.selected.data(), 2 * states, mine.wide.data() + r * 2 * states);
    }
    multiply(steps_, rows, own, me, [&](std::size_t, std::int64_t first, std::int64_t last) {
      for (std::int64_t r = 0; r < rows; ++r) scan(r, first, last - first, cache, mine);
    });
  }
  void select(const T* x, const at::Tensor& norm, std::int64_t size, T* to, Mine& mine) const {
    if (!form_.is_selection_normed) {
      std::copy_n(x, size, to);
      return;
    }
    const T* weight = norm.defined() ? ProductMaker<T>::data(norm) : ones_.data();
    ops::cpu::rms_norm_kernels<T>().forward(x, nullptr, {weight}, static_cast<W>(form_.eps), 1, size, nullptr, to,
                                            mine.inv_rms.data());
  }
  void scan(std::int64_t row, std::int64_t first, std::int64_t count, const KvCache::Room& cache, Mine& mine) const {
    const std::int64_t all = channels(), states = form_.key_size, at = row * all + first;
    mine.step.resize(std::max<std::size_t>(mine.step.size(), count));
    for (std::int64_t i = 0; i < count; ++i) mine.step[i] = softplus(static_cast<W>(room_.steps[at + i]));
    const W* selected = mine.wide.data() + row * 2 * states;
    const ops::cpu::ScanArgs<T> args{.x = room_.mixed.data() + at,
                                     .step = mine.step.data(),
                                     .b = selected,
                                     .c = selected + states,
                                     .rate = wide(form_.rate_SC) + first,
                                     .skip = wide(form_.skip_H) + first,
                                     .tokens = 1,
                                     .channels = count,
                                     .all_channels = all,
                                     .states = states};
    const auto kernels = ops::cpu::scan_kernels<T>();
    T* y = room_.read.data() + at;
    kernels.forward(args, host::mutable_values<W>(cache.matrix_RHKV).data() + row * states * all + first, y,
                    mine.room_of(kernels.room(args)));
    ops::cpu::gated_kernels<T>().forward(ops::Activation::silu, made(row, all + first), y, count, y);
  }

  void norm_late(std::int64_t rows, Own<T>& own) const {
    const std::int64_t groups = form_.norm_groups, size = read_ / groups;
    const T* weight = ProductMaker<T>::data(form_.norm);
    T* normed = own.normed.data();
    ops::cpu::rms_norm_kernels<T>().forward(room_.read.data(), nullptr, {groups == 1 ? weight : ones_.data()},
                                            static_cast<W>(form_.eps), rows * groups, size, nullptr, normed,
                                            own.inv_rms.data());
    for (std::int64_t r = 0; r < rows; ++r, normed += read_) {
      for (std::int64_t i = 0; groups > 1 && i < read_; ++i)
        normed[i] = static_cast<T>(static_cast<W>(normed[i]) * static_cast<W>(weight[i]));
      if (form_.norm_of == NormOf::then_gated)
        ops::cpu::gated_kernels<T>().forward(ops::Activation::silu, made(r, form_.gate.first), normed, read_, normed);
    }
  }

  const MemoryForm& form_;
  MemoryRoom<T>& room_;
  const std::int64_t columns_, read_;
  Line<T> in_, out_;
  Line<T> select_, steps_;                  // of channels
  std::vector<std::int64_t> first_column_;  // of each of the first products
  at::Tensor taps_TC_, bias_C_, scale_M_;   // fp32 (fp64)
  std::vector<T> ones_;  // a norm's weight where there is none of its own
};

}  // namespace hone::nn
