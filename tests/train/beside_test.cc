// What there is beside plain trained weights: frozen ones, buffers, adapters. They train, are saved, and go on bit for
// bit.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "nn/low_rank.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

struct SmallConfig {
  std::string model_type = "small";
  std::int64_t vocab_size = 259, hidden_size = 16, num_hidden_layers = 2;
  bool adapters = false;
  std::optional<std::int64_t> bos_token_id, eos_token_id, pad_token_id;
  static constexpr auto fields() {
    using C = SmallConfig;
    return std::tuple{
        field("model_type", &C::model_type, ""),     field("vocab_size", &C::vocab_size, ""),
        field("hidden_size", &C::hidden_size, ""),   field("num_hidden_layers", &C::num_hidden_layers, ""),
        field("adapters", &C::adapters, ""),         field("bos_token_id", &C::bos_token_id, ""),
        field("eos_token_id", &C::eos_token_id, ""), field("pad_token_id", &C::pad_token_id, "")};
  }
};

// x + W (x / sqrt of the running mean square of what came in).
class SmallBlock final : public Block {
 public:
  SmallBlock(const SmallConfig& config, std::int64_t index) : c(config), index_(index) {}
  Tensor forward(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training) {
      const Tensor wide = x_1ND.to(at::kFloat);
      pass.observe(mean_square, at::stack({wide.square().mean(-1).sum(), wide.new_full({}, x_1ND.size(1))}));
    }
    return x_1ND + linear(x_1ND / mean_square.use().sqrt().to(x_1ND.scalar_type()), pass);
  }
  nn::Linear& adapted() { return linear; }

 private:
  static Tensor next(const Tensor& value, const Tensor& seen) { return value * 0.5 + seen[0] / seen[1] * 0.5; }
  const SmallConfig& c;
  std::int64_t index_;
  nn::Linear& linear = child<nn::Linear>("linear", c.hidden_size, c.hidden_size, nn::Linear::Options{});
  Weight& mean_square = buffer("mean_square", {1}, {Init::Kind::ones}, next);
};

class Small final : public CausalLm {
 public:
  explicit Small(const SmallConfig& config) : c(config) {
    std::uint64_t seed = 100;
    for (const SmallBlock* block : layers.blocks())
      if (c.adapters) test::adapt(const_cast<SmallBlock*>(block)->adapted().weight, {.dropout = 0.1}, ++seed);
  }
  Tensor embed(const Batch& batch, Pass& pass) const override { return tokens(batch.ids_BT, pass); }
  std::vector<const Block*> blocks() const override { return {layers.blocks().begin(), layers.blocks().end()}; }
  Tensor finish(const Tensor& x_1ND, Pass&) const override { return norm(x_1ND); }
  const nn::Head& head() const override { return lm_head; }
  std::int64_t vocab_size() const override { return c.vocab_size; }
  std::int64_t max_positions() const override { return 1024; }
  CacheSpec cache_spec() const override { return {}; }
  config::Node hf_config() const override { return config::write(c); }

 private:
  SmallConfig c;
  nn::Embedding& tokens = child<nn::Embedding>("tokens", c.vocab_size, c.hidden_size, 0.1);
  nn::Stack<SmallBlock>& layers = child<nn::Stack<SmallBlock>>("layers", c.num_hidden_layers, c);
  nn::RmsNorm& norm = child<nn::RmsNorm>("norm", c.hidden_size, 1e-5);
  nn::Head& lm_head = child<nn::Head>("lm_head", c.hidden_size, c.vocab_size, 0.1);
};

const std::string kSmall = "{type: small}", kAdapted = "{type: small, adapters: true, trainable: [lm_head]}";

