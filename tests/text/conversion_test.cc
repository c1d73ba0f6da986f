// Tokens of other files, and tokens added: the tokenizer.json that comes of them.
#include "text/formats/conversion.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>

#include "harness/errors.h"
#include "harness/files.h"
#include "text/formats/base64.h"
#include "text/made_golden.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::string field(int number, std::string_view bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + std::string(bytes);
}
std::string number(int field, int value) {
  return std::string(1, static_cast<char>((field << 3) & 0x7F)) + static_cast<char>(value);
}
std::string piece(std::string_view text, float score, int type) {
  const auto bits = std::bit_cast<std::array<char, 4>>(score);
  return field(1, field(1, text) + "\x15" + std::string(bits.data(), 4) + number(3, type));
}
// model_type 3, byte_fallback 35 (two bytes of tag).
std::string trainer(int type, bool bytes) {
  return field(2, number(3, type) + std::string("\x98\x02", 2) + static_cast<char>(bytes));
}
std::string small_model(int type) {
  std::string model = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
  const std::pair<const char*, float> pieces[] = {{"\u2581", -3}, {"a", -4},           {"b", -4},
                                                  {"ab", -1},     {"\u2581ab", -0.5f}, {"c", -9}};
  for (const auto& [text, score] : pieces) model += piece(text, score, 1);
  return model + piece("<user>", 0, 4) + trainer(type, false);
}

TEST(SentencePiece, OfBothKindsCutsAsItsScoresSay) {
  for (const int type : {1, 2}) {
    ASSERT_TRUE(is_sentencepiece(small_model(type)));
    const auto tokenizer = make_tokenizer(sentencepiece_files(small_model(type), "m"), {}, "m");
    EXPECT_EQ(tokenizer->encode("ab abc").ids, (Ids{7, 7, 8})) << type;
    EXPECT_EQ(tokenizer->encode("  ab  ").ids, Ids{7}) << "blanks are squeezed";
    EXPECT_EQ(tokenizer->encode("abx<user>").ids, (Ids{7, 0, 9}));
    EXPECT_EQ(tokenizer->decode({7, 7, 8}), "ab abc");
    EXPECT_EQ(tokenizer->bos_id, 1);
    EXPECT_EQ(tokenizer->eos_id, 2);
    EXPECT_TRUE(tokenizer->is_special(2));
    EXPECT_FALSE(tokenizer->is_special(9));
  }
}

// transformers 5 takes the flags where there is no tokenizer.json. The one that is made, and kept in checkpoints, where
// it passes over them, says the same.
TEST(SentencePiece, TheFlagsBesideItBecomeThePostProcessor) {
  test::TempFolder folder;
  folder.write("tokenizer.model", small_model(1));
  const auto load = [&](const char* config) {
    folder.write("tokenizer_config.json", config);
    return load_tokenizer(folder.path().string());
  };
  const auto again = [](const Tokenizer& tokenizer) { return make_tokenizer(tokenizer.files, {}, "m"); };
  EXPECT_EQ(load(R"({"bos_token": "<s>", "eos_token": "</s>"})")->encode("ab").ids, Ids{7});
  EXPECT_EQ(load(R"({"bos_token": "<s>", "add_bos_token": false})")->encode("ab").ids, Ids{7});
  const auto first = load(R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true})");
  EXPECT_EQ(first->encode("ab").ids, (Ids{1, 7}));
  EXPECT_TRUE(first->adds_bos);
  EXPECT_EQ(again(*first)->encode("ab").ids, (Ids{1, 7}));
  const auto both =
      load(R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true, "add_eos_token": true})");
  EXPECT_EQ(both->encode("ab").ids, (Ids{1, 7, 2}));
  EXPECT_EQ(again(*both)->encode("ab").ids, (Ids{1, 7, 2}));
  const TextPair pair{"ab", "ab"};
  EXPECT_EQ(both->encode_full({&pair, 1})[0].ids, (Ids{1, 7, 2, 1, 7, 2}));
  EXPECT_EQ(both->encode_full({&pair, 1})[0].type_ids, (Ids{0, 0, 0, 1, 1, 1}));
}

// A blank came behind each, because the text behind one was taken for a text of its own.
TEST(SentencePiece, PutsNoBlankBehindAUserDefinedPiece) {
  for (const int type : {1, 2}) {
    const auto tokenizer = make_tokenizer(sentencepiece_files(small_model(type), "m"), {}, "m");
    EXPECT_EQ(tokenizer->encode("ab<user>ab").ids, (Ids{7, 9, 6})) << type;
    EXPECT_EQ(tokenizer->encode("<user>ab <user>").ids, (Ids{3, 9, 6, 3, 9})) << type;
  }
}

