// Products of few rows: every kernel against the meaning, and the same bits however the work is shared.
#include "ops/skinny.h"

#include "ops/check.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace hone::ops::test {
namespace {

const std::vector<at::ScalarType> kTypes = {at::kDouble, at::kFloat, at::kBFloat16};

struct Sizes {
  std::int64_t in, out;
};

TEST(Skinny, EveryKernelAgreesWithItsMeaning) {
  const at::NoGradGuard no_graph;
  for (const at::ScalarType type : kTypes)
    for (const Sizes s : {Sizes{1, 1}, {7, 3}, {31, 8}, {33, 17}, {64, 40}, {130, 9}, {515, 21}})
      for (std::int64_t rows = 1; rows <= kSkinnyRows; ++rows) {
        const Tensor x = sample({rows, s.in}, type), w = sample({s.out, s.in}, type, 2), b = sample({s.out}, type, 3);
        const Tensor wide = at::matmul(x.to(at::kDouble), w.to(at::kDouble).t());
        const Tensor plain = wide.to(type), with_bias = (wide + b.to(at::kDouble)).to(type);
        at_each_kernel_level([&](const std::string& where) {
          const auto what = where + " " + c10::toString(type) + " rows " + std::to_string(rows) + " in " +
                            std::to_string(s.in) + " out " + std::to_string(s.out);
          const auto made = skinny_products(x, {{w, {}}, {w, b}});
          const double relative = type == at::kBFloat16 ? 1.0 / 128 : tolerance(type);
          expect_close(made[0], plain, relative, what);
          expect_close(made[1], with_bias, relative, what + " with bias");
        });
      }
}

TEST(Skinny, ARowHasTheSameBitsAloneAndAmongOthers) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = sample({kSkinnyRows, 70}, type), w = sample({43, 70}, type, 2), b = sample({43}, type, 3);
    at_each_kernel_level([&](const std::string& where) {
      const Tensor all = skinny_products(x, {{w, b}})[0];
      for (std::int64_t rows = 1; rows < kSkinnyRows; ++rows) {
        if (where.starts_with("amx") && rows <= cpu::kRowsByVectors) continue;  // of them below
        for (const std::int64_t first : {std::int64_t{0}, kSkinnyRows - rows}) {
          const Tensor some = skinny_products(x.narrow(0, first, rows), {{w, b}})[0];
          EXPECT_TRUE(at::equal(some, all.narrow(0, first, rows))) << where << " " << type << " rows " << rows;
        }
      }
      const Tensor few = skinny_products(x.narrow(0, 0, cpu::kRowsByVectors), {{w, b}})[0];
      for (std::int64_t row = 0; row < cpu::kRowsByVectors; ++row)
        EXPECT_TRUE(at::equal(skinny_products(x.narrow(0, row, 1), {{w, b}})[0][0], few[row])) << where << " " << type;
    });
  }
}

TEST(Skinny, TheBitsDoNotDependOnThreadsAndNeighbours) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = sample({3, 515}, type), a = sample({700, 515}, type, 2), b = sample({91, 515}, type, 3);
    at_each_kernel_level([&](const std::string& where) {
      std::vector<Tensor> one, two;
      {
        const Threads threads(1);
        one = skinny_products(x, {{a, {}}, {b, {}}});
      }
      {
        const Threads threads(2);
        two = skinny_products(x, {{a, {}}, {b, {}}});
        EXPECT_TRUE(at::equal(skinny_products(x, {{b, {}}})[0], two[1])) << where << " " << type;
      }
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(one[i], two[i])) << where << " " << type;
    });
  }
}

TEST(Skinny, GroupsOfRowsGiveWhatEachGivesAlone) {
  const std::int64_t counts[] = {1, 7, 2};
  for (const at::ScalarType type : kTypes) {
    const Tensor x = sample({10, 101}, type);
    std::vector<LinearWeight> gates, ups;
    for (int g = 0; g < 3; ++g) gates.push_back({sample({70, 101}, type, 10 + g)});
    for (int g = 0; g < 3; ++g) ups.push_back({sample({70, 101}, type, 20 + g)});
    at_each_kernel_level([&](const std::string& where) {
      std::vector<SkinnyGroup> by_gate, by_up;
      std::vector<Tensor> plain, gated;
      std::int64_t begin = 0;
      for (int g = 0; g < 3; begin += counts[g++]) {
        by_gate.push_back({counts[g], &gates[g]}), by_up.push_back({counts[g], &ups[g]});
        const Tensor rows = x.narrow(0, begin, counts[g]);
        plain.push_back(skinny_products(rows, {gates[g]})[0]);
        gated.push_back(skinny_gated(rows, gates[g], ups[g], Activation::silu));
      }
      EXPECT_TRUE(at::equal(skinny_groups(x, by_gate), at::cat(plain))) << where << " " << type;
      EXPECT_TRUE(at::equal(skinny_gated_groups(x, by_gate, by_up, Activation::silu), at::cat(gated)))
          << where << " " << type;
    });
  }
}

