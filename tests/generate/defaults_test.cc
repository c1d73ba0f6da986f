// generation_config.json: what it may say, and that nothing else is passed over without a word.
#include <gtest/gtest.h>

#include "base/log.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "hone/generate.h"

namespace hone {
namespace {

class Defaults : public ::testing::Test {
 protected:
  GenerateConfig read(const std::string& json) {
    folder_.write("generation_config.json", json);
    return generation_defaults(folder_.path().string(), 512);
  }
  void expect_problem(const std::string& key, const std::string& value, const std::string& says) {
    const std::string json = "{\"" + key + "\": " + value + "}";
    EXPECT_HONE_ERROR(read(json), config, "generation_config.json");
    EXPECT_HONE_ERROR(read(json), config, key + ": " + says);
  }
  // Such a file has been copied into checkpoints, where nobody may edit it: the model is to be used all the same.
  void expect_warning(const std::string& key, const std::string& value, const std::string& says) {
    std::string said;
    log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
    EXPECT_EQ(read("{\"" + key + "\": " + value + ", \"top_k\": 5}").top_k, 5) << key;
    log::set_sink({});
    EXPECT_THAT(said, ::testing::HasSubstr("generation_config.json: " + says));
  }
  test::TempFolder folder_;
};

TEST_F(Defaults, EndsAreTokensOfTheModel) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(read(R"({"eos_token_id": 2})").eos_token_id, Ids{2});
  EXPECT_EQ(read(R"({"eos_token_id": [2, 511], "bos_token_id": 0, "pad_token_id": null})").eos_token_id, (Ids{2, 511}));
  EXPECT_EQ(read(R"({"eos_token_id": null})").eos_token_id, Ids{});
  for (const char* bad : {"\"x\"", "\"2\"", "-1", "512", "99999", "1.5", "true", "[]", "[[2]]", "[2, -1]", "[2, null]",
                          "{\"id\": 2}", "99999999999999999999"})
    expect_problem("eos_token_id", bad, "got ");
  for (const char* key : {"bos_token_id", "pad_token_id", "decoder_start_token_id"})
    for (const char* bad : {"\"x\"", "-1", "512", "1.5", "false", "[1]"}) expect_problem(key, bad, "got ");
  expect_problem("eos_token_id", "99999",
                 "got 99999, expected a token of the model, 0 to 511, a list of them, or null");
  expect_problem("pad_token_id", "-1", "got -1, expected a token of the model, 0 to 511, or null for none");
}

// As transformers: of a model that has no generation_config.json.
TEST_F(Defaults, EndsAreThoseOfTheModelsConfigWhereThereIsNoFile) {
  const auto defaults = [&](const char* ends) {
    folder_.write("config.json", std::string(R"({"model_type": "llama", "eos_token_id": )") + ends + "}");
    return generation_defaults(folder_.path().string(), 512);
  };
  EXPECT_EQ(defaults("[3, 4]").eos_token_id, (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(defaults("5").eos_token_id, std::vector<std::int32_t>{5});
  EXPECT_EQ(defaults("null").eos_token_id, std::vector<std::int32_t>{});
  EXPECT_HONE_ERROR(defaults("512"), config, "config.json:1: eos_token_id: got 512");
  folder_.write("generation_config.json", "{}");
  EXPECT_EQ(defaults("5").eos_token_id, std::vector<std::int32_t>{});
}

TEST_F(Defaults, OtherKeysAreOfTheirTypeAndRange) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"temperature", "\"hot\""}, {"temperature", "-1"},       {"temperature", "true"},
           {"top_k", "-1"},            {"top_k", "1.5"},            {"top_k", "\"x\""},
           {"top_p", "1.5"},           {"min_p", "-0.1"},           {"repetition_penalty", "0"},
           {"max_new_tokens", "0"},    {"max_length", "0"},         {"max_length", "\"long\""},
           {"do_sample", "1"},         {"use_cache", "\"yes\""},    {"stop_strings", "{}"},
           {"transformers_version", "[]"}})
    expect_problem(key, value, "got ");
  const GenerateConfig config = read(R"({"do_sample": true, "temperature": 0.7, "top_k": 0, "max_length": 20,
    "use_cache": null, "transformers_version": "5.0", "max_new_tokens": 9})");
  EXPECT_EQ(config.temperature, 0.7);
  EXPECT_EQ(config.top_k, 0);
  EXPECT_EQ(config.max_new_tokens, 9);
  EXPECT_EQ(config.max_length, std::nullopt);
}

