// The rewards that TRL has, too, give what TRL's give (tools/golden/golden_rewards.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "rewards/scoring.h"

namespace hone::test {
namespace {

using nlohmann::json;

// of(case, i): the i-th answer of a case.
template <class Of>
void agree(const std::string& type, Of&& of) {
  const json cases = json::parse(content_of(golden("rewards/trl.json"))).at(type);
  ASSERT_GT(cases.size(), 0u);
  for (const json& one : cases) {
    SCOPED_TRACE(type + " " + one.at("options").dump());
    std::vector<Answer> answers;
    const auto wanted = one.at("rewards").get<std::vector<double>>();
    for (std::size_t i = 0; i < wanted.size(); ++i) answers.push_back(of(one, i));
    const Scores given = scores(*reward(type, one.at("options").dump()), answers);
    ASSERT_EQ(given.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(given[i].value(), wanted[i], 1e-12) << i;
  }
}

std::vector<std::int32_t> ones(const json& one, std::size_t i) {
  return std::vector<std::int32_t>(one.at("lengths").at(i).get<std::size_t>(), 1);
}

TEST(TrlRewards, LengthCostsTheSame) {
  agree("length", [](const json& one, std::size_t i) { return of_ids(ones(one, i)); });
}
TEST(TrlRewards, RepetitionCostsTheSame) {
  agree("repetition",
        [](const json& one, std::size_t i) { return of_ids(one.at("ids").at(i).get<std::vector<std::int32_t>>()); });
}
TEST(TrlRewards, CosineIsWorthTheSame) {
  agree("cosine", [](const json& one, std::size_t i) {
    return of_ids(ones(one, i), one.at("right").at(i).get<bool>() ? "\\boxed{\\frac{1}{3}}" : "\\boxed{\\frac{1}{2}}",
                  "\\frac{1}{3}");
  });
}
TEST(TrlRewards, FormatIsTheSame) {
  agree("format", [](const json& one, std::size_t i) { return answer(one.at("texts").at(i).get<std::string>()); });
}

}  // namespace
}  // namespace hone::test
