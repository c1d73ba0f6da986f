// Products of Gemma 4's towers, of which what they read and what they make is cut where the file says.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "hone/layers.h"

namespace hone::models {

// Where: four numbers beside the product's weight. Fresh ones cut nothing.
class Gemma4Clips final : public Module {
 public:
  Tensor of_input(const Tensor& x) const { return cut(x, input_min, input_max); }
  Tensor of_output(const Tensor& x) const { return cut(x, output_min, output_max); }

 private:
  static Tensor cut(const Tensor& x, const Weight& low, const Weight& high) {
    return at::clamp(x, low.use().to(x.scalar_type()), high.use().to(x.scalar_type()));
  }
  Weight& end(const char* name, double at) {
    return buffer(name, {}, {.kind = Init::Kind::ramp, .first = at, .last = at},
                  [](const Tensor& value, const Tensor&) { return value; });
  }
  Weight &input_min = end("input_min", -INFINITY), &input_max = end("input_max", INFINITY),
         &output_min = end("output_min", -INFINITY), &output_max = end("output_max", INFINITY);
};

class Gemma4Product final : public Module {
 public:
  struct Options {
    bool clips = false;
    double std = 0.02;
  };
  Gemma4Product(std::int64_t in, std::int64_t out, const Options& o)
      : clips(o.clips ? &child<Gemma4Clips>("") : nullptr),
        linear(child<nn::Linear>("linear", in, out, nn::Linear::Options{.std = o.std})) {}

  Tensor operator()(const Tensor& x, const Pass& pass) const {
    return clips ? clips->of_output(linear(clips->of_input(x), pass)) : linear(x, pass);
  }

 private:
  const Gemma4Clips* const clips;  // null: nothing is cut

 public:
  nn::Linear& linear;
};

}  // namespace hone::models
