// Streaming decode hands out whole characters, early, and all of them.
#include <gtest/gtest.h>

#include <random>

#include "harness/files.h"
#include "text/made_golden.h"

namespace hone::text {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(StreamDecoder, WaitsForTheRestOfACharacter) {
  const auto bytes = load_tokenizer("bytes");
  StreamDecoder decoder(*bytes);
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push(0xBD), "");
  EXPECT_EQ(decoder.push(0xA0), "\xE4\xBD\xA0");
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push('b'),
            "\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.push('c'), "c");
}

TEST(StreamDecoder, HoldsByteTokensUntilTheirRunEnds) {
  const auto tokenizer = made("llama2");
  const auto byte = [&](const char* token) { return *tokenizer->id_of(token); };
  StreamDecoder decoder(*tokenizer);
  EXPECT_EQ(decoder.push(byte("<0xC3>")), "");
  EXPECT_EQ(decoder.push(byte("<0xA9>")), "");
  EXPECT_EQ(decoder.push(byte("<0xFF>")), "");
  EXPECT_EQ(decoder.push(byte("a")),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "a");
}

TEST(StreamDecoder, KeepsBlanksBetweenWordsAndDropsTheFirst) {
  const auto tokenizer = made("llama2");
  const Ids ids = tokenizer->encode("the world").ids;
  StreamDecoder decoder(*tokenizer);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  EXPECT_EQ(text, "the world");
}

TEST(StreamDecoder, EqualsDecodeForRandomIds) {
  std::mt19937 random(5);
  for (const char* name :
       {"gpt2", "llama2", "metaspace-first", "metaspace-always", "suffix", "decoder-mix", "split-Removed", "llama3"}) {
    const auto tokenizer = made(name);
    for (int round = 0; round < 300; ++round) {
      Ids ids;
      for (std::size_t n = random() % 60; n > 0; --n)
        ids.push_back(static_cast<std::int32_t>(random() % static_cast<std::size_t>(tokenizer->vocab_size() + 3)));
      ASSERT_EQ(streamed(*tokenizer, ids), tokenizer->decode(ids)) << name << " " << testing::PrintToString(ids);
    }
  }
}

TEST(StreamDecoder, StaysFastOnEndlessDamage) {
  const auto bytes = load_tokenizer("bytes");
  for (const std::vector<int>& pattern : {std::vector<int>{0xFF}, {0xEF, 0xBF, 0xBD}, {0xE4}, {0xE4, 0xBD}}) {
    Ids ids;
    for (std::size_t i = 0; i < 30'000; ++i) ids.push_back(pattern[i % pattern.size()]);
    EXPECT_EQ(streamed(*bytes, ids), bytes->decode(ids));
  }
}

}  // namespace
}  // namespace hone::text
