// Keys and values of the tokens so far.
#include "nn/kv_cache.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include <algorithm>
#include <utility>

#include "nn/chunked_documents.h"
#include "nn/plan.h"
#include "ops/gated_delta.h"
#include "ops/mlstm.h"
#include "ops/selective_scan.h"
#include "ops/short_conv.h"
#include "ops/ssd.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

std::int64_t tokens_of(const PlannedDoc& doc) { return doc.span.end - doc.span.begin; }

std::vector<std::int64_t> rows_of(const Plan& plan) {
  std::vector<std::int64_t> rows;
  for (const PlannedDoc& doc : plan.docs()) rows.push_back(doc.row);
  return rows;
}

// Room beyond the window, so that old tokens are moved away rarely: four moves a token at most.
std::int64_t slack(std::int64_t window) { return std::clamp<std::int64_t>(window / 4, 16, 512); }

Tensor with_capacity(const Tensor& x_RGCK, std::int64_t capacity) {
  if (x_RGCK.size(2) == capacity) return x_RGCK;
  Tensor wider = at::empty({x_RGCK.size(0), x_RGCK.size(1), capacity, x_RGCK.size(3)}, x_RGCK.options());
  wider.narrow(2, 0, x_RGCK.size(2)).copy_(x_RGCK);
  return wider;
}

}  // namespace

std::int64_t cache_bytes(const CacheSpec& spec, at::ScalarType type, std::int64_t rows, std::int64_t tokens) {
  std::int64_t numbers = 0, of_memories = 0;
  for (const CacheSpec::Layer& layer : spec.layers) {
    const std::int64_t kept = layer.values_are_keys ? 1 : 2;
    numbers += kept * layer.kv_heads * layer.head_size * (layer.window > 0 ? std::min(tokens, layer.window) : tokens);
    const MemoryLayer& memory = layer.memory;
    of_memories += memory.heads * (memory.key_size * (memory.value_size + 1) + 1);
    numbers += memory.convolved * std::max<std::int64_t>(0, memory.taps - 1);
  }
  const auto bytes = static_cast<std::int64_t>(c10::elementSize(type)),
             bytes_of_memory = static_cast<std::int64_t>(c10::elementSize(at::toOpMathType(type)));
  return rows * (numbers * bytes + of_memories * bytes_of_memory);
}

KvCache::KvCache(CacheSpec spec, std::int64_t rows)
    : spec_(std::move(spec)), slots_(spec_.layers.size()), lengths_(rows, 0) {
  for (Slot& slot : slots_) slot.dropped.assign(rows, 0);
}

std::int64_t KvCache::bytes() const {
  std::int64_t sum = 0;
  for (Slot slot : slots_)
    for (const Tensor* x : slot.tensors()) sum += static_cast<std::int64_t>(x->nbytes());
  return sum;
}

std::vector<Tensor*> KvCache::Slot::entries() {
  std::vector<Tensor*> all{&k_RGCK, &v_RGCK};
  std::erase_if(all, [](const Tensor* x) { return !x->defined(); });
  return all;
}

std::vector<Tensor*> KvCache::Slot::of_sources() {
  if (!source_k_RGCK.defined()) return {};
  return {&source_k_RGCK, &source_v_RGCK};
}

std::vector<Tensor*> KvCache::Slot::tensors() {
  std::vector<Tensor*> all{&k_RGCK,      &v_RGCK,     &memory.values_RHKV, &memory.keys_RHK, &memory.m_RH,
                           &matrix_RHKV, &newest_RTC, &source_k_RGCK,      &source_v_RGCK};
  std::erase_if(all, [](const Tensor* x) { return !x->defined(); });
  return all;
}

void KvCache::keep(const std::vector<std::int64_t>& rows, bool sources_stay) {
  HONE_ASSERT(!sources_stay || rows.size() == lengths_.size());
  begin_change_of_rows();
  const auto pick = [&](std::vector<std::int64_t>& values) {
    std::vector<std::int64_t> kept;
    for (const std::int64_t row : rows) kept.push_back(values.at(row));
    values = std::move(kept);
  };
  Tensor index = at::tensor(rows, at::kLong);
  pick(lengths_);
  if (!source_lengths_.empty() && !sources_stay) pick(source_lengths_);
  for (Slot& slot : slots_) {
    pick(slot.dropped);
    slot.roomy.clear();
    const std::vector<Tensor*> of_sources = slot.of_sources();
    for (Tensor* x : slot.tensors()) {
      if (sources_stay && std::find(of_sources.begin(), of_sources.end(), x) != of_sources.end()) continue;
      index = devices::sent(index, x->device());  // once: all slots are on one device
      *x = x->index_select(0, index);
    }
  }
}

