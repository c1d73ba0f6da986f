// Optimizers whose moments are of projections, against galore-torch and apollo-torch (tools/golden/golden_low_rank.py).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/close.h"
#include "hone/config_read.h"
#include "hone/registry.h"
#include "train/support.h"

namespace hone {
namespace {

std::unique_ptr<Optimizer> low_rank_optimizer(nlohmann::json options, double rate) {
  const std::string type = options["type"];
  options["learning_rate"] = rate, options["schedule"] = "constant";
  options.erase("type");
  Problems problems;
  const auto read = registries().optimizers.options(type);
  read->read(config::parse_json(options.dump(), "golden", problems), problems, "");
  problems.raise();
  return registries().optimizers.make(type, *read);
}

// A state that comes back in the middle goes on to the same bits.
TEST(LowRankOptimizers, TwelveUpdatesEqualTheirReferences) {
  const std::filesystem::path path = test::golden("train/low_rank.safetensors");
  const auto tensors = test::read_tensors(path);
  const auto about = nlohmann::json::parse(Safetensors(path).metadata().at("golden"));
  for (const std::string side : {"tall", "wide"})
    for (const auto& [name, options] : about["runs"].items()) {
      SCOPED_TRACE(side + " " + name);
      std::vector<OptimizedWeight> weights{{"w", nullptr, tensors.at(side + ".start").clone(), {}, {}, true}};
      auto optimizer = low_rank_optimizer(options, about["lr"]);
      optimizer->attach(weights);
      for (std::int64_t step = 0; step < 12; ++step) {
        weights[0].gradient = tensors.at(side + ".gradients")[step].contiguous();
        optimizer->begin_update(weights, {.update = step + 1});
        optimizer->update(weights, {.update = step + 1});
        ASSERT_CLOSE(weights[0].master, tensors.at(side + "." + name)[step], (test::Tolerance{2e-5, 2e-5}))
            << "update " << step;
        if (step != 6) continue;
        std::map<std::string, at::Tensor> state;
        optimizer->each_state([&](const std::string& own, at::Tensor& tensor) { state[own] = tensor.clone(); });
        EXPECT_EQ(state.size(), name.starts_with("galore") ? 3u : 4u);
        optimizer = low_rank_optimizer(options, about["lr"]);
        optimizer->attach(weights);
        optimizer->each_state([&](const std::string& own, at::Tensor& tensor) { tensor.copy_(state.at(own)); });
      }
    }
}

// Tables, heads, norms and biases are AdamW's.
TEST(LowRankOptimizers, TrainMatricesBetweenHiddenStates) {
  for (const char* type : {"galore_adamw", "apollo"}) {
    const auto optimizer = low_rank_optimizer({{"type", type}, {"rank", 2}}, 1e-3);
    Weight table({8, 4}, {}, true), norm({4}, {}, false);
    table.set_use(WeightUse::table);
    const auto zeros = [](at::IntArrayRef shape) { return at::zeros(shape); };
    std::vector<OptimizedWeight> weights{{"table", &table, zeros({8, 4}), {}, {}, true, 0},
                                         {"norm", &norm, zeros({4}), {}, {}, false, 1},
                                         {"lm_head.weight", nullptr, zeros({8, 4}), {}, {}, true, 2},
                                         {"up.weight", nullptr, zeros({8, 4}), {}, {}, true, 3}};
    optimizer->attach(weights);
    std::set<std::string> names;
    optimizer->each_state([&](const std::string& name, at::Tensor&) { names.insert(name); });
    EXPECT_TRUE(names.contains("directions.up.weight"));
    EXPECT_FALSE(names.contains("directions.lm_head.weight") || names.contains("directions.table"));
    EXPECT_FALSE(optimizer->is_elementwise());
  }
}

}  // namespace
}  // namespace hone
