// Between the tokens of a batch and its documents.
#include "tensor/by_document.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "tensor/host.h"

namespace hone {

Tensor documents_of_tokens(const Batch& batch) {
  const std::int64_t documents = std::ssize(batch.docs);
  std::vector<std::int64_t> document(static_cast<std::size_t>(batch.rows() * batch.length()), documents);
  for (std::int64_t i = 0; i < documents; ++i) {
    const Doc& doc = batch.docs[static_cast<std::size_t>(i)];
    const auto row = document.begin() + doc.row * batch.length();
    std::fill(row + doc.begin, row + doc.end, i);
  }
  return host::tensor_of(document, {std::ssize(document)}).to(batch.ids_BT.device(), /*non_blocking=*/true);
}

Tensor sums_by_document(const Tensor& values_N, const Tensor& documents_N, std::int64_t documents) {
  return at::zeros({documents + 1}, values_N.options().dtype(at::kDouble))
      .index_add(0, documents_N, values_N.to(at::kDouble))
      .narrow(0, 0, documents);
}

Tensor sums_by_document(const Tensor& values_N, const Batch& batch) {
  return sums_by_document(values_N, documents_of_tokens(batch), std::ssize(batch.docs));
}

Tensor each_token(const Tensor& values_S, const Tensor& documents_N) {
  return at::cat({values_S, at::zeros({1}, values_S.options())}).index_select(0, documents_N);
}

}  // namespace hone
