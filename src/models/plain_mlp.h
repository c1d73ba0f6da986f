// An MLP without a gate: down(act(up(x))).
//
// Letters in tensor names: N tokens, D hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "hone/layers.h"
#include "models/llama_config.h"
#include "nn/decoding/pre_norm.h"

namespace hone::models {

class PlainMlp final : public Module {
 public:
  struct Options {
    std::int64_t hidden = 0, inner = 0;
    ops::Activation activation = ops::Activation::silu;
    bool squares = false;  // what the activation gives
    bool bias = false;
    double std = 0.02;
    const char *up = "up_proj", *down = "down_proj";  // the children's names
    std::optional<double> down_std = {};              // where it is not std
    double dropout = 0;                               // of what the activation gives, in training
  };
  static Options options_of(const LlamaShape& s, const char* up, const char* down) {
    return {.hidden = s.hidden,
            .inner = s.inner,
            .activation = s.activation,
            .bias = s.mlp_bias,
            .std = s.std,
            .up = up,
            .down = down};
  }
  explicit PlainMlp(const Options& options) : o(options) {}

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const Tensor made = nn::activate(nn::linears(x_1ND, {&up}, pass)[0], o.activation);
    return down(nn::dropout(o.squares ? made.square() : made, o.dropout, pass, "inner"), pass);
  }
  // What the short way of decoding makes (nn/decoding), by the activation of the model: relu(u)^2 is relu(u) u.
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    layer.mlp.gate = up.with_adapter(pass), layer.mlp.down = down.with_adapter(pass);
    if (o.squares) layer.mlp.up = layer.mlp.gate;
    layer.is_known &= !o.squares || o.activation == ops::Activation::relu;
  }

 private:
  const Options o;
  nn::Linear& up = child<nn::Linear>(o.up, o.hidden, o.inner, nn::Linear::Options{.bias = o.bias, .std = o.std});
  nn::Linear& down = child<nn::Linear>(
      o.down, o.inner, o.hidden, nn::Linear::Options{.bias = o.bias, .std = o.down_std.value_or(o.std)});
};

// Of models whose activation may be the square of relu, which config.json calls relu2.
struct SquaringShape : LlamaShape {
  bool squares = false;
  PlainMlp::Options mlp_options() const {
    PlainMlp::Options made = PlainMlp::options_of(*this, "up_proj", "down_proj");
    made.squares = squares;
    return made;
  }
};

// As resolve_base; the activation is relu2 where nothing is said.
inline bool resolve_squaring(LlamaConfig config, SquaringShape& shape, Problems& problems) {
  const std::string squared = "relu2";
  shape.squares = config.hidden_act.value_or(squared) == squared;
  if (shape.squares) config.hidden_act = "relu";
  const bool good = resolve_base(config, shape, problems);
  if (shape.squares) shape.activation_name = squared;
  return good;
}

}  // namespace hone::models
