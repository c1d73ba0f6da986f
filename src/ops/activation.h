// The activations of MLPs.
#pragma once

namespace hone::ops {

enum class Activation { silu, gelu, gelu_tanh, relu };

}  // namespace hone::ops
