// Changes of weights. Letters: E experts, I inner, D hidden.
#include "hub/gguf/changes.h"

#include <ATen/ATen.h>

namespace hone::gguf {
namespace {

using at::Tensor;

// transformers rotates value i of a head with i + half, llama.cpp of these families 2 i with 2 i + 1.
Tensor interleaved(const Tensor& whole, std::int64_t heads) {
  std::vector<std::int64_t> parts{heads, 2, whole.size(0) / heads / 2};
  parts.insert(parts.end(), whole.sizes().begin() + 1, whole.sizes().end());
  return whole.reshape(parts).transpose(1, 2).reshape(whole.sizes());
}

}  // namespace

Tensor permuted_queries(const Tensor& whole, const Config& config) { return interleaved(whole, config.heads()); }
Tensor permuted_keys(const Tensor& whole, const Config& config) { return interleaved(whole, config.kv_heads()); }
Tensor plus_one(const Tensor& whole, const Config&) { return whole + 1; }
Tensor transposed(const Tensor& whole, const Config&) { return whole.transpose(-1, -2); }
Tensor squeezed(const Tensor& whole, const Config&) { return whole.squeeze(); }
Tensor minus_exponential(const Tensor& whole, const Config&) { return -whole.exp(); }

Tensor heads_apart(const Tensor& whole, const Config& config) {
  const std::int64_t heads = config.heads();
  std::vector<std::int64_t> parts{heads, 3, whole.size(0) / heads / 3};
  parts.insert(parts.end(), whole.sizes().begin() + 1, whole.sizes().end());
  return whole.reshape(parts).transpose(0, 1).reshape(whole.sizes());
}

Tensor first_half(const Tensor& whole, const Config&) { return whole.narrow(-2, 0, whole.size(-2) / 2); }
Tensor second_half(const Tensor& whole, const Config&) {
  return whole.narrow(-2, whole.size(-2) / 2, whole.size(-2) / 2);
}
Tensor even_entries(const Tensor& whole, const Config&) { return whole.slice(-1, 0, c10::nullopt, 2); }
Tensor odd_entries(const Tensor& whole, const Config&) { return whole.slice(-1, 1, c10::nullopt, 2); }
Tensor even_rows(const Tensor& whole, const Config& config) { return even_entries(whole, config).transpose(-1, -2); }
Tensor odd_rows(const Tensor& whole, const Config& config) { return odd_entries(whole, config).transpose(-1, -2); }

}  // namespace hone::gguf