TEST(SentencePiece, EqualsTheLibrary) {
  const json golden = read_golden("sentencepiece.json");
  for (const auto& [name, model] : golden["models"].items()) {
    const auto tokenizer = make_tokenizer(sentencepiece_files(*from_base64(model.get<std::string>()), name), {}, name);
    for (std::size_t i = 0; i < golden["texts"].size(); ++i)
      EXPECT_EQ(tokenizer->encode(golden["texts"][i].get<std::string>(), false).ids, golden["ids"][name][i].get<Ids>())
          << name << " " << golden["texts"][i];
  }
}

TEST(SentencePiece, RefusesWhatNoTokenizerJsonCanSay) {
  const auto with = [](const std::string& more) { return small_model(2) + more; };
  EXPECT_HONE_ERROR(sentencepiece_files(with(piece("d", 0, 5)), "m"), config, "piece 10 is marked as unused");
  EXPECT_HONE_ERROR(sentencepiece_files(with(piece("<u>", 0, 2)), "m"), config, "pieces 0 and 10 are both for what is");
  EXPECT_HONE_ERROR(sentencepiece_files(with(piece("xyz", -1, 1)), "m"), config,
                    "piece 10 is not what its characters merge to");
  EXPECT_HONE_ERROR(sentencepiece_files(small_model(3), "m"), config, "got model type 3");
}

TEST(SentencePiece, RefusesDamagedFiles) {
  const std::string model = small_model(1);
  for (std::size_t size = 1; size < model.size(); ++size) try {
      make_tokenizer(sentencepiece_files(model.substr(0, size), "m"), {}, "m");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
    }
  EXPECT_HONE_ERROR(sentencepiece_files("\x0A\x7F", "file.model"), config, "file.model: not a SentencePiece model");
  EXPECT_HONE_ERROR(sentencepiece_files(piece("a", 0, 1) + trainer(3, false), "m"), config, "got model type 3");
  EXPECT_HONE_ERROR(sentencepiece_files(piece("a", 0, 1), "m"), config, "no piece for what is unknown");
  EXPECT_HONE_ERROR(sentencepiece_files(piece("<unk>", 0, 2) + piece("\xFF", 0, 1), "m"), config, "piece 1");
  EXPECT_HONE_ERROR(sentencepiece_files(piece("<unk>", std::nanf(""), 2), "m"), config, "not finite");
}

TEST(SentencePiece, EqualsTheTokenizerJsonOfTheSameModel) {
  const char* data = std::getenv("HONE_TEST_DATA");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const auto folder = std::filesystem::path(data) / "tokenizers/mistral-7b-instruct";
  const auto ours = load_tokenizer((folder / "tokenizer.model.v1").string());
  const auto theirs = load_tokenizer((folder / "tokenizer.json").string());
  EXPECT_EQ(ours->vocab_size(), theirs->vocab_size());
  const json golden = read_golden("real.json");
  for (const json& text : golden["texts"])
    EXPECT_EQ(ours->encode(text.get<std::string>(), false).ids, theirs->encode(text.get<std::string>(), false).ids)
        << text;
}

TEST(Tiktoken, NeedsAKnownNumberOfTokens) {
  EXPECT_TRUE(is_tiktoken("IQ== 0\nIg== 1\n"));
  EXPECT_FALSE(is_tiktoken("{\"a\": 1}"));
  EXPECT_FALSE(is_tiktoken("IQ= 0"));
  EXPECT_HONE_ERROR(tiktoken_files("IQ== 0\nIg== 1\n", "f.tiktoken"), config,
                    "f.tiktoken: a tiktoken file of 2 tokens does not say how texts are cut");
  EXPECT_HONE_ERROR(tiktoken_files("IQ== 0\nIg== x\n", "f"), config, "f:2: expected base64");
  EXPECT_HONE_ERROR(tiktoken_files("IQ== 0\nIQ== 1\n", "f"), config, "f:2: the token or its rank is there twice");
  EXPECT_HONE_ERROR(tiktoken_files("IQ== 99999999999\n", "f"), config, "f:1");
}