void KvCache::begin_change_of_rows() {
  ++generation_;
  held_R_.clear();
  last_source_R_ = Tensor();
  is_settled_ = false;
}

void KvCache::drop(std::int64_t row) {
  begin_change_of_rows();
  const std::int64_t last = rows() - 1;
  const auto leave_out = [&](std::vector<std::int64_t>& values) { values.at(row) = values.back(), values.pop_back(); };
  for (Slot& slot : slots_) {
    leave_out(slot.dropped);
    for (Tensor* x : slot.tensors()) {
      if (row < last) x->select(0, row).copy_(x->select(0, last));
      *x = x->narrow(0, 0, last);
    }
  }
  leave_out(lengths_);
  if (!source_lengths_.empty()) leave_out(source_lengths_);
}

// Where the slot's tensors have no room for them, they get some for half as many more, so that this is rare.
void KvCache::put_behind(Slot& slot, Slot& other) const {
  const std::vector<Tensor*> own = slot.tensors(), more = other.tensors();
  HONE_ASSERT(own.size() == more.size());
  const std::int64_t before = rows();
  slot.roomy.resize(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    Tensor &x = *own[i], &room = slot.roomy[i];
    const std::int64_t all = before + more[i]->size(0);
    const bool fits = room.defined() && room.is_alias_of(x) && x.storage_offset() == room.storage_offset() &&
                      room.size(0) >= all && room.strides() == x.strides();
    if (!fits) {
      auto sizes = x.sizes().vec();
      sizes[0] = std::max(all, before + before / 2);
      room = at::empty(sizes, x.options());
      room.narrow(0, 0, before).copy_(x);
    }
    x = room.narrow(0, 0, all);
    x.narrow(0, before, all - before).copy_(*more[i]);
  }
}

void KvCache::add_rows(KvCache&& others) {
  HONE_ASSERT(slots_.size() == others.slots_.size());
  begin_change_of_rows();
  stale_ = true;
  for (std::size_t layer = 0; layer < slots_.size(); ++layer) {
    Slot &slot = slots_[layer], &other = others.slots_[layer];
    if (slot.k_RGCK.defined()) {
      const std::int64_t own = slot.k_RGCK.size(2), capacity = std::max(own, other.k_RGCK.size(2));
      for (Tensor* x : slot.entries()) *x = with_capacity(*x, capacity);
      for (Tensor* x : other.entries()) *x = with_capacity(*x, capacity);
    }
    if (slot.source_k_RGCK.defined()) {
      const std::int64_t capacity = std::max(slot.source_k_RGCK.size(2), other.source_k_RGCK.size(2));
      for (Tensor* x : slot.of_sources()) *x = with_capacity(*x, capacity);
      for (Tensor* x : other.of_sources()) *x = with_capacity(*x, capacity);
    }
    put_behind(slot, other);
    slot.dropped.insert(slot.dropped.end(), other.dropped.begin(), other.dropped.end());
  }
  lengths_.insert(lengths_.end(), others.lengths_.begin(), others.lengths_.end());
  source_lengths_.insert(source_lengths_.end(), others.source_lengths_.begin(), others.source_lengths_.end());
  has_other_angles_ |= others.has_other_angles_;
}

void KvCache::take_in_sources(std::int64_t layer, const Tensor& k_SGK, const Tensor& v_SGK,
                              const std::vector<std::int64_t>& lengths) {
  HONE_ASSERT(std::ssize(lengths) == rows());
  Slot& slot = slots_.at(layer);
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  slot.source_k_RGCK = at::zeros({rows(), k_SGK.size(1), longest, k_SGK.size(2)}, k_SGK.options());
  slot.source_v_RGCK = at::zeros_like(slot.source_k_RGCK);
  std::vector<ops::CacheRun> runs;
  std::int64_t begin = 0;
  for (std::int64_t row = 0; row < rows(); ++row) {
    if (lengths[row] > 0) runs.push_back({begin, lengths[row], row, 0});
    begin += lengths[row];
  }
  ops::store_in_cache(k_SGK, v_SGK, {slot.source_k_RGCK, slot.source_v_RGCK}, runs);
  source_lengths_ = lengths;
  last_source_R_ = Tensor();
}

