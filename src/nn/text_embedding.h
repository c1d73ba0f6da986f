// Vectors of texts: what a model's hidden states of a document become.
//
// Letters: B batch, T time, D hidden, S documents.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "hone/config.h"
#include "hone/model.h"

namespace hone {

namespace nn {
// Which hidden states stand for a document: the mean of all, the first one, the last one.
enum class Pooling { mean, cls, last };
}  // namespace nn

template <>
inline constexpr auto config::enum_names<nn::Pooling> = std::to_array<std::pair<nn::Pooling, std::string_view>>(
    {{nn::Pooling::mean, "mean"}, {nn::Pooling::cls, "cls"}, {nn::Pooling::last, "last"}});

namespace nn {

// Where nobody says otherwise: the last token of a language model has seen the whole text, and an encoder's all have.
Pooling usual_pooling(const Model& model);

// How many numbers a vector has: the model's hidden size, or what the last module beside it makes of it.
std::int64_t embedding_width(const Model& model);
// Without those modules.
std::int64_t pooled_width(const Model& model);

// [S,D] in the order of the batch's docs, in fp32 or, of a model in fp64, that. A graph through it.
Tensor pooled(const Output& output, const Batch& batch, Pooling pooling);
// The same through the modules that stand beside the model (nn/vector_module.h).
Tensor vectors_of(const Model& model, const Output& output, const Batch& batch, Pooling pooling, const Pass& pass);

// The first `dims` numbers of each row (0: all), as a vector of length 1.
Tensor unit_rows(const Tensor& rows, std::int64_t dims = 0);

}  // namespace nn
}  // namespace hone