// As files have it that name every key of transformers 4.
TEST_F(Defaults, WhatDoesNothingIsPassedOver) {
  const GenerateConfig config = read(R"({"min_length": 0, "min_new_tokens": 0, "bad_words_ids": [], "sequence_bias": {},
    "suppress_tokens": [], "force_words_ids": null, "num_beams": 1, "num_assistant_tokens": 20, "is_assistant": false,
    "num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.4, "target_lookbehind": 10,
    "assistant_lookbehind": 10, "max_matching_ngram_size": null, "compile_config": {"mode": "x"}, "top_k": 5})");
  EXPECT_EQ(config.top_k, 5);
  EXPECT_TRUE(config.suppress_tokens.empty());
  EXPECT_EQ(config.num_beams, 1);
}

TEST_F(Defaults, WhatIsNotSupportedIsToldOfAndTheModelCanBeUsed) {
  const std::string without = "answers are made without what hone does not support: ";
  expect_warning("encoder_no_repeat_ngram_size", "3", without + "\"encoder_no_repeat_ngram_size\"");
  expect_warning("bad_words_ids", "[[5, 6]]", without + "\"bad_words_ids of several tokens\"");
  expect_warning("sequence_bias", "[[[5, 6], 1]]", without + "\"sequence_bias of several tokens\"");
  for (const char* seconds : {"30", "0.5", "0"}) expect_warning("max_time", seconds, without + "\"max_time\"");
  expect_warning("max_time", "null, \"penalty_alpha\": 0.6", without + "\"penalty_alpha\"");
}

// As Qwen's and Baichuan's first models have them.
TEST_F(Defaults, UnknownKeysArePassedOverWithAWarning) {
  expect_warning("chat_format", "\"chatml\", \"max_window_size\": 6144",
                 "unknown keys are passed over: \"chat_format\", \"max_window_size\"");
  expect_warning("assistant_token_id", "196", "unknown keys are passed over: \"assistant_token_id\"");
  expect_warning("temprature", "0.5", "unknown keys are passed over: \"temprature\" (did you mean temperature?)");
}

TEST_F(Defaults, BeamsAndWhatIsForbiddenAreRead) {
  const GenerateConfig config = read(R"({"num_beams": 4, "length_penalty": 2, "early_stopping": true, "min_length": 56,
    "min_new_tokens": 3, "no_repeat_ngram_size": 3, "bad_words_ids": [[5], [6]], "suppress_tokens": [7],
    "sequence_bias": [[[8], -2.5], [[9], 1]],
    "forced_bos_token_id": 0, "forced_eos_token_id": 2})");
  EXPECT_EQ(config.num_beams, 4);
  EXPECT_EQ(config.length_penalty, 2);
  EXPECT_EQ(config.early_stopping, EarlyStopping::yes);
  EXPECT_EQ(config.min_length, 56);
  EXPECT_EQ(config.min_new_tokens, 3);
  EXPECT_EQ(config.no_repeat_ngram_size, 3);
  EXPECT_EQ(config.suppress_tokens, (std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_EQ(config.logit_bias, (std::vector<std::pair<std::int32_t, double>>{{8, -2.5}, {9, 1}}));
  EXPECT_EQ(config.forced_bos_token_id, 0);
  EXPECT_EQ(config.forced_eos_token_id, 2);
  EXPECT_EQ(read(R"({"early_stopping": "never"})").early_stopping, EarlyStopping::never);
  expect_problem("bad_words_ids", "[[]]", "expected lists of tokens");
  expect_problem("bad_words_ids", "[[512]]", "expected lists of tokens");
  expect_problem("suppress_tokens", "[100000]", "expected tokens of the model");
  expect_problem("sequence_bias", "[[[512], 1]]", "expected a list of [[token of the model], number]");
  expect_problem("sequence_bias", "[[[5]]]", "expected a list of [[token of the model], number]");
  expect_problem("num_beams", "0", "got 0, expected");
}

TEST_F(Defaults, FiltersStayForATemperatureThatTheUserGives) {
  for (const char* samples : {"", R"("do_sample": false, )", R"("do_sample": true, )"}) {
    const GenerateConfig config = read(std::string("{") + samples + R"("top_k": 7, "top_p": 0.5, "min_p": 0.25})");
    EXPECT_EQ(config.top_k, 7) << samples;
    EXPECT_EQ(config.top_p, 0.5) << samples;
    EXPECT_EQ(config.min_p, 0.25) << samples;
  }
  const GenerateConfig greedy = read(R"({"top_k": null, "temperature": 0.7})");
  EXPECT_EQ(greedy.temperature, 0);  // transformers samples only where do_sample says so
  EXPECT_EQ(greedy.top_k, 0);
}

TEST_F(Defaults, MaxLengthCountsWhereMaxNewTokensIsNotSet) {
  const GenerateConfig config = read(R"({"max_length": 300})");
  EXPECT_EQ(config.max_length, 300);
  EXPECT_EQ(config.max_new_tokens, 300);
}

}  // namespace
}  // namespace hone
