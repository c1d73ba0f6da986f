// Broken runs are the unbroken ones bit for bit, for every pair of: optimizer, precision, accumulation, data, way of
// saving, way of breaking.
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <set>

#include "train/hooks_for_tests.h"
#include "train/killed.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

struct FactorChoice {
  const char* name;
  Overrides overrides;
};
using Factor = std::vector<FactorChoice>;

const std::string kSgd = "{type: sgd, learning_rate: 0.1, momentum: 0.9}";

// The last one is how a run is broken: not at all (it goes on from an earlier checkpoint), SIGTERM, kill -9.
enum Break { clean, term, kill_9 };
std::vector<Factor> factors(const std::string& file) {
  const auto optimizer = [](const char* type) {
    return FactorChoice{type, {{"optimizer", fmt::format("{{type: {}, learning_rate: 1e-2}}", type)}}};
  };
  return {{optimizer("adamw"), {"sgd", {{"optimizer", kSgd}}}, optimizer("adafactor"), optimizer("lion")},
          {{"fp32", {}}, {"bf16", {{"trainer.precision", "bf16"}}}},
          {{"one", {}}, {"four", {{"trainer.accumulate", "4"}, {"trainer.batch_size", "2"}}}},
          {{"packed", {}},
           {"unpacked", {{"data.packing", "none"}}},
           {"concat", {{"data.packing", "concat"}}},
           {"stream", {{"data.train", "[{path: " + file + ", stream: true}]"}, {"data.eval.held_out", "0"}}}},
          {{"between", {}}, {"beside", {{"trainer.save.asynchronous", "true"}}}},
          {{"clean", {}}, {"term", {}}, {"kill", {}}}};
}

using Row = std::vector<std::size_t>;  // an index for each factor
using Pair = std::array<std::size_t, 4>;

void add_pairs(const Row& row, std::set<Pair>& pairs) {
  for (std::size_t a = 0; a < row.size(); ++a)
    for (std::size_t b = a + 1; b < row.size(); ++b) pairs.insert({a, row[a], b, row[b]});
}

std::vector<Row> all_rows(const std::vector<Factor>& factors) {
  std::vector<Row> rows{{}};
  for (const Factor& factor : factors) {
    std::vector<Row> longer;
    for (const Row& row : rows)
      for (std::size_t i = 0; i < factor.size(); ++i) longer.push_back(row), longer.back().push_back(i);
    rows = std::move(longer);
  }
  return rows;
}

// Rows that have each pair at least once, each time the one with most new ones; then more, far from each other.
std::vector<Row> chosen_rows(const std::vector<Factor>& factors, std::size_t least) {
  const std::vector<Row> all = all_rows(factors);
  std::set<Pair> wanted, seen;
  for (const Row& row : all) add_pairs(row, wanted);
  std::vector<Row> chosen;
  while (seen.size() < wanted.size()) {
    const Row* best = nullptr;
    std::size_t most = 0;
    for (const Row& row : all) {
      std::set<Pair> with = seen;
      add_pairs(row, with);
      if (with.size() > most) most = with.size(), best = &row;
    }
    chosen.push_back(*best);
    add_pairs(*best, seen);
  }
  for (std::size_t i = 0; chosen.size() < least; ++i) chosen.push_back(all[i * 97 % all.size()]);
  return chosen;
}

class ResumePairs : public ::testing::Test {
 protected:
  ResumePairs() {
    test::register_test_callbacks();
    folder_.write("train.jsonl", test::story_lines(60));
  }
  Recipe recipe(const std::string& name, Overrides overrides) {
    overrides.emplace_back("run.folder", (folder_ / name).string());
    return test::small_recipe(folder_, overrides);
  }
  void break_by(Break how, const Overrides& overrides, std::int64_t turn) {
    Overrides broken = overrides;
    if (how == term) broken.emplace_back("callbacks", fmt::format("[{{type: raise_at, step: {}}}]", 1 + turn % 9));
    const Recipe parts = recipe("parts", broken);
    if (how == kill_9) {
      const std::string file = folder_.write("parts.yaml", config::to_yaml(write_recipe(parts))).string();
      ASSERT_EQ(test::train_in_child(file, 60 + turn * 37 % 150), SIGKILL);
      return;
    }
    EXPECT_EQ(train(parts, test::quiet_options()).interrupted(), how == term);
  }
  void expect_goes_on(const Row& row, const std::vector<Factor>& all, std::int64_t turn) {
    Overrides overrides;
    std::string name;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const FactorChoice& choice = all[i][row[i]];
      name += std::string(choice.name) + " ";
      overrides.insert(overrides.end(), choice.overrides.begin(), choice.overrides.end());
    }
    SCOPED_TRACE(name);
    const Break how = static_cast<Break>(row.back());
    train(recipe("whole", overrides), test::quiet_options());
    break_by(how, overrides, turn);
    TrainOptions options = test::quiet_options();
    if (how == clean) options.resume = "4";
    EXPECT_EQ(train(recipe("parts", overrides), options).step, 10);
    test::expect_equal_runs(folder_ / "whole", folder_ / "parts", 10);
    for (const char* run : {"whole", "parts"}) std::filesystem::remove_all(folder_ / run);
  }
  test::TempFolder folder_;
};

TEST_F(ResumePairs, AreTheUnbrokenRuns) {
  const std::vector<Factor> all = factors((folder_ / "train.jsonl").string());
  const std::vector<Row> rows = chosen_rows(all, 36);
  for (std::size_t i = 0; i < rows.size() && !HasFailure(); ++i)
    expect_goes_on(rows[i], all, static_cast<std::int64_t>(i));
  std::printf("%zu configurations\n", rows.size());
}

}  // namespace
}  // namespace hone
