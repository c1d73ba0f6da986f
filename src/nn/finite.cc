// Looks for the weight that makes a model's numbers infinite or no numbers.
#include "nn/finite.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>

#include "nn/finite_tensor.h"
#include "ops/finite.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

struct Found {
  std::string name;  // "": none
  bool all = true;   // the model's weights were looked at: of a model that ranks share out most are elsewhere
  std::int64_t count = 0, of = 0;
  at::ScalarType type = at::kFloat;  // of the model's last weight
};

bool is_in_order(const Weight& weight, const Tensor& value) {
  return is_limit(weight) ? host::number(at::isnan(value).sum()) == 0 : ops::all_finite(value);
}

void count(const Tensor& value, Found& found) {
  found.of = value.numel();
  found.count = found.of - static_cast<std::int64_t>(host::number(at::isfinite(value).sum()));
}

Found look(const Model& model) {
  const at::NoGradGuard no_grad;
  Found found;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (!found.name.empty() || weight.quantized()) return;  // finite when it was quantized
    found.all &= weight.is_there();
    if (!weight.is_there()) return;
    const Tensor& value = weight.use();
    found.type = value.scalar_type();
    if (is_in_order(weight, value)) return;
    found.name = name;
    count(value, found);
  });
  return found;
}

std::string text_of(const Found& found) {
  return fmt::format("{}: {} of {} values are infinite or not a number", found.name, found.count, found.of);
}

std::string hint_of(const Found& found) {
  const std::string damaged =
      "the file is damaged, or its training run had diverged: take another copy or an earlier checkpoint";
  if (found.type != at::kHalf) return damaged;
  return "fp16 ends at 65,504: bf16 and fp32 have room for larger values; if they do not help, " + damaged;
}

Error error_of(const Found& found, const std::string& where) {
  return Error(ErrorKind::not_finite, fmt::format("{}: weight {}", where, text_of(found))).hint(hint_of(found));
}

}  // namespace

bool is_limit(const Weight& weight) { return weight.is_buffer() && std::isinf(weight.init().first); }

std::string first_not_finite(const Model& model) { return look(model).name; }

Error not_finite(const Model& model, const std::string& what) {
  const Found found = look(model);
  if (!found.name.empty())
    return Error(ErrorKind::not_finite, fmt::format("{}: not finite; weight {}", what, text_of(found)))
        .hint(hint_of(found));
  if (!found.all) return Error(ErrorKind::not_finite, what + ": not finite");
  return Error(ErrorKind::not_finite,
               fmt::format("{}: not finite, though every weight is: the numbers grew too large while computing in {}",
                           what, hf_name(found.type)))
      .hint("--precision fp64 has a wider range; weights so large are rarely meant");
}

void check_weights_finite(const Model& model, const std::string& where) {
  const Found found = look(model);
  if (!found.name.empty()) throw error_of(found, where);
}

void check_finite(const Tensor& value, const std::string& name, const std::string& where) {
  if (ops::all_finite(value)) return;
  Found found{.name = name, .type = value.scalar_type()};
  count(value, found);
  throw error_of(found, where);
}

}  // namespace hone::nn
