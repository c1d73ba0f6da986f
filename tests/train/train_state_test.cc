// TrainState: a loop of one's own gives a run's bits; what a state is made of, how it is changed, saved and loaded.
#include "hone/train_state.h"

#include <gtest/gtest.h>

#include "train/by_hand.h"

namespace hone {
namespace {

using test::Overrides;
using test::Pieces;
using test::train_by_hand;

void expect_same_tensors(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto one = test::read_tensors(a), other = test::read_tensors(b);
  ASSERT_EQ(one.size(), other.size()) << a << " and " << b;
  for (const auto& [name, tensor] : one) {
    ASSERT_TRUE(other.contains(name)) << name;
    EXPECT_TRUE(at::equal(tensor, other.at(name))) << name;
  }
}

struct HandCase {
  std::string name;
  Overrides overrides;
};
class ByHand : public ::testing::TestWithParam<HandCase> {
 protected:
  Recipe recipe() {
    Overrides all{{"data.eval.held_out", "0"}};
    all.insert(all.end(), GetParam().overrides.begin(), GetParam().overrides.end());
    return test::small_recipe(folder_, all);
  }
  test::TempFolder folder_;
};

TEST_P(ByHand, ALoopOfOnesOwnGivesTheRunsBits) {
  const Recipe recipe = this->recipe();
  train(recipe, test::quiet_options());
  const Pieces pieces(recipe);
  TrainState state = TrainState::create(pieces.parts());
  train_by_hand(pieces, state, 10);
  EXPECT_EQ(state.step(), 10);
  state.save(folder_ / "mine", {.tokenizer = pieces.tokenizer});
  const std::filesystem::path run = folder_ / "run" / test::step_folder(10), mine = folder_ / "mine";
  expect_same_tensors(run / "model.safetensors", mine / "model.safetensors");
  const char* optimizer = "state/optimizer-00000-of-00001.safetensors";
  expect_same_tensors(run / optimizer, mine / optimizer);
  EXPECT_EQ(test::read_json(run / "state/train.json")["tokens"], test::read_json(mine / "state/train.json")["tokens"]);
  EXPECT_EQ(test::read_text(run / "config.json"), test::read_text(mine / "config.json"));
}

TEST_P(ByHand, SavedAndLoadedItGoesOnExactly) {
  const Pieces whole(recipe()), parted(recipe());
  TrainState state = TrainState::create(whole.parts());
  train_by_hand(whole, state, 10);
  state.save(folder_ / "whole");
  TrainState first = TrainState::create(parted.parts());
  train_by_hand(parted, first, 4);
  first.save(folder_ / "parts");
  TrainState second = TrainState::load((folder_ / "parts").string());
  EXPECT_EQ(second.step(), 4);
  EXPECT_EQ(second.steps(), 10);
  EXPECT_EQ(second.seed(), whole.recipe.run.seed);
  EXPECT_EQ(second.tokens(), first.tokens());
  EXPECT_TRUE(second.has_optimizer_state());
  train_by_hand(parted, second, 10);
  second.save(folder_ / "parts", {.replace = true});
  for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors"})
    expect_same_tensors(folder_ / "whole" / file, folder_ / "parts" / file);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ByHand,
    ::testing::Values(
        HandCase{"fp32", {}}, HandCase{"bf16", {{"trainer.precision", "bf16"}}},
        HandCase{"accumulated", {{"trainer.accumulate", "3"}, {"trainer.batch_size", "2"}}},
        HandCase{"accumulated_bf16", {{"trainer.accumulate", "3"}, {"trainer.precision", "bf16"}}},
        HandCase{"clipped", {{"trainer.max_grad_norm", "0.05"}, {"trainer.max_grad_value", "0.01"}}},
        HandCase{"clipped_bf16", {{"trainer.max_grad_norm", "0.05"}, {"trainer.precision", "bf16"}}},
        HandCase{"dropout", {{"model.attention_dropout", "0.2"}, {"trainer.accumulate", "2"}}},
        HandCase{"lion", {{"optimizer", "{type: lion, learning_rate: 1e-3}"}}}),
    [](const auto& info) { return info.param.name; });

class State : public ::testing::Test {
 protected:
  State() : pieces_(test::small_recipe(folder_, {{"data.eval.held_out", "0"}})) {}
  StateParts bare() const { return {.model = pieces_.model}; }
  Tensor weight(const TrainState& state, const std::string& name) { return state.split().weights.at(name); }
  test::TempFolder folder_;
  Pieces pieces_;
  const std::string norm_ = "model.norm.weight";
};

TEST_F(State, IsMadeOfAModelOrOfAllItsParts) {
  const ModelSplit parts = TrainState::create(bare()).split();
  EXPECT_HONE_ERROR(TrainState::create({}), usage, "neither a model nor its parts");
  EXPECT_HONE_ERROR(TrainState::create({.model = pieces_.model, .weights = parts.weights}), usage,
                    "a model and weights of one");
  EXPECT_HONE_ERROR(TrainState::create({.config = parts.config}), usage, "config without weights, buffers");
  EXPECT_HONE_ERROR(TrainState::create({.weights = parts.weights}), usage,
                    "weights without config, buffers");
  EXPECT_HONE_ERROR(TrainState::create({.buffers = parts.buffers}), usage,
                    "buffers without config, weights");
  EXPECT_HONE_ERROR(TrainState::create({.config = parts.config, .weights = parts.weights}), usage,
                    "config, weights without buffers");
  const TrainState made =
      TrainState::create({.config = parts.config, .weights = parts.weights, .buffers = parts.buffers, .step = 3});
  EXPECT_EQ(made.step(), 3);
  EXPECT_TRUE(at::equal(made.split().weights.at(norm_), parts.weights.at(norm_)));
}

TEST_F(State, SaysWhatItsOptimizerLacks) {
  const auto with = [&](const auto& change) {
    StateParts parts = bare();
    change(parts);
    return TrainState::create(std::move(parts));
  };
  EXPECT_HONE_ERROR(with([](StateParts& p) { p.init_optimizer = true; }), usage,
                    "init_optimizer without an optimizer");
  EXPECT_HONE_ERROR(with([](StateParts& p) { p.optimizer_state = TensorMap(); }), usage,
                    "optimizer_state without an optimizer");
  EXPECT_HONE_ERROR(with([](StateParts& p) {
                      p.optimizer = read_optimizer("adamw"), p.init_optimizer = true, p.optimizer_state = TensorMap();
                    }),
                    usage, "init_optimizer together with optimizer_state");
  EXPECT_HONE_ERROR(with([](StateParts& p) { p.optimizer = read_optimizer("adamw"), p.init_optimizer = true; }),
                    usage, "steps: missing");
  EXPECT_HONE_ERROR(with([](StateParts& p) {
                      p.optimizer = read_optimizer("{type: adamw, schedule: {type: cosine, warmup_steps: 20}}");
                      p.init_optimizer = true, p.steps = 10;
                    }),
                    config, "warmup_steps");
  EXPECT_HONE_ERROR(with([](StateParts& p) {
                      p.optimizer = read_optimizer("adamw"), p.optimizer_state = TensorMap(), p.steps = 10;
                    }),
                    config, "exp_avg.model.norm.weight: missing");
  EXPECT_HONE_ERROR(with([](StateParts& p) { p.step = -1; }), usage, "step: got -1");
  EXPECT_HONE_ERROR(read_optimizer("{type: adamw, learning_rat: 1}"), config, "learning_rate");
}

TEST_F(State, GradientsNeedAnOptimizer) {
  TrainState state = TrainState::create(bare());
  EXPECT_FALSE(state.has_optimizer_state());
  EXPECT_HONE_ERROR(state.apply_gradients(), usage, "no optimizer with its state");
  EXPECT_HONE_ERROR(state.backward(at::ones({})), usage, "no optimizer with its state");
  EXPECT_HONE_ERROR(state.init_optimizer(), usage, "without an optimizer");
  state = std::move(state).replace({.steps = 10});
  state.init_optimizer(read_optimizer("{type: sgd, learning_rate: 0.5}"));
  EXPECT_HONE_ERROR(state.apply_gradients(), usage, "there are none");
  EXPECT_HONE_ERROR(state.backward(at::ones({})), usage, "expected a loss");
  EXPECT_EQ(state.step(), 0);
  state.skip_step();
  EXPECT_EQ(state.step(), 1);
  EXPECT_EQ(state.updates(), 0);
}

TEST_F(State, GradientsByNameMoveTheirWeightsAlone) {
  StateParts parts = bare();
  parts.optimizer = read_optimizer("{type: sgd, learning_rate: 0.5}");
  parts.init_optimizer = true, parts.steps = 10;
  TrainState state = TrainState::create(std::move(parts));
  const TensorMap before = state.split().weights;
  std::map<std::string, Tensor> copies;
  for (const auto& [name, value] : before) copies[name] = value.clone();
  state.set_gradients({{norm_, at::full({32}, 2.0)}});
  const UpdateReport report = state.apply_gradients();
  EXPECT_NEAR(report.grad_norm, 2 * std::sqrt(32.0), 1e-5);
  EXPECT_EQ(report.learning_rate, 0.5);
  for (const auto& [name, value] : state.split().weights)
    EXPECT_TRUE(at::equal(value, name == norm_ ? copies.at(name) - 1 : copies.at(name))) << name;
  EXPECT_EQ(state.step(), 1);
  EXPECT_HONE_ERROR(state.set_gradients({{norm_, at::ones({31})}}), config, "got [31], expected [32]");
  EXPECT_HONE_ERROR(state.set_gradients({{"norm", at::ones({32})}}), config, "no weight that is trained");
  const Tensor now = weight(state, norm_).clone();
  state.set_gradients({{norm_, at::full({32}, NAN)}});
  EXPECT_HONE_ERROR(state.apply_gradients(), not_finite, norm_);
  EXPECT_TRUE(at::equal(weight(state, norm_), now));
  EXPECT_EQ(state.step(), 1);
}

// Adam corrects for moments that begin at zero by how many updates they have had, not the weights.
TEST_F(State, TheFirstUpdateOfAFreshOptimizerIsAFirstUpdate) {
  TrainState state = TrainState::create(pieces_.parts());
  train_by_hand(pieces_, state, 3);
  state.init_optimizer(read_optimizer("{type: adam, learning_rate: 1e-3, eps: 0, schedule: constant}"));
  const Tensor before = weight(state, norm_).clone();
  state.set_gradients({{norm_, at::full({32}, 2.0)}});
  state.apply_gradients();
  EXPECT_NEAR((before - weight(state, norm_)).mean().item<double>(), 1e-3, 1e-5);
  EXPECT_EQ(state.step(), 4);
  EXPECT_EQ(state.updates(), 1);
}

TEST_F(State, SplitAndMergedItIsTheSameModel) {
  const TrainState state = TrainState::create(bare());
  const ModelSplit parts = state.split();
  const std::unique_ptr<Model> again = merge(parts);
  again->each_weight([&](const std::string& name, Weight& weight) {
    EXPECT_TRUE(at::equal(weight.use(), parts.weights.at(name))) << name;
  });
  TensorMap others = parts.weights;
  others[norm_] = at::full({32}, 3.0);
  const std::unique_ptr<Model> other = state.merge(others);
  other->each_weight([&](const std::string& name, Weight& weight) {
    EXPECT_TRUE(at::equal(weight.use(), others.at(name))) << name;
  });
  EXPECT_FALSE(at::equal(weight(state, norm_), others.at(norm_)));
  others[norm_] = at::ones({33});
  others.erase("lm_head.weight");
  others["more"] = at::ones({1});
  EXPECT_HONE_ERROR(state.merge(others), config, norm_ + ": got [33], expected [32]");
  EXPECT_HONE_ERROR(state.merge(others), config, "more: the model has no such weight");
}

TEST_F(State, ReplacesOnePartAndKeepsTheOthers) {
  TrainState state = TrainState::create(pieces_.parts());
  train_by_hand(pieces_, state, 3);
  const Tensor moment = state.optimizer_state().at("exp_avg." + norm_).clone();
  state = std::move(state).replace({.step = 7, .updates = 3, .steps = 20});
  EXPECT_EQ(state.step(), 7);
  EXPECT_EQ(state.updates(), 3);
  EXPECT_EQ(state.steps(), 20);
  EXPECT_TRUE(at::equal(state.optimizer_state().at("exp_avg." + norm_), moment));
  TensorMap weights;
  for (const auto& [name, value] : state.split().weights) weights[name] = value + 1;
  state = std::move(state).replace({.weights = weights});
  EXPECT_TRUE(at::equal(weight(state, norm_), weights.at(norm_)));
  EXPECT_TRUE(at::equal(state.optimizer_state().at("exp_avg." + norm_), moment));
  state = std::move(state).replace({.precision = Precision::bf16});
  EXPECT_EQ(state.model().causal_lm()->hf_config().find("model_type")->text(), "llama");
  EXPECT_TRUE(at::equal(weight(state, norm_), weights.at(norm_)));  // masters are as they were
  EXPECT_TRUE(at::equal(state.optimizer_state().at("exp_avg." + norm_), moment));
  std::shared_ptr<Model> other = state.merge(state.split().weights);
  state = std::move(state).replace({.model = other});
  EXPECT_EQ(&state.model(), other.get());
  EXPECT_TRUE(at::equal(state.optimizer_state().at("exp_avg." + norm_), moment));
  state = std::move(state).replace({.optimizer = read_optimizer("lion")});
  EXPECT_FALSE(state.has_optimizer_state());
  EXPECT_EQ(state.optimizer().type, "lion");
  state.init_optimizer();
  EXPECT_EQ(state.step(), 7);
}

TEST_F(State, SizeIsThatOfWeightsAndOptimizer) {
  const std::uint64_t weights = 4 * static_cast<std::uint64_t>(pieces_.model->parameter_count());
  TrainState state = TrainState::create(pieces_.parts());
  EXPECT_EQ(state.size_bytes(), 3 * weights);  // AdamW: two moments
  state = std::move(state).replace({.precision = Precision::bf16});
  EXPECT_EQ(state.size_bytes(), 3 * weights + weights / 2);
  EXPECT_EQ(TrainState::create({.model = state.merge(state.split().weights)}).size_bytes(), weights);
}

TEST_F(State, IsSavedAndLoadedWithoutItsOptimizer) {
  TrainState state = TrainState::create(pieces_.parts());
  train_by_hand(pieces_, state, 3);
  state.set_data_position("{\"row\": 5}");
  state.save(folder_ / "light", {.optimizer = false});
  state.save(folder_ / "whole");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "light/state/optimizer-00000-of-00001.safetensors"));
  TrainState light = TrainState::load((folder_ / "light").string());
  EXPECT_EQ(light.step(), 3);
  EXPECT_EQ(light.optimizer().type, "adamw");
  EXPECT_FALSE(light.has_optimizer_state());
  EXPECT_EQ(nlohmann::json::parse(light.data_position()), nlohmann::json::parse("{\"row\": 5}"));
  light.init_optimizer();
  EXPECT_HONE_ERROR(TrainState::load((folder_ / "light").string(), {.require_optimizer = true}), checkpoint,
                    "no optimizer's state there");
  const TrainState bare = TrainState::load((folder_ / "whole").string(), {.optimizer = false});
  EXPECT_EQ(bare.step(), 3);
  EXPECT_TRUE(bare.optimizer().type.empty());
  EXPECT_FALSE(bare.has_optimizer_state());
  EXPECT_HONE_ERROR(state.save(folder_ / "whole"), checkpoint, "is there already");
}

