// What was cast is looked at first: rarely is there anything infinite in it, and then the rest is not read.
#include "hub/cast.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hone/error.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

bool infinite(const at::Tensor& tensor) { return host::number(tensor.isfinite().logical_not().sum()) > 0; }

}  // namespace

at::Tensor cast_weight(const at::Tensor& whole, at::ScalarType type, const std::string& what) {
  if (whole.scalar_type() == type) return whole;
  at::Tensor made = whole.to(type);
  if (infinite(made) && !infinite(whole))
    throw Error(ErrorKind::checkpoint, fmt::format("{}: {:.6g} is beyond what {} can hold", what,
                                                   host::number(whole.abs().max()), hf_name(type)))
        .hint("bfloat16 has the range of float32");
  return made;
}

}  // namespace hone::hub
