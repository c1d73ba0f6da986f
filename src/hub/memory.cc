// Precision and memory of this machine.
#include "hub/memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include "ops/quantized.h"
#include "tensor/dtype.h"

namespace hone {

Precision resolve(Precision precision) {
  if (precision != Precision::automatic) return precision;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512bf16")) return Precision::bf16;
#endif
  return Precision::fp32;
}

namespace hub {

at::ScalarType type_of(Precision precision) {
  switch (resolve(precision)) {
    case Precision::bf16:
      return at::kBFloat16;
    case Precision::fp16:
      return at::kHalf;
    case Precision::fp64:
      return at::kDouble;
    default:
      return at::kFloat;
  }
}

at::ScalarType type_of(const Weight& weight, WeightTypes types) {
  if (weight.is_buffer()) return type_of(types.trained) == at::kDouble ? at::kDouble : at::kFloat;
  return type_of(weight.trainable() ? types.trained : types.frozen);
}

void check_memory(const Module& model, WeightTypes types) {
  double needed = 0;
  model.each_weight([&](const std::string&, const Weight& weight) {
    if (weight.held_as().type != QuantType::none) {
      needed += static_cast<double>(ops::quantized_bytes(weight.shape(), weight.held_as()));
      return;
    }
    const std::int64_t count = weight.layout().count < 0 ? weight.layout().numel() : weight.layout().count;  // a rank's
    needed += static_cast<double>(count) * static_cast<double>(c10::elementSize(type_of(weight, types)));
  });
  const double there = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (needed > there)
    throw Error(ErrorKind::config,
                fmt::format("the model: {:.4g} billion weights in {} need {:.1f} GB; this machine has {:.1f} GB",
                            static_cast<double>(model.parameter_count()) / 1e9, hf_name(type_of(types.trained)),
                            needed / 1e9, there / 1e9));
}

}  // namespace hub
}  // namespace hone