// As of a newest token that stands where the source ends.
Tensor KvCache::attend_to_sources(std::int64_t layer, const Tensor& q_RHK, const ops::AttentionOptions& options) {
  const Slot& slot = slots_.at(layer);
  HONE_ASSERT(slot.source_k_RGCK.defined() && q_RHK.size(0) == rows() && !options.bias);
  if (!last_source_R_.defined()) {
    std::vector<std::int64_t> last = source_lengths_;
    for (std::int64_t& one : last) --one;
    last_source_R_ = devices::sent(host::tensor_of(last, {rows()}), q_RHK.device());
  }
  ops::AttentionOptions of_one = options;
  of_one.mask = ops::Mask::causal();
  return ops::decode_attention(q_RHK, slot.source_k_RGCK, slot.source_v_RGCK, last_source_R_, of_one);
}

void KvCache::drop_oldest(Slot& slot, std::int64_t row, std::int64_t left) {
  const std::int64_t have = held(slot, row);
  if (have <= left) return;
  is_settled_ = false;
  for (const Tensor* x : slot.entries()) {
    const Tensor of_row = x->select(0, row);
    of_row.narrow(1, 0, left).copy_(of_row.narrow(1, have - left, left).clone());
  }
  slot.dropped[row] += have - left;
  stale_ = true;
}

// How many of the document's tokens the cache takes in, at its end. A fresh one attends without the cache, which then
// needs no more of it than later tokens will see.
std::int64_t KvCache::taken(const PlannedDoc& doc, std::int64_t window, bool fresh) const {
  return fresh && window > 0 ? std::min(tokens_of(doc), window - 1) : tokens_of(doc);
}

// The row's tokens with `more` of them; where a window allows it, old ones make room.
std::int64_t KvCache::needed(Slot& slot, std::int64_t window, std::int64_t row, std::int64_t more) {
  if (held(slot, row) + more > slot.k_RGCK.size(2) && window > 0) drop_oldest(slot, row, window - 1);
  return held(slot, row) + more;
}

void KvCache::reserve(Slot& slot, std::int64_t window, const Plan& plan, const Tensor& k_NGK, bool with_values,
                      bool fresh) {
  if (!slot.k_RGCK.defined()) {
    slot.k_RGCK = at::empty({rows(), k_NGK.size(1), 0, k_NGK.size(2)}, k_NGK.options());
    if (with_values) slot.v_RGCK = at::empty_like(slot.k_RGCK);
  }
  std::int64_t most = 0;
  for (const PlannedDoc& doc : plan.docs())
    most = std::max(most, needed(slot, window, doc.row, taken(doc, window, fresh)));
  grow(slot, window, most);
}

void KvCache::grow(Slot& slot, std::int64_t window, std::int64_t needed) {
  const std::int64_t capacity = slot.k_RGCK.size(2);
  if (needed <= capacity) return;
  ++generation_;
  is_settled_ = false;
  std::int64_t wider = std::max<std::int64_t>(2 * capacity, 16);
  if (window > 0) wider = std::min(wider, window + slack(window));
  wider = std::max(needed, wider);
  slot.roomy.clear();
  for (Tensor* x : slot.entries()) *x = with_capacity(*x, wider);
}

void KvCache::append(Slot& slot, std::int64_t window, const Tensor& k_NGK, const Tensor& v_NGK, const Plan& plan,
                     bool fresh) {
  is_settled_ = false;
  std::vector<ops::CacheRun> runs;
  for (const PlannedDoc& doc : plan.docs()) {
    const std::int64_t count = taken(doc, window, fresh);
    runs.push_back({doc.span.end - count, count, doc.row, held(slot, doc.row)});
    slot.dropped[doc.row] += tokens_of(doc) - count;  // counts from advance() on: until then held() is not asked again
  }
  ops::store_in_cache(k_NGK, v_NGK, {slot.k_RGCK, slot.values()}, runs);
}

Tensor KvCache::attend_each(const Slot& slot, const Tensor& q_NHK, const Plan& plan,
                            const ops::AttentionOptions& options) const {
  std::vector<Tensor> parts;
  for (const PlannedDoc& doc : plan.docs()) {
    const std::int64_t count = tokens_of(doc), last = held(slot, doc.row) + count;
    const std::int64_t window = options.mask.window;
    const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, last - count - window + 1) : 0;
    const auto keys = [&](const Tensor& x_RGCK) { return x_RGCK.select(0, doc.row).slice(1, first, last); };
    parts.push_back(ops::cached_attention(q_NHK.slice(0, doc.span.begin, doc.span.end), keys(slot.k_RGCK),
                                          keys(slot.values()), options));
  }
  return parts.empty() ? at::zeros_like(q_NHK) : at::cat(parts);
}

