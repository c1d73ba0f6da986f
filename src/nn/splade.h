// Sparse vectors of texts: how much each token of the vocabulary is worth for a text, by the head for masked tokens
// (SPLADE: Formal et al., 2021, arXiv:2107.05720).
//
// Letters: S documents, V vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "hone/config.h"
#include "hone/model.h"

namespace hone {

namespace nn {
// What of a document's tokens counts for a token of the vocabulary: the largest, or all.
enum class SpladeStrategy { max, sum };
// What becomes of a logit: log(1 + relu(x)), or log(1 + log(1 + relu(x))), by the names of sentence-transformers.
enum class SpladeActivation { relu, log1p_relu };

struct SpladeForm {
  SpladeStrategy strategy = SpladeStrategy::max;
  SpladeActivation activation = SpladeActivation::relu;
  bool operator==(const SpladeForm&) const = default;
};
}  // namespace nn

template <>
inline constexpr auto config::enum_names<nn::SpladeStrategy> =
    std::to_array<std::pair<nn::SpladeStrategy, std::string_view>>({{nn::SpladeStrategy::max, "max"},
                                                                    {nn::SpladeStrategy::sum, "sum"}});
template <>
inline constexpr auto config::enum_names<nn::SpladeActivation> =
    std::to_array<std::pair<nn::SpladeActivation, std::string_view>>(
        {{nn::SpladeActivation::relu, "relu"}, {nn::SpladeActivation::log1p_relu, "log1p_relu"}});

namespace nn {

// [S,V] in the order of the batch's docs, in fp32 or, of a model in fp64, that; none is below 0. A graph through it,
// for which the pass must outlive the backward pass. Logits of so many numbers at most are held at once, forward and
// backward: they are made again there. REQUIRES: the model has a head for masked tokens.
Tensor splade(const Model& model, const Output& output, const Batch& batch, const SpladeForm& form, const Pass& pass,
              std::int64_t logits_at_once = std::int64_t{1} << 24);

// The largest `kept` of each row alone; the others become 0.
Tensor largest(const Tensor& rows, std::int64_t kept);

}  // namespace nn
}  // namespace hone
