// Folders of the sentence-transformers package: what they say, and what hone has not.
#include "hub/sentence_files.h"

#include <gtest/gtest.h>

#include "harness/errors.h"
#include "harness/files.h"

namespace hone::hub {
namespace {

class SentenceFiles : public ::testing::Test {
 protected:
  void put(const std::map<std::string, std::string>& files) {
    for (const auto& [name, content] : files) {
      std::filesystem::create_directories((folder_ / name).parent_path());
      folder_.write(name, content);
    }
  }
  test::TempFolder folder_;
};

TEST_F(SentenceFiles, AreReadAsTheyAreWritten) {
  EXPECT_FALSE(read_sentence_folder(folder_.path()));
  for (const nn::Pooling pooling : {nn::Pooling::mean, nn::Pooling::cls, nn::Pooling::last})
    for (const bool normalize : {false, true}) {
      SentenceFolder given{pooling, normalize, 96, {{"query", "ask: "}}, normalize ? "query" : ""};
      put(sentence_files(given, 16));
      const auto read = read_sentence_folder(folder_.path());
      ASSERT_TRUE(read);
      EXPECT_EQ(read->pooling, pooling);
      EXPECT_EQ(read->normalize, normalize);
      EXPECT_EQ(read->max_length, 96);
      EXPECT_EQ(read->prompts, given.prompts);
      EXPECT_EQ(read->default_prompt, given.default_prompt);
      EXPECT_EQ(copied_sentence_files(folder_.path()), sentence_files(given, 16));
    }
}

TEST_F(SentenceFiles, ThoseOfThePackageAreRead) {
  const auto bert = read_sentence_folder(test::golden("train/embedding/bert"));
  ASSERT_TRUE(bert);
  EXPECT_EQ(bert->pooling, nn::Pooling::mean);
  EXPECT_TRUE(bert->normalize);
  EXPECT_EQ(bert->max_length, 48);
  EXPECT_EQ(bert->prompt({"query"}), "ask: ");
  EXPECT_EQ(bert->prompt({"passage", "document"}), "say: ");
  const auto qwen = read_sentence_folder(test::golden("train/embedding/qwen3"));
  ASSERT_TRUE(qwen);
  EXPECT_EQ(qwen->pooling, nn::Pooling::last);
  EXPECT_FALSE(qwen->normalize);
  EXPECT_TRUE(qwen->prompts.empty());
}

TEST_F(SentenceFiles, WhatHoneHasNotIsRefused) {
  const auto refused = [&](const std::map<std::string, std::string>& changes, const std::string& fact) {
    put(sentence_files({.prompts = {{"query", "q "}}}, 16));
    put(changes);
    EXPECT_HONE_ERROR(read_sentence_folder(folder_.path()), checkpoint, fact);
  };
  refused({{"modules.json", R"([{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"},
                               {"path": "2_Dense", "type": "a.Dense"}])"}},
          "module \"a.Dense\": hone has Transformer, Pooling and Normalize");
  refused({{"modules.json", R"([{"path": "0_Transformer", "type": "a.Transformer"}])"}}, "expected Transformer in the");
  refused({{"modules.json", R"([{"path": "", "type": "a.Transformer"}])"}}, "no module Pooling");
  refused({{"modules.json", "[1]"}}, "a value of another kind");
  refused({{"1_Pooling/config.json", R"({"pooling_mode": "max"})"}}, "pooling_mode: got max");
  refused({{"1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})"}},
          "pooling_mode: got cls, mean");
  refused({{"1_Pooling/config.json", R"({"pooling_mode": "mean", "include_prompt": false})"}}, "include_prompt");
  refused({{"sentence_bert_config.json", R"({"do_lower_case": true})"}}, "do_lower_case");
}

}  // namespace
}  // namespace hone::hub