bool KvCache::is_fresh(const Plan& plan) {
  return std::all_of(plan.docs().begin(), plan.docs().end(), [](const PlannedDoc& d) { return d.position == 0; });
}

void KvCache::take_in(std::int64_t layer, const Tensor& k_NGK, const Plan& plan) {
  Slot& slot = slots_.at(layer);
  const std::int64_t window = spec_.layers[layer].window;
  reserve(slot, window, plan, k_NGK, /*with_values=*/false, /*fresh=*/true);
  append(slot, window, k_NGK, k_NGK, plan, /*fresh=*/true);
}

Tensor KvCache::attend(std::int64_t layer, const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& given_v_NGK,
                       const Plan& plan, const ops::AttentionOptions& options, const ops::RopeTable* rope) {
  const bool with_values = given_v_NGK.defined();
  const Tensor& v_NGK = with_values ? given_v_NGK : k_NGK;
  Slot& slot = slots_.at(layer);
  const std::int64_t window = spec_.layers[layer].window;
  HONE_ASSERT(options.mask.kind == ops::Mask::Kind::causal && options.mask.window == window);
  const bool fresh = is_fresh(plan);
  const bool one_each = !fresh && plan.is_one_token_each();
  HONE_ASSERT(with_values || !rope);
  if (rope && !one_each) return attend(layer, ops::rope(q_NHK, *rope), ops::rope(k_NGK, *rope), v_NGK, plan, options);
  reserve(slot, window, plan, k_NGK, with_values, fresh);
  if (one_each) {
    const Tensor& held = held_R(window, q_NHK.device());
    if (rope) {
      const ops::CacheRoom room{slot.k_RGCK, slot.v_RGCK, is_settled(*rope)};
      return ops::decode_new_tokens({q_NHK, k_NGK, v_NGK, *rope}, room, held, options);
    }
    ops::store_one_each(k_NGK, v_NGK, {slot.k_RGCK, slot.values()}, held);
    return ops::decode_attention(q_NHK, slot.k_RGCK, slot.values(), held, options);
  }
  append(slot, window, k_NGK, v_NGK, plan, fresh);
  return fresh ? plan.attention(q_NHK, k_NGK, v_NGK, options) : attend_each(slot, q_NHK, plan, options);
}

// A piece of a document's new tokens in each chunk, and of the cache what that chunk has up to their end.
Tensor KvCache::attend_in_chunks(std::int64_t layer, const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK,
                                 const Plan& plan, const ops::AttentionOptions& options, std::int64_t chunk) {
  if (is_within_chunk(plan, chunk)) return attend(layer, q_NHK, k_NGK, v_NGK, plan, options);
  Slot& slot = slots_.at(layer);
  HONE_ASSERT(spec_.layers[layer].window == 0);
  const bool fresh = is_fresh(plan);
  reserve(slot, /*window=*/0, plan, k_NGK, /*with_values=*/true, fresh);
  append(slot, /*window=*/0, k_NGK, v_NGK, plan, fresh);
  if (fresh) return ops::attention(q_NHK, k_NGK, v_NGK, in_chunks(plan, chunk), options);
  std::vector<Tensor> parts;
  for (const PlannedDoc& doc : plan.docs())
    for (std::int64_t at = doc.span.begin; at < doc.span.end;) {
      const std::int64_t place = doc.position + at - doc.span.begin, begin = place / chunk * chunk,
                         count = std::min(doc.span.end - at, begin + chunk - place);
      const auto keys = [&](const Tensor& x_RGCK) { return x_RGCK.select(0, doc.row).slice(1, begin, place + count); };
      parts.push_back(ops::cached_attention(q_NHK.slice(0, at, at + count), keys(slot.k_RGCK), keys(slot.v_RGCK),
                                            options));
      at += count;
    }
  return parts.empty() ? at::zeros_like(q_NHK) : at::cat(parts);
}

Tensor KvCache::attend_again(std::int64_t layer, const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK,
                             const Plan& plan, const ops::AttentionOptions& options) {
  const Slot& slot = slots_.at(layer);
  const std::int64_t window = spec_.layers[layer].window;
  HONE_ASSERT(options.mask.kind == ops::Mask::Kind::causal && options.mask.window == window && slot.k_RGCK.defined());
  if (is_fresh(plan)) return plan.attention(q_NHK, k_NGK, v_NGK, options);
  if (!plan.is_one_token_each()) return attend_each(slot, q_NHK, plan, options);
  return ops::decode_attention(q_NHK, slot.k_RGCK, slot.values(), held_R(window, q_NHK.device()), options);
}

