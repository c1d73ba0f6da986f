// The built-in tokenizer, folders, and what the files beside tokenizer.json say.
#include <gtest/gtest.h>

#include <thread>

#include "harness/errors.h"
#include "harness/files.h"
#include "text/made_golden.h"

namespace hone::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

TEST(BytesTokenizer, MapsBytesToIds) {
  const auto tokenizer = load_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(tokenizer->encode("A\xC3\xA9\n").ids, (Ids{65, 195, 169, 10}));
  EXPECT_EQ(tokenizer->encode("<|bos|>a<|eos|>").ids, (Ids{256, 97, 257}));
  EXPECT_EQ(tokenizer->bos_id, 256);
  EXPECT_EQ(tokenizer->eos_id, 257);
  EXPECT_EQ(tokenizer->pad_id, 258);
  EXPECT_FALSE(tokenizer->adds_bos);
  EXPECT_FALSE(tokenizer->adds_eos);
  EXPECT_EQ(tokenizer->encode("").ids, Ids{});
}

TEST(BytesTokenizer, TakesEveryByte) {
  const auto tokenizer = load_tokenizer("bytes");
  std::string all;
  Ids ids;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b), ids.push_back(b);
  EXPECT_EQ(tokenizer->encode(all).ids, ids);
  EXPECT_EQ(tokenizer->decode({65, 0xC3, 66, 300, -1, 257}),
            "A\xEF\xBF\xBD"
            "B");
  EXPECT_EQ(tokenizer->decode({65, 257}, false), "A<|eos|>");
}

TEST(BytesTokenizer, IsTheSameFromItsFiles) {
  const auto built_in = load_tokenizer("bytes");
  test::TempFolder folder;
  for (const auto& [name, content] : built_in->files) folder.write(name, content);
  const auto loaded = load_tokenizer(folder.path().string());
  EXPECT_EQ(loaded->fingerprint, built_in->fingerprint);
  EXPECT_EQ(loaded->files, built_in->files);
  EXPECT_EQ(loaded->eos_id, 257);
  EXPECT_EQ(loaded->encode("h\xC3\xA9<|pad|>").ids, built_in->encode("h\xC3\xA9<|pad|>").ids);
}

// A tokenizer whose ids 340 and 341 are <s> and </s>.
json with_ends() {
  json parts = {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}}}};
  parts["added_tokens"] = json::array({{{"id", 340}, {"content", "<s>"}, {"special", true}, {"normalized", false}},
                                       {{"id", 341}, {"content", "</s>"}, {"special", true}, {"normalized", false}}});
  return tokenizer_json("byte", parts);
}

TEST(LoadTokenizer, FindsIdsInTheOrderOfTheFiles) {
  ASSERT_EQ(make(with_ends())->vocab_size(), 342);
  const Files config = {
      {"tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": null, "pad_token": "</s>"})"}};
  const auto by_config =
      make(with_ends(), config, {{"generation_config.json", R"({"bos_token_id": 5, "eos_token_id": [7, 8]})"}});
  EXPECT_EQ(by_config->bos_id, 340);
  EXPECT_EQ(by_config->eos_id, 7);
  EXPECT_EQ(by_config->pad_id, 341);
  const auto by_map = make(with_ends(), {{"special_tokens_map.json", R"({"eos_token": "</s>"})"}},
                           {{"config.json", R"({"eos_token_id": 1, "bos_token_id": 999})"}});
  EXPECT_EQ(by_map->eos_id, 341);
  EXPECT_EQ(by_map->bos_id, std::nullopt) << "an id that the tokenizer does not have";
}

// tools/golden/golden_tokenizer_config.py; what its first line has, and the other lines.
const nlohmann::ordered_json& config_golden() {
  static const nlohmann::ordered_json golden = read_golden<nlohmann::ordered_json>("config.json");
  return golden;
}

// A model's configuration may have numbers that JSON does not.
TEST(LoadTokenizer, PassesOverPythonsNumbers) {
  const auto bytes = load_tokenizer("bytes");
  const std::string config = R"({"time_step_limit": [0.0, Infinity], "s": "Infinity, \"NaN", "x": [-Infinity, NaN]})";
  EXPECT_EQ(make_tokenizer(bytes->files, {{"config.json", config}}, "m")->eos_id, 257);
  EXPECT_HONE_ERROR(make_tokenizer(bytes->files, {{"config.json", R"({"x": Infinite})"}}, "m"), config, "not JSON");
}

TEST(TokenizerConfig, ItsFlagsLeaveThePostProcessorOfATokenizerJsonAsItIs) {
  const auto& all = config_golden()[0];
  int cases = 0;
  for (const auto& one : config_golden()) {
    if (!one.contains("around")) continue;
    ASSERT_EQ(one["around"].size(), 1u) << one << ": in transformers, too, no flag changes anything";
    json tokenizer(all["tokenizer"]);
    tokenizer["post_processor"] = json(all["post_processors"][one["post_processor"].get<std::string>()]);
    for (const char* bos : {"", R"(, "add_bos_token": true)", R"(, "add_bos_token": false)"})
      for (const char* eos : {"", R"(, "add_eos_token": true)", R"(, "add_eos_token": false)"}) {
        const auto made = make(
            tokenizer, {{"tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": )" +
                                                      one["class"].dump() + bos + eos + "}"}});
        const Ids ids = made->encode("ab").ids;
        EXPECT_EQ(json::array({ids.front() == 0, ids.back() == 1}), json(one["around"][0])) << one << bos << eos;
        EXPECT_EQ(json::array({made->adds_bos, made->adds_eos}), json(one["around"][0])) << one << bos << eos;
        ++cases;
      }
  }
  EXPECT_GE(cases, 9 * 40);
}