// As stacked experts have them: [in, outs].
TEST(Skinny, WeightsThatLieByInputsAreReadThatWay) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = sample({5, 103}, type), w = sample({103, 1100}, type, 2) * 0.2, b = sample({1100}, type, 3);
    const Tensor meaning = (at::matmul(x.to(at::kDouble), w.to(at::kDouble)) + b.to(at::kDouble)).to(type);
    at_each_kernel_level([&](const std::string& where) {
      Tensor all;
      {
        const Threads threads(2);
        all = skinny_products(x, {{w.t(), b}})[0];
      }
      expect_close(all, meaning, tolerance(type), where + " " + c10::toString(type));
      const Threads threads(1);
      EXPECT_TRUE(at::equal(skinny_products(x, {{w.t(), b}})[0], all)) << where << " " << type;
      EXPECT_TRUE(at::equal(skinny_products(x.narrow(0, 3, 1), {{w.t(), b}})[0][0], all[3])) << where << " " << type;
      const Tensor mixed = skinny_products(x, {{w.t().contiguous(), b}, {w.t(), b}})[1];
      EXPECT_TRUE(at::equal(mixed, all)) << where << " " << type;
    });
  }
}

// Rows that are no multiple of a vector, from addresses that are no multiple of one, up to the end of the memory.
TEST(Skinny, ReadsNothingButItsRows) {
  const at::NoGradGuard no_graph;
  for (const at::ScalarType type : kTypes)
    at_each_kernel_level([&](const std::string& where) {
      Tensor room = at::full({9 * 37 + 1}, std::numeric_limits<double>::quiet_NaN()).to(type);
      const Tensor w = room.slice(0, 1, 1 + 8 * 37).view({8, 37}), x = at::ones({2, 37}, type);
      w.fill_(0.5);
      EXPECT_TRUE(at::equal(skinny_products(x, {{w, {}}})[0], at::full({2, 8}, 18.5, type))) << where << " " << type;
    });
}

TEST(Skinny, TheGatedMlpIsThatOfItsParts) {
  const at::NoGradGuard no_graph;
  for (const at::ScalarType type : kTypes)
    for (const std::int64_t rows : {1, 3, 16, 17}) {
      const Tensor x = sample({rows, 40}, type), residual = sample({rows, 40}, type, 6), norm = sample({40}, type, 7),
                   gate = sample({50, 40}, type, 2) * 0.2, up = sample({50, 40}, type, 3) * 0.2,
                   down = sample({40, 50}, type, 4) * 0.2, bias = sample({50}, type, 5);
      for (const Activation activation : {Activation::silu, Activation::gelu_tanh})
        at_each_kernel_level([&](const std::string& where) {
          const auto [sum, normed] = add_rms_norm(x, residual, norm, 1e-6);
          const auto both = linears(normed, {{gate, bias}, {up, {}}});
          const Tensor parts = sum + gated_linear(both[0], both[1], activation, {down, {}});
          const auto made = norm_gated_mlp(x, residual, norm, 1e-6, {{gate, bias}, {up, {}}, {down, {}}}, activation);
          const Tensor whole = made.sum + made.y;
          expect_close(whole, parts, tolerance(type),
                       where + " " + c10::toString(type) + " rows " + std::to_string(rows));
        });
    }
}

TEST(Linear, OfFewRowsWithoutGradientIsThatOfMany) {
  const at::NoGradGuard no_graph;
  const Tensor x = sample({40, 30}, at::kFloat), w = sample({20, 30}, at::kFloat, 2), b = sample({20}, at::kFloat, 3);
  const Tensor many = linear(x, {w, b});
  expect_close(linear(x.narrow(0, 3, 4).view({1, 4, 30}), {w, b})[0], many.narrow(0, 3, 4), 1e-5, "few");
}

// Sums that fp32 holds exactly: what is rounded once is the same in whatever order it was added up.
TEST(Linear, ABiasIsAddedBeforeTheSumIsRounded) {
  const at::NoGradGuard no_graph;
  const auto sixteenths = [](at::IntArrayRef sizes, int seed) {
    return (sample(sizes, at::kFloat, seed) * 16).round().div(16).to(at::kBFloat16);
  };
  const Tensor x = sixteenths({40, 300}, 1), w = sixteenths({21, 300}, 2), b = sixteenths({21}, 3) / 8;
  const Tensor once = (at::matmul(x.to(at::kDouble), w.to(at::kDouble).t()) + b.to(at::kDouble)).to(at::kBFloat16);
  at_each_kernel_level([&](const std::string& where) {
    EXPECT_TRUE(at::equal(linear(x, {w, b}), once)) << where << " many";
    EXPECT_TRUE(at::equal(linear(x.narrow(0, 3, 4), {w, b}), once.narrow(0, 3, 4))) << where << " few";
  });
}

}  // namespace
}  // namespace hone::ops::test
