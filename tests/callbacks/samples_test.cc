// Samples at intervals: what is asked for is written, once, and training does not notice.
#include <gtest/gtest.h>

#include <csignal>

#include "base/log.h"
#include "dist/ranks.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

class SamplesTest : public test::RunsWithCallbacks {
 protected:
  std::vector<nlohmann::json> lines(const std::string& name, const std::string& file = "samples.jsonl") {
    std::vector<nlohmann::json> all;
    std::istringstream text(test::read_text(folder_ / name / file));
    for (std::string line; std::getline(text, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
  std::vector<int> steps(const std::string& name) {
    std::vector<int> all;
    for (const auto& line : lines(name)) all.push_back(line["step"]);
    return all;
  }
};

constexpr const char* kTwo =
    "[{type: samples, every: 4, prompts: ['The 3', 'The 7'], max_new_tokens: 6, after_evaluation: true}]";

TEST_F(SamplesTest, ChangeNoNumberOfTheRun) {
  run("off", "[]");
  run("on", "[{type: samples, every: 2, from: train, prompts: [The], do_sample: true, num_return_sequences: 2}]");
  for (const char* file : {"model.safetensors", "state/optimizer-00000-of-00001.safetensors", "trainer_state.json"})
    EXPECT_TRUE(test::read_text(folder_ / "off" / test::step_folder(10) / file) ==
                test::read_text(folder_ / "on" / test::step_folder(10) / file))
        << file;
  EXPECT_EQ(test::fixed_metrics_of(folder_ / "off"), test::fixed_metrics_of(folder_ / "on"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "off/samples.jsonl"));
}

TEST_F(SamplesTest, AreWrittenAtTheirStepsAndAfterEvaluations) {
  run("at", kTwo);
  EXPECT_EQ(steps("at"), (std::vector<int>{4, 4, 5, 5, 8, 8, 10, 10}));
  run("only", "[{type: samples, after_evaluation: true, prompts: [The]}]");
  EXPECT_EQ(steps("only"), (std::vector<int>{5, 10}));
}

// At the steps the weights that are trained, after an evaluation the averages that it was of.
TEST_F(SamplesTest, AveragesAreSampledBesideTheWeights) {
  const test::Overrides ema{{"trainer.ema", "0.9"}, {"trainer.save.every", "5"}};
  const char* both = "[{type: samples, every: 5, prompts: [The], max_new_tokens: 12, after_evaluation: true}]";
  run("averages", both, ema);
  const auto made = lines("averages");
  ASSERT_EQ(made.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(made[i]["step"], i < 2 ? 5 : 10);
    EXPECT_EQ(made[i].value("weights", "trained"), i % 2 == 0 ? "trained" : "average");
  }
  run("parts", both, {{"trainer.ema", "0.9"}, {"trainer.save.every", "5"}, {"trainer.steps", "7"},
                      {"optimizer.schedule", "constant"}});
  run("whole", both, {{"trainer.ema", "0.9"}, {"trainer.save.every", "5"}, {"optimizer.schedule", "constant"}});
  std::filesystem::remove_all(folder_ / "parts" / test::step_folder(7));
  run("parts", both, {{"trainer.ema", "0.9"}, {"trainer.save.every", "5"}, {"optimizer.schedule", "constant"}});
  EXPECT_EQ(lines("parts"), lines("whole"));
}

// The text is what `hone generate` makes of the checkpoint of that step.
TEST_F(SamplesTest, AreWhatTheModelGenerates) {
  run("texts",
      "[{type: samples, every: 8, prompts: ['The 3', 'Th'], max_new_tokens: 12, do_sample: true, temperature: 0.7, "
      "top_k: 5, top_p: 0.9, seed: 4, num_return_sequences: 2}]");
  const std::filesystem::path checkpoint = folder_ / "texts" / test::step_folder(8);
  const auto tokenizer = load_tokenizer("bytes");
  const auto model = build_model(config::read_file(checkpoint / "config.json"), checkpoint / "config.json");
  load_weights(*model, checkpoint, Precision::fp32);
  GenerateConfig config;
  config.max_new_tokens = 12, config.temperature = 0.7, config.top_k = 5, config.top_p = 0.9, config.seed = 4;
  const auto one = tokenizer->encode("The 3").ids, other = tokenizer->encode("Th").ids;
  const auto expected = Generator(*model, tokenizer).generate({one, one, other, other}, config);
  const auto made = lines("texts");
  ASSERT_EQ(made.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(made[i]["text"], nlohmann::json::parse(nlohmann::json(expected[i].text).dump(
                                   -1, ' ', false, nlohmann::json::error_handler_t::replace)));
    EXPECT_EQ(made[i]["sample"], i % 2);
    EXPECT_EQ(made[i]["prompt"], i < 2 ? "The 3" : "Th");
    EXPECT_EQ(made[i]["tokens"], expected[i].ids.size());
  }
  EXPECT_NE(made[0]["text"], made[1]["text"]);
}

TEST_F(SamplesTest, PromptsOfTheDataAreTheBeginningsOfTexts) {
  run("data", "[{type: samples, every: 10, from: eval, count: 3, prompt_share: 0.25, max_new_tokens: 2}]");
  const std::string all = test::story_lines(60);
  ASSERT_EQ(lines("data").size(), 3u);
  for (const auto& line : lines("data")) {
    EXPECT_EQ(line["from"], "held_out");
    const std::string prompt = line["prompt"], rest = line["reference"];
    EXPECT_NE(all.find(prompt + rest), std::string::npos) << line;
    EXPECT_NEAR(static_cast<double>(prompt.size()), 0.25 * static_cast<double>(prompt.size() + rest.size()), 1.5);
  }
}

TEST_F(SamplesTest, PromptsOfConversationsEndWhereTheAnswerBegins) {
  std::string records;
  for (int i = 0; i < 40; ++i)
    records += nlohmann::json{{"messages",
                               {{{"role", "user"}, {"content", "say " + std::to_string(i)}},
                                {{"role", "assistant"}, {"content", std::to_string(i) + "!"}}}}}
                   .dump() +
               "\n";
  const std::string file = folder_.write("chat.jsonl", records).string();
  const test::Overrides chat{{"data.train", file}, {"data.chat_template", "zephyr"}, {"data.max_length", "128"}};
  run("chat",
      "[{type: samples, every: 10, from: train, count: 2, prompts: ['say 7'], chat: true, system: Be brief.}]", chat);
  const auto made = lines("chat");
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(made[0]["prompt"], "say 7");
  for (std::size_t i = 1; i < 3; ++i) {
    const std::string prompt = made[i]["prompt"], reference = made[i]["reference"];
    EXPECT_TRUE(prompt.ends_with("<|assistant|>\n")) << prompt;
    EXPECT_NE(prompt.find("say " + reference.substr(0, reference.find('!'))), std::string::npos) << made[i];
  }
  EXPECT_HONE_ERROR(run("none", "[{type: samples, every: 1, prompts: [a], chat: true}]"), config,
                    "the tokenizer has no chat template");
}

TEST_F(SamplesTest, AResumedRunHasNoLineTwice) {
  run("whole", kTwo, {{"optimizer.schedule", "constant"}});
  run("again", kTwo, {{"trainer.steps", "7"}, {"optimizer.schedule", "constant"}, {"trainer.eval_every", "5"}});
  std::filesystem::remove_all(folder_ / "again" / test::step_folder(7));  // as if it had been killed after step 5
  run("again", kTwo, {{"trainer.steps", "10"}, {"optimizer.schedule", "constant"}});
  EXPECT_EQ(lines("again"), lines("whole"));
}

TEST_F(SamplesTest, AFreshRunInTheFolderOfOneWithoutCheckpointBeginsAnew) {
  folder_.write("anew/samples.jsonl", "{\"step\": 0, \"text\": \"of a killed process\"}\n");
  run("anew", kTwo);
  EXPECT_EQ(steps("anew").front(), 4);
}

TEST_F(SamplesTest, WhatGoesWrongIsAWarningAndTheRunGoesOn) {
  std::string said;
  log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
  folder_.write("blocked/samples.jsonl/file", "");  // a folder of that name
  std::filesystem::create_directories(folder_ / "blocked");
  EXPECT_HONE_ERROR(run("blocked", kTwo), checkpoint, "samples.jsonl");  // what is there at the start is told at once
  said.clear();
  EXPECT_HONE_ERROR(run("poisoned", "[{type: poison, step: 4}, {type: samples, every: 4, prompts: [The]}]"), not_finite,
                    "");
  EXPECT_NE(said.find("step 4: no samples: "), std::string::npos) << said;
  EXPECT_TRUE(lines("poisoned").empty());
}

TEST_F(SamplesTest, ASignalPutsThemOffUntilTheRunGoesOn) {
  const char* const both = "[{type: raise_at, step: 4}, {type: samples, every: 4, prompts: [The]}]";
  const Summary made = run("signal", both);
  EXPECT_EQ(made.stopped_by, "SIGTERM");
  EXPECT_EQ(made.step, 4);
  EXPECT_TRUE(steps("signal").empty());
  run("signal", both);
  run("whole", "[{type: samples, every: 4, prompts: [The]}]");
  EXPECT_EQ(steps("signal"), (std::vector<int>{4, 8}));
  EXPECT_EQ(lines("signal"), lines("whole"));
}

TEST_F(SamplesTest, MistakesAreToldBeforeTheFirstStep) {
  const auto refuses = [&](const std::string& options, const std::string& why) {
    EXPECT_HONE_ERROR(run("refused", "[{type: samples, " + options + "}]"), config, why);
  };
  refuses("prompts: [a]", "every");
  refuses("every: 1", "prompts");
  refuses("every: 1, prompts: [a], temperature: 0.5", "only with do_sample");
  refuses("every: 1, prompts: [a], num_return_sequences: 2", "only with do_sample");
  refuses("every: 1, prompts: [a], system: b", "only with chat");
  refuses("every: 1, from: nowhere", "expected one of train, eval, held_out");
  refuses("every: 1, prompts: [a], file: metrics.jsonl", "of none of the run's own files");
  refuses("every: 1, prompts: [a], file: a/b", "expected a name without a path");
  test::on_ranks(2, [&](const World& world) {
    TrainOptions options = test::quiet_options();
    options.world = world, options.handle_signals = false;
    const Recipe recipe = test::small_recipe(
        folder_, {{"run.folder", (folder_ / "shared").string()}, {"trainer.accumulate", "2"}, {"parallel.fsdp", "2"},
                  {"callbacks", "[{type: samples, every: 1, prompts: [a]}]"}});
    EXPECT_HONE_ERROR(train(recipe, options), config, "not with parallel.fsdp");
  });
}

}  // namespace
}  // namespace hone
