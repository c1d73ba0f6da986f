// What is streamed behind a prompt is the text of all without that of the prompt.
#include "text/tokenizer/prompted_decoder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "harness/files.h"
#include "text/made_golden.h"

namespace hone::text {
namespace {

using Ids = std::vector<std::int32_t>;

std::string streamed_behind(const Tokenizer& tokenizer, const Ids& prompt, const Ids& ids) {
  PromptedDecoder decoder(tokenizer, prompt);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

// "": as it should be, or what is wrong. Where the text of all does not begin with the prompt's, nothing is asked.
std::string fault_at(const Tokenizer& tokenizer, const Ids& ids, std::size_t cut, int* asked = nullptr) {
  const auto seam = ids.begin() + static_cast<std::ptrdiff_t>(cut);
  const Ids prompt(ids.begin(), seam);
  const std::string before = tokenizer.decode(prompt), all = tokenizer.decode(ids);
  if (!all.starts_with(before)) return "";
  if (asked) ++*asked;
  const std::string got = streamed_behind(tokenizer, prompt, {seam, ids.end()});
  if (got == all.substr(before.size())) return "";
  return fmt::format("\"{}\" behind \"{}\" of \"{}\", {}", got, before, all, testing::PrintToString(ids));
}

std::int32_t byte_of(const Tokenizer& tokenizer, int byte) {
  return *tokenizer.id_of(fmt::format("<0x{:02X}>", byte));
}

// `a=` with a byte token for `=` gave `==`.
TEST(PromptedDecoder, DoesNotRepeatBytesOfThePrompt) {
  const auto tokenizer = made("llama2");
  const std::int32_t a = *tokenizer->id_of("a");
  const Ids kanji = {byte_of(*tokenizer, 0xE6), byte_of(*tokenizer, 0x97), byte_of(*tokenizer, 0xA5)};
  const Ids e_acute = {byte_of(*tokenizer, 0xC3), byte_of(*tokenizer, 0xA9)};
  EXPECT_EQ(streamed_behind(*tokenizer, {a, byte_of(*tokenizer, '=')}, {a}), "a");
  EXPECT_EQ(streamed_behind(*tokenizer, {a, byte_of(*tokenizer, '=')}, {e_acute[0], e_acute[1], a}), "\u00E9a");
  EXPECT_EQ(streamed_behind(*tokenizer, kanji, {a}), "a");
  EXPECT_EQ(streamed_behind(*tokenizer, kanji, e_acute), "\u00E9");
  EXPECT_EQ(streamed_behind(*tokenizer, kanji, {}), "");
}

TEST(PromptedDecoder, CompletesACharacterThatThePromptHasHalf) {
  const auto fallback = made("llama2");
  const auto byte = [&](int b) { return byte_of(*fallback, b); };
  EXPECT_EQ(streamed_behind(*fallback, {byte(0xE6)}, {byte(0x97), byte(0xA5), *fallback->id_of("a")}), "\u65E5a");
  const auto bytes = load_tokenizer("bytes");
  EXPECT_EQ(streamed_behind(*bytes, {'x', 0xE6}, {0x97, 0xA5, 'a'}), "\u65E5a");
  EXPECT_EQ(streamed_behind(*bytes, {'x', 0xE6}, {'a'}), "a");
}

TEST(PromptedDecoder, DamageDoesNotReachBackIntoThePrompt) {
  const auto tokenizer = made("llama2");
  const auto byte = [&](int b) { return byte_of(*tokenizer, b); };
  EXPECT_EQ(streamed_behind(*tokenizer, {byte(0xC3), byte(0xA9)}, {byte(0xFF), *tokenizer->id_of("a")}), "\uFFFDa");
}

TEST(PromptedDecoder, EqualsDecodeForRandomIds) {
  std::mt19937 random(6);
  for (const char* name :
       {"gpt2", "llama2", "metaspace-first", "metaspace-always", "suffix", "decoder-mix", "split-Removed", "llama3"}) {
    const auto tokenizer = made(name);
    int asked = 0;
    for (int round = 0; round < 600; ++round) {
      Ids ids;
      for (std::size_t n = 1 + random() % 40; n > 0; --n) {
        // Often a byte, so that runs of them lie across the seam.
        const auto byte = tokenizer->id_of(fmt::format("<0x{:02X}>", random() % 2 ? random() % 128 : random() % 256));
        const auto any = static_cast<std::int32_t>(random() % static_cast<std::size_t>(tokenizer->vocab_size()));
        ids.push_back(byte && random() % 2 ? *byte : any);
      }
      ASSERT_EQ(fault_at(*tokenizer, ids, random() % (ids.size() + 1), &asked), "") << name;
    }
    EXPECT_GT(asked, 100) << name;
  }
}

const std::vector<std::string> kTexts = {"a=b", "1+1=2", "caf\u00E9 \u65E5\u672C s", "the  cat\n\n on",
                                         "\U0001F600=\U0001F600x"};

void expect_no_fault(const Tokenizer& tokenizer, const std::string& name) {
  for (const std::string& text : kTexts) {
    const Ids ids = tokenizer.encode(text).ids;
    for (std::size_t cut = 0; cut <= ids.size(); ++cut) EXPECT_EQ(fault_at(tokenizer, ids, cut), "") << name;
  }
}

TEST(PromptedDecoder, GivesTheRestOfTexts) {
  for (const char* name : {"gpt2", "llama2", "metaspace-first", "metaspace-never", "llama3", "qwen", "suffix"})
    expect_no_fault(*made(name), name);
}

TEST(PromptedDecoder, GivesTheRestOfTextsOfRealTokenizers) {
  const char* data = std::getenv("HONE_TEST_DATA");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  for (const char* name :
       {"models/stories260K", "tokenizers/mistral-7b-instruct", "tokenizers/t5-small", "tokenizers/qwen3",
        "tokenizers/gpt2", "tokenizers/minimind", "tokenizers/bert-base-uncased"})
    expect_no_fault(*load_tokenizer((std::filesystem::path(data) / name).string()), name);
}

}  // namespace
}  // namespace hone::text
