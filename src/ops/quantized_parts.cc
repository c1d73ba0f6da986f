// Pointers to a matrix in fewer bits.
#include "ops/quantized_parts.h"

#include "tensor/host.h"

namespace hone::ops {

cpu::FourBits four_bits(const Quantized& q) {
  cpu::BlockScales scales{host::values<float>(q.scales).data()};
  if (q.as.double_quant)
    scales = {scales.scales, host::values<std::uint8_t>(q.scale_codes).data(),
              host::values<float>(q.scale_table).data(), q.scale_offset};
  return {host::values<std::uint8_t>(q.codes).data(), host::values<float>(q.table).data(), scales, q.block};
}

cpu::QuantizedRows quantized_rows(const Quantized& q) {
  if (q.as.type != QuantType::int8) return {.four = four_bits(q)};
  return {.int8 = host::values<std::int8_t>(q.codes).data(), .row_scales = host::values<float>(q.scales).data()};
}

}  // namespace hone::ops
