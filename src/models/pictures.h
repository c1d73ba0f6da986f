// Pictures in a model of texts: what a tower makes of them takes the place of their tokens.
//
// Letters in tensor names: B batch, T time, D hidden, M tokens of pictures, N tokens of the pass, P patches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hone/model.h"
#include "nn/rope.h"
#include "ops/attention.h"

namespace hone::models {

// Throws Error(data) for pictures that are not as the model reads them.
void check_pictures(const Batch& batch, const PictureInput& input);

// x with these vectors at the tokens of the batch's pictures, one after another.
Tensor with_pictures(const Tensor& x_BTD, const Tensor& features_MD, const Batch& batch, const PictureInput& input);

// The patches of each square of so many on a side, one square after another, row by row of each picture:
// [M, side * side, D] of [P, D].
Tensor in_squares(const Tensor& patches_PD, const Pictures& pictures, std::int64_t side);

// What sees each other of a batch's patches: those of a picture.
ops::Documents by_pictures(const Pictures& pictures);

// Of batches with pictures the pass's tokens stand in three dimensions: words go on in all of them, behind a picture as
// far as it is high or wide; a picture's tokens stand in its time, height and width (Qwen2-VL's M-RoPE). axes: by which
// of the three each pair of a head turns. Written into the pass's plan, in place of `rope`'s table; a batch without
// pictures needs nothing. With a cache all positions are moved so that a document's last one is as if it were of words
// alone: what follows then needs nothing either, as rotations know distances alone.
void rotate_in_three(const Batch& batch, const PictureInput& input, const nn::Rope& rope,
                     const std::vector<std::int64_t>& axes, const Tensor& like, Pass& pass);

// From here on a picture's tokens see each other, as Gemma 3's do; pictures with no token between them are one.
// near_only: in layers alone that have a window, as Gemma 4's do.
void see_within_pictures(const Batch& batch, Pass& pass, bool near_only = false);

// Sums onto the pass's flat axis, [1, N, D]: these vectors at the tokens of pictures, 0 at all others.
Tensor at_pictures(const Tensor& features_MD, Pass& pass);

}  // namespace hone::models
