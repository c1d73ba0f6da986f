// Precision and memory of this machine.
#include "hub/memory.h"

#include <fmt/format.h>
#include <unistd.h>

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
    case Precision::fp64:
      return at::kDouble;
    default:
      return at::kFloat;
  }
}

void check_memory(Model& model, at::ScalarType type) {
  const double count = static_cast<double>(model.parameter_count()),
               needed = count * static_cast<double>(c10::elementSize(type));
  const double there = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (needed > there)
    throw Error(ErrorKind::config,
                fmt::format("the model: {:.4g} billion weights in {} need {:.1f} GB; this machine has {:.1f} GB",
                            count / 1e9, hf_name(type), needed / 1e9, there / 1e9));
}

}  // namespace hub
}  // namespace hone