Tensor KvCache::mlstm(std::int64_t layer, const ops::MlstmInput& input, const Plan& plan, double eps) {
  const MemoryLayer& sizes = spec_.layers.at(layer).memory;
  HONE_ASSERT(sizes.heads == input.q_NHK.size(1) && sizes.key_size == input.q_NHK.size(2) &&
              sizes.value_size == input.v_NHV.size(2));
  ops::MlstmMemory& memory = slots_[layer].memory;
  if (!memory.m_RH.defined())
    memory = {at::zeros({rows(), sizes.heads, sizes.key_size, sizes.value_size}, input.input_NH.options()),
              at::zeros({rows(), sizes.heads, sizes.key_size}, input.input_NH.options()),
              at::zeros({rows(), sizes.heads}, input.input_NH.options())};
  return ops::mlstm_on(input, plan.documents(), eps, {memory, rows_of(plan)});
}

// One matrix per head of each row, in fp32 (fp64), zeros at first.
Tensor& KvCache::matrix_of(std::int64_t layer, const Tensor& wide) {
  const MemoryLayer& sizes = spec_.layers.at(layer).memory;
  Tensor& matrix = slots_[layer].matrix_RHKV;
  if (!matrix.defined())
    matrix = at::zeros({rows(), sizes.heads, sizes.key_size, sizes.value_size}, wide.options());
  return matrix;
}

Tensor KvCache::gated_delta(std::int64_t layer, const ops::DeltaInput& input, const Plan& plan) {
  const MemoryLayer& sizes = spec_.layers.at(layer).memory;
  HONE_ASSERT(sizes.heads == input.v_NHV.size(1) && sizes.key_size == input.q_NGK.size(2) &&
              sizes.value_size == input.v_NHV.size(2));
  return ops::gated_delta_on(input, plan.documents(), {matrix_of(layer, input.decay_NH), rows_of(plan)});
}

Tensor KvCache::ssd(std::int64_t layer, const ops::SsdInput& input, const Plan& plan) {
  const MemoryLayer& sizes = spec_.layers.at(layer).memory;
  HONE_ASSERT(sizes.heads == input.x_NHV.size(1) && sizes.key_size == input.c_NGK.size(2) &&
              sizes.value_size == input.x_NHV.size(2));
  return ops::ssd_on(input, plan.documents(), {matrix_of(layer, input.decay_NH), rows_of(plan)});
}

// Of channels, whose states lie side by side: [R,K,C].
Tensor KvCache::selective_scan(std::int64_t layer, const ops::ScanInput& input, const Plan& plan) {
  const std::int64_t channels = input.x_NC.size(1), states = input.b_NK.size(1);
  const MemoryLayer& sizes = spec_.layers.at(layer).memory;
  HONE_ASSERT(sizes.heads == channels && sizes.key_size == states && sizes.value_size == 1);
  Tensor& state = slots_[layer].matrix_RHKV;
  if (!state.defined()) state = at::zeros({rows(), states, channels}, input.step_NC.options());
  return ops::selective_scan_on(input, plan.documents(), {state, rows_of(plan)});
}

Tensor KvCache::short_conv(std::int64_t layer, const Tensor& x_NC, const ops::ShortConvWeights& weights,
                           const Plan& plan) {
  Tensor& newest = slots_[layer].newest_RTC;
  if (!newest.defined()) newest = at::zeros({rows(), weights.weight_CT.size(1) - 1, x_NC.size(1)}, x_NC.options());
  return ops::short_conv_on(x_NC, weights, plan.documents(), newest, rows_of(plan));
}

// What is stale gets other values, but stays where it is.
void KvCache::refresh_held() {
  if (std::exchange(stale_, false))
    for (auto& [window, held] : held_R_) held.copy_(counted(window)), is_settled_ = false;
}

const Tensor& KvCache::held_R(std::int64_t window, at::Device device) {
  refresh_held();
  Tensor& held = held_R_[window];
  if (!held.defined()) held = devices::sent(counted(window), device), ++generation_, is_settled_ = false;
  return held;
}

