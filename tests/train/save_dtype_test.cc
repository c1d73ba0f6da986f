// The type of the weights in checkpoints: as the model came, from the exact masters, and a run goes on from any.
#include <gtest/gtest.h>

#include "hone/hub.h"
#include "hub/save.h"
#include "train/save_types.h"
#include "train/support.h"

namespace hone {
namespace {

using test::Overrides;

class SavedTypes : public ::testing::Test {
 protected:
  // A model folder whose weights are of this type, and two of them of another.
  std::string make_model(at::ScalarType type, std::optional<at::ScalarType> norms = {}) {
    config::Node hf = config::Node::map();
    for (const auto& [key, value] : test::small_recipe(folder_).model.config)
      hf.at_or_add(key == "type" ? "model_type" : key) = value.node;
    hf.at_or_add("vocab_size") = config::Values<std::int64_t>::write(259);
    const auto model = build_model(hf, "config.json");
    init_weights(*model, 5, Precision::fp32);
    const auto tokenizer = load_tokenizer("bytes");
    const std::filesystem::path path =
        folder_ / (std::string("model-") + c10::toString(type) + (norms ? "-mixed" : ""));
    hub::SavedWeights weights = hub::weights_of(*model);
    for (hub::SavedWeight& weight : weights)
      weight.type = norms && weight.name.ends_with("layernorm.weight") ? *norms : type;
    io::FolderCommit commit = io::commit_to(path, false);
    hub::add_model(commit, weights, hub::model_files(*model, "", tokenizer.get(), {.type = type}));
    commit.commit({});
    return path.string();
  }
  Summary run(const std::string& name, const std::string& model, Overrides overrides = {}) {
    overrides.emplace_back("trainer.eval_every", "0");
    overrides.emplace_back("data.eval.held_out", "0");
    overrides.emplace_back("run.folder", (folder_ / name).string());
    Recipe recipe = test::small_recipe(folder_, overrides);
    if (!model.empty()) recipe.model.config.clear(), recipe.model.path = model, recipe.tokenizer.clear();
    return train(recipe, test::quiet_options());
  }
  std::map<std::string, at::Tensor> weights(const std::string& name, std::int64_t step = 10) const {
    return test::read_tensors(folder_ / name / test::step_folder(step) / "model.safetensors");
  }
  std::map<std::string, at::Tensor> state(const std::string& name, std::int64_t step = 10) const {
    return test::read_tensors(folder_ / name / test::step_folder(step) / "state/optimizer-00000-of-00001.safetensors");
  }
  std::string config_dtype(const std::string& name) const {
    return test::read_json(folder_ / name / test::step_folder(10) / "config.json").at("dtype");
  }
  test::TempFolder folder_;
};

TEST_F(SavedTypes, WhatCameInFp32GoesOutInFp32FromItsMasters) {
  const std::string model = make_model(at::kFloat);
  run("source", model, {{"trainer.precision", "bf16"}});
  run("run", model, {{"trainer.precision", "bf16"}, {"trainer.save.dtype", "run"}});
  const auto exported = weights("source"), rounded = weights("run"), masters = state("run");
  ASSERT_FALSE(exported.empty());
  for (const auto& [name, weight] : exported) {
    EXPECT_EQ(weight.scalar_type(), at::kFloat) << name;
    EXPECT_TRUE(at::equal(weight, masters.at("master." + name))) << name;
    EXPECT_TRUE(at::equal(weight.to(at::kBFloat16), rounded.at(name))) << name;
    EXPECT_FALSE(state("source").contains("master." + name)) << "stored twice: " << name;
  }
  EXPECT_EQ(config_dtype("source"), "float32");
  EXPECT_EQ(config_dtype("run"), "bfloat16");
}

TEST_F(SavedTypes, EachWeightHasTheTypeThatItCameIn) {
  const std::string model = make_model(at::kBFloat16, at::kFloat);
  run("mixed", model, {{"trainer.precision", "bf16"}});
  for (const auto& [name, weight] : weights("mixed"))
    EXPECT_EQ(weight.scalar_type(), name.ends_with("layernorm.weight") ? at::kFloat : at::kBFloat16) << name;
  EXPECT_EQ(config_dtype("mixed"), "bfloat16");
  run("half", make_model(at::kHalf), {{"trainer.precision", "bf16"}});
  for (const auto& [name, weight] : weights("half")) EXPECT_EQ(weight.scalar_type(), at::kFloat) << name;
  run("fresh", "", {{"trainer.precision", "bf16"}});
  for (const auto& [name, weight] : weights("fresh")) EXPECT_EQ(weight.scalar_type(), at::kBFloat16) << name;
}

// Also when the type is changed on the way, and when the folder that the model came from has gone.
TEST_F(SavedTypes, ARunGoesOnExactlyFromAnyType) {
  for (const char* precision : {"bf16", "fp32"}) {
    const std::string model = make_model(at::kFloat), moved = folder_ / "gone";
    const Overrides common = {{"trainer.precision", precision}, {"optimizer.schedule", "constant"}};
    const auto with = [&](Overrides more) {
      more.insert(more.end(), common.begin(), common.end());
      return more;
    };
    run("whole", model, common);
    run("parts", model, with({{"trainer.steps", "3"}}));
    EXPECT_EQ(run("parts", model, with({{"trainer.steps", "6"}, {"trainer.save.dtype", "bf16"}})).resumed_from, 3);
    EXPECT_EQ(weights("parts", 6).begin()->second.scalar_type(), at::kBFloat16);
    std::filesystem::rename(model, moved);
    EXPECT_EQ(run("parts", model, common).resumed_from, 6);
    for (const auto& [name, weight] : weights("whole"))
      EXPECT_TRUE(at::equal(weight, weights("parts").at(name))) << name;
    for (const auto& [name, tensor] : state("whole")) EXPECT_TRUE(at::equal(tensor, state("parts").at(name))) << name;
    EXPECT_EQ(state("whole").size(), state("parts").size());
    std::filesystem::rename(moved, model);
    for (const std::string folder : {"whole", "parts", "model-Float"}) std::filesystem::remove_all(folder_ / folder);
  }
}

TEST_F(SavedTypes, AreSaidInOneLine) {
  using training::SaveTypes;
  const auto text = [](SaveDtype wanted, Precision run, training::SourceTypes source) {
    return SaveTypes(wanted, run, std::move(source)).text();
  };
  EXPECT_EQ(text(SaveDtype::source, Precision::bf16, {{"*", "F32"}}),
            "checkpoints are saved in fp32, as the model came");
  EXPECT_EQ(text(SaveDtype::source, Precision::bf16, {}), "checkpoints are saved in bf16, as the run computes");
  EXPECT_EQ(text(SaveDtype::run, Precision::bf16, {{"*", "F32"}}),
            "checkpoints are saved in bf16, as the run computes");
  EXPECT_EQ(text(SaveDtype::source, Precision::fp32, {{"*", "BF16"}, {"a", "F32"}}),
            "checkpoints are saved in bf16 (1 weight in other types), as the model came");
  EXPECT_EQ(text(SaveDtype::bf16, Precision::fp32, {{"*", "F32"}}),
            "checkpoints are saved in bf16, as trainer.save.dtype says");
  const std::string model = make_model(at::kFloat);
  Recipe recipe = test::small_recipe(folder_, {{"trainer.precision", "bf16"}});
  recipe.model.config.clear(), recipe.model.path = model;
  const std::vector<std::string> lines = preflight(recipe);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "checkpoints are saved in fp32, as the model came"), 1);
}

TEST_F(SavedTypes, AModelThatIsNotFiniteDoesNotStart) {
  const std::string model = make_model(at::kFloat), file = model + "/model.safetensors";
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-4, std::ios::end);
    bytes.write("\377\377\377\177", 4);
  }
  EXPECT_HONE_ERROR(run("run", model), not_finite, model + ": weight ");
  EXPECT_HONE_ERROR(run("run", model), not_finite, ": 1 of ");
  EXPECT_TRUE(!std::filesystem::exists(folder_ / "run/checkpoints") ||
              std::filesystem::is_empty(folder_ / "run/checkpoints"));
}

}  // namespace
}  // namespace hone
