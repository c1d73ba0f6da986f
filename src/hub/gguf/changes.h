// What llama.cpp has of weights in another form than transformers.
#pragma once

#include "hub/gguf/family.h"

namespace hone::gguf {

at::Tensor permuted_queries(const at::Tensor& whole, const Config& config);
at::Tensor permuted_keys(const at::Tensor& whole, const Config& config);
at::Tensor transposed(const at::Tensor& whole, const Config& config);
at::Tensor squeezed(const at::Tensor& whole, const Config& config);          // of dimensions of one entry
at::Tensor minus_exponential(const at::Tensor& whole, const Config& config);  // -exp(x)
// Queries, keys and values of one head after another, as all queries, all keys, all values.
at::Tensor heads_apart(const at::Tensor& whole, const Config& config);
// Of experts' gates and what is gated, one half or every second: [E, 2 I, D], and of [E, D, 2 I] what is transposed.
at::Tensor first_half(const at::Tensor& whole, const Config& config);
at::Tensor second_half(const at::Tensor& whole, const Config& config);
at::Tensor even_rows(const at::Tensor& whole, const Config& config);
at::Tensor odd_rows(const at::Tensor& whole, const Config& config);
at::Tensor even_entries(const at::Tensor& whole, const Config& config);
at::Tensor odd_entries(const at::Tensor& whole, const Config& config);

}  // namespace hone::gguf
