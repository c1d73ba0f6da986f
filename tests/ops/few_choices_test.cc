// Choices and sums over experts of few tokens by kernels, beside plain ATen: at every level, on awkward sizes.
#include "ops/few_choices.h"

#include <ATen/core/grad_mode.h>

#include "ops/backend.h"
#include "ops/check.h"
#include "ops/grouped_router.h"

namespace hone::ops::test {
namespace {

constexpr std::int64_t kTokens = 5;

TEST(FewChoices, TakeTheLargest) {
  const std::vector<float> values{1, 3, 2, 3, std::nanf(""), 5, -1};
  std::vector<std::int64_t> places(4);
  find_largest(values.data(), 7, 4, places.data());
  EXPECT_EQ(places, (std::vector<std::int64_t>{5, 1, 3, 2}));  // of equal ones the first
  find_largest(values.data(), 1, 1, places.data());
  EXPECT_EQ(places[0], 0);
}

// Where everything is no number somebody is chosen all the same.
TEST(FewChoices, TakeSomebodyWhereNothingIsANumber) {
  const std::vector<float> values(5, std::nanf(""));
  std::vector<std::int64_t> places(3, -1);
  find_largest(values.data(), 5, 3, places.data());
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 1, 2}));
}

std::vector<GroupedRule> rules() {
  using Score = GroupedRule::Score;
  return {{.score = Score::softmax, .per_token = 1},
          {.score = Score::sigmoid, .per_token = 3, .normalise = true, .scale = 2.5},
          {.score = Score::sigmoid, .per_token = 4, .groups = 4, .chosen_groups = 2, .best_of_group = 2,
           .normalise = true},
          {.score = Score::softmax, .per_token = 2, .groups = 2, .chosen_groups = 1, .normalise = true, .floor = 1,
           .floor_is_least = true},
          {.score = Score::sigmoid, .per_token = 8, .groups = 8, .chosen_groups = 3}};
}

TEST(FewChoices, ByGroupsAreAsPlainATenHasThem) {
  at_each_kernel_level([](const std::string& level) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat})
      for (const std::int64_t experts : {24, 40, 72})
        for (const bool corrected : {false, true})
          for (const GroupedRule& rule : rules()) {
            const Tensor logits = sample({kTokens, experts}, type) * 2,
                         correction = corrected ? sample({experts}, at::kFloat, 3) * 0.1 : Tensor();
            const Choice expected = choose_by_groups(logits, correction, rule, /*with_sum=*/false);
            const at::NoGradGuard no_graph;
            const Choice made = choose_by_groups(logits, correction, rule, /*with_sum=*/false);
            EXPECT_TRUE(made.expert_NK.equal(expected.expert_NK)) << level << ", " << experts;
            expect_close(made.weight_NK, expected.weight_NK, type == at::kDouble ? 1e-12 : 2e-6, level);
          }
  });
}

// Sigmoids of logits as large as these are all 1, and of equal scores nobody would be the best.
TEST(FewChoices, AreByLogitsWhereARuleSaysSo) {
  const Tensor logits = at::tensor({40.F, 60.F, 50.F, 70.F}).view({1, 4});
  const GroupedRule rule{.score = GroupedRule::Score::sigmoid, .by_logits = true, .per_token = 2};
  const Tensor expected = at::tensor({3, 1}, at::kLong).view({1, 2});
  EXPECT_TRUE(choose_by_groups(logits, {}, rule, /*with_sum=*/true).expert_NK.equal(expected));
  const at::NoGradGuard no_graph;
  const Choice few = choose_by_groups(logits, {}, rule, /*with_sum=*/false);
  EXPECT_TRUE(few.expert_NK.equal(expected));
  EXPECT_TRUE(few.weight_NK.equal(at::ones({1, 2})));
}

TEST(FewChoices, WideLogitsAreAsPlainATenHasThem) {
  at_each_kernel_level([](const std::string& level) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
      for (const std::int64_t hidden : {1, 7, 64, 200}) {
        const Tensor x = sample({kTokens, hidden}, type), weight = sample({9, hidden}, type, 2);
        const Tensor expected = at::linear(x.to(at::kDouble), weight.to(at::kDouble));
        const at::NoGradGuard no_graph;
        const Tensor made = wide_logits(x, weight);
        EXPECT_EQ(made.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
        expect_close(made.to(at::kDouble), expected, type == at::kDouble ? 1e-12 : 2e-6, level);
        EXPECT_TRUE(wide_logits(x.narrow(0, 2, 1), weight).equal(made.narrow(0, 2, 1))) << level;  // a row alone
      }
  });
}

// One token more than are few goes another way.
TEST(FewChoices, AreTheChoicesOfMany) {
  at_each_kernel_level([](const std::string& level) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat})
      for (const auto& [experts, per_token] : {std::pair(1, 1), {5, 2}, {8, 8}, {67, 4}})
        for (const bool normalise : {false, true}) {
          const Tensor logits = sample({17, experts}, type) * 2;
          const Choice many = choose_experts(logits, {per_token, normalise}, /*with_sum=*/false);
          for (const std::int64_t count : {1, 16}) {
            const Choice few = choose_experts(logits.narrow(0, 0, count), {per_token, normalise}, /*with_sum=*/false);
            EXPECT_TRUE(few.expert_NK.equal(many.expert_NK.narrow(0, 0, count))) << level;
            expect_close(few.weight_NK, many.weight_NK.narrow(0, 0, count), type == at::kDouble ? 1e-12 : 2e-6, level);
          }
        }
  });
}

TEST(FewChoices, SumsOverExpertsAreThoseOfMany) {
  at_each_kernel_level([](const std::string& level) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
      for (const std::int64_t columns : {1, 15, 64, 100}) {
        const std::int64_t per_token = 3;
        const Tensor y = sample({17 * per_token, columns}, type),
                     weight = at::rand({17, per_token}, type == at::kDouble ? at::kDouble : at::kFloat);
        const Tensor place = at::randperm(17 * per_token, at::kLong).view({17, per_token});
        const auto& table = backend_of(y).routed;
        for (const Tensor& by : {weight, Tensor()}) {
          const Tensor many = table.add_up(y, place, by);
          const Tensor few = table.add_up(y, place.narrow(0, 3, 14), by.defined() ? by.narrow(0, 3, 14) : by);
          expect_close(few, many.narrow(0, 3, 14), type == at::kBFloat16 ? 0x1p-7 : 2e-6, level);
        }
      }
  });
}

}  // namespace
}  // namespace hone::ops::test
