// Whole generations against transformers' generate() (tools/golden/golden_generate.py): greedy ids, penalties, stop
// strings.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hone/generate.h"
#include "hone/hub.h"

namespace hone {
namespace {

const std::string kGoldens = HONE_SOURCE_DIR "/tests/golden/";

nlohmann::json read_golden(const std::string& name) {
  std::ifstream file(kGoldens + "generate/" + name);
  return nlohmann::json::parse(file);
}

GenerateConfig config_of(const nlohmann::json& golden) {
  GenerateConfig config;
  config.max_new_tokens = golden.value("max_new_tokens", 256);
  config.repetition_penalty = golden.value("repetition_penalty", 1.0);
  if (golden.contains("eos_token_id") && golden["eos_token_id"].is_number())
    config.eos_token_id = {golden["eos_token_id"].get<std::int32_t>()};
  else
    config.ignore_eos = true;
  if (golden.contains("stop")) config.stop = golden["stop"].get<std::vector<std::string>>();
  return config;
}

std::vector<std::int32_t> ids_of(const nlohmann::json& list) { return list.get<std::vector<std::int32_t>>(); }

TEST(Generator, GreedyIdsEqualTransformers) {
  const auto bytes = load_tokenizer("bytes");
  const nlohmann::json golden = read_golden("greedy.json");
  for (const auto& one : golden["cases"]) {
    SCOPED_TRACE(one["model"].get<std::string>());
    const auto model = load_model(kGoldens + "models/" + one["model"].get<std::string>(), Precision::fp32);
    Generator generator(*model, bytes);
    const auto answers = generator.generate({ids_of(one["prompt_ids"])}, config_of(one));
    EXPECT_EQ(answers[0].ids, ids_of(one["ids"]));
    EXPECT_EQ(answers[0].reason, one["eos_token_id"].is_number() ? FinishReason::eos : FinishReason::length);
  }
}

TEST(Generator, AnswersDoNotDependOnTheBatch) {
  const auto model = load_model(kGoldens + "models/llama", Precision::fp32);
  Generator generator(*model, load_tokenizer("bytes"));
  const std::vector<std::vector<std::int32_t>> prompts = {{5}, {1, 17, 42, 8}, {60, 3, 3, 71, 22, 9, 14}, {2, 3}, {7}};
  GenerateConfig config;
  config.max_new_tokens = 20;
  config.temperature = 0.9;
  config.eos_token_id = {48, 50};  // rows end at different times
  config.batch_size = 1;
  const auto alone = generator.generate(prompts, config);
  config.batch_size = 3;
  const auto together = generator.generate(prompts, config);
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(alone[i].ids, together[i].ids) << i;
  config.seed = 1;
  EXPECT_NE(generator.generate(prompts, config)[0].ids, alone[0].ids);
}

TEST(Generator, CountsTheTokensOfItsTwoPhases) {
  const auto model = load_model(kGoldens + "models/llama", Precision::fp32);
  Generator generator(*model, load_tokenizer("bytes"));
  GenerateConfig config;
  config.max_new_tokens = 6;
  config.ignore_eos = true;
  config.batch_size = 2;
  for (int again = 0; again < 2; ++again) {
    generator.generate({{5}, {1, 17, 42, 8}, {60, 3}}, config);
    EXPECT_EQ(generator.stats().prompt_tokens, 7);
    EXPECT_EQ(generator.stats().decoded_tokens, 3 * 5);
    EXPECT_GT(generator.stats().prompt_seconds, 0);
    EXPECT_GT(generator.stats().decode_seconds, 0);
  }
}

// Whoever wants to stop is asked while tokens come that have no text, too.
TEST(Generator, TellsOfEachToken) {
  const auto model = load_model(kGoldens + "models/llama", Precision::fp32);
  Generator generator(*model, load_tokenizer("none"));
  GenerateConfig config;
  config.max_new_tokens = 6;
  config.ignore_eos = true;
  std::vector<int> told(2);
  generator.generate({{5}, {1, 17}}, config, [&](std::size_t prompt, const std::string& text) {
    EXPECT_EQ(text, "");
    ++told[prompt];
  });
  EXPECT_EQ(told, (std::vector{6, 6}));
}

TEST(Generator, RefusesAnEmptyPromptAndUnknownTokens) {
  const auto model = load_model(kGoldens + "models/llama", Precision::fp32);
  Generator generator(*model, load_tokenizer("bytes"));
  EXPECT_THROW(generator.generate({{}}, {}), Error);
  EXPECT_THROW(generator.generate({{100000}}, {}), Error);
  EXPECT_THROW(generator.generate({{-1}}, {}), Error);
}

TEST(Generator, WritesStories260KTokenForToken) {
  const char* data = std::getenv("HONE_TEST_DATA");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const std::string folder = std::string(data) + "/models/stories260K";
  const auto model = load_model(folder, Precision::fp32);
  const auto tokenizer = load_tokenizer(folder);
  Generator generator(*model, tokenizer);
  const nlohmann::json golden = read_golden("stories260k.json");
  for (const auto& one : golden["cases"]) {
    const auto prompt = tokenizer->encode(one["prompt"].get<std::string>()).ids;
    EXPECT_EQ(prompt, ids_of(one["prompt_ids"]));
    const auto answer = generator.generate({prompt}, config_of(one))[0];
    EXPECT_EQ(answer.ids, ids_of(one["ids"])) << one["prompt"];
    EXPECT_EQ(one["prompt"].get<std::string>() + answer.text, one["whole_text"].get<std::string>());
  }
  for (const auto& one : golden["stops"]) {
    const auto prompt = tokenizer->encode(one["prompt"].get<std::string>()).ids;
    const auto answer = generator.generate({prompt}, config_of(one))[0];
    EXPECT_EQ(answer.ids, ids_of(one["ids"])) << one["stop"];
    EXPECT_EQ(answer.text, one["text_before"].get<std::string>());
    EXPECT_EQ(answer.reason, FinishReason::stop);
  }
}

TEST(GenerationDefaults, AreGreedyWithoutAFile) {
  EXPECT_EQ(generation_defaults("/nonexistent", 512).temperature, 0);
  const std::string folder = testing::TempDir() + "generation";
  std::system(("mkdir -p " + folder).c_str());
  std::ofstream(folder + "/generation_config.json")
      << R"({"do_sample": true, "temperature": 0.7, "eos_token_id": [3, 4],
      "top_p": 0.9, "num_beams": 1, "transformers_version": "5.0", "bos_token_id": 1})";
  const GenerateConfig config = generation_defaults(folder, 512);
  EXPECT_EQ(config.temperature, 0.7);
  EXPECT_EQ(config.top_k, 50);
  EXPECT_EQ(config.eos_token_id, (std::vector<std::int32_t>{3, 4}));
}

}  // namespace
}  // namespace hone
