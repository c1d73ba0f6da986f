// Every model, normalizer, pre-tokenizer, decoder, template, truncation and padding equals Hugging Face's library.
#include <gtest/gtest.h>

#include "text/made_golden.h"

namespace hone::text {
namespace {

using nlohmann::json;

json full(const TextPair& texts, const FullEncoding& e) {
  const bool told = std::count(e.sequences.begin(), e.sequences.end(), 1) > 0;
  const auto first = in_characters(texts.first, e.offsets),
             second = in_characters(texts.second.value_or(""), e.offsets);
  json offsets = json::array();
  for (std::size_t i = 0; i < e.ids.size(); ++i) {
    const bool of_second = texts.second && (told ? e.sequences[i] : e.type_ids[i]) == 1;
    offsets.push_back(of_second ? second[i] : first[i]);
  }
  json out = {{"ids", e.ids},
              {"types", e.type_ids},
              {"words", e.words},
              {"offsets", offsets},
              {"special", e.special_mask},
              {"attention", e.attention_mask},
              {"sequences", e.sequences}};
  for (const FullEncoding& more : e.overflow) out["overflow"].push_back(full(texts, more));
  return out;
}

// The golden leaves out what is empty.
json without_empty(json from) {
  json out = json::object();
  for (const auto& [key, value] : from.items())
    if (!value.empty()) out[key] = value;
  return out;
}

TEST(Components, EqualTheLibrary) {
  const json golden = read_golden("components.json");
  for (const json& c : golden["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    json config = c["parts"];
    config["model"] = golden["models"][c["model"].get<std::string>()];
    const auto tokenizer = make(config);
    for (const json& answer : c["answers"]) {
      SCOPED_TRACE(answer["text"].dump());
      const std::string text = answer["text"], pair = answer.value("pair", "");
      const TextPair texts{text, answer.contains("pair") ? std::optional<std::string_view>(pair) : std::nullopt};
      if (answer.contains("error")) {
        EXPECT_THROW(tokenizer->encode_full({&texts, 1}), Error);
        continue;
      }
      EXPECT_EQ(without_empty(full(texts, tokenizer->encode_full({&texts, 1})[0])), answer["full"]);
      if (!answer.contains("decoded")) continue;
      const auto ids = tokenizer->encode(text).ids;
      EXPECT_EQ(tokenizer->decode(ids), answer["decoded"]);
      EXPECT_EQ(streamed(*tokenizer, ids), answer["decoded"]);
    }
  }
}

TEST(Components, EncodeBatchesAsSingleTextsOnAnyNumberOfThreads) {
  const auto tokenizer = made("llama3");
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back("text number " + std::to_string(i) + std::string(i % 7, '!'));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  std::vector<TextPair> pairs;
  for (const auto& text : views) pairs.push_back({text, std::nullopt});
  for (const int threads : {1, 2, 5, 0}) {
    const auto batch = tokenizer->encode_batch(views, true, threads);
    const auto whole = tokenizer->encode_full(pairs, true, threads);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(batch[i].ids, tokenizer->encode(texts[i]).ids);
      ASSERT_EQ(whole[i].ids, batch[i].ids);
    }
  }
}

// Random sequences of characters of all classes of UAX 29; bytes are decoded to what the normalizer made of them.
TEST(Components, PrecompiledCutsClustersAsTheLibrary) {
  const json golden = read_golden("clusters.json");
  const auto tokenizer = make(golden["tokenizer"]);
  for (const json& answer : golden["answers"]) {
    const std::string text = answer[0];
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text).ids), answer[1]) << answer[0].dump(-1, ' ', true);
  }
}

TEST(Components, PadToTheLongestOfABatch) {
  json parts = {{"padding",
                 {{"strategy", "BatchLongest"},
                  {"direction", "Left"},
                  {"pad_to_multiple_of", nullptr},
                  {"pad_id", 7},
                  {"pad_type_id", 3},
                  {"pad_token", "!"}}}};
  const auto tokenizer = make(tokenizer_json("char", parts));
  const std::vector<TextPair> texts = {{"a", std::nullopt}, {"abc", std::nullopt}};
  const auto got = tokenizer->encode_full(texts);
  ASSERT_EQ(got[0].ids.size(), got[1].ids.size());
  EXPECT_EQ(got[0].ids[0], 7);
  EXPECT_EQ(got[0].attention_mask, (std::vector<std::uint8_t>{0, 0, 1}));
  EXPECT_EQ(got[0].special_mask, (std::vector<std::uint8_t>{1, 1, 0}));
}

TEST(Components, ABatchHandsOnTheErrorOfAText) {
  const auto tokenizer = made("gpt2");
  const std::vector<std::string_view> texts = {"a", "b\xFF", "c"};
  EXPECT_THROW(tokenizer->encode_batch(texts, true, 2), Error);
}

}  // namespace
}  // namespace hone::text
