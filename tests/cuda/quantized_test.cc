// Kernels that make weights of few bits whole, against plain ATen: the same bits.
#include "cuda/kernel_check.h"
#include "ops/kernels.h"
#include "ops/quantized.h"

namespace hone::ops::test {
namespace {

TEST(CudaQuantized, GivesTheBitsOfTheReference) {
  for (const QuantizedAs as : {QuantizedAs{QuantType::nf4}, QuantizedAs{QuantType::nf4, true},
                               QuantizedAs{QuantType::fp4, true}, QuantizedAs{QuantType::int8}})
    for (const auto& [rows, columns] : {std::pair{3, 64}, {5, 30}, {7, 129}, {300, 64}, {64, 256}}) {
      const auto quantized = quantize(sample({rows, columns}, at::kFloat), as);
      for (const at::ScalarType type : kAllTypes) {
        const std::string what = described(type, rows, columns) + " as " + std::to_string(static_cast<int>(as.type));
        Tensor expected;
        {
          const LevelScope reference(Level::reference);
          expected = dequantize(*quantized, type);
        }
        const Results got = emulated_results(
            [&](const Backend& table) {
              const Tensor to = at::empty({rows, columns}, at::TensorOptions().dtype(type));
              table.elementwise.dequantize(*quantized, to);
              return Results{to};
            },
            what);
        EXPECT_TRUE(at::equal(got[0], expected)) << what;
      }
    }
}

}  // namespace
}  // namespace hone::ops::test
