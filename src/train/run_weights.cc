// What callbacks make of an updater's weights.
#include "train/run_weights.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "tensor/dtype.h"

namespace hone::training {
namespace {

void require_fits(const std::string& name, const Tensor& got, const Tensor& weight) {
  if (!got.defined())
    throw Error(ErrorKind::bug, fmt::format("{}: got no tensor, expected {}", name, shape_text(weight.sizes())));
  if (got.sizes() != weight.sizes())
    throw Error(ErrorKind::bug,
                fmt::format("{}: got {}, expected {}", name, shape_text(got.sizes()), shape_text(weight.sizes())));
  if (!got.is_floating_point())
    throw Error(ErrorKind::bug,
                fmt::format("{}: got {}, expected {}", name, hf_name(got.scalar_type()), hf_name(weight.scalar_type())))
        .hint("Tensor::to(weight.scalar_type())");
}

}  // namespace

void visit_to_change(const std::string& name, Tensor& value, const WeightEdit::Visit& visit) {
  const c10::NoGradGuard no_grad;
  Tensor given = value;
  visit(name, given);
  if (given.is_same(value)) return;
  require_fits(name, given, value);
  const bool shares = given.storage().is_alias_of(value.storage());  // as a transposed one does
  value.copy_(shares ? given.clone() : given);
}

}  // namespace hone::training
