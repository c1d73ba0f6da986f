// Recipes: reading, writing, checking, and what each option means for a resumed run.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "hone/registry.h"
#include "train/layers.h"
#include "train/support.h"

namespace hone {
namespace {

void expect_classed(const std::string& path) { EXPECT_TRUE(on_resume(path)) << path << " is in no row of kRules"; }

TEST(Recipe, EveryOptionIsClassedForResume) {
  registries();
  int options = 0;
  for (const config::OptionInfo& row : config::describe(Recipe{})) {
    if (row.type == "section") continue;
    std::string path = row.path;
    for (const char* noise : {"[]", ".<name>"})
      while (path.find(noise) != std::string::npos) path.erase(path.find(noise), std::string_view(noise).size());
    expect_classed(path);
    ++options;
  }
  EXPECT_GT(options, 35);
  for (const auto& entry : registries().optimizers.entries())
    for (const config::OptionInfo& row : entry.options()->describe()) expect_classed("optimizer." + row.path);
  for (const auto& entry : registries().objectives.entries())
    for (const config::OptionInfo& row : entry.options()->describe()) expect_classed("objective." + row.path);
}

TEST(Recipe, TheClassesAreTheOnesThatTheGuideNames) {
  EXPECT_EQ(on_resume("trainer.log_every"), OnResume::free);
  EXPECT_EQ(on_resume("trainer.save.keep"), OnResume::free);
  EXPECT_EQ(on_resume("optimizer.learning_rate"), OnResume::record);
  EXPECT_EQ(on_resume("optimizer.schedule.warmup_steps"), OnResume::record);
  EXPECT_EQ(on_resume("trainer.steps"), OnResume::record);
  EXPECT_EQ(on_resume("data.eval.news.0.path"), OnResume::record);
  EXPECT_EQ(on_resume("data.eval.held_out"), OnResume::refuse);
  EXPECT_EQ(on_resume("data.train.0.path"), OnResume::refuse);
  EXPECT_EQ(on_resume("optimizer.type"), OnResume::refuse);
  EXPECT_EQ(on_resume("model.hidden_size"), OnResume::refuse);
  EXPECT_EQ(on_resume("run.seed"), OnResume::refuse);
  EXPECT_EQ(on_resume("no.such.option"), std::nullopt);
}

TEST(Recipe, WrittenAndReadAgainIsTheSame) {
  const test::TempFolder folder;
  const Recipe recipe = test::small_recipe(folder, {{"data.eval.news", folder.write("news.jsonl", "").string()},
                                                    {"callbacks", "[{type: early_stopping, metric: eval_news_loss}]"},
                                                    {"trainer.save.keep", "2"}});
  EXPECT_EQ(recipe.data.eval.files.at("news")[0].path, (folder / "news.jsonl").string());
  EXPECT_EQ(recipe.trainer.save.keep, 2);
  EXPECT_EQ(recipe.callbacks[0].type, "early_stopping");
  const std::string yaml = config::to_yaml(write_recipe(recipe));
  EXPECT_EQ(config::to_yaml(write_recipe(read_recipe(folder.write("again.yaml", yaml).string()))), yaml);
}

TEST(Recipe, AllProblemsAreReportedTogether) {
  const test::TempFolder folder;
  try {
    test::small_recipe(folder, {{"trainer.steps", "-5"}, {"optimizer.learning_rat", "1"}, {"data.packing", "tight"}});
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::config);
    for (const char* part : {"trainer.steps", "learning_rat", "learning_rate", "data.packing", "best_fit"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(Recipe, SaysWhatOneOptionCannotSay) {
  const test::TempFolder folder;
  const auto with = [&](const char* option, const char* value) {
    return test::small_recipe(folder, {{option, value}});
  };
  EXPECT_HONE_ERROR(with("model.path", "x"), config, "model.path");
  EXPECT_HONE_ERROR(with("tokenizer", "''"), config, "tokenizer");
  EXPECT_HONE_ERROR(with("data.train", "[]"), config, "data.train");
}

TEST(Recipe, SaysAllThatIsMissingAtOnce) {
  Problems problems;
  config::Node node = config::parse_yaml("{tokenizer: bytes}", "test", problems);
  EXPECT_HONE_ERROR(
      read_recipe(node), config,
      "3 problems in the configuration\n  model.path: missing: a model folder, or `type:` and sizes for a "
      "fresh model\n  data.train: missing: no file to train on\n  run.folder: missing: where the run lives; "
      "or run.name");
}

TEST(Recipe, WhatALaterLayerExcludesGivesWay) {
  const test::TempFolder folder;
  const auto read = [&](const test::Overrides& overrides) { return test::small_recipe(folder, overrides); };
  EXPECT_EQ(read({{"run.name", "tiny"}}).run.folder, "");
  EXPECT_EQ(read({{"run.name", "tiny"}}).run.name, "tiny");
  EXPECT_EQ(read({{"run.name", "tiny"}}).run.seed, 3u);
  EXPECT_EQ(read({{"trainer.epochs", "2"}}).trainer.steps, std::nullopt);
  EXPECT_HONE_ERROR(read({{"run.name", "tiny"}, {"run.folder", "x"}}), config, "not together with run.name");
  EXPECT_HONE_ERROR(read({{"trainer.epochs", "2"}, {"trainer.steps", "3"}}), config, "trainer.epochs");
  EXPECT_HONE_ERROR(read({{"run.name", "a/b"}}), config, "expected a name without a path");
  for (const char* text : {"run: out", "run: {folder: out, seed: 3}"}) {
    Problems problems;
    config::Node root = config::parse_yaml(text, "r.yaml", problems);
    training::put_over(root, config::parse_yaml("run: {name: tiny}", "s.yaml", problems));
    ASSERT_TRUE(root.find("run")->is_map());
    EXPECT_EQ(root.find("run")->find("folder"), nullptr);
  }
}

// What is set below a plain value that stands for a section leaves that value as it is.
TEST(Recipe, OptionsAreSetBelowPlainValues) {
  Problems problems;
  const std::string text = "{model: m, tokenizer: '${model}', data: {train: a.jsonl}, optimizer: adamw, run: out}";
  config::Node root = config::parse_yaml(text, "r.yaml", problems);
  training::put_over(root, config::parse_yaml("run: {seed: 2}", "s.yaml", problems));
  EXPECT_EQ(config::detail::inline_text(*root.find("run")), "{folder: out, seed: 2}");
  training::put_over(root, {{"data.train.0.weight", "2"}, {"optimizer.learning_rate", "0.5"}}, "", problems);
  training::put_over(root, {{"run", "there"}, {"run.seed", "4"}}, "environment", problems);
  EXPECT_EQ(config::detail::inline_text(root),
            "{model: m, tokenizer: ${model}, data: {train: [{path: a.jsonl, weight: 2}]}, optimizer: {type: adamw, "
            "learning_rate: 0.5}, run: {folder: there, seed: 4}}");
  config::Node reference = config::parse_yaml("{data: {train: '${files}'}, run: '?\?\?'}", "r.yaml", problems);
  training::put_over(reference, {{"run.seed", "2"}}, "", problems);
  EXPECT_EQ(config::detail::inline_text(reference), "{data: {train: ${files}}, run: {folder: ?\?\?, seed: 2}}");
}

TEST(Recipe, AModelIsAFolderOrAConfiguration) {
  const test::TempFolder folder;
  Problems problems;
  config::Node node = config::parse_yaml("{model: some/folder, data: {train: a.jsonl}, run: r}", "test", problems);
  const Recipe recipe = read_recipe(node);
  EXPECT_EQ(recipe.model.path, "some/folder");
  EXPECT_EQ(recipe.run.folder, "r");
  EXPECT_EQ(recipe.data.train[0].path, "a.jsonl");
}

}  // namespace
}  // namespace hone