TEST_F(State, ATypeOfWeightsNeverTouchesTheMoments) {
  TrainState state = TrainState::create(pieces_.parts());
  train_by_hand(pieces_, state, 3);
  state.save(folder_ / "narrow", {.dtype = SaveDtype::bf16});
  EXPECT_EQ(test::read_tensors(folder_ / "narrow/model.safetensors").at(norm_).scalar_type(), at::kBFloat16);
  const TrainState again = TrainState::load((folder_ / "narrow").string());
  for (const auto& [name, value] : state.optimizer_state())
    EXPECT_TRUE(at::equal(value, again.optimizer_state().at(name))) << name;
  for (const auto& [name, value] : state.split().weights) EXPECT_TRUE(at::equal(value, weight(again, name))) << name;
  state.save(folder_ / "rounded", {.dtype = SaveDtype::bf16, .optimizer = false});
  const TrainState rounded = TrainState::load((folder_ / "rounded").string());
  EXPECT_TRUE(at::equal(weight(rounded, norm_), weight(state, norm_).to(at::kBFloat16).to(at::kFloat)));
}

TEST_F(State, AFolderThatLacksAWeightIsLoadedOnRequest) {
  TrainState state = TrainState::create(pieces_.parts());
  train_by_hand(pieces_, state, 2);
  state.save(folder_ / "two_layers");
  // The weights of two layers beside the configuration of one.
  std::string config = test::read_text(folder_ / "two_layers/config.json");
  config.replace(config.find("\"num_hidden_layers\": 2"), 22, "\"num_hidden_layers\": 1");
  folder_.write("two_layers/config.json", config);
  EXPECT_HONE_ERROR(TrainState::load((folder_ / "two_layers").string()), checkpoint, "layers.1");
  const TrainState loose = TrainState::load((folder_ / "two_layers").string(), {.strict = false});
  EXPECT_EQ(loose.step(), 2);
  EXPECT_TRUE(at::equal(weight(loose, norm_), weight(state, norm_)));
  EXPECT_TRUE(
      at::equal(loose.optimizer_state().at("exp_avg." + norm_), state.optimizer_state().at("exp_avg." + norm_)));
}