class Beside : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!registries().models.find("small")) registries().models.add<Small, SmallConfig>("small", "For tests.");
  }
  std::filesystem::path run(const std::string& name, const Overrides& overrides, const Overrides& more = {},
                            const std::vector<std::string>& override_keys = {}) {
    Overrides all{{"run.folder", (folder_ / name).string()},
                  {"data.eval.held_out", "0"},
                  {"optimizer.schedule", "{type: constant}"}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    all.insert(all.end(), more.begin(), more.end());
    TrainOptions options = test::quiet_options();
    options.override_keys = override_keys;
    train(test::small_recipe(folder_, all), options);
    return folder_ / name;
  }
  static std::map<std::string, at::Tensor> weights(const std::filesystem::path& run, std::int64_t step) {
    return test::read_tensors(run / test::step_folder(step) / "model.safetensors");
  }
  static std::map<std::string, at::Tensor> state(const std::filesystem::path& run, std::int64_t step) {
    return test::read_tensors(run / test::step_folder(step) / "state/optimizer-00000-of-00001.safetensors");
  }
  void expect_resumes(const Overrides& overrides) {
    const auto whole = run("whole", overrides, {{"trainer.steps", "8"}});
    run("parts", overrides, {{"trainer.steps", "4"}});
    run("parts", overrides, {{"trainer.steps", "8"}});
    for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
      EXPECT_TRUE(test::read_text(whole / test::step_folder(8) / file) ==
                  test::read_text(folder_ / "parts" / test::step_folder(8) / file))
          << file;
    std::filesystem::remove_all(folder_ / "whole"), std::filesystem::remove_all(folder_ / "parts");
  }
  test::TempFolder folder_;
};

TEST_F(Beside, RunsGoOnBitForBit) {
  for (const std::string& model : {kSmall, kAdapted})
    for (const char* precision : {"fp32", "bf16", "fp64"})
      for (const char* dtype : {"source", "fp32", "bf16"}) {
        SCOPED_TRACE(model + " " + precision + " saved in " + dtype);
        expect_resumes({{"model", model}, {"trainer.precision", precision}, {"trainer.save.dtype", dtype}});
      }
}

TEST_F(Beside, ABufferIsUpdatedOncePerUpdateFromAllItsMicroBatches) {
  const Overrides common{
      {"model", kSmall}, {"trainer.steps", "3"}, {"data.packing", "none"}, {"data.shuffle", "false"}};
  const auto wide = weights(run("wide", common, {{"trainer.batch_size", "8"}}), 3);
  const auto deep = weights(run("deep", common, {{"trainer.batch_size", "2"}, {"trainer.accumulate", "4"}}), 3);
  const auto again =
      weights(run("again", common, {{"trainer.batch_size", "8"}, {"trainer.checkpoint_blocks", "true"}}), 3);
  for (const char* name : {"layers.0.mean_square", "layers.1.mean_square"}) {
    EXPECT_NE(wide.at(name).item<float>(), 1) << name;
    EXPECT_NEAR(wide.at(name).item<float>(), deep.at(name).item<float>(), 1e-6) << name;
    EXPECT_TRUE(at::equal(wide.at(name), again.at(name))) << name;
  }
}

TEST_F(Beside, ABufferKeepsItsPrecision) {
  const auto folder = run("low", {{"model", kSmall}, {"trainer.precision", "bf16"}, {"trainer.steps", "3"}});
  const auto saved = weights(folder, 3);
  const at::Tensor& value = saved.at("layers.0.mean_square");
  EXPECT_EQ(value.scalar_type(), at::kFloat);
  EXPECT_NE(value.to(at::kBFloat16).to(at::kFloat).item<float>(), value.item<float>());
  EXPECT_EQ(saved.at("layers.0.linear.weight").scalar_type(), at::kBFloat16);
  for (const auto& [name, tensor] : state(folder, 3)) EXPECT_EQ(name.find("mean_square"), std::string::npos) << name;
}

