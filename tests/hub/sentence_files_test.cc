// Folders of the sentence-transformers package: what they say, and what hone has not.
#include "hub/sentence_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

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

TEST_F(SentenceFiles, WhatAFolderSaysBesidesStays) {
  constexpr const char* kPrompts = "config_sentence_transformers.json";
  put(sentence_files({.prompts = {{"query", "q "}}}, 16));
  put({{kPrompts, R"({"prompts": {"query": "q ", "passage": "p ", "sts": "s ", "none": ""}, "truncate_dim": 4,
                      "default_prompt_name": "sts", "similarity_fn_name": "dot", "extra": 3})"}});
  const auto before = read_sentence_folder(folder_.path());
  ASSERT_TRUE(before);
  EXPECT_EQ(before->dims, 4);
  EXPECT_EQ(before->similarity, "dot");
  EXPECT_EQ(before->default_prompt, "sts");
  const auto kept = [&](const std::string& query, const std::string& document) {
    auto files = sentence_files({.prompts = {{"query", query}, {"document", document}}}, 16);
    keep_settings(folder_.path(), files);
    return nlohmann::json::parse(files.at(kPrompts));
  };
  const nlohmann::json source = nlohmann::json::parse(std::ifstream(folder_ / kPrompts));
  EXPECT_EQ(kept("q ", "p "), source);
  nlohmann::json changed = source;
  changed["prompts"]["query"] = "Q ";
  EXPECT_EQ(kept("Q ", "p "), changed);
  changed["prompts"]["document"] = changed["prompts"]["passage"] = "";
  EXPECT_EQ(kept("Q ", ""), changed);
  put({{kPrompts, R"({"prompts": {"none": ""}, "default_prompt_name": "none"})"}});
  EXPECT_EQ(read_sentence_folder(folder_.path())->default_prompt, "");
}

TEST_F(SentenceFiles, WhatHoneHasNotIsRefused) {
  const auto refused = [&](const std::map<std::string, std::string>& changes, const std::string& fact) {
    put(sentence_files({.prompts = {{"query", "q "}}}, 16));
    put(changes);
    EXPECT_HONE_ERROR(read_sentence_folder(folder_.path()), checkpoint, fact);
  };
  refused({{"modules.json", R"([{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"},
                               {"path": "2_Router", "type": "a.Router"}])"}},
          "module \"a.Router\": hone has Transformer, Pooling, Dense, LayerNorm and Normalize");
  refused({{"modules.json", R"([{"path": "0_Transformer", "type": "a.Transformer"}])"}}, "expected Transformer in the");
  refused({{"modules.json", R"([{"path": "", "type": "a.Transformer"}])"}}, "no module Pooling");
  refused({{"modules.json", "[1]"}}, "a value of another kind");
  const std::string first = R"([{"path": "", "type": "a.Transformer"}, )",
                    pooling = R"({"path": "1_Pooling", "type": "a.Pooling"})",
                    normalize = R"({"path": "2_Normalize", "type": "a.Normalize"})";
  for (const std::string& others : {normalize + ", " + pooling, pooling + ", " + pooling,
                                    pooling + ", " + normalize + ", " + normalize})
    refused({{"modules.json", first + others + "]"}}, "in this order; all but Dense and LayerNorm once");
  constexpr const char* kPrompts = "config_sentence_transformers.json";
  refused({{kPrompts, R"({"prompts": {"a": "b"}, "default_prompt_name": "c"})"}}, "default_prompt_name: got \"c\"");
  refused({{kPrompts, R"({"truncate_dim": 0})"}}, "truncate_dim: got 0");
  refused({{"1_Pooling/config.json", R"({"pooling_mode": "max"})"}}, "pooling_mode: got max");
  refused({{"1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})"}},
          "pooling_mode: got cls, mean");
  refused({{"1_Pooling/config.json", R"({"pooling_mode": "mean", "include_prompt": false})"}}, "include_prompt");
  refused({{"sentence_bert_config.json", R"({"do_lower_case": true})"}}, "do_lower_case");
}

}  // namespace
}  // namespace hone::hub
