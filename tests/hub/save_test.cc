// A saved folder holds the same model, byte for byte.
#include "hub/folders.h"

#include "base/env.h"
#include "base/signals.h"
#include "hone/safetensors.h"
#include "hone/text.h"
#include "hub/copy_weights.h"

#include <gmock/gmock.h>

#include <csignal>

namespace hone::test {
namespace {

class Save : public Folders {};

std::map<std::string, Tensor> weights_of(Model& model) {
  std::map<std::string, Tensor> all;
  model.each_weight([&](const std::string& name, Weight& w) { all[name] = w.use().detach(); });
  return all;
}

TEST_F(Save, SavedAndLoadedIsTheSame) {
  for (const bool tied : {false, true})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp64}) {
      const auto model = small_model(tied, precision);
      const fs::path folder = root_ / "model";
      hub::save_model_folder(folder, *model, hub::model_files(*model, "", nullptr), {.replace = true});
      const auto again = load_model(folder.string(), precision);
      for (const auto& [name, value] : weights_of(*model))
        EXPECT_TRUE(at::equal(weights_of(*again).at(name), value)) << name;
      EXPECT_TRUE(config::diff(model->hf_config(), again->hf_config()).empty());
      hub::save_model_folder(root_ / "twice", *again, hub::model_files(*again, folder, nullptr), {.replace = true});
      for (const char* file : {"model.safetensors", "config.json", "generation_config.json"})
        EXPECT_EQ(read_text(folder / file), read_text(root_ / "twice" / file)) << file;
    }
}

TEST_F(Save, WritesShardsAndAnIndex) {
  const auto model = small_model();
  hub::ModelFiles files = hub::model_files(*model, "", nullptr);
  files.max_shard_bytes = 700;
  hub::save_model_folder(root_ / "m", *model, files, {});
  EXPECT_TRUE(fs::exists(root_ / "m" / "model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(root_ / "m" / "model.safetensors"));
  const auto again = load_model((root_ / "m").string(), Precision::fp32);
  for (const auto& [name, value] : weights_of(*model))
    EXPECT_TRUE(at::equal(weights_of(*again).at(name), value)) << name;
}

TEST_F(Save, ACopyThatASignalEndsLeavesNothing) {
  hub::save_model_folder(root_ / "model", *small_model(), {}, {});
  StopSignal::reset();
  const StopSignal signals;
  {
    io::FolderCommit commit = io::commit_to(root_ / "copy", /*replace=*/false);
    std::raise(SIGINT);
    EXPECT_THROW(hub::copy_weights(commit, root_ / "model", {}), Error);
  }
  StopSignal::reset();
  for (const auto& entry : fs::directory_iterator(root_)) EXPECT_EQ(entry.path().filename(), "model");
}

TEST_F(Save, KeepsTheGenerationConfigOfTheSource) {
  const auto model = small_model();
  write_text(root_ / "source" / "generation_config.json", R"({"top_k": 7})");
  EXPECT_EQ(hub::model_files(*model, root_ / "source", nullptr).texts[1].second, R"({"top_k": 7})");
  EXPECT_THAT(hub::model_files(*model, "", nullptr).texts[1].second, testing::HasSubstr("\"eos_token_id\": 2"));
}

// So that transformers' generate(), too, stops where a chat template ends a turn.
TEST_F(Save, AddsATurnsEndToTheGenerationConfig) {
  const auto model = small_model();
  const auto eos = [&](const std::string& source, std::int32_t end) {
    write_text(root_ / "source" / "generation_config.json", source);
    const std::string text = hub::model_files(*model, root_ / "source", nullptr, {.turn_end = end}).texts[1].second;
    return nlohmann::json::parse(text)["eos_token_id"].dump();
  };
  EXPECT_EQ(eos(R"({"top_k": 7, "eos_token_id": 3})", 5), "[3,5]");
  EXPECT_EQ(eos(R"({"eos_token_id": [3, 4]})", 5), "[3,4,5]");
  EXPECT_EQ(eos(R"({"eos_token_id": [3, 5]})", 5), "[3,5]");
  EXPECT_EQ(eos(R"({"eos_token_id": 5})", 5), "5");
  EXPECT_EQ(eos(R"({"eos_token_id": null})", 5), "[2,5]");  // 2: config.json's
  EXPECT_EQ(eos("{}", 5), "[2,5]");
  EXPECT_EQ(eos("{}", 2), "[2]");
  EXPECT_THAT(error_of([&] { eos("[1]", 5); }, ErrorKind::config),
              testing::HasSubstr("generation_config.json: expected an object"));
}

TEST_F(Save, WritesTheTokenizersFilesAlsoThoseInAFolder) {
  const auto model = small_model();
  write_text(root_ / "source" / "tokenizer.json", load_tokenizer("bytes")->files[0].second);
  write_text(root_ / "source" / "additional_chat_templates" / "rag.jinja", "a template");
  const auto tokenizer = load_tokenizer((root_ / "source").string());
  hub::save_model_folder(root_ / "m", *model, hub::model_files(*model, "", tokenizer.get()), {});
  EXPECT_EQ(read_text(root_ / "m" / "additional_chat_templates" / "rag.jinja"), "a template");
  EXPECT_EQ(load_tokenizer((root_ / "m").string())->fingerprint, tokenizer->fingerprint);
}

TEST_F(Save, AnExistingFolderStays) {
  const auto model = small_model();
  write_text(root_ / "m" / "mine.txt", "x");
  EXPECT_NE(error_of([&] { hub::save_model_folder(root_ / "m", *model, hub::model_files(*model, "", nullptr), {}); }),
            "no error");
  EXPECT_TRUE(fs::exists(root_ / "m" / "mine.txt"));
}

TEST_F(Save, MarksTheFileAsPyTorchs) {
  const auto model = small_model();
  hub::save_model_folder(root_ / "m", *model, hub::model_files(*model, "", nullptr), {});
  EXPECT_EQ(Safetensors(root_ / "m" / "model.safetensors").metadata().at("format"), "pt");
}

}  // namespace
}  // namespace hone::test
