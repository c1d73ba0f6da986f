// What a text began with, for others that begin so, too.
#include <ATen/ATen.h>

#include <algorithm>

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

}  // namespace hone::nn
