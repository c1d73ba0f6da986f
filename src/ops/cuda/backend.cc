// The table of NVIDIA's GPUs.
#include "ops/backend.h"

#include <ATen/Context.h>

#include "ops/cuda/table.h"
#include "ops/reference/table.h"

namespace hone::ops {

const Backend& cuda_backend() {
  static const Backend table = [] {
    // cuBLAS may join parts of a sum in the factors' own type, and LibTorch lets it; sums here are made in fp32.
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
    at::globalContext().setAllowFP16ReductionCuBLAS(false);
    return Backend{"cuda",
                   /*on_host=*/false,
                   reference_backend().takes,
                   cuda_table::products(),
                   cuda_table::attention(),
                   cuda_table::norms(),
                   reference_table::mlstm(),
                   reference_table::gated_delta(),
                   reference_table::ssd(),
                   reference_table::selective_scan(),
                   reference_table::short_conv(),
                   cuda_table::elementwise(),
                   cuda_table::sums(),
                   cuda_table::routed(),
                   cuda_table::updates(),
                   cuda_table::make_recording};
  }();
  return table;
}

}  // namespace hone::ops
