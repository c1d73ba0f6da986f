// Documents as ops check them and autograd's functions keep them between forward and backward, and heads as they hand
// them to kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include "hone/error.h"
#include "ops/documents.h"

namespace hone::ops {

struct KeptDocuments : torch::CustomClassHolder {
  explicit KeptDocuments(const Documents& documents) : documents(documents) {}
  Documents documents;
};

inline c10::IValue to_value(const Documents& documents) {
  return c10::IValue::make_capsule(c10::make_intrusive<KeptDocuments>(documents));
}
inline Documents to_documents(const c10::IValue& value) {
  return static_cast<const KeptDocuments&>(*value.toCapsule()).documents;
}

// Error(bug): the op is given fewer tokens than documents have.
inline void check_tokens(const char* op, std::int64_t tokens, const Documents& documents) {
  const std::vector<Span>& spans = documents.counted_spans();
  if (!spans.empty() && spans.back().end > tokens)
    throw Error(ErrorKind::bug,
                fmt::format("{}: {} tokens; expected those of all documents, of which the last one ends at {}", op,
                            tokens, spans.back().end));
}

// Kernels of heads take any strides but the last one.
inline at::Tensor dense_rows(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

}  // namespace hone::ops