TEST(TokenizerConfig, ItsSpecialTokensAreTransformers) {
  const auto& all = config_golden()[0];
  int cases = 0;
  for (const auto& one : config_golden()) {
    if (!one.contains("ids")) continue;
    SCOPED_TRACE(one.dump());
    Files files;
    for (const auto& [name, content] : one["files"].items()) files.emplace_back(name, content.dump());
    const auto made = make(json(all["tokenizer"]), files);
    const Ids ids = made->encode(all["text"].get<std::string>()).ids;
    EXPECT_EQ(json(ids), json(one["ids"]));
    EXPECT_EQ(made->decode(ids), one["decoded"].get<std::string>());
    EXPECT_EQ(made->vocab_size(), one["tokens"].get<std::int64_t>());
    const auto id = [](const auto& maybe) { return maybe ? json(*maybe) : json(); };
    EXPECT_EQ(json::array({id(made->bos_id), id(made->eos_id), id(made->pad_id)}),
              json::array({json(one["bos"]), json(one["eos"]), json(one["pad"])}));
    ++cases;
  }
  EXPECT_GE(cases, 20);
}

TEST(TokenizerConfig, WhatIsNotSupportedIsRefused) {
  const auto with = [&](const char* config) {
    return make(json(config_golden()[0]["tokenizer"]), {{"tokenizer_config.json", config}});
  };
  EXPECT_HONE_ERROR(with(R"({"split_special_tokens": true})"), config,
                    "tokenizer_config.json: split_special_tokens: got true, expected false");
  EXPECT_EQ(with(R"({"split_special_tokens": false})")->vocab_size(), 98);
  EXPECT_HONE_ERROR(with(R"({"extra_special_tokens": "<x>"})"), config,
                    "extra_special_tokens: got string, expected a list of tokens");
  EXPECT_HONE_ERROR(with(R"({"additional_special_tokens": [7]})"), config,
                    "extra_special_tokens[0]: got number, expected a string or an object with content");
}

TEST(TokenizerConfig, AFoldersAddedTokensAreReadAndKept) {
  test::TempFolder folder;
  folder.write("tokenizer.json", config_golden()[0]["tokenizer"].dump());
  folder.write("added_tokens.json", R"({"<x>": 98})");
  const auto made = load_tokenizer(folder.path().string());
  EXPECT_EQ(made->id_of("<x>"), 98);
  ASSERT_EQ(made->files.size(), 2u);
  EXPECT_EQ(made->files[1].first, "added_tokens.json");
  folder.write("added_tokens.json", R"({"<x>": 7})");
  EXPECT_HONE_ERROR(load_tokenizer(folder.path().string()), config, "the added token \"<x>\": got id 7, expected 98");
}

TEST(LoadTokenizer, AddsTokensThatOnlyTheConfigurationHas) {
  const auto tokenizer = make(
      with_ends(),
      {{"tokenizer_config.json",
        R"({"pad_token": "[PAD]", "added_tokens_decoder": {"342": {"content": "<tool>", "special": false, "normalized": false}}})"}});
  EXPECT_EQ(tokenizer->encode("!<tool>[PAD]").ids, (Ids{0, 342, 343}));
  EXPECT_EQ(tokenizer->pad_id, 343);
  EXPECT_TRUE(tokenizer->is_special(343));
  EXPECT_FALSE(tokenizer->is_special(342));
  EXPECT_EQ(tokenizer->id_of("<tool>"), 342);
  EXPECT_EQ(tokenizer->token_of(343), "[PAD]");
}

TEST(LoadTokenizer, KeepsTheFilesThatACheckpointNeeds) {
  test::TempFolder folder;
  folder.write("tokenizer.json", with_ends().dump());
  folder.write("chat_template.jinja", "{{ messages }}");
  folder.write("model.safetensors", "not ours");
  const auto tokenizer = load_tokenizer(folder.path().string());
  ASSERT_EQ(tokenizer->files.size(), 2u);
  EXPECT_EQ(tokenizer->files[1].second, "{{ messages }}");
  EXPECT_EQ(tokenizer->fingerprint.size(), 32u);
  EXPECT_NE(tokenizer->fingerprint, make(with_ends())->fingerprint);
  EXPECT_EQ(load_tokenizer((folder / "tokenizer.json").string())->fingerprint, tokenizer->fingerprint);
}

TEST(LoadTokenizer, SaysWhatIsMissing) {
  test::TempFolder folder;
  EXPECT_HONE_ERROR(load_tokenizer((folder / "no").string()), config, "no such tokenizer; expected \"bytes\"");
  EXPECT_HONE_ERROR(load_tokenizer(folder.path().string()), config, "no tokenizer.json in this folder");
  folder.write("tokenizer.model", "x");
  EXPECT_HONE_ERROR(load_tokenizer(folder.path().string()), config,
                    "neither JSON nor a SentencePiece or tiktoken file");
  EXPECT_HONE_ERROR(load_tokenizer((folder / "tokenizer.model").string()), config, "neither JSON nor");
}

TEST(Tokenizer, IsSafeFromSeveralThreads) {
  const auto tokenizer = made("llama3");
  const std::string text = "Hello world, it's 1234 words \xE4\xBD\xA0\xE5\xA5\xBD and more of the fox";
  const Ids want = tokenizer->encode(text).ids;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(tokenizer->encode(text).ids, want);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hone::text
