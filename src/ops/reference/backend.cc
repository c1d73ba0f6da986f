// The table that every device can have.
#include <ATen/ATen.h>

#include "ops/reference/table.h"

namespace hone::ops {
namespace {

bool is_computed_with(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
}

}  // namespace

const Backend& reference_backend() {
  static const Backend table{"reference",
                             /*on_host=*/false,
                             is_computed_with,
                             reference_table::products(),
                             reference_table::attention(),
                             reference_table::norms(),
                             reference_table::mlstm(),
                             reference_table::gated_delta(),
                             reference_table::ssd(),
                             reference_table::selective_scan(),
                             reference_table::short_conv(),
                             reference_table::elementwise(),
                             reference_table::sums(),
                             reference_table::routed()};
  return table;
}

}  // namespace hone::ops
