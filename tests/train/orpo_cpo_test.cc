// Preferences without a reference against TRL's ORPOTrainer and CPOTrainer (tools/golden/golden_orpo_cpo.py), and what
// must hold without them.
#include "train/pair_runs.h"

namespace hone {
namespace {

class ReferenceFreeRuns : public test::PairRuns {
 protected:
  void SetUp() override { few_ = {{"trainer.steps", "10"}}; }
  std::filesystem::path run_as(const std::string& type, const std::string& name, const std::string& objective = "",
                               const test::Overrides& more = {}) {
    objective_ = "type: " + type + ", beta: 0.2";
    test::Overrides all = few_;
    all.insert(all.end(), more.begin(), more.end());
    return run(name, all, objective);
  }

  test::Overrides few_;
  const nlohmann::json golden_ = test::read_json(test::golden("train/dpo/without_reference.json"));
};

TEST_F(ReferenceFreeRuns, OrpoEqualsTrl) {
  const auto made = run_as("orpo", "orpo");
  expect_history(made, golden_["runs"]["orpo"]);
  const std::vector<double> loss = values(made, "loss"), orpo = values(made, "orpo_loss"),
                            nll = values(made, "nll_loss"), ratio = values(made, "log_odds_ratio");
  for (std::size_t i = 0; i < loss.size(); ++i) {
    EXPECT_NEAR(orpo[i], -0.2 * ratio[i], 1e-6);
    EXPECT_NEAR(loss[i], orpo[i] + nll[i], 1e-5);
  }
}

TEST_F(ReferenceFreeRuns, EachLossOfCpoEqualsTrl) {
  for (const auto& [name, options] : golden_["settings"].items()) {
    SCOPED_TRACE(name);
    std::string objective;
    for (const auto& [option, value] : options.items())
      if (option != "beta") objective += (objective.empty() ? "" : ", ") + option + ": " + value.dump();
    const std::string beta = options.contains("beta") ? options["beta"].dump() : "0.2";
    nlohmann::json golden = golden_["runs"][name];
    if (options.value("cpo_alpha", 1.0) == 0) golden.erase("nll_loss");  // TRL logs 0 of what it leaves out
    expect_history(run_as("cpo", name, objective, {{"objective.beta", beta}}), golden);
  }
}

// CPO is DPO without a reference beside the chosen answers' loss; SimPO's margin of 0 leaves sigmoid_norm of it.
TEST_F(ReferenceFreeRuns, CpoIsDpoWithoutAReference) {
  const auto cpo = run_as("cpo", "cpo"), dpo = run_as("dpo", "dpo", "reference_free: true, rpo_alpha: 1");
  EXPECT_EQ(values(cpo, "loss"), values(dpo, "loss"));
  const auto simpo = run_as("cpo", "simpo", "loss_type: simpo, simpo_gamma: 0, cpo_alpha: 0"),
             norm = run_as("dpo", "norm", "reference_free: true, loss_type: sigmoid_norm");
  expect_near(values(simpo, "loss"), values(norm, "loss"), 1e-6);
}

TEST_F(ReferenceFreeRuns, PairsInOneMicroBatchOrEachInItsOwnAreTheSame) {
  for (const std::string type : {"orpo", "cpo"}) {
    SCOPED_TRACE(type);
    const auto split = [&](const char* rows, const char* times) {
      return run_as(type, type + rows, "",
                    {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"trainer.precision", "fp64"}});
    };
    const auto eight = split("8", "1"), one = split("1", "8");
    for (const char* name : {"loss", "rewards/margins", "nll_loss", "logps/chosen"})
      expect_near(values(eight, name), values(one, name), 1e-9);
  }
}

TEST_F(ReferenceFreeRuns, HeldOutPairsAreEvaluated) {
  for (const auto& [type, metric] : {std::pair("orpo", "log_odds_chosen"), {"cpo", "cpo_loss"}}) {
    SCOPED_TRACE(type);
    const auto made = run_as(type, type, "",
                             {{"data.eval.all", test::golden("train/dpo/pairs.jsonl").string()},
                              {"optimizer.learning_rate", "0"},
                              {"trainer.batch_size", "40"},
                              {"trainer.steps", "1"},
                              {"optimizer.schedule", "{type: constant}"},
                              {"trainer.eval_every", "1"}});
    for (const std::string name : {"loss", "nll_loss", "rewards/accuracies", "logps/rejected", metric})
      EXPECT_NEAR(values(made, name).at(0), values(made, "eval_" + name).at(0), 1e-4) << name;
  }
}

TEST_F(ReferenceFreeRuns, OptionsOfOtherLossesAreRefused) {
  const auto refused = [&](const std::string& objective, const std::string& why) {
    EXPECT_HONE_ERROR(run_as("cpo", "a", objective), config, why);
  };
  refused("loss_type: hinge, label_smoothing: 0.1", "only with loss_type sigmoid or simpo");
  refused("simpo_gamma: 0.5", "only with loss_type simpo");
  refused("alpha: 0.25", "only with loss_type ipo or simpo");
  refused("reference: x", "no such option");
  refused("loss_type: simpo, alpha: 3", "alpha");
}

}  // namespace
}  // namespace hone
