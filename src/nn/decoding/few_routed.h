// Routed experts of the short way: three steps with a barrier behind each of the first two: the router and what every
// token goes to; gates and ups of the experts that have tokens; their last products, which each thread makes and adds
// up for its own columns. Each thread makes the choice itself. Weights by inputs are read in longer stretches where
// threads share their last products by experts: then there is one barrier more, before the sums. Experts between two
// products have one more, too, behind the sums.
//
// Letters: R rows, D hidden, E experts, K experts of a row, S = R K slots, I inner of an expert, J = 2 I, L width of
// what experts read and give (D, or another between two products).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "nn/decoding/forms.h"
#include "nn/decoding/lines.h"
#include "ops/cpu/clamped_gate.h"
#include "ops/cpu/routed.h"
#include "ops/few_choices.h"

namespace hone::nn {

// What threads share, of all layers in turn.
template <class T>
struct RoutedRoom {
  std::vector<T> logits, gate;                                // [R,E], [R,1]
  std::vector<ops::cpu::Wide<T>> wide_logits;                 // [R,E]
  std::vector<T> inner, upper, made;                          // [S,I] or [S,J], [S,I], [S,L]
  std::vector<T> shared_inner, shared_upper, shared_made;     // [R,…], [R,…], [R,D]
  std::vector<T> latent, latent_made;                         // [R,L]: of experts between two products

  // Makes room for a layer. REQUIRES: of all layers before the first of them takes pointers.
  void fit(const RoutedForm& form, std::int64_t rows, std::int64_t hidden) {
    const auto widen = [](auto& room, std::int64_t size) { room.resize(std::max<std::size_t>(room.size(), size)); };
    const std::int64_t slots = rows * form.per_token, experts = form.count();
    const std::int64_t inner_size =
        form.stacked ? form.stacked->gate_up_EDJ.size(2) : form.experts[0].gate.weight_OI.size(0);
    widen(logits, rows * experts), widen(wide_logits, rows * experts), widen(gate, rows);
    const at::Tensor& to = form.to_latent.weight_OI;
    const std::int64_t width = to.defined() ? to.size(0) : hidden;
    widen(inner, slots * inner_size), widen(upper, slots * inner_size), widen(made, slots * width);
    if (to.defined()) widen(latent, rows * width), widen(latent_made, rows * width);
    if (!form.shared) return;
    widen(shared_inner, rows * form.shared->gate.weight_OI.size(0));
    widen(shared_upper, shared_inner.size()), widen(shared_made, rows * hidden);
  }
};

// What each thread has for itself.
template <class T>
struct RoutedOwn {
  using W = ops::cpu::Wide<T>;
  struct Group {
    std::int64_t expert, first, count;  // slots, which lie by experts
    const T* x;
  };
  std::vector<W> score, weight, room, gate;         // [E], [R,K], any, [R]
  std::vector<std::int64_t> expert, place, begins;  // [R,K], [R,K]: each one's slot; [E + 1]
  std::vector<std::int64_t> token;                  // of each slot
  std::vector<Group> groups;
  std::vector<T> x;  // of slots
  std::vector<ops::SharedRows> packed;
  std::vector<ops::cpu::RoutedPart<T>> parts;
};

template <class T>
class FewRouted {
  using W = ops::cpu::Wide<T>;
  using Mine = RoutedOwn<T>;

 public:
  // REQUIRES: form and room live on.
  // added [R,D]: where the result comes to.
  FewRouted(const RoutedForm& form, ProductMaker<T>& make, RoutedRoom<T>& room, std::int64_t hidden, T* added)
      : form_(form),
        room_(room),
        added_(added),
        hidden_(hidden),
        experts_(form.count()),
        has_latent_(form.to_latent.weight_OI.defined()),
        width_(has_latent_ ? form.to_latent.weight_OI.size(0) : hidden) {
    if (form.router.weight_OI.defined()) make.add(choosing_, form.router, nullptr, room.logits.data());
    if (form.shared_gate.weight_OI.defined()) make.add(choosing_, form.shared_gate, nullptr, room.gate.data());
    if (has_latent_) {
      make.add(choosing_, form.to_latent, nullptr, room.latent.data());
      from_latent_ = make.line(form.from_latent, room.latent_made.data(), added);
    }
    if (form.correction_E.defined()) {
      const at::Tensor wide = form.correction_E.to(c10::CppTypeToScalarType<W>::value).contiguous();
      const auto values = host::values<W>(wide);
      correction_.assign(values.begin(), values.end());
    }
    if (form.shared) {
      shared_ = gated_pair(make, *form.shared, form.activation, room.shared_inner.data(), room.shared_upper.data());
      shared_down_ = make.line(form.shared->down, room.shared_inner.data(), room.shared_made.data());
    }
    form.stacked ? add_stacks() : add_experts(make);
  }

