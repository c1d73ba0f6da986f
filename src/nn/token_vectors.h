// Vectors of texts' tokens, and how alike texts are by them: of each of a query's vectors the most alike one of a
// document's (ColBERT: Khattab and Zaharia, 2020, arXiv:2004.12832).
//
// Letters: S documents, L tokens of the longest text, D numbers of a vector, A, B two sets of texts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "hone/config.h"
#include "hone/model.h"

namespace hone {

namespace nn {
// Of a query's vectors the sum, or the mean, by the names of sentence-transformers.
enum class TokenSimilarity { maxsim, meanmaxsim };
}  // namespace nn

template <>
inline constexpr auto config::enum_names<nn::TokenSimilarity> =
    std::to_array<std::pair<nn::TokenSimilarity, std::string_view>>(
        {{nn::TokenSimilarity::maxsim, "maxsim"}, {nn::TokenSimilarity::meanmaxsim, "meanmaxsim"}});

namespace nn {

// A batch's column, of each token: whether its vector counts.
inline constexpr const char* kCountingTokens = "counts";

// Texts of unlike length. Behind a text's vectors there are zeros, which do not count.
struct TokenVectors {
  Tensor vector_SLD, counts_SL;  // counts: 0 or 1, in the vectors' type
};

// Those of the tokens that count, in the order of the batch's docs, through the modules that stand beside the model
// (nn/vector_module.h); normalize: each of length 1. In fp32 or, of a model in fp64, that. A graph through it.
// Error(config): the batch has tokens that others are not to see, and the model's layers do not know that.
TokenVectors token_vectors(const Model& model, const Output& output, const Batch& batch, bool normalize, Pass& pass);

// A row of numbers for each text, [S, L * (D + 1)], and back; width: D. Rows of other texts may be wider, and go on
// with zeros.
Tensor rows_of(const TokenVectors& texts);
TokenVectors texts_in(const Tensor& rows, std::int64_t width);
// The same without what lies behind the longest of these texts; with it where nobody knows, on the meta device.
TokenVectors trimmed(const TokenVectors& texts);

// Of each of a with each of b, [A,B]; of each of a with the one of b at its place, [A]. A document without a vector
// that counts is less alike than any other. So many numbers at most are held at once, but for one text with one.
Tensor max_similarity(const TokenVectors& a, const TokenVectors& b, TokenSimilarity kind,
                      std::int64_t at_once = std::int64_t{1} << 24);
Tensor max_similarity_pairwise(const TokenVectors& a, const TokenVectors& b, TokenSimilarity kind);

// How many numbers a token's vector has: what the last module beside the model makes, else the model's hidden size.
std::int64_t token_vector_width(const Model& model);

}  // namespace nn
}  // namespace hone
