// Variants of what DPO sees of answers (LD-DPO, f-divergences, WPO, a reference that moves) against TRL's DPOTrainer
// (tools/golden/golden_dpo.py), and what must hold without it.
#include "train/pair_runs.h"

namespace hone {
namespace {

class DpoVariants : public test::PairRuns {};

TEST_F(DpoVariants, EachEqualsTrl) {
  const nlohmann::json golden = test::read_json(test::golden("train/dpo/dpo_variants.json"));
  for (const auto& [name, options] : golden["settings"].items()) {
    SCOPED_TRACE(name);
    test::Overrides more{{"trainer.steps", "10"}};
    for (const auto& [option, value] : options.items())
      more.emplace_back("objective." + option, value.is_string() ? value.get<std::string>() : value.dump());
    expect_history(run(name, more), golden["runs"][name]);
  }
}

TEST_F(DpoVariants, AreTheUsualOneWhereTheySayNothing) {
  const auto plain = run("plain", {{"trainer.steps", "5"}});
  int number = 0;
  for (const char* objective : {"ld_alpha: 1", "f_divergence_type: reverse_kl",
                                "f_divergence_type: alpha_divergence, f_alpha_divergence_coef: 1"})
    EXPECT_EQ(values(run(std::to_string(++number), {{"trainer.steps", "5"}}, objective), "loss"), values(plain, "loss"))
        << objective;
}

// However pairs are dealt out to micro-batches and rows.
TEST_F(DpoVariants, DoNotDependOnTheBatch) {
  const std::string objective = "ld_alpha: 0.3, use_weighting: true, f_divergence_type: js_divergence";
  const auto split = [&](const char* rows, const char* times, const char* packing) {
    return run(fmt::format("{}x{}{}", rows, times, packing),
               {{"trainer.batch_size", rows},
                {"trainer.accumulate", times},
                {"trainer.precision", "fp64"},
                {"trainer.steps", "5"},
                {"data.packing", packing},
                {"data.max_length", *packing == 'n' ? "256" : "8192"}},
               objective);
  };
  const auto eight = split("8", "1", "none"), one = split("1", "8", "none");
  for (const char* name : {"loss", "rewards/margins", "logps/chosen", "grad_norm"})
    expect_near(values(eight, name), values(one, name), 1e-9);
  const auto all = split("40", "1", "none"), packed = split("1", "1", "best_fit");
  for (const char* name : {"loss", "rewards/margins", "logps/chosen", "grad_norm"})
    expect_near(values(all, name), values(packed, name), 1e-9);
}

// Their losses are measured on held-out pairs as they are learnt.
TEST_F(DpoVariants, HeldOutPairsAreEvaluated) {
  const auto still = run("still",
                         {{"data.eval.all", test::golden("train/dpo/pairs.jsonl").string()},
                          {"trainer.batch_size", "40"},
                          {"trainer.steps", "1"},
                          {"optimizer", "{learning_rate: 0, schedule: {type: constant}}"},
                          {"trainer.eval_every", "1"}},
                         "ld_alpha: 0.3, use_weighting: true, reference_free: true");
  EXPECT_GT(values(still, "loss")[0], 0);
  for (const char* name : {"loss", "logps/chosen", "rewards/margins"})
    EXPECT_NEAR(values(still, name)[0], values(still, std::string("eval_") + name)[0], 1e-4) << name;
}

TEST_F(DpoVariants, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [&](const std::string& objective, const std::string& why) {
    EXPECT_HONE_ERROR(run("a", {}, objective), config, why);
  };
  refused("ld_alpha: 0.5, precompute_reference: true", "not together with ld_alpha");
  refused("ld_alpha: 1.5", "expected 0 to 1");
  refused("f_divergence_type: forward_kl, loss_type: nca_pair", "only with loss_type sigmoid");
  refused("f_divergence_type: forward_kl, loss_type: [sigmoid, bco_pair]", "only with loss_type sigmoid");
  refused("f_divergence_type: forward_kl, reference_free: true", "f_divergence_type: not together with reference_free");
  refused("f_alpha_divergence_coef: 0.3", "only with f_divergence_type alpha_divergence");
}

}  // namespace
}  // namespace hone