  // The last step's barrier is the caller's.
  void run(std::int64_t rows, Own<T>& own, Mine& mine, const ops::Member& me) const {
    route(rows, own, me);
    me.wait();
    choose(rows, own, mine);
    raise(rows, mine, me);
    me.wait();
    has_latent_ ? lower_latent(rows, own, mine, me) : lower(rows, own, mine, me);
  }

 private:
  void add_experts(ProductMaker<T>& make) {
    inner_ = form_.experts[0].gate.weight_OI.size(0);
    squares_ = form_.experts[0].gate.weight_OI.is_same(form_.experts[0].up.weight_OI);
    for (const ops::GatedMlpWeights& e : form_.experts) {
      gates_.push_back(make.product(e.gate, nullptr, room_.inner.data()));
      if (!squares_) ups_.push_back(make.product(e.up, nullptr, room_.upper.data()));
      downs_.push_back(make.product(e.down, room_.inner.data(), room_.made.data()));
    }
  }

  // Their weights lie by inputs. What the gate makes comes where others have their ups.
  void add_stacks() {
    const ops::StackedExperts& s = *form_.stacked;
    const std::int64_t both = s.gate_up_EDJ.size(2);
    inner_ = both / 2;
    for (std::int64_t e = 0; e < experts_; ++e) {
      gates_.push_back({nullptr, ProductMaker<T>::data(s.gate_up_EDJ) + e * hidden_ * both, nullptr, 0, hidden_, both,
                        room_.inner.data(), both});
      gates_.back().turned = both;
      downs_.push_back({room_.upper.data(), ProductMaker<T>::data(s.down_EID) + e * inner_ * hidden_, nullptr, 0,
                        inner_, hidden_, room_.made.data(), hidden_});
      downs_.back().turned = hidden_;
    }
  }

  void route(std::int64_t rows, Own<T>& own, const ops::Member& me) const {
    multiply(choosing_, rows, own, me);
    if (form_.grouped_router_ED.defined()) {
      const std::int64_t first = me.begin(experts_), last = me.end(experts_);
      ops::cpu::routed_kernels<T>().multiply(own.normed.data(),
                                             ProductMaker<T>::data(form_.grouped_router_ED) + first * hidden_, rows,
                                             hidden_, last - first, room_.wide_logits.data() + first, experts_);
    }
    if (shared_) multiply_gated(*shared_, rows, own, me);
  }

  void choose(std::int64_t rows, const Own<T>& own, Mine& mine) const {
    const std::int64_t count = form_.per_token;
    mine.score.resize(experts_), mine.weight.resize(rows * count), mine.expert.resize(rows * count);
    for (std::int64_t r = 0; r < rows; ++r) {
      W* weight = mine.weight.data() + r * count;
      std::int64_t* expert = mine.expert.data() + r * count;
      if (form_.grouped_router_ED.defined())
        ops::choose_for_one_by_groups(room_.wide_logits.data() + r * experts_, experts_,
                                      correction_.empty() ? nullptr : correction_.data(), form_.rule,
                                      mine.score.data(), mine.room, weight, expert);
      else
        ops::choose_for_one(room_.logits.data() + r * experts_, experts_, {count, form_.normalise},
                            mine.score.data(), weight, expert);
    }
    sort(rows, own, mine);
  }

  // Slots by experts, as ops::route has them.
  void sort(std::int64_t rows, const Own<T>& own, Mine& mine) const {
    const std::int64_t slots = rows * form_.per_token;
    mine.begins.assign(experts_ + 1, 0), mine.place.resize(slots), mine.token.resize(slots);
    for (std::int64_t i = 0; i < slots; ++i) ++mine.begins[mine.expert[i] + 1];
    std::partial_sum(mine.begins.begin(), mine.begins.end(), mine.begins.begin());
    mine.groups.clear();
    for (std::int64_t e = 0; e < experts_; ++e)
      if (mine.begins[e] < mine.begins[e + 1])
        mine.groups.push_back({e, mine.begins[e], mine.begins[e + 1] - mine.begins[e], nullptr});
    for (std::int64_t i = 0; i < slots; ++i) {
      const std::int64_t slot = mine.begins[mine.expert[i]]++;  // from here on they are where each one's slots end
      mine.place[i] = slot, mine.token[slot] = i / form_.per_token;
    }
    take_rows(own, mine);
  }

