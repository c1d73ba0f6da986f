// Keys and values that several layers attend to, and what else a pass's layers leave for those behind them.
//
// Letters in tensor names: N tokens, H query heads, G key/value heads, K head size.
#pragma once

#include <string>

#include "hone/layers.h"

namespace hone::nn {

// As attend_rotated(); the keys, rotated, and the values are there for later layers of the pass.
Tensor attend_and_leave(const Tensor& q_NHK, const Tensor& k_NGK, const Tensor& v_NGK, const ops::RopeTable& rope,
                        Pass& pass, const ops::AttentionOptions& options);

// With queries that are yet to be rotated to the keys and values of layer `layer`, which has left them in this pass; in
// generation also to what the cache holds of that layer.
Tensor attend_again(const Tensor& q_NHK, std::int64_t layer, const ops::RopeTable& rope, Pass& pass,
                    const ops::AttentionOptions& options);

// What was left under that name (Plan::left). REQUIRES: it was.
const Tensor& left(Pass& pass, const std::string& name);

}  // namespace hone::nn
