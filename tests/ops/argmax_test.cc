// The place of the largest value at every kernel level.
#include "ops/argmax.h"

#include <cmath>

#include "ops/check.h"

namespace hone::ops::test {
namespace {

TEST(Argmax, IsTheFirstOfTheLargest) {
  constexpr float kNan = NAN, kInf = INFINITY;
  const std::vector<std::pair<std::vector<float>, std::int64_t>> cases = {
      {{3}, 0},          {{-2, -1, -3}, 1}, {{1, 5, 5}, 1},    {{-kInf, -kInf}, 0}, {{kNan, 2, kNan, 7, 7}, 3},
      {{kNan, kNan}, 0}, {{0, kInf, 1}, 1}, {{-0.0f, 0.0f}, 0}};
  for (const Level wanted : {Level::reference, Level::basic, Level::avx2, Level::avx512, Level::avx512bf16}) {
    const LevelScope scope(wanted);
    for (const auto& [values, place] : cases) EXPECT_EQ(argmax(values), place) << name(level());
    for (const std::int64_t count : {31, 32, 33, 255, 256, 257, 1000}) {
      const Tensor x = at::remainder(at::arange(count, at::kFloat) * 7, 101);
      const std::span<const float> values(x.const_data_ptr<float>(), count);
      EXPECT_EQ(argmax(values), std::max_element(values.begin(), values.end()) - values.begin()) << count;
    }
    Tensor holes = at::zeros({1000}, at::kFloat);  // what is not a number comes after the largest, in every lane
    holes.slice(0, 500).fill_(kNan);
    holes[17].fill_(1);
    EXPECT_EQ(argmax({holes.const_data_ptr<float>(), 1000}), 17) << name(level());
  }
}

}  // namespace
}  // namespace hone::ops::test
