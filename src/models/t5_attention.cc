// T5's attention, and the classes of its distances.
#include "models/t5_attention.h"

#include <ATen/ATen.h>

#include <cmath>

#include "models/encoder_decoder.h"
#include "nn/sources.h"
#include "ops/embedding.h"
#include "tensor/device.h"

namespace hone::models {

// The near half of the classes has one distance each; the others grow like its logarithm. In fp32, as transformers
// does: at their borders another precision would choose another class.
Tensor distance_classes(std::int64_t length, bool both_ways, std::int64_t classes, std::int64_t most_distance) {
  const Tensor distance_R = at::arange(1 - length, length, at::kLong);
  Tensor first_R = at::zeros_like(distance_R), far_R = -distance_R.clamp_max(0);
  if (both_ways) {
    classes /= 2;
    first_R = (distance_R > 0).to(at::kLong) * classes, far_R = distance_R.abs();
  }
  const std::int64_t near = classes / 2;
  const double range = std::log(static_cast<double>(most_distance) / static_cast<double>(near));
  const Tensor steps_R = (far_R.clamp_min(1).to(at::kFloat) / near).log() / range * (classes - near);
  const Tensor class_R = (near + steps_R.to(at::kLong)).clamp_max(classes - 1);
  return first_R + at::where(far_R < near, far_R, class_R);
}

nn::Linear& T5Attention::in(const char* name, double std) {
  return child<nn::Linear>(name, s.hidden, s.heads * s.head_size, nn::Linear::Options{.std = s.factor * std});
}

T5Attention::T5Attention(const T5Shape& shape, Of of, bool has_table)
    : s(shape),
      of_(of),
      q(in("q", 1 / std::sqrt(static_cast<double>(s.hidden * s.head_size)))),
      k(in("k", 1 / std::sqrt(static_cast<double>(s.hidden)))),
      v(in("v", 1 / std::sqrt(static_cast<double>(s.hidden)))),
      o(child<nn::Linear>(
          "o", s.heads * s.head_size, s.hidden,
          nn::Linear::Options{.std = s.factor / std::sqrt(static_cast<double>(s.heads * s.head_size))})) {
  if (has_table) relative_attention_bias = &child<T5Biases>("relative_attention_bias", s);
}

// Of a layer that has a table, and for those behind it that have none.
ops::RelativeBias T5Attention::bias(Pass& pass) const {
  const bool both_ways = of_ == Of::sources;
  const char* name = both_ways ? "bias of sources" : "bias of targets";
  const std::int64_t length = both_ways ? nn::longest_source(pass) : nn::longest_target(pass);
  if (!relative_attention_bias) return {nn::left(pass, name), length - 1};
  const Weight& table = relative_attention_bias->weight;
  const Tensor classes_R =
      devices::sent(distance_classes(length, both_ways, s.buckets, s.most_distance), table.use().device());
  const Tensor bias_RH = ops::embedding(table.use(), classes_R, /*no_gradient_id=*/-1, table.gradient_sum());
  const Tensor bias_HR = bias_RH.t().contiguous();
  if (!s.bias_in_each_layer) pass.plan().left()[name] = bias_HR;
  return {bias_HR, length - 1};
}

Tensor T5Attention::operator()(const nn::Input& x, Pass& pass) const {
  ops::AttentionOptions options{.scale = 1, .dropout = s.dropout};
  const auto out = [&](const Tensor& y_NHK) { return o(y_NHK.flatten(1).unsqueeze(0), pass); };
  if (of_ == Of::targets_to_sources) {
    const auto keys = [&] {
      const auto kv = nn::linears(encoded(pass), {&k, &v}, pass);
      return nn::KeysAndValues(heads(kv[0]), heads(kv[1]));
    };
    return out(nn::attend_to_sources(heads(nn::linears(x, {&q}, pass)[0]), keys, pass, options));
  }
  const auto qkv = nn::linears(x, {&q, &k, &v}, pass);
  const ops::RelativeBias by_distance = bias(pass);
  options.bias = &by_distance;
  if (of_ == Of::sources)
    return out(nn::attend_within_sources(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options));
  return out(nn::attend(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), pass, options));
}

}  // namespace hone::models
