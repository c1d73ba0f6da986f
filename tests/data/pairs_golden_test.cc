// Prompt and completion are one text: ids, what is learnt and seams are those of the tokenizers library.
#include <algorithm>

#include "base/log.h"
#include "data/cache.h"
#include "data/support.h"
#include "data/tokenise.h"
#include "text/made_golden.h"

namespace hone::test {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::map<std::string, std::shared_ptr<const Tokenizer>> golden_tokenizers() {
  std::map<std::string, std::shared_ptr<const Tokenizer>> all;
  for (const char* file : {"made.json", "components.json"}) {
    const json golden = text::read_golden(file);
    for (const json& c : golden["cases"]) {
      json config = c["parts"];
      config["model"] = golden["models"][c["model"].get<std::string>()];
      try {
        all.emplace(c["name"], text::make(config));
      } catch (const Error&) {  // some cases are errors
      }
    }
  }
  return all;
}

Record pair(const std::string& prompt, const std::string& completion) {
  return {.content = PromptRecord{prompt, completion}};
}

TEST(Pairs, AreTokenisedAsOneText) {
  const auto tokenizers = golden_tokenizers();
  std::size_t seams = 0;
  for (const json& c : text::read_golden("pairs.json")) {
    SCOPED_TRACE(c["tokenizer"].dump() + c["prompt"].dump() + c["completion"].dump());
    const data::Tokenising how(*tokenizers.at(c["tokenizer"]), false, {});
    const data::RecordTokens tokens = data::to_tokens(pair(c["prompt"], c["completion"]), how, "f");
    EXPECT_EQ(tokens.ids, c["ids"].get<Ids>());
    Ids labels = c["ids"];
    std::fill_n(labels.begin(), c["first"].get<std::size_t>(), -100);
    EXPECT_EQ(tokens.labels, labels);
    EXPECT_EQ(tokens.seams, c["seams"].get<std::vector<std::size_t>>());
    seams += tokens.seams.size();
  }
  EXPECT_GT(seams, 50u);
}

// What the model is asked at inference: the prompt's own tokens, then what it learnt. No blank comes between them.
TEST(Pairs, GiveNoBlankToTheCompletion) {
  const auto tokenizer = text::made("llama2");
  const data::Tokenising how(*tokenizer, false, {});
  const Tokens tokens = data::to_tokens(pair("a=", "b"), how, "f");
  Ids expected = tokenizer->encode("a=", true).ids;
  expected.push_back(*tokenizer->id_of("b"));
  EXPECT_EQ(tokens.ids, expected);
  EXPECT_EQ(std::count(tokens.labels.begin(), tokens.labels.end(), -100), std::ssize(expected) - 1);
}

TEST(Pairs, DoNotEndWithThePromptsOwnEos) {
  const ByteTokenizer bytes(false, true);
  const data::Tokenising how(bytes, true, {}), as_it_is(bytes, false, {});
  EXPECT_EQ(data::to_tokens(pair("a", ""), how, "f").labels, (Ids{-100, 257}));
  EXPECT_EQ(data::to_tokens(pair("a", "b"), as_it_is, "f").ids, (Ids{'a', 'b', 257}));
  EXPECT_EQ(data::to_tokens(pair("", "b"), how, "f").labels, (Ids{'b', 257}));
}

TEST(Pairs, AreCutAtNoLengthOfTheFile) {
  json config = text::tokenizer_json("byte", {{"truncation",
                                               {{"direction", "Right"},
                                                {"max_length", 3},
                                                {"strategy", "LongestFirst"},
                                                {"stride", 0}}}});
  const auto tokenizer = text::make(config);
  const Tokens tokens = data::to_tokens(pair("abcd", "efgh"), data::Tokenising(*tokenizer, false, {}), "f");
  EXPECT_EQ(tokenizer->decode(tokens.ids), tokenizer->decode(tokenizer->encode("abcdefgh").ids));
  EXPECT_GT(tokens.ids.size(), 3u);
}

TEST(Pairs, CountTheirSeams) {
  const TempFolder folder;
  const auto tokenizer = text::made("gpt2");
  DataFile file;
  file.path = folder.write("d.jsonl",
                           "{\"prompt\": \"Hello \", \"completion\": \"world\"}\n"
                           "{\"prompt\": \"the \", \"completion\": \"  cat\"}\n"
                           "{\"prompt\": \"Hello\", \"completion\": \" world\"}\n");
  Dataset::Options options;
  options.cache_folder = folder.file("cache");
  std::string said;
  log::set_sink([&](log::Level, std::string_view message) { said += message; });
  for (const char* from : {"tokenised in", "from the cache"}) {
    said.clear();
    const auto tokens = data::load_tokens(file, *tokenizer, options);
    EXPECT_EQ(tokens.store->seams(0, tokens.store->size()), 2);
    EXPECT_EQ(tokens.store->seams(tokens.store->begin(2), tokens.store->end(2)), 0);
    EXPECT_THAT(said, testing::HasSubstr(from));
    EXPECT_THAT(said, testing::HasSubstr("2 tokens hold the end of a prompt and the beginning of its completion"));
  }
  log::set_sink({});
  options.max_length = 8;
  EXPECT_EQ(Dataset::make({file}, *tokenizer, options)->report().seams, 2);
}

}  // namespace
}  // namespace hone::test
