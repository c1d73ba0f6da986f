// Looks for the weight that makes a model's numbers infinite or no numbers.
#include "nn/finite.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

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

Found look(const Model& model) {
  const at::NoGradGuard no_grad;
  Found found;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (!found.name.empty() || weight.quantized()) return;  // finite when it was quantized
    found.all &= weight.is_there();
    if (!weight.is_there()) return;
    const Tensor& value = weight.use();
    found.type = value.scalar_type();
    if (ops::all_finite(value)) return;
    found.name = name;
    found.of = value.numel();
    found.count = found.of - static_cast<std::int64_t>(host::number(at::isfinite(value).sum()));
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

}  // namespace

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
  if (!found.name.empty())
    throw Error(ErrorKind::not_finite, fmt::format("{}: weight {}", where, text_of(found))).hint(hint_of(found));
}

}  // namespace hone::nn