TEST(Tiktoken, HasSpecialTokensBehindHoles) {
  std::string ranks;
  auto add = [&ranks, rank = 0](const std::string& bytes) mutable {
    ranks += to_base64(bytes) + " " + std::to_string(rank++) + "\n";
  };
  for (int b = 0; b < 256; ++b) add({static_cast<char>(b)});
  for (int i = 0; i < 100'000; ++i)  // as many as cl100k has; a first byte that no text begins with
    add({'\xFF', static_cast<char>(i >> 16), static_cast<char>(i >> 8), static_cast<char>(i)});
  const auto tokenizer = make_tokenizer(tiktoken_files(ranks, "f.tiktoken"), {}, "folder");
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>b<|endofprompt|>").ids, (Ids{97, 100257, 98, 100276}));
  EXPECT_EQ(tokenizer->decode({97, 100257, 100256}, false), "a<|endoftext|>");
  EXPECT_EQ(tokenizer->vocab_size(), 100277);
  EXPECT_TRUE(tokenizer->is_special(100258));
}

// The tokens of a real tokenizer.json of GPT-2's kind as a tiktoken file give the same ids.
TEST(Tiktoken, EqualsTheTokenizerJsonOfTheSameTokens) {
  const char* data = std::getenv("HONE_TEST_DATA");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const auto theirs = load_tokenizer((std::filesystem::path(data) / "tokenizers/gpt2/tokenizer.json").string());
  // decode() replaces what is not UTF-8, so bytes are taken from the token's spelling.
  std::string ranks;
  for (std::int32_t id = 0; id < 50256; ++id) {
    std::string bytes;
    const std::string token = *theirs->token_of(id);
    for (std::size_t at = 0; at < token.size();)
      bytes += static_cast<char>(byte_of_character(next_code_point(token, at)));
    ranks += to_base64(bytes) + " " + std::to_string(id) + "\n";
  }
  test::TempFolder folder;
  folder.write("gpt2.tiktoken", ranks);
  const auto ours = load_tokenizer(folder.path().string());
  const json golden = read_golden("real.json");
  for (const json& text : golden["texts"])
    EXPECT_EQ(ours->encode(text.get<std::string>()).ids, theirs->encode(text.get<std::string>()).ids) << text;
  EXPECT_EQ(ours->eos_id, 50256);
}

TEST(Base64, IsStrict) {
  EXPECT_EQ(from_base64(""), "");
  EXPECT_EQ(from_base64("YQ=="), "a");
  EXPECT_EQ(from_base64("YWI="), "ab");
  EXPECT_EQ(from_base64("YWJj"), "abc");
  for (const char* bad : {"Y", "YQ", "YQ=", "YQ=a", "YR==", "YWJ=", "Y Q=", "=AAA"})
    EXPECT_EQ(from_base64(bad), std::nullopt) << bad;
  for (int n = 0; n < 20; ++n) {
    std::string bytes;
    for (int i = 0; i < n; ++i) bytes += static_cast<char>(251 * i);
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
}

TEST(AddTokens, ChangesNothingElseInTheFile) {
  for (const int indent : {-1, 2}) {
    json config = tokenizer_json("byte", {{"added_tokens", json::array()}});
    if (indent == 2) config.erase("added_tokens");
    const std::string text = config.dump(indent);
    const auto before = make_tokenizer({{"tokenizer.json", text}}, {}, "folder");
    EXPECT_EQ(add_tokens(*before, {})->files[0].second, text) << "unchanged";
    const auto once = add_tokens(*before, {{"<a>"}, {"b c", false, true}});
    const auto twice = add_tokens(*once, {{"<a>"}, {"\"q\"\n"}});
    const auto n = static_cast<std::int32_t>(before->vocab_size());
    EXPECT_EQ(twice->id_of("<a>"), n);
    EXPECT_EQ(twice->id_of("\"q\"\n"), n + 2);
    EXPECT_EQ(twice->encode("b c<a>\"q\"\n").ids, (Ids{n + 1, n, n + 2}));
    EXPECT_TRUE(twice->is_special(n));
    EXPECT_FALSE(twice->is_special(n + 1));
    json read = json::parse(twice->files[0].second);
    ASSERT_EQ(read["added_tokens"].size(), 3u);
    EXPECT_EQ(read["added_tokens"][1], (json{{"id", n + 1},
                                             {"content", "b c"},
                                             {"single_word", true},
                                             {"lstrip", false},
                                             {"rstrip", false},
                                             {"normalized", false},
                                             {"special", false}}));
    read["added_tokens"] = json::array();
    json original = config;
    original["added_tokens"] = json::array();
    EXPECT_EQ(read, original);
    EXPECT_NE(twice->fingerprint, before->fingerprint);
  }
}

TEST(AddTokens, KeepsTheEndsOfTheFilesBeside) {
  const auto before =
      make(tokenizer_json("byte", json::object()), {}, {{"generation_config.json", "{\"eos_token_id\": 5}"}});
  EXPECT_EQ(add_tokens(*before, {{"<x>"}})->eos_id, 5);
  EXPECT_HONE_ERROR(add_tokens(*before, {{""}}), usage, "a token is empty");
}

}  // namespace
}  // namespace hone::text