// The adapter learns, and the files of the model hold the model alone.
TEST_F(Beside, AnAdapterLearnsAndTheWeightBelowItStays) {
  const auto folder = run("adapted", {{"model", kAdapted}, {"trainer.steps", "8"}});
  const auto first = weights(folder, 4), last = weights(folder, 8);
  for (const auto& [name, tensor] : last) {
    EXPECT_FALSE(name.find("lora") != std::string::npos) << name;
    EXPECT_EQ(at::equal(tensor, first.at(name)), name != "lm_head.weight" && !name.ends_with("mean_square")) << name;
  }
  const auto before = state(folder, 4), after = state(folder, 8);
  for (const char* name : {"master.layers.0.linear.lora_A.weight", "master.layers.1.linear.lora_B.weight"})
    EXPECT_FALSE(at::equal(before.at(name), after.at(name))) << name;
}

TEST_F(Beside, FrozenWeightsNeitherChangeNorHaveState) {
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    const auto folder = run(precision, {{"model.trainable", "[\"layers\\\\.1\\\\..*proj\", norm]"},
                                        {"trainer.steps", "8"},
                                        {"trainer.precision", precision}});
    const auto first = weights(folder, 4), last = weights(folder, 8);
    int frozen = 0, trained = 0;
    for (const auto& [name, tensor] : last) {
      const bool learns = name.find("norm") != std::string::npos ||
                          (name.find("layers.1.") != std::string::npos && name.find("proj") != std::string::npos);
      ++(learns ? trained : frozen);
      EXPECT_TRUE(learns || at::equal(tensor, first.at(name))) << name;
      EXPECT_EQ(state(folder, 8).contains("exp_avg." + name), learns) << name;
    }
    EXPECT_GT(frozen, 5);
    EXPECT_GT(trained, 7);
  }
}

TEST_F(Beside, AFrozenModelGoesOnBitForBit) {
  for (const char* precision : {"fp32", "bf16", "fp64"})
    for (const char* dtype : {"source", "run", "fp32", "bf16"}) {
      SCOPED_TRACE(std::string(precision) + " saved in " + dtype);
      expect_resumes(
          {{"model.trainable", "[layers.1]"}, {"trainer.precision", precision}, {"trainer.save.dtype", dtype}});
    }
}

// Weights that are trained from here on begin without moments; those that are not keep what they have become.
TEST_F(Beside, OthersMayBeTrainedFromACheckpointOn) {
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    const auto go_on = [&](const char* trainable, const char* steps) {
      return run(precision,
                 {{"model.trainable", trainable}, {"trainer.steps", steps}, {"trainer.precision", precision}}, {},
                 {"model.trainable"});
    };
    const auto folder = go_on("[\"layers\\\\.1\\\\.\", norm]", "4");
    EXPECT_HONE_ERROR(
        run(precision, {{"model.trainable", "[layers]"}, {"trainer.steps", "8"}, {"trainer.precision", precision}}),
        config, "model.trainable");
    go_on("[\"layers\\\\.0\\\\.\", norm]", "8");
    const auto first = weights(folder, 4), last = weights(folder, 8);
    for (const auto& [name, tensor] : last) {
      const bool learns = name.find("norm") != std::string::npos || name.find("layers.0.") != std::string::npos;
      EXPECT_EQ(at::equal(tensor, first.at(name)), !learns) << name;
      EXPECT_EQ(state(folder, 8).contains("exp_avg." + name), learns) << name;
    }
  }
}

TEST_F(Beside, WhatIsTrainedIsSaidAndMistakesAreToldBefore) {
  const std::vector<std::string> lines = preflight(test::small_recipe(folder_, {{"model.trainable", "[lm_head]"}}));
  EXPECT_NE(lines.at(0).find("of them trained"), std::string::npos) << lines.at(0);
  EXPECT_HONE_ERROR(run("none", {{"model.trainable", "[lm_haed]"}}), config,
                    "model.trainable: \"lm_haed\": matches none of the model's 21 weights: ");
  EXPECT_HONE_ERROR(run("none", {{"model.trainable", "[\"(\"]"}}), config,
                    "model.trainable: got \"(\", expected a regular expression");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
}

}  // namespace
}  // namespace hone
