// Answers by beams against transformers' generate() (tools/golden/golden_seq2seq.py), and what is forbidden of answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "models/seq2seq.h"

namespace hone::test {
namespace {

const std::string kFolders = HONE_SOURCE_DIR "/tests/golden/";

GenerateConfig beam_config(const nlohmann::json& given) {
  GenerateConfig config;
  config.max_new_tokens = given.at("max_new_tokens");
  config.eos_token_id = given.at("eos_token_id").get<std::vector<std::int32_t>>();
  config.num_beams = given.value("num_beams", 1);
  config.length_penalty = given.value("length_penalty", 1.0);
  config.no_repeat_ngram_size = given.value("no_repeat_ngram_size", 0);
  config.min_length = given.value("min_length", 0), config.min_new_tokens = given.value("min_new_tokens", 0);
  config.repetition_penalty = given.value("repetition_penalty", 1.0);
  config.suppress_tokens = given.value("suppress_tokens", std::vector<std::int32_t>());
  if (given.contains("forced_bos_token_id")) config.forced_bos_token_id = given["forced_bos_token_id"];
  if (given.contains("forced_eos_token_id")) config.forced_eos_token_id = given["forced_eos_token_id"];
  const nlohmann::json early = given.value("early_stopping", nlohmann::json(false));
  config.early_stopping = early == "never" ? EarlyStopping::never
                          : early == true  ? EarlyStopping::yes
                                           : EarlyStopping::no;
  return config;
}

TEST(Beams, AnswersEqualTransformers) {
  std::ifstream file(kFolders + "generate/beams.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  std::size_t by_beams = 0;
  for (const nlohmann::json& one : golden["cases"]) {
    SCOPED_TRACE(one["model"].get<std::string>() + " " + one["options"].dump());
    const auto model = load_model(kFolders + one["model"].get<std::string>(), Precision::fp32);
    Generator generator(*model, load_tokenizer("bytes"));
    const GenerateConfig config = beam_config(one["options"]);
    by_beams += config.num_beams > 1;
    const auto prompts = one["prompts"].get<std::vector<std::vector<std::int32_t>>>();
    const auto answers = generator.generate(prompts, config);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ(answers[i].ids, one["answers"][i].get<std::vector<std::int32_t>>()) << "prompt " << i;
  }
  EXPECT_GT(by_beams, 20u);
}

TEST(Beams, AreNotDrawnAndEndAtTokens) {
  const auto model = load_model(kFolders + "models/llama", Precision::fp32);
  Generator generator(*model, load_tokenizer("bytes"));
  GenerateConfig config;
  config.num_beams = 3, config.temperature = 1;
  EXPECT_HONE_ERROR(generator.generate({{5, 6}}, config), config, "temperature: not with num_beams");
  config.temperature = 0, config.stop = {"x"};
  EXPECT_HONE_ERROR(generator.generate({{5, 6}}, config), config, "stop: not with num_beams");
}

// Searches end at different times, and prompts are of different lengths.
TEST(Beams, AnswersAreThoseOfEachPromptAlone) {
  std::set<std::size_t> lengths;
  for (const char* folder : {"models/llama", "seq2seq/t5-gated", "seq2seq/bart"}) {
    const auto model = load_model(std::string(kFolders) + folder, Precision::fp32);
    Generator generator(*model, load_tokenizer("bytes"));
    GenerateConfig config;
    config.num_beams = 4, config.max_new_tokens = 14, config.ignore_eos = true;
    std::vector<std::vector<std::int32_t>> prompts;
    for (int i = 0; i < 7; ++i) {
      prompts.emplace_back();
      for (int t = 0; t < 3 + 2 * (i % 4); ++t) prompts.back().push_back(3 + (11 * i + 7 * t * t + t) % 57);
    }
    const auto endless = generator.generate(prompts, config);
    config.ignore_eos = false, config.eos_token_id = {endless[0].ids[3], endless[2].ids[8], endless[5].ids[12]};
    config.batch_size = 1;
    const auto alone = generator.generate(prompts, config);
    const GenerateStats one_by_one = generator.stats();
    for (const std::int64_t together : {3, 7}) {
      config.batch_size = together;
      std::vector<std::size_t> finished;
      const auto made = generator.generate(
          prompts, config, {}, [&](std::size_t prompt, const Generated&) { finished.push_back(prompt); });
      EXPECT_EQ(finished.size(), prompts.size());
      EXPECT_EQ(generator.stats().decoded_tokens, one_by_one.decoded_tokens);
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(made[i].ids, alone[i].ids) << folder << " " << i;
        lengths.insert(alone[i].ids.size());
      }
    }
  }
  EXPECT_GT(lengths.size(), 1u);
}

// What is drawn, too, keeps to it.
TEST(Beams, WhatIsForbiddenIsNotDrawn) {
  const auto model = load_model(kFolders + "models/llama", Precision::fp32);
  Generator generator(*model, load_tokenizer("bytes"));
  GenerateConfig config;
  config.temperature = 0.3, config.max_new_tokens = 40, config.eos_token_id = {48};
  config.no_repeat_ngram_size = 1, config.suppress_tokens = {7, 9}, config.min_new_tokens = 40;
  const auto answer = generator.generate({{5, 6}}, config)[0];
  EXPECT_EQ(answer.ids.size(), 40u);
  EXPECT_EQ(std::set(answer.ids.begin(), answer.ids.end()).size(), 40u);
  EXPECT_THAT(answer.ids, testing::Not(testing::Contains(testing::AnyOf(5, 6, 7, 9, 48))));
}

}  // namespace
}  // namespace hone::test
