// The CPU's table.
#include <ATen/ATen.h>

#include "ops/cpu/table/table.h"

namespace hone::ops {
namespace {

bool has_cpu_kernels(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kBFloat16;
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend table{"cpu",
                             /*on_host=*/true,
                             has_cpu_kernels,
                             cpu_table::products(),
                             cpu_table::attention(),
                             cpu_table::norms(),
                             cpu_table::mlstm(),
                             cpu_table::gated_delta(),
                             cpu_table::ssd(),
                             cpu_table::selective_scan(),
                             cpu_table::short_conv(),
                             cpu_table::elementwise(),
                             cpu_table::sums(),
                             cpu_table::routed()};
  return table;
}

}  // namespace hone::ops
