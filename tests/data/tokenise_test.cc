// Record -> Tokens: special tokens, eos, and which tokens are learnt.
#include "data/tokenise.h"

#include <csignal>

#include "base/signals.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

Record text(const std::string& content) { return {.content = TextRecord{content}}; }
Record as_record(const std::string& prompt, const std::string& completion) {
  return {.content = PromptRecord{prompt, completion}};
}
Record ids(const Ids& input_ids, const std::optional<Ids>& labels) {
  return {.content = IdsRecord{input_ids, labels}, .line = 5};
}

TEST(Tokens, OfATextAreAllLearntWithEos) {
  const Tokens tokens = data::to_tokens(text("ab"), data::Tokenising(ByteTokenizer(true), true, {}), "f");
  EXPECT_EQ(tokens.ids, (Ids{256, 'a', 'b', 257}));
  EXPECT_EQ(tokens.labels, tokens.ids);
}

TEST(Tokens, HaveOneEosAtMost) {
  EXPECT_EQ(data::to_tokens(text("ab"), data::Tokenising(ByteTokenizer(false, true), true, {}), "f").ids,
            (Ids{'a', 'b', 257}));
  EXPECT_EQ(data::to_tokens(text("ab"), data::Tokenising(ByteTokenizer(false), false, {}), "f").ids, (Ids{'a', 'b'}));
  EXPECT_EQ(data::to_tokens(text("ab"), data::Tokenising(ByteTokenizer(false, false, false), true, {}), "f").ids,
            (Ids{'a', 'b'}));
}

TEST(Tokens, OfAPromptAreNotLearntByPosition) {
  const Tokens tokens =
      data::to_tokens(as_record("ab", "ba"), data::Tokenising(ByteTokenizer(true, true), true, {}), "f");
  EXPECT_EQ(tokens.ids, (Ids{256, 'a', 'b', 'b', 'a', 257}));
  EXPECT_EQ(tokens.labels, (Ids{-100, -100, -100, 'b', 'a', 257}));
}

TEST(Tokens, OfAnEmptyCompletionAreItsEos) {
  EXPECT_EQ(data::to_tokens(as_record("a", ""), data::Tokenising(ByteTokenizer(), true, {}), "f").labels,
            (Ids{-100, 257}));
  EXPECT_EQ(data::to_tokens(as_record("a", ""), data::Tokenising(ByteTokenizer(), false, {}), "f").labels, (Ids{-100}));
  EXPECT_TRUE(data::to_tokens(as_record("", ""), data::Tokenising(ByteTokenizer(true), true, {}), "f").ids.empty());
  EXPECT_TRUE(data::to_tokens(text(""), data::Tokenising(ByteTokenizer(true), true, {}), "f").ids.empty());
}

TEST(Tokens, ThatComeAsIdsAreKept) {
  EXPECT_EQ(data::to_tokens(ids({1, 2}, std::nullopt), data::Tokenising(ByteTokenizer(true), true, {}), "f").labels,
            (Ids{1, 2}));
  EXPECT_EQ(data::to_tokens(ids({1, 2, 3}, Ids{-100, 9, 3}), data::Tokenising(ByteTokenizer(), true, {}), "f").labels,
            (Ids{-100, 9, 3}));
}

TEST(Tokens, ThatComeAsIdsAreChecked) {
  const auto error = [](const Record& record) {
    return error_of(ErrorKind::data,
                    [&] { data::to_tokens(record, data::Tokenising(ByteTokenizer(), true, {}), "f.jsonl"); });
  };
  EXPECT_THAT(error(ids({1, 2}, Ids{1})), HasSubstr("f.jsonl:5: 1 labels; expected as many as input_ids, 2"));
  EXPECT_THAT(error(ids({1, -2}, std::nullopt)), HasSubstr("input_ids[1] is -2"));
  EXPECT_THAT(error(ids({1, 2}, Ids{1, -5})), HasSubstr("labels[1] is -5"));
}

TEST(Tokenise, KeepsTheFilesOrderOnManyThreads) {
  const TempFolder folder;
  std::string content;
  for (int i = 0; i < 5000; ++i) content += "{\"text\": \"record " + std::to_string(i) + "\"}\n";
  const auto store =
      data::tokenise_file(files({folder.write("a.jsonl", content)})[0], data::Tokenising(ByteTokenizer(), true, {}));
  ASSERT_EQ(store->docs(), 5000);
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (std::uint64_t at = store->begin(i); at + 1 < store->end(i); ++at)
      text.push_back(static_cast<char>(store->id(at)));
    ASSERT_EQ(text, "record " + std::to_string(i));
    ASSERT_EQ(store->line(i), i + 1);
  }
}