// Angles are, if they are those of this cache, by what its rows hold: a pass may have made others for itself.
bool KvCache::is_settled(const ops::RopeTable& rope) const {
  const auto held = held_R_.find(0);
  const bool is_own = std::ranges::any_of(rope_tables_, [&](const auto& each) {
    return rope.cos.is_same(each.second.cos) && rope.sin.is_same(each.second.sin);
  });
  return is_settled_ && is_own && held != held_R_.end() && rope.rows_N.is_same(held->second);
}

// int64 [rows], on the host: what rows hold in the layers of a window; 0: in those that have none, or what they would.
Tensor KvCache::counted(std::int64_t window) const {
  const auto& layers = spec_.layers;
  const auto at = std::find_if(layers.begin(), layers.end(), [&](const auto& each) { return each.window == window; });
  std::vector<std::int64_t> counts = lengths_;
  if (window > 0)
    for (std::int64_t row = 0; row < rows(); ++row) counts[row] = held(slots_.at(at - layers.begin()), row);
  return host::tensor_of(counts, {rows()});
}

const std::vector<KvCache::Room>* KvCache::room_for_one_each(bool with_memories) {
  rooms_.resize(slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (keeps_nothing(i)) continue;
    if (remembers(i)) {
      const MemoryLayer& memory = spec_.layers[i].memory;
      const bool is_there = slot.matrix_RHKV.defined() == (memory.heads > 0) &&
                            slot.newest_RTC.defined() == (memory.convolved > 0);
      if (!with_memories || !is_there) return nullptr;
      rooms_[i].matrix_RHKV = slot.matrix_RHKV, rooms_[i].newest_RTC = slot.newest_RTC;
      if (spec_.layers[i].kv_heads == 0) continue;
    }
    if (!slot.k_RGCK.defined()) return nullptr;
    const std::int64_t window = spec_.layers[i].window;
    std::int64_t most = 0;
    for (std::int64_t row = 0; row < rows(); ++row) most = std::max(most, needed(slot, window, row, 1));
    grow(slot, window, most);
    rooms_[i].k_RGCK = slot.k_RGCK, rooms_[i].v_RGCK = slot.values();
    rooms_[i].held.resize(rows());
    for (std::int64_t row = 0; row < rows(); ++row) rooms_[i].held[row] = held(slot, row);
  }
  refresh_held();
  return &rooms_;
}

void KvCache::advance_by_one() {
  advance_as_recorded();
  stale_ = true;
}

void KvCache::advance_as_recorded() {
  for (std::int64_t& length : lengths_) ++length;
}

bool KvCache::has_room_for_one_each() const {
  for (std::size_t i = 0; i < slots_.size(); ++i)
    for (std::int64_t row = 0; row < rows() && !keeps_nothing(i); ++row) {
      if (remembers(i) || !slots_[i].k_RGCK.defined()) return false;
      if (held(slots_[i], row) + 1 > slots_[i].k_RGCK.size(2)) return false;
    }
  return true;
}

void KvCache::count_again() {
  stale_ = true;
  refresh_held();
}

void KvCache::go_back_to(const std::vector<std::int64_t>& lengths) { lengths_ = lengths; }

bool KvCache::angles_reach() const {
  return std::all_of(rope_tables_.begin(), rope_tables_.end(), [&](const auto& each) {
    const auto& [rope, table] = each;
    return std::all_of(lengths_.begin(), lengths_.end(), [&](std::int64_t length) {
      return rope->length_class(length + 1) == 0 && length < table.cos.size(0);
    });
  });
}

const ops::RopeTable& KvCache::rope_table(const Rope& rope, std::int64_t end, const Tensor& like) {
  ops::RopeTable& table = rope_tables_[&rope];
  const std::int64_t have = table.cos.defined() ? table.cos.size(0) : 0;
  if (have < end) table = rope.kept_table(std::max(end + 64, 2 * have), like), ++generation_, is_settled_ = false;
  return table;
}

void KvCache::advance(const Plan& plan) {
  is_settled_ = false;
  for (const PlannedDoc& doc : plan.docs()) lengths_[doc.row] += tokens_of(doc);
  stale_ |= !plan.is_one_token_each();
  if (!stale_ && !counts_are_left_)
    for (auto& [window, held] : held_R_) held.add_(1);
}

// None where the host knows better.
std::vector<Tensor> KvCache::left_counts() const {
  std::vector<Tensor> left;
  if (!stale_)
    for (const auto& [window, held] : held_R_) left.push_back(held);
  return left;
}

}  // namespace hone::nn
