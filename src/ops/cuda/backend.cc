// The table of NVIDIA GPUs.
#include "ops/backend.h"
#include "ops/cuda/table.h"

namespace hone::ops {

const Backend& cuda_backend() {
  static const Backend table{"cuda",
                             /*on_host=*/false,
                             reference_backend().takes,
                             cuda_table::products(),
                             cuda_table::attention(),
                             cuda_table::norms(),
                             cuda_table::elementwise(),
                             cuda_table::sums()};
  return table;
}

}  // namespace hone::ops
