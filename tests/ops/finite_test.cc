// Finite or not, at every kernel level and wherever the one bad value stands.
#include "ops/finite.h"

#include <cmath>

#include "ops/check.h"

namespace hone::ops::test {
namespace {

TEST(Finite, OneBadValueIsFoundWhereverItStands) {
  for (const Level wanted : {Level::reference, Level::basic, Level::avx2, Level::avx512, Level::avx512bf16}) {
    const LevelScope scope(wanted);
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const std::int64_t count : {1, 15, 16, 17, 64, 65, 300}) {
        const Tensor good = at::full({count}, -3e38, at::kDouble).to(type);
        EXPECT_TRUE(all_finite(good)) << name(level()) << " " << count;
        for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)})
          for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
            Tensor x = good.clone();
            x[at].fill_(bad);
            EXPECT_FALSE(all_finite(x)) << name(level()) << " " << type << " " << bad << " at " << at;
          }
      }
    EXPECT_TRUE(all_finite(at::zeros({0})));
    EXPECT_FALSE(all_finite(at::full({200, 1000}, NAN)));
  }
}

}  // namespace
}  // namespace hone::ops::test