  // Where a group has one row, that is read where it lies.
  void take_rows(const Own<T>& own, Mine& mine) const {
    const T* x = has_latent_ ? room_.latent.data() : own.normed.data();
    mine.x.resize(std::max<std::size_t>(mine.x.size(), mine.token.size() * width_));
    for (typename Mine::Group& group : mine.groups) {
      group.x = x + mine.token[group.first] * width_;
      if (group.count == 1) continue;
      T* to = mine.x.data() + group.first * width_;
      for (std::int64_t i = 0; i < group.count; ++i)
        std::copy_n(x + mine.token[group.first + i] * width_, width_, to + i * width_);
      group.x = to;
    }
  }

  // A product for a group.
  Product<T> placed_for(Product<T> p, const typename Mine::Group& group, const T* x) const {
    p.x = x, p.rows = group.count, p.y += group.first * p.stride;
    return p;
  }

  // The thread's share of the line of all groups' blocks.
  void raise(std::int64_t rows, Mine& mine, const ops::Member& me) const {
    const std::int64_t blocks = ops::blocks_of(gates_[0]), all = blocks * std::ssize(mine.groups);
    mine.packed.resize(std::max(mine.packed.size(), mine.groups.size()));
    std::int64_t begin = me.begin(all), end = me.end(all);
    const void* packed = nullptr;
    for (std::size_t g = 0; g < mine.groups.size() && end > 0; ++g, begin -= blocks, end -= blocks) {
      const std::int64_t first = std::max<std::int64_t>(0, begin), last = std::min(end, blocks);
      if (first >= last) continue;
      const auto& group = mine.groups[g];
      Product<T> gate = placed_for(gates_[group.expert], group, group.x);
      if (form_.stacked) {
        raise_stacked(ops::cut(gate, first, last), group, first * ops::kSkinnyBlock);
        continue;
      }
      if (!packed || rows > 1) packed = mine.packed[g].pack(gate);  // of one row all experts read the same
      gate.packed = packed;
      if (squares_) {
        raise_squares(ops::cut(gate, first, last));
        continue;
      }
      Product<T> up = placed_for(ups_[group.expert], group, group.x);
      up.packed = !up.quantized == !gate.quantized ? packed : mine.packed[g].pack(up);
      multiply_gated(gate, up, form_.activation, first, last);
    }
  }

  // act(x) x.
  void raise_squares(const Product<T>& made) const {
    ops::multiply(made);
    bring_together(made, made, form_.activation);
  }

  void raise_stacked(const Product<T>& both, const typename Mine::Group& group, std::int64_t first) const {
    ops::multiply(both);
    const ops::ClampedGate& gate = form_.stacked->gate;
    const T* bias = ProductMaker<T>::data(form_.stacked->gate_up_bias_EJ) + group.expert * 2 * inner_ + first;
    for (std::int64_t r = 0; r < group.count; ++r) {
      T* y = both.y + r * both.stride;
      for (std::int64_t i = 0; i < both.outs; ++i)
        y[i] = static_cast<T>(static_cast<W>(y[i]) + static_cast<W>(bias[i]));
      ops::cpu::clamped_gate_kernels<T>().forward(y, both.outs / 2, static_cast<W>(gate.alpha),
                                                  static_cast<W>(gate.limit),
                                                  room_.upper.data() + (group.first + r) * inner_ + first / 2);
    }
  }

  // The thread's columns of the experts' last products, and of their sum.
  void lower(std::int64_t rows, Own<T>& own, Mine& mine, const ops::Member& me) const {
    const std::int64_t blocks = ops::blocks_of(downs_[0]), first = me.begin(blocks), last = me.end(blocks);
    if (form_.stacked) lower_stacked(mine, me), me.wait();
    if (first == last) return;
    for (std::size_t g = 0; g < mine.groups.size() && !form_.stacked; ++g) {
      Product<T> p = lowering(mine.groups[g]);
      p.packed = mine.packed[g].pack(p);
      ops::multiply(ops::cut(p, first, last));
    }
    if (shared_) lower_shared(rows, own, first, last);
    add_up(rows, added_, mine, first * ops::kSkinnyBlock, std::min(hidden_, last * ops::kSkinnyBlock));
  }

