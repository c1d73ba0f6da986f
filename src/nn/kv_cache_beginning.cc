// What a text began with, for others that begin so, too.
#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "nn/kv_cache.h"

namespace hone::nn {

// Whether the layer has all that a token behind the row's first `length` ones looks at.
bool KvCache::still_has(std::size_t layer, std::int64_t row, std::int64_t length) const {
  if (length == lengths_[row]) return true;
  if (remembers(layer)) return false;
  const std::int64_t window = spec_.layers[layer].window;
  return window == 0 || slots_[layer].dropped[row] <= std::max<std::int64_t>(0, length - (window - 1));
}

bool KvCache::has_beginning_of(std::int64_t row, std::int64_t length, std::int64_t whole) const {
  if (length <= 0 || length > lengths_.at(row) || has_other_angles_ || !source_lengths_.empty()) return false;
  for (const auto& [rope, table] : rope_tables_)
    if (rope->length_class(whole) != 0) return false;
  for (std::size_t layer = 0; layer < slots_.size(); ++layer)
    if (!still_has(layer, row, length)) return false;
  return true;
}

std::unique_ptr<KvCache> KvCache::beginning_of(std::int64_t row, std::int64_t length, std::int64_t whole) const {
  if (!has_beginning_of(row, length, whole)) return nullptr;
  auto made = std::make_unique<KvCache>(spec_, 1);
  made->lengths_ = {length};
  made->rope_tables_ = rope_tables_;
  for (std::size_t layer = 0; layer < slots_.size(); ++layer) {
    Slot& slot = made->slots_[layer];
    slot = slots_[layer];
    slot.roomy.clear();
    slot.dropped = {slots_[layer].dropped[row]};
    for (Tensor* x : slot.tensors()) *x = x->narrow(0, row, 1);
    for (Tensor* x : slot.entries()) *x = x->narrow(2, 0, length - slot.dropped[0]);
    for (Tensor* x : slot.tensors()) *x = x->clone(at::MemoryFormat::Contiguous);
  }
  return made;
}

// Each row is copied once, and given up layer by layer, so that hardly anything is there twice.
std::unique_ptr<KvCache> KvCache::joined(std::vector<std::unique_ptr<KvCache>> parts, std::int64_t more) {
  if (parts.size() == 1) return std::move(parts.front());
  KvCache& first = *parts.front();
  auto made = std::make_unique<KvCache>(first.spec_, 0);
  made->rope_tables_ = first.rope_tables_;
  for (const auto& part : parts)
    made->lengths_.insert(made->lengths_.end(), part->lengths_.begin(), part->lengths_.end());
  for (std::size_t layer = 0; layer < made->slots_.size(); ++layer) {
    std::vector<Slot> slots;
    for (const auto& part : parts) slots.push_back(std::exchange(part->slots_[layer], {}));
    made->slots_[layer] = joined(slots, more);
  }
  return made;
}

KvCache::Slot KvCache::joined(std::vector<Slot>& slots, std::int64_t more) {
  Slot made = slots.front();
  made.dropped.clear();
  std::int64_t capacity = 0;
  for (Slot& slot : slots) {
    made.dropped.insert(made.dropped.end(), slot.dropped.begin(), slot.dropped.end());
    if (slot.k_RGCK.defined()) capacity = std::max(capacity, slot.k_RGCK.size(2) + more);
  }
  const std::vector<Tensor*> entries = made.entries();
  const auto is_entry = [&](const Tensor* x) { return std::ranges::find(entries, x) != entries.end(); };
  const std::vector<Tensor*> tensors = made.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<Tensor> rows;
    for (Slot& slot : slots) rows.push_back(*slot.tensors().at(i));
    if (!is_entry(tensors[i])) {
      *tensors[i] = at::cat(rows);
      continue;
    }
    auto sizes = rows.front().sizes().vec();
    sizes[0] = std::ssize(rows), sizes[2] = capacity;
    Tensor all = at::empty(sizes, rows.front().options());
    for (std::int64_t row = 0; row < sizes[0]; ++row)
      all.select(0, row).narrow(1, 0, rows[row].size(2)).copy_(rows[row].select(0, 0));
    *tensors[i] = all;
  }
  return made;
}

}  // namespace hone::nn
