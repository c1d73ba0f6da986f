// What callbacks keep: numbers, tensors and JSON, through train.json and a safetensors file and back, bit for bit.
#include "train/callback_state.h"

#include <nlohmann/json.hpp>

#include "train/hooks_for_tests.h"
#include "train/state.h"
#include "train/support.h"

namespace hone::training {
namespace {

// Visits what the test has given it.
class Keeper final : public Callback {
 public:
  std::map<std::string, double> numbers;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::map<std::string, Tensor>> groups;
  std::map<std::string, config::Node> nodes;
  void visit_state(const StateVisitor& visit) override {
    for (auto& [name, value] : numbers) visit(name, value);
    for (auto& [name, value] : tensors) visit(name, value);
    for (auto& [name, value] : groups) visit(name, value);
    for (auto& [name, value] : nodes) visit(name, value);
  }
};

config::Node json_node(const std::string& text) {
  Problems problems;
  config::Node node = config::parse_json(text, "test", problems);
  problems.raise();
  return node;
}

Keeper full_keeper() {
  Keeper keeper;
  keeper.numbers = {{"count", 3}, {"best", std::numeric_limits<double>::infinity()}};
  keeper.tensors = {{"mean", at::tensor({1.5f, -0.0f, 1e-42f})},
                    {"ids", at::arange(4, at::kLong).view({2, 2}).t()},
                    {"half", at::tensor({0.1, 0.2}).to(at::kBFloat16)},
                    {"empty", at::empty({0, 3})},
                    {"not_yet", Tensor()}};
  keeper.groups = {{"means", {{"a.weight", at::ones({2})}, {"b/odd name", at::zeros({1}, at::kDouble)}}}, {"none", {}}};
  keeper.nodes = {{"log", json_node(R"({"steps": [1, 2.5, "x", null, true], "big": 9007199254740993, "empty": {}})")}};
  return keeper;
}

// Written and read as a checkpoint has it.
CallbackStates through_files(const test::TempFolder& folder, const CallbackStates& states) {
  const config::Node json = json_node(to_json(states).dump());
  const NamedTensors tensors = tensors_of(states);
  std::filesystem::create_directories(folder / "state");
  io::replace_safetensors(Env::process(), (folder / "state" / kCallbacksFile).string(), tensors.specs(), {},
                          tensors.bytes(), ErrorKind::checkpoint);
  CallbackStates read = callbacks_from_json(json, "train.json");
  load_tensors(Env::process().open_folder(folder.path(), ErrorKind::checkpoint), read);
  return read;
}

void expect_same(const Tensor& got, const Tensor& expected) {
  ASSERT_TRUE(got.defined());
  EXPECT_EQ(got.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(at::equal(got, expected)) << got << expected;
}

TEST(CallbackState, SurvivesTheFiles) {
  const test::TempFolder folder;
  Keeper before = full_keeper(), after;
  after.numbers = {{"count", 0}, {"best", 0}, {"new", 7}};
  after.tensors = {{"mean", at::zeros({3})}, {"ids", {}}, {"half", {}}, {"empty", {}}, {"not_yet", {}}};
  after.groups = {{"means", {{"gone", at::ones({1})}}}, {"none", {}}};
  after.nodes = {{"log", {}}};
  const Tensor own = after.tensors["mean"];
  put_state(after, "0.keeper", through_files(folder, {{"0.keeper", take_state(before, "0.keeper")}}).at("0.keeper"));
  EXPECT_EQ(after.numbers, (std::map<std::string, double>{{"count", 3}, {"best", before.numbers["best"]}, {"new", 7}}));
  for (const char* name : {"mean", "ids", "half", "empty"}) expect_same(after.tensors[name], before.tensors[name]);
  EXPECT_TRUE(std::signbit(own[1].item<float>())) << "a tensor that is there is filled";
  EXPECT_EQ(own[2].item<float>(), 1e-42f);
  EXPECT_FALSE(after.tensors["not_yet"].defined());
  ASSERT_EQ(after.groups["means"].size(), 2u);
  for (const char* name : {"a.weight", "b/odd name"})
    expect_same(after.groups["means"][name], before.groups["means"][name]);
  EXPECT_EQ(config::to_json(after.nodes["log"]), config::to_json(before.nodes["log"]));
}

TEST(CallbackState, NumbersAloneAreWrittenAsTheyAlwaysWere) {
  RunState state;
  state.callbacks["0.early_stopping"] = {{"best", 1.5}, {"waited", 2.0}};
  EXPECT_EQ(nlohmann::json::parse(to_json(state))["callbacks"],
            nlohmann::json::parse(R"({"0.early_stopping": {"best": 1.5, "waited": 2.0}})"));
  EXPECT_EQ(nlohmann::json::parse(to_json(state))["version"], 1);
  state.callbacks["1.mean"]["of_all"] = at::ones({1});
  EXPECT_EQ(nlohmann::json::parse(to_json(state))["version"], 2);
}

TEST(CallbackState, WhatDoesNotFitIsSaid) {
  const test::TempFolder folder;
  Keeper before = full_keeper();
  const CallbackState saved = through_files(folder, {{"0.keeper", take_state(before, "0.keeper")}}).at("0.keeper");
  const auto put = [&](auto&& change) {
    Keeper after;
    change(after);
    put_state(after, "0.keeper", saved);
  };
  EXPECT_HONE_ERROR(put([](Keeper& k) { k.tensors["mean"] = at::zeros({4}); }), checkpoint,
                    "callback 0.keeper: \"mean\": got F32 [3], expected F32 [4]");
  EXPECT_HONE_ERROR(put([](Keeper& k) { k.tensors["mean"] = at::zeros({3}, at::kDouble); }), checkpoint,
                    "got F32 [3], expected F64 [3]");
  EXPECT_HONE_ERROR(put([](Keeper& k) { k.groups["means"]["a.weight"] = at::zeros({3}); }), checkpoint,
                    "\"means/a.weight\": got F32 [2], expected F32 [3]");
  EXPECT_HONE_ERROR(put([](Keeper& k) { k.numbers["mean"] = 0; }), checkpoint,
                    "\"mean\": got a tensor, expected a number");
  EXPECT_HONE_ERROR(put([](Keeper& k) { k.nodes["count"] = {}; }), checkpoint, "got a number, expected JSON");
  EXPECT_HONE_ERROR(put([](Keeper& k) { k.tensors["means"] = Tensor(); }), checkpoint,
                    "got tensors, expected a tensor");
}

TEST(CallbackState, AMissingTensorIsSaid) {
  const test::TempFolder folder;
  CallbackStates states = through_files(folder, {{"0.a", {{"mean", at::ones({1})}}}});
  states["1.b"]["mean"] = Tensor();
  EXPECT_HONE_ERROR(load_tensors(Env::process().open_folder(folder.path(), ErrorKind::checkpoint), states), checkpoint,
                    "1.b/mean: missing");
}

TEST(CallbackState, NamesAreCheckedWhenTheyAreTaken) {
  Keeper keeper;
  keeper.numbers["a/b"] = 1;
  EXPECT_HONE_ERROR(take_state(keeper, "0.keeper"), bug, "\"a/b\": expected a name without");
  keeper.numbers = {{"a", 1}};
  keeper.nodes = {{"a", {}}};
  EXPECT_HONE_ERROR(take_state(keeper, "0.keeper"), bug, "\"a\": this name is given twice");
}

// The run's checkpoint holds what the callback kept: here recomputed from the weights of each step's own checkpoint.
TEST(CallbackState, OfARunIsTheMeanOfItsWeights) {
  test::register_test_callbacks();
  const test::TempFolder folder;
  train(
      test::small_recipe(folder, {{"callbacks", "[weight_mean]"}, {"trainer.save.every", "1"}, {"trainer.steps", "4"}}),
      test::quiet_options());
  std::map<std::string, Tensor> mean;
  for (int step = 1; step <= 4; ++step)
    for (const auto& [name, weight] :
         test::read_tensors(folder / "run" / test::step_folder(step) / "model.safetensors"))
      mean[name] = step == 1 ? weight : mean[name] + (weight - mean[name]) / step;
  const std::filesystem::path state = folder / "run" / test::step_folder(4) / "state";
  const auto kept = test::read_tensors(state / kCallbacksFile);
  ASSERT_EQ(kept.size(), mean.size() + 1);
  for (const auto& [name, expected] : mean)
    EXPECT_TRUE(at::allclose(kept.at("0.weight_mean/means/" + name), expected, 1e-6, 1e-7)) << name;
  const nlohmann::json callbacks = test::read_json(state / "train.json")["callbacks"]["0.weight_mean"];
  EXPECT_EQ(callbacks["count"], 4);
  EXPECT_EQ(callbacks["told"]["json"].size(), 4u);
  EXPECT_EQ(callbacks["told"]["json"][3]["step"], 4);
}

// A callback that was not in the run before begins anew, also beside one that goes on.
TEST(CallbackState, OfANewCallbackIsFresh) {
  test::register_test_callbacks();
  const test::TempFolder folder;
  const auto run = [&](const char* steps, const char* callbacks) {
    train(test::small_recipe(folder, {{"trainer.steps", steps}, {"callbacks", callbacks}}), test::quiet_options());
    const auto path = folder / "run" / test::step_folder(std::atoi(steps)) / "state/train.json";
    return test::read_json(path)["callbacks"];
  };
  EXPECT_EQ(run("3", "[weight_mean]")["0.weight_mean"]["count"], 3);
  const nlohmann::json both = run("5", "[weight_mean, weight_mean]");
  EXPECT_EQ(both["0.weight_mean"]["count"], 5);
  EXPECT_EQ(both["1.weight_mean"]["count"], 2);
}

// One in front of it, or none of its kind any more: states are found by type, not by place.
TEST(CallbackState, IsFoundAgainBehindANewCallback) {
  test::register_test_callbacks();
  const test::TempFolder folder;
  std::string said;
  const auto run = [&](const char* steps, const char* callbacks) {
    const TrainOptions options = test::quiet_options();
    said.clear();
    log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
    train(test::small_recipe(folder, {{"trainer.steps", steps}, {"callbacks", callbacks}}), options);
    log::set_sink({});
    const auto path = folder / "run" / test::step_folder(std::atoi(steps)) / "state/train.json";
    return test::read_json(path)["callbacks"];
  };
  run("3", "[weight_mean]");
  const nlohmann::json behind = run("5", "[timers, {type: raise_at, step: 99}, weight_mean]");
  EXPECT_EQ(behind["2.weight_mean"]["count"], 5);
  EXPECT_EQ(said.find("kept"), std::string::npos) << said;
  EXPECT_EQ(run("6", "[weight_mean]")["0.weight_mean"]["count"], 6);
  EXPECT_NE(said.find("callback timers: what it has kept is dropped: the recipe has 0 of this type now"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace hone::training