TEST(Tokenise, ASignalStopsIt) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "{\"text\": \"text " + std::to_string(i) + "\"}\n";
  DataFile file;
  file.path = folder.write("a.jsonl", lines);
  const StopSignal signals;
  int seen = 0;
  const auto visit = [&](const Tokens&, const Record&) {
    if (++seen == 100) raise(SIGTERM);
  };
  try {
    data::each_tokens(file, data::Tokenising(ByteTokenizer(), true, {}), visit);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kStopped);
    EXPECT_EQ(error.what(), "stopped by SIGTERM while reading " + file.path);
  }
  EXPECT_LT(seen, 5000);
}

TEST(Tokenise, ReportsTheFirstOfSeveralErrors) {
  const TempFolder folder;
  std::string content = "{\"input_ids\": [1, -7]}\n";  // found by a worker
  for (int i = 0; i < 3000; ++i) content += "{\"input_ids\": [1, 2]}\n";
  content += "not json\n";  // found by the reader, long before
  const auto file = files({folder.write("a.jsonl", content)})[0];
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(
        error_of(ErrorKind::data, [&] { data::tokenise_file(file, data::Tokenising(ByteTokenizer(), true, {})); }),
        HasSubstr("a.jsonl:1: input_ids[1] is -7"));
}

TEST(TokenStore, GivesBackIdsAndLabelsOfEveryWidth) {
  for (const std::int32_t big : {300, 70'000, 2'000'000'000}) {
    data::TokenStore store;
    store.add({.ids = {1, 2, 3}, .labels = {1, -100, 3}}, 1, false);
    store.add({.ids = {}, .labels = {}}, 2, false);
    store.add({.ids = {4, big, 6, 7}, .labels = {4, big, -100, 9}}, 3, false);
    EXPECT_EQ(store.docs(), 2);
    EXPECT_EQ(store.counts().records, 3);
    EXPECT_EQ(store.counts().empty, 1);
    std::vector<std::int64_t> ids(7), labels(7);
    store.copy_ids(0, 7, ids.data());
    store.copy_labels(0, 7, labels.data());
    EXPECT_EQ(ids, (std::vector<std::int64_t>{1, 2, 3, 4, big, 6, 7}));
    EXPECT_EQ(labels, (std::vector<std::int64_t>{1, -100, 3, 4, big, -100, 9}));
    EXPECT_FALSE(store.has_prompt(0) || store.has_prompt(1));
    for (std::uint64_t begin = 0; begin <= 7; ++begin)
      for (std::uint64_t end = begin; end <= 7; ++end) {
        std::vector<std::int64_t> part(end - begin);
        store.copy_labels(begin, end, part.data());
        EXPECT_TRUE(std::equal(part.begin(), part.end(), labels.begin() + static_cast<std::ptrdiff_t>(begin)));
        EXPECT_EQ(store.supervised(begin, end),
                  std::count_if(part.begin(), part.end(), [](auto l) { return l != -100; }));
      }
  }
}

TEST(TokenStore, KnowsWhichDocumentsBeginWithAPrompt) {
  const TempFolder folder;
  const auto file = files({folder.write("a.jsonl",
                                        "{\"text\": \"ab\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n"
                                        "{\"input_ids\": [5, 6, 7], \"labels\": [-100, 6, 7]}\n"
                                        "{\"input_ids\": [5, 6, 7], \"labels\": [-100, -100, 7]}\n\"c\"\n")})[0];
  const auto store = data::tokenise_file(file, data::Tokenising(ByteTokenizer(), true, {}));
  std::vector<bool> prompts;
  for (std::int64_t doc = 0; doc < store->docs(); ++doc) prompts.push_back(store->has_prompt(doc));
  EXPECT_EQ(prompts, (std::vector<bool>{false, true, false, true, false}));
  EXPECT_EQ(store->last_learnt(store->begin(3) + 1, store->end(3)), std::pair(store->end(3) - 1, store->end(3)));
  EXPECT_EQ(store->last_learnt(store->begin(3), store->begin(3) + 1).first, store->begin(3) + 1);
}

}  // namespace
}  // namespace hone::test