  // The same of experts whose sum goes through one more product, before the shared one is added.
  void lower_latent(std::int64_t rows, Own<T>& own, Mine& mine, const ops::Member& me) const {
    const std::int64_t blocks = ops::blocks_of(downs_[0]), first = me.begin(blocks), last = me.end(blocks);
    for (std::size_t g = 0; g < mine.groups.size() && first < last; ++g) {
      Product<T> p = lowering(mine.groups[g]);
      p.packed = mine.packed[g].pack(p);
      ops::multiply(ops::cut(p, first, last));
    }
    if (first < last)
      add_up(rows, room_.latent_made.data(), mine, first * ops::kSkinnyBlock,
             std::min(width_, last * ops::kSkinnyBlock));
    if (shared_) multiply(shared_down_, rows, own, me);
    me.wait();
    multiply(from_latent_, rows, own, me, [&](std::size_t, std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = 0; shared_ && r < rows; ++r)
        for (std::int64_t i = r * hidden_ + begin; i < r * hidden_ + end; ++i)
          added_[i] = static_cast<T>(static_cast<W>(added_[i]) + static_cast<W>(room_.shared_made[i]));
    });
  }

  Product<T> lowering(const typename Mine::Group& group) const {
    const Product<T>& down = downs_[group.expert];
    return placed_for(down, group, down.x + group.first * inner_);
  }

  // The thread's share of the line of all groups' blocks.
  void lower_stacked(const Mine& mine, const ops::Member& me) const {
    const std::int64_t blocks = ops::blocks_of(downs_[0]), all = blocks * std::ssize(mine.groups);
    std::int64_t begin = me.begin(all), end = me.end(all);
    for (std::size_t g = 0; g < mine.groups.size() && end > 0; ++g, begin -= blocks, end -= blocks) {
      const std::int64_t first = std::max<std::int64_t>(0, begin), last = std::min(end, blocks);
      if (first < last) ops::multiply(ops::cut(lowering(mine.groups[g]), first, last));
    }
  }

  void lower_shared(std::int64_t rows, Own<T>& own, std::int64_t first, std::int64_t last) const {
    Product<T> p = placed(shared_down_.products[0], rows, own);
    p.packed = own.packed.pack(p);
    ops::multiply(ops::cut(p, first, last));
    add_ranks(shared_down_.ranks[0], p, first, last, own);
  }

  void add_up(std::int64_t rows, T* added, Mine& mine, std::int64_t first, std::int64_t last) const {
    const std::int64_t count = form_.per_token;
    const bool is_gated = form_.shared_gate.weight_OI.defined();
    mine.parts.resize(count), mine.gate.resize(rows);
    if (is_gated) ops::cpu::routed_kernels<T>().sigmoid(room_.gate.data(), rows, mine.gate.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t slot = r * count + k;
        const T* bias = form_.stacked ? ProductMaker<T>::data(form_.stacked->down_bias_ED) : nullptr;
        mine.parts[k] = {room_.made.data() + mine.place[slot] * width_ + first,
                         bias ? bias + mine.expert[slot] * hidden_ + first : nullptr, mine.weight[slot]};
      }
      ops::cpu::routed_kernels<T>().add_up(
          {.parts = mine.parts.data(),
           .count = count,
           .columns = last - first,
           .to = added + r * width_ + first,
           .shared = !shared_ || has_latent_ ? nullptr : room_.shared_made.data() + r * hidden_ + first,
           .is_gated = is_gated,
           .gate = static_cast<W>(static_cast<T>(mine.gate[r]))});
    }
  }

  const RoutedForm& form_;
  RoutedRoom<T>& room_;
  T* const added_;
  const std::int64_t hidden_, experts_;
  const bool has_latent_;      // experts are between two products
  const std::int64_t width_;   // of what they read and give
  std::int64_t inner_ = 0;
  bool squares_ = false;  // an expert's up is its gate
  Line<T> choosing_, from_latent_;
  std::vector<W> correction_;
  std::optional<GatedPair<T>> shared_;
  Line<T> shared_down_;
  std::vector<Product<T>> gates_, ups_, downs_;  // by expert; gates of stacks have both
};

}  // namespace hone::nn
