// Products of rows by groups: the kernels beside their meaning in fp64, for groups of every size and none.
#include "cuda/kernel_check.h"
#include "hone/gradient_sum.h"
#include "ops/experts.h"

namespace hone::ops::test {
namespace {

constexpr int kCapabilities[] = {80, 90};  // by warps, and by groups of them for which the hardware reads
constexpr int kMany = 1000;                // multiprocessors, for which no product is large

struct GroupCase {
  RowGroups rows;
  std::vector<std::int64_t> counts;
  std::int64_t total = 0;
  explicit GroupCase(std::vector<std::int64_t> given) : counts(std::move(given)) {
    std::vector<std::int64_t> begin{0};
    for (const std::int64_t count : counts) begin.push_back(total += count);
    rows = RowGroups(at::tensor(begin, at::kLong), {});  // the host is told nothing
  }
};

std::vector<Tensor> factors_of(std::size_t groups, std::int64_t depth, std::int64_t columns, at::ScalarType type,
                               std::uint64_t seed, bool turned) {
  std::vector<Tensor> made;
  const double spread = 1 / std::sqrt(static_cast<double>(depth));
  for (std::size_t g = 0; g < groups; ++g)
    made.push_back(turned ? (sample({depth, columns}, at::kDouble, seed + g) * spread).to(type)
                          : (sample({columns, depth}, at::kDouble, seed + g) * spread).to(type).t());
  return made;
}

void expect_grouped(const GroupCase& groups, std::int64_t depth, std::int64_t columns, at::ScalarType type, int factors,
                    bool turned) {
  const std::string what = described(type, groups.total, depth) + " x " + std::to_string(columns) +
                           (turned ? " turned" : "") + ", factors: " + std::to_string(factors);
  std::vector<GroupedFactors> all;
  Tensor expected = at::zeros({groups.total, columns}, at::kDouble);
  for (int f = 0; f < factors; ++f) {
    all.push_back({sample({groups.total, depth}, type, 2 + f),
                   factors_of(groups.counts.size(), depth, columns, type, 100 * (f + 1), turned)});
    std::int64_t begin = 0;
    for (std::size_t g = 0; g < groups.counts.size(); begin += groups.counts[g++])
      expected.narrow(0, begin, groups.counts[g]) +=
          at::mm(all.back().a_SK.narrow(0, begin, groups.counts[g]).to(at::kDouble),
                 all.back().b_KN[g].to(at::kDouble));
  }
  const Results got = emulated_results(
      [&](const Backend& table) {
        Tensor out = at::empty({groups.total, columns}, at::TensorOptions().dtype(type));
        table.products.grouped(out, all, groups.rows);
        return Results{out};
      },
      what);
  expect_same(got[0].to(at::kDouble), expected, once_rounded(type), what);
}

TEST(CudaGrouped, RowsOfEveryGroup) {
  for (const int capability : kCapabilities) {
    const OfCapability scope(capability, kMany);
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
      for (const bool turned : {false, true}) {
        expect_grouped(GroupCase({3, 0, 130, 1, 0}), 40, 136, type, 1, turned);
        expect_grouped(GroupCase({9, 5}), 328, 264, type, 2, turned);
        expect_grouped(GroupCase({0, 5, 127}), 168, 8, type, 2, turned);
      }
    expect_grouped(GroupCase({128, 1, 128, 255}), 32, 16, at::kBFloat16, 1, false);
    expect_grouped(GroupCase({1}), 8, 8, at::kBFloat16, 1, true);
    expect_grouped(GroupCase({70}), 328, 128, at::kBFloat16, 1, true);  // more slices than are on their way at once
  }
}
// Blocks that make one tile after another: all of them one block, or several, which have more than a turn each.
TEST(CudaGrouped, RowsOfLargeProducts) {
  for (const int multiprocessors : {1, 3}) {
    const OfCapability scope(90, multiprocessors);
    expect_grouped(GroupCase({200, 0, 388}), 72, 264, at::kBFloat16, 1, multiprocessors == 1);  // and half a tile
    expect_grouped(GroupCase({1, 390, 193}), 136, 136, at::kHalf, 2, multiprocessors == 3);
  }
  const OfCapability scope(90, 2);
  expect_grouped(GroupCase({192, 576}), 64, 512, at::kBFloat16, 1, false);  // nothing is left over
  expect_grouped(GroupCase({500}), 8, 400, at::kBFloat16, 2, true);
  expect_grouped(GroupCase({400}), 520, 256, at::kBFloat16, 2, false);  // more slices than have room
}
TEST(CudaGrouped, MoreGroupsThanALaunchTakes) {
  std::vector<std::int64_t> counts(300);
  for (std::size_t g = 0; g < counts.size(); ++g) counts[g] = g % 7 == 3 ? 2 : 0;
  counts[299] = 1, counts[128] = 4;
  expect_grouped(GroupCase(counts), 16, 8, at::kBFloat16, 2, true);
  expect_grouped(GroupCase(counts), 16, 8, at::kBFloat16, 1, false);
}

void expect_over_groups(const GroupCase& groups, std::int64_t lines, std::int64_t columns, at::ScalarType type) {
  const std::string what = described(type, lines, columns) + " of " + std::to_string(groups.total);
  const Tensor a = sample({groups.total, lines}, type, 3), b = sample({groups.total, columns}, type, 4);
  const std::size_t count = groups.counts.size();
  const auto wide_of = [&](std::size_t g) { return g % 3 != 2; };
  const auto is_added = [&](std::size_t g) { return g % 3 == 1; };
  const auto start = [&](std::size_t g) {
    return sample({lines, columns}, at::kFloat, 50 + g).to(wide_of(g) ? at::kFloat : type);
  };
  const Results got = emulated_results(
      [&](const Backend& table) {
        std::vector<Target> to(count);
        Results all;
        for (std::size_t g = 0; g + 1 < count; ++g) all.push_back(to[g].out = start(g)), to[g].add = is_added(g);
        table.products.over_groups(a, b, groups.rows, to);
        return all;
      },
      what);
  std::int64_t begin = 0;
  for (std::size_t g = 0; g + 1 < count; begin += groups.counts[g++]) {
    const auto rows = [&](const Tensor& x) { return x.narrow(0, begin, groups.counts[g]).to(at::kDouble); };
    Tensor expected = at::mm(rows(a).t(), rows(b));
    if (is_added(g)) expected += start(g).to(at::kDouble);
    expect_same(got[g].to(at::kDouble), expected, wide_of(g) ? 2e-6 : once_rounded(type),
                what + ", group " + std::to_string(g));
  }
}
TEST(CudaGrouped, SumsOverRows) {
  for (const int capability : kCapabilities)
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      const OfCapability scope(capability, kMany);
      expect_over_groups(GroupCase({3, 0, 70, 0, 1, 0, 33, 9}), 136, 24, type);
      expect_over_groups(GroupCase({40, 299, 2, 5}), 8, 144, type);
    }
  std::vector<std::int64_t> counts(140, 1);
  expect_over_groups(GroupCase(counts), 8, 16, at::kBFloat16);
}
TEST(CudaGrouped, SumsOfLargeProductsOverRows) {
  for (const int multiprocessors : {1, 3}) {
    const OfCapability scope(90, multiprocessors);
    expect_over_groups(GroupCase({3, 0, 70, 0, 9}), 200, 264, multiprocessors == 3 ? at::kHalf : at::kBFloat16);
  }
  const OfCapability scope(90, 5);
  expect_over_groups(GroupCase({200, 64, 1, 30, 5}), 392, 144, at::kBFloat16);
}
TEST(CudaGrouped, SumsOfLargeProductsOfMoreGroupsThanALaunchTakes) {
  const OfCapability scope(90, 2);
  std::vector<std::int64_t> counts(131, 0);
  counts[127] = 3, counts[128] = 2, counts[129] = 4;
  expect_over_groups(GroupCase(counts), 192, 136, at::kBFloat16);
}

// The whole op, whose host knows nothing of what experts have: y, the gradients of x and of the slots' weights, sums
// of weights' gradients.
Results routed_by(const Backend& table, at::ScalarType type) {
  const BackendScope scope(table);
  constexpr std::int64_t kTokens = 29, kHidden = 16, kInner = 24, kExperts = 5;
  const Tensor x = sample({kTokens, kHidden}, type).requires_grad_();
  const Tensor share = sample({kTokens, 2}, at::kFloat, 2).sigmoid().requires_grad_();
  Routing routing = route(std::get<1>(at::topk(sample({kTokens, kExperts - 1}, at::kFloat, 3), 2, -1)), kExperts);
  routing.slots = RowGroups(routing.slots.begin());
  std::vector<GradientSum> sums(3 * kExperts);
  std::vector<GatedMlpWeights> experts;
  for (std::size_t e = 0; e < kExperts; ++e) {
    const auto weight = [&](std::size_t which, std::int64_t out, std::int64_t in) {
      GradientSum& sum = sums[3 * e + which];
      sum.sum = at::full({out, in}, NAN, at::kFloat);
      return LinearWeight{(sample({out, in}, at::kDouble, 10 + 3 * e + which) / 4).to(type).requires_grad_(), {}, &sum};
    };
    experts.push_back({weight(0, kInner, kHidden), weight(1, kInner, kHidden), weight(2, kHidden, kInner)});
  }
  Results made;
  for (int pass = 0; pass < 2; ++pass) {
    const Tensor y = routed_mlp(x, share, routing, experts, Activation::silu);
    (y.to(at::kFloat) * sample({kTokens, kHidden}, at::kFloat, 4)).sum().backward();
    if (pass == 0) made.push_back(y.detach());
  }
  made.insert(made.end(), {x.grad(), share.grad()});
  for (const GradientSum& sum : sums) made.push_back(sum.sum);
  return made;
}
TEST(CudaGrouped, RoutedExpertsAreThePlainTables) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const std::int64_t before = emulated_launches();
    const Results got = routed_by(emulated_backend(), type), expected = routed_by(reference_backend(), type);
    EXPECT_GE(emulated_launches() - before, 2 * (3 + 2 + 3));  // projections, their gradients, those of weights
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_same(got[i], expected[i], kernel_tolerance(type), described(type, 29, 16) + ", " + std::to_string(i));
  }
}

// The library's products, one group after another: the host asks how many rows they have.
TEST(CudaGrouped, OfOtherTypesAndSizesIsTheLibrarys) {
  const GroupCase groups({3, 4});
  const std::int64_t before = emulated_launches();
  for (const auto& [type, depth, columns] :
       {std::tuple(at::kFloat, 16, 8), {at::kDouble, 16, 8}, {at::kBFloat16, 12, 8}, {at::kBFloat16, 8, 4}}) {
    const GroupedFactors factors{sample({7, depth}, type), factors_of(2, depth, columns, type, 9, false)};
    Tensor got = at::empty({7, columns}, at::TensorOptions().dtype(type)), expected = got.clone();
    emulated_backend().products.grouped(got, {factors}, groups.rows);
    reference_backend().products.grouped(expected, {factors}, groups.rows);
    EXPECT_TRUE(got.equal(expected));
  }
  EXPECT_EQ(emulated_launches(), before);
}

}  // namespace
}  // namespace hone::ops::test
