// Sparse vectors of texts, as hone embed gives them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/batch.h"
#include "hone/text.h"

namespace hone::cli {

// What a file of vectors of texts says it holds: of either kind, so that one can take the other's place.
inline constexpr const char* kHeldEmbeddings = "embeddings";

// The weights of a text that are not 0, by tokens that go up.
struct SparseText {
  std::vector<std::int64_t> ids;
  std::vector<float> weights;
};
// Of each row. REQUIRES: fp32 on the host.
std::vector<SparseText> sparse_texts(const Tensor& rows_SV);

// {"ids":[…],"tokens":[…],"weights":[…]}, the largest weight first.
std::string sparse_line(const SparseText& text, const Tokenizer& tokenizer);

std::int64_t active(const std::vector<SparseText>& texts);  // weights of all

// The matrix [texts, vocabulary] as torch.sparse_csr_tensor() takes it: crow_indices, col_indices and values, and its
// shape. Throws Error(data).
void write_sparse(const std::string& path, const std::vector<SparseText>& texts, std::int64_t vocab);

}  // namespace hone::cli