TEST_F(State, ACheckpointOfARunIsOne) {
  Recipe recipe = pieces_.recipe;
  recipe.trainer.epochs = 1;
  recipe.trainer.steps.reset();
  recipe.trainer.ema = {.decay = 0.9};
  const Summary summary = train(recipe, test::quiet_options());
  const TrainState state = TrainState::load(summary.folder);
  EXPECT_EQ(state.step(), summary.step);
  EXPECT_EQ(state.steps(), summary.steps);
  EXPECT_EQ(state.seed(), 3U);
  EXPECT_EQ(state.tokens(), summary.tokens);
  EXPECT_TRUE(state.has_optimizer_state());
}

TEST_F(State, FrozenWeightsStayFrozen) {
  pieces_.model->each_weight(
      [](const std::string& name, Weight& weight) { weight.set_trainable(name == "lm_head.weight"); });
  TrainState state = TrainState::create(pieces_.parts());
  const Tensor before = weight(state, norm_).clone();
  train_by_hand(pieces_, state, 2);
  state.save(folder_ / "frozen");
  TrainState again = TrainState::load((folder_ / "frozen").string());
  train_by_hand(pieces_, again, 4);
  EXPECT_TRUE(at::equal(weight(again, norm_), before));
  EXPECT_FALSE(at::equal(weight(again, "lm_head.weight"), weight(state, "lm_head.weight")));
}

}  // namespace
}  // namespace hone
