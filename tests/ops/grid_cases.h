// Grids that weights are rounded to, by the names that goldens have for them (tools/golden/golden_qat.py).
#pragma once

#include <cstdint>

#include "ops/fake_quantize.h"

namespace hone::test {

struct GridCase {
  const char* name;
  Grid grid;
  std::int64_t group;
};
inline constexpr GridCase kGridCases[] = {{"int4.16", Grid::int4, 16},
                                          {"int4.0", Grid::int4, 0},
                                          {"int8.16", Grid::int8, 16},
                                          {"int8.0", Grid::int8, 0},
                                          {"float8", Grid::float8, 0}};

}  // namespace hone::test
