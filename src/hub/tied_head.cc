// Values are compared as they are stored; of two types, in one that holds both.
#include "hub/tied_head.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "hone/layers.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

constexpr std::int64_t kNumbers = 1 << 20;  // that are compared at a time

// Where the embedding lies, under the model's name of it or, of a body alone, without the prefix; nullptr: in no file.
const std::pair<const std::string, SafetensorsSet::Place>* find_embedding(const Model& model,
                                                                          const SafetensorsSet& files) {
  std::string name;
  model.each_weight([&](const std::string& weight_name, const Weight& weight) {
    if (model.causal_lm()->head().is_weight(weight)) name = weight_name;
  });
  auto found = files.tensors().find(name);
  const std::string prefix = model.base_prefix();
  if (found == files.tensors().end() && !prefix.empty() && name.starts_with(prefix))
    found = files.tensors().find(name.substr(prefix.size()));
  return found == files.tensors().end() ? nullptr : &*found;
}

at::Tensor read_some(const SafetensorsSet::Place& place, at::ScalarType type, std::int64_t first, std::int64_t count) {
  at::Tensor made = at::empty({count}, type);
  place.file->read(*place.tensor, host::mutable_bytes(made),
                   static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(made.element_size()));
  return made;
}

// The same bits are equal even where they are no numbers: that is told of elsewhere.
bool is_equal(const at::Tensor& a, const at::Tensor& b) {
  const std::span<const std::byte> x = host::bytes(a), y = host::bytes(b);
  if (a.scalar_type() == b.scalar_type() && std::memcmp(x.data(), y.data(), x.size()) == 0) return true;
  const at::ScalarType both = at::promote_types(a.scalar_type(), b.scalar_type());
  return at::equal(a.to(both), b.to(both));
}

bool have_equal_values(const SafetensorsSet::Place& a, const SafetensorsSet::Place& b) {
  const auto type_a = from_safetensors_name(a.tensor->dtype), type_b = from_safetensors_name(b.tensor->dtype);
  if (a.tensor->shape != b.tensor->shape || !type_a || !type_b) return false;
  std::int64_t count = 1;
  for (const std::int64_t size : a.tensor->shape) count *= size;
  for (std::int64_t first = 0; first < count; first += kNumbers) {
    const std::int64_t some = std::min(kNumbers, count - first);
    if (!is_equal(read_some(a, *type_a, first, some), read_some(b, *type_b, first, some))) return false;
  }
  return true;
}

}  // namespace

void check_tied_head(const Model& model, const SafetensorsSet& files) {
  if (!model.causal_lm() || !model.causal_lm()->head().tied()) return;
  const auto head = files.tensors().find(kHead);
  if (head == files.tensors().end()) return;
  const auto* embedding = find_embedding(model, files);
  if (!embedding || have_equal_values(head->second, embedding->second)) return;
  throw Error(
      ErrorKind::checkpoint,
      fmt::format("{}: {}: differs from {}, to which config.json ties the model's head; expected the same values",
                  head->second.file->path().string(), kHead, embedding->first))
      .hint("\"tie_word_embeddings\": false in config.json makes it the model's head, as it is in transformers");
}

}  // namespace hone::hub
