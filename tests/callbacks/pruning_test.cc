// Pruned weights stay zero: over updates, averages, restarts, in what is saved, on several ranks.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/together.h"

namespace hone {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr const char* kState = "state/optimizer-00000-of-00001.safetensors";

double zeros(const at::Tensor& tensor) { return tensor.eq(0).to(at::kDouble).mean().item<double>(); }

bool is_product(const std::string& name) { return name.ends_with("_proj.weight"); }

class Pruning : public ::testing::Test {
 protected:
  std::filesystem::path run(const std::string& name, const std::string& options, test::Overrides overrides = {}) {
    overrides.emplace_back("callbacks", "[{type: pruning" + options + "}]");
    overrides.emplace_back("run.folder", (folder_ / name).string());
    train(test::small_recipe(folder_, overrides), test::quiet_options());
    return folder_ / name;
  }
  static Tensors saved(const std::filesystem::path& run, std::int64_t step, const char* file = "model.safetensors") {
    return test::read_tensors(run / test::step_folder(step) / file);
  }
  static std::vector<double> logged(const std::filesystem::path& run, const std::string& name = "sparsity") {
    std::vector<double> values;
    for (const auto& line : test::metrics_of(run))
      if (line.contains(name)) values.push_back(line[name]);
    return values;
  }
  test::TempFolder folder_;
};

constexpr const char* kSoon = ", sparsity: 0.75, begin: 2, end: 8, every: 2";

TEST_F(Pruning, TheShareIsZhuAndGuptas) {
  const std::vector<double> shares = logged(run("run", ", sparsity: 0.8, initial: 0.2, begin: 2, end: 8, every: 2"));
  ASSERT_EQ(shares.size(), 10u);
  for (int step = 1; step <= 10; ++step) {
    const int last = std::min(8, step / 2 * 2);  // time of pruning
    const double missing = 1 - (last - 2) / 6.0;
    const double expected = step < 2 ? 0 : 0.8 + (0.2 - 0.8) * missing * missing * missing;
    EXPECT_NEAR(shares[static_cast<std::size_t>(step - 1)], expected, 5e-4) << step;
  }
}

TEST_F(Pruning, WhatIsPrunedStaysZeroInAllThatIsSaved) {
  for (const char* precision : {"fp32", "bf16", "fp64"})
    for (const char* optimizer : {"adamw", "muon", "adamw_schedule_free"})
      for (const char* ema : {"0", "0.9"}) {
        if (std::string(optimizer) == "adamw_schedule_free" && std::string(ema) != "0") continue;
        const std::string name = std::string(precision) + optimizer + ema;
        SCOPED_TRACE(name);
        const auto folder = run(name, kSoon,
                                {{"trainer.precision", precision},
                                 {"optimizer", "{type: " + std::string(optimizer) + ", learning_rate: 1e-2}"},
                                 {"trainer.ema", ema}});
        const Tensors weights = saved(folder, 10), masks = saved(folder, 10, "state/callbacks.safetensors");
        EXPECT_EQ(masks.size(), 14u);
        for (const auto& [weight, value] : weights) {
          if (!is_product(weight)) {
            EXPECT_LT(zeros(value), 0.01) << weight;
            continue;
          }
          const at::Tensor& mask = masks.at("0.pruning/masks/" + weight);
          EXPECT_NEAR(zeros(mask), 0.75, 1e-3) << weight;
          EXPECT_TRUE(value.masked_select(mask.logical_not()).eq(0).all().item<bool>()) << weight;
          EXPECT_NEAR(zeros(value), 0.75, 5e-3) << weight;
        }
        for (const auto& [state, value] : saved(folder, 10, kState))
          EXPECT_TRUE(!state.starts_with("master.") || !is_product(state) || zeros(value) > 0.749) << state;
      }
}

TEST_F(Pruning, AResumedRunIsTheUninterruptedOne) {
  for (const char* precision : {"fp32", "bf16"}) {
    const test::Overrides overrides{
        {"trainer.precision", precision}, {"trainer.ema", "0.9"}, {"trainer.save.every", "1"}};
    const std::string name = precision;
    const auto whole = run(name, kSoon, overrides);
    for (const int from : {1, 3, 6, 9}) {
      SCOPED_TRACE(name + " from " + std::to_string(from));
      const std::string part = name + std::to_string(from);
      std::filesystem::copy(whole, folder_ / part,
                            std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
      for (int step = 10; step > from; --step) std::filesystem::remove_all(folder_ / part / test::step_folder(step));
      run(part, kSoon, overrides);
      test::expect_equal_runs(whole, folder_ / part, 10);
    }
  }
}

TEST_F(Pruning, GlobalWeighsAllWeightsTogether) {
  const Tensors weights = saved(run("run", std::string(kSoon) + ", scope: global, each: true"), 10);
  double zero = 0, all = 0, least = 1, most = 0;
  for (const auto& [name, value] : weights) {
    if (!is_product(name)) continue;
    zero += zeros(value) * static_cast<double>(value.numel()), all += static_cast<double>(value.numel());
    least = std::min(least, zeros(value)), most = std::max(most, zeros(value));
    EXPECT_NEAR(logged(folder_ / "run", "sparsity_" + name).back(), zeros(value), 5e-3) << name;
  }
  EXPECT_NEAR(zero / all, 0.75, 1e-3);
  EXPECT_GT(most - least, 0.005);
}

TEST_F(Pruning, RowsAndColumnsGoAsAWhole) {
  const Tensors rows = saved(run("rows", ", by: row, match: up_proj, sparsity: 0.5, end: 8, every: 4"), 10);
  const Tensors columns = saved(run("columns", ", by: column, block: 4, match: up_proj, sparsity: 0.25, end: 8"), 10);
  for (const auto& [name, value] : rows)
    if (name.find("up_proj") != name.npos) {
      EXPECT_EQ(value.eq(0).all(1).sum().item<std::int64_t>(), value.size(0) / 2) << name;
      const at::Tensor blocks = columns.at(name).reshape({value.size(0), -1, 4}).eq(0).all(2).all(0);
      EXPECT_EQ(blocks.sum().item<std::int64_t>(), blocks.numel() / 4) << name;
    }
}

TEST_F(Pruning, AHeadGoesInAllItsWeights) {
  const Tensors weights = saved(run("run", ", by: head, match: self_attn, sparsity: 0.75, end: 8, every: 2"), 10);
  for (const char* layer : {"model.layers.0.self_attn.", "model.layers.1.self_attn."}) {
    const auto of = [&](const char* name) { return weights.at(std::string(layer) + name + "_proj.weight"); };
    const at::Tensor q = of("q").reshape({4, -1}).eq(0).all(1), o = of("o").t().reshape({4, -1}).eq(0).all(1);
    EXPECT_EQ(q.sum().item<std::int64_t>(), 3) << layer;
    EXPECT_TRUE(at::equal(q, o)) << layer;
    const at::Tensor shared = q.reshape({2, 2}).all(1);  // two heads of queries for one of keys
    for (const char* name : {"k", "v"})
      EXPECT_TRUE(at::equal(of(name).reshape({2, -1}).eq(0).all(1), shared)) << layer << name;
  }
}

TEST_F(Pruning, APatternIsInEachGroup) {
  const auto folder = run("run", ", by: pattern, pattern: '2:4', end: 8, every: 1");
  for (const auto& [name, value] : saved(folder, 10)) {
    if (!is_product(name)) continue;
    EXPECT_TRUE(value.reshape({-1, 4}).eq(0).sum(1).eq(2).all().item<bool>()) << name;
  }
  EXPECT_DOUBLE_EQ(logged(folder).back(), 0.5);
}

TEST_F(Pruning, StackedExpertsArePruned) {
  const Tensors weights =
      saved(run("run", ", match: experts, sparsity: 0.5, end: 8, every: 4", {{"model", test::routed_model()}}), 10);
  int seen = 0;
  for (const auto& [name, value] : weights)
    if (name.find("experts") != name.npos) {
      ++seen;
      EXPECT_GT(zeros(value), 0.3) << name;
    }
  EXPECT_GT(seen, 0);
}

TEST_F(Pruning, WhatCannotBeIsRefused) {
  const auto refused = [&](const char* options, const char* fact, const test::Overrides& more = {}) {
    SCOPED_TRACE(options);
    EXPECT_HONE_ERROR(run("none", options, more), config, fact);
  };
  refused(", match: nowhere", "match: \"nowhere\" is found in no trained weight");
  refused(", match: norm", "is found in no trained weight of two dimensions");
  refused(", initial: 0.6", "initial: got 0.6, expected at most sparsity 0.5");
  refused(", begin: 5, end: 5", "end: got 5, expected more than begin 5");
  refused(", begin: 10", "begin: got 10 of 10 steps");
  refused(", by: pattern", "pattern: missing");
  refused(", by: pattern, pattern: '4:4'", "got \"4:4\", expected n:m");
  refused(", pattern: '2:4'", "only with by: pattern");
  refused(", by: pattern, pattern: '2:5'", "columns are not groups of 5");
  refused(", by: row, block: 5", "rows are not groups of 5");
  refused(", block: 2", "only with by: row or column");
  refused(", by: head, match: q_proj", "o_proj.weight is not among the weights that match");
  refused(", by: head, match: mlp", "no q_proj.weight");
}

class PruningTogether : public test::Together {};

TEST_F(PruningTogether, RanksPruneAlikeAndSharesAreRefused) {
  const test::Overrides pruned{{"callbacks", "[{type: pruning, sparsity: 0.5, end: 6, every: 2}]"}};
  run(1, "one", pruned);
  run(2, "two", pruned);
  expect_close(in("one"), in("two"), 1e-9);
  test::Overrides shared = pruned;
  shared.emplace_back("parallel.fsdp", "2");
  EXPECT_HONE_ERROR(run(2, "shared", shared), config, "callback pruning: needs whole weights");
  EXPECT_FALSE(std::filesystem::exists(in("shared")));
}

}  // namespace
}  // namespace hone
