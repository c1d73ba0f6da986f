// What tests of runs that embed texts share: recipes of the goldens' data, steps as a golden says, and how far the
// weights of two runs are apart.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "dist/ranks.h"
#include "hone/trainer.h"
#include "train/support.h"

namespace hone::test {

inline std::filesystem::path embedding_golden(const std::string& name) { return golden("train/embedding") / name; }

// Options of an objective, from a golden's object.
inline std::string options_of(const nlohmann::json& options) {
  std::string all;
  for (const auto& [option, value] : options.items()) all += (all.empty() ? "" : ", ") + option + ": " + value.dump();
  return all;
}

class EmbeddingRuns : public ::testing::Test {
 protected:
  // The golden's file, and the objective's type.
  explicit EmbeddingRuns(const std::string& golden, std::string type = "embedding")
      : golden_(read_json(embedding_golden(golden))), type_(std::move(type)) {}

  // In file order, by SGD, as the makers do. model, data: names of goldens.
  Recipe recipe(const std::string& name, const std::string& model, const std::string& data,
                const std::string& objective, const Overrides& overrides) {
    const std::string yaml = fmt::format(
        "model: {}\ndata: {{train: {}, max_length: 48, shuffle: false, cache: none}}\n"
        "objective: {{type: {}{}{}}}\noptimizer: {{type: sgd, learning_rate: 0.003, schedule: {{type: constant}}}}\n"
        "trainer: {{precision: fp32, batch_size: 6, steps: 4, log_every: 1, max_grad_norm: 0, save: 0}}\nrun: {}\n",
        embedding_golden(model).string(), embedding_golden(data + ".jsonl").string(), type_,
        objective.empty() ? "" : ", ", objective, (folder_ / name).string());
    return read_recipe(folder_.write("recipe.yaml", yaml).string(), overrides);
  }
  std::filesystem::path run(const std::string& name, const std::string& model, const std::string& data,
                            const std::string& objective = "", const Overrides& overrides = {},
                            const TrainOptions& options = quiet_options()) {
    train(recipe(name, model, data, objective, overrides), options);
    return folder_ / name;
  }
  std::filesystem::path on_two_ranks(const std::string& name, const std::string& model, const std::string& data,
                                     const std::string& objective, const Overrides& overrides) {
    const Recipe made = recipe(name, model, data, objective, overrides);
    on_ranks(2, [&](const World& world) {
      TrainOptions own = quiet_options();
      own.handle_signals = false, own.world = world;
      train(made, own);
    });
    return folder_ / name;
  }

  // Every setting of the golden with this model.
  void expect_steps(const std::string& model) {
    for (const auto& [name, setting] : golden_["settings"].items()) {
      SCOPED_TRACE(model + ", " + name);
      const auto made = run(model + name, model, setting["data"], options_of(setting["options"]));
      expect_logged(made, golden_[model]["runs"][name]);
    }
  }
  // What each step has logged, as a golden's run.
  static void expect_logged(const std::filesystem::path& made, const nlohmann::json& expected) {
    ASSERT_TRUE(expected.is_object());
    for (const auto& [key, all] : expected.items()) {
      const std::vector<double> got = values(made, key);
      ASSERT_EQ(got.size(), all.size()) << key;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const double wanted = all[i];
        EXPECT_NEAR(got[i], wanted, 2e-4 * std::max(1.0, std::abs(wanted))) << key << ", step " << i + 1;
      }
    }
  }

  static double furthest_weight(const std::filesystem::path& a, const std::filesystem::path& b) {
    const auto one = read_tensors(a / step_folder(4) / "model.safetensors"),
               other = read_tensors(b / step_folder(4) / "model.safetensors");
    double most = 0;
    for (const auto& [name, value] : one) most = std::max(most, (value - other.at(name)).abs().max().item<double>());
    EXPECT_EQ(one.size(), other.size());
    return most;
  }
  // 12 records at once, 3 of them four times, and on two ranks, with whole models and shares of them.
  void expect_same_however_cut(const std::string& tag, const std::string& model, const std::string& data,
                               const std::string& objective) {
    const auto cut = [](const char* rows, const char* times) -> Overrides {
      return {{"trainer.batch_size", rows}, {"trainer.accumulate", times}, {"trainer.save.every", "4"}};
    };
    const auto whole = run("whole " + tag, model, data, objective, cut("12", "1")),
               four = run("four " + tag, model, data, objective, cut("3", "4")),
               two = on_two_ranks("two " + tag, model, data, objective, cut("3", "4"));
    Overrides sharded = cut("3", "4");
    sharded.emplace_back("parallel.fsdp", "2");
    const auto shares = on_two_ranks("shares " + tag, model, data, objective, sharded);
    EXPECT_LT(furthest_weight(whole, four), 1e-6);
    EXPECT_LT(furthest_weight(whole, two), 1e-6);
    EXPECT_LT(furthest_weight(whole, shares), 1e-6);
    for (const char* key : {"loss", "grad_norm"})
      for (std::size_t i = 0; i < 4; ++i) {
        const double wanted = values(whole, key).at(i), far = 2e-5 * std::max(1.0, std::abs(wanted));
        EXPECT_NEAR(wanted, values(four, key).at(i), far) << key;
        EXPECT_NEAR(wanted, values(two, key).at(i), far) << key;
      }
  }

  TempFolder folder_;
  const nlohmann::json golden_;

 private:
  std::string type_;
};

}  // namespace hone::test
