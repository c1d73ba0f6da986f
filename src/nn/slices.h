// Layers of which each rank has a slice of the weights: parallel.tensor. Between layers a rank has some of the tokens,
// within them all tokens of what its slice makes: heads, channels, experts' channels, words.
//
// Letters: N tokens of this rank, M of all ranks, h heads of this rank, K head size.
#pragma once

#include <cstdint>

#include "hone/layers.h"
#include "hone/model.h"
#include "nn/context.h"

namespace hone::nn {

// The ranks that share out the weights of this pass' model, where this is one of those weights; null: it is whole.
const Context* sharing(const Weight& weight, const Pass& pass);

// [1,N,...] or [N,...] -> that of all ranks' tokens, and back: of what each rank has of a sum.
Tensor to_all(const Tensor& x, const Context& ranks);
Tensor to_own(const Tensor& y, const Context& ranks);

// [1,M,h K] of what this rank's rows of `weight` make -> [M,h,K]. Where there are fewer heads than ranks these make a
// part of one, and the whole one is had of the others. `heads`: of the whole weight.
Tensor heads_of(const Tensor& x_1NW, const Weight& weight, std::int64_t heads, std::int64_t head_size,
                const Pass& pass);

// For who makes layers: weights of which ranks may each have some of the outputs, with their biases, or some
// of the inputs. In so many pieces: heads, channels.
void cut_outputs(const Linear& linear, std::int64_t pieces);
void cut_inputs(const Linear& linear, std::int64_t pieces);

// What a rank has of a weight: the layout before it is filled. REQUIRES: not filled, whole.
void cut_weights(Module& module, int rank, int ranks);

}  // namespace hone::nn
