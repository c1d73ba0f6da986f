// Memory that comes and goes behind tensors that stay.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::storage {

// Frees the memory of x and of every tensor that shares it. They keep their shapes, and are not read until it is back:
// also those that a graph has saved for its backward pass see it again then.
void release(const at::Tensor& x);
// Gives it memory again, whose content is of no meaning yet. Does nothing where there is some.
void restore(const at::Tensor& x);
bool is_there(const at::Tensor& x);

}  // namespace hone::storage
