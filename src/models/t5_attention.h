// T5's attention: without a scale; scores of a layer with itself have a bias by distance, whose classes grow with it.
//
// Letters in tensor names: S tokens of sources, N of targets, D hidden, H heads, K head size, R distances.
#pragma once

#include <cmath>

#include "hone/layers.h"
#include "models/t5_config.h"
#include "ops/relative_bias.h"

namespace hone::models {

// Which class the distances -(length - 1) to length - 1 of keys from queries are of, int64. both_ways: those in front
// of the query have classes of their own, else they are all as 0.
Tensor distance_classes(std::int64_t length, bool both_ways, std::int64_t classes, std::int64_t most_distance);

// A bias for each class and head. As Hugging Face's Trainer has it, it does not decay.
struct T5Biases final : Module {
  explicit T5Biases(const T5Shape& s)
      : weight(parameter("weight", {s.buckets, s.heads},
                         {.kind = Init::Kind::normal, .std = s.factor / std::sqrt(static_cast<double>(s.hidden))},
                         /*decays=*/false)) {}
  Weight& weight;
};

class T5Attention final : public Module {
 public:
  enum class Of { sources, targets, targets_to_sources };
  T5Attention(const T5Shape& shape, Of of, bool has_table);

  Tensor operator()(const nn::Input& x, Pass& pass) const;

 private:
  ops::RelativeBias bias(Pass& pass) const;
  Tensor heads(const Tensor& x) const { return x.view({-1, s.heads, s.head_size}); }
  nn::Linear& in(const char* name, double std);

  const T5Shape& s;
  const Of of_;
  nn::Linear &q, &k, &v, &o;
  T5Biases* relative_attention_bias = nullptr;  // null: that of the first layer, or none
};

}  // namespace hone::models
