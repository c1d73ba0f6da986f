// Cutting and packing: every target once, nothing lost uncounted.
#include "data/cut.h"

#include <cmath>
#include <random>
#include <set>

#include "harness/cpu_time.h"
#include "support.h"

namespace hone::test {
namespace {

using data::best_fit;

std::uint32_t bins_of(const std::vector<std::uint32_t>& bins) {
  return bins.empty() ? 0 : *std::max_element(bins.begin(), bins.end()) + 1;
}

TEST(BestFit, PutsEachItemWhereItLeavesLeastRoom) {
  EXPECT_EQ(best_fit({5, 7, 3, 2, 3}, 10), (std::vector<std::uint32_t>{0, 1, 1, 0, 0}));
  EXPECT_EQ(best_fit({}, 10), (std::vector<std::uint32_t>{}));
  EXPECT_EQ(best_fit({10, 10, 1}, 10), (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(BestFit, NeverOverfillsAndIsNearTheBound) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t capacity = 1 + random() % 200;
    std::vector<std::uint32_t> lengths(random() % 400);
    std::uint64_t sum = 0;
    for (auto& length : lengths) sum += length = 1 + random() % capacity;
    const auto bins = best_fit(lengths, capacity);
    std::vector<std::uint64_t> used(bins_of(bins));
    for (std::size_t i = 0; i < lengths.size(); ++i) used[bins[i]] += lengths[i];
    for (const std::uint64_t one : used) {
      EXPECT_LE(one, capacity);
      EXPECT_GT(one, 0u);
    }
    EXPECT_LE(used.size(), std::ceil(11.0 / 9 * std::ceil(static_cast<double>(sum) / capacity)) * 1.3 + 4);
    for (std::size_t i = 0, next = 0; i < bins.size(); ++i) {  // numbered by their first item
      EXPECT_LE(bins[i], next);
      next += bins[i] == next;
    }
  }
}

TEST(BestFit, PacksAMillionItemsInSeconds) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> lengths(1'000'000);
  std::uint64_t sum = 0;
  for (auto& length : lengths) sum += length = 1 + random() % 700;
  EXPECT_LT(cpu_seconds_of([&] { EXPECT_LE(bins_of(best_fit(lengths, 2048)), sum / 2048 * 1.002 + 1); }), 20);
}

// A store of documents with these lengths; doc d's token t is 1000 d + t. Every learnt(d, t) is learnt.
data::TokenStore store_of(const std::vector<int>& lengths, const std::function<bool(int, int)>& learnt) {
  data::TokenStore store;
  for (int doc = 0; doc < static_cast<int>(lengths.size()); ++doc) {
    Tokens tokens;
    for (int t = 0; t < lengths[static_cast<std::size_t>(doc)]; ++t) {
      tokens.ids.push_back(1000 * doc + t);
      tokens.labels.push_back(learnt(doc, t) ? tokens.ids.back() : -100);
    }
    store.add(tokens, doc + 1, true);
  }
  return store;
}
std::vector<data::Stretch> all_of(const data::TokenStore& store) {
  std::vector<data::Stretch> all;
  for (std::int64_t doc = 0; doc < store.docs(); ++doc) all.push_back({store.begin(doc), store.end(doc), doc});
  return all;
}

// The targets of all rows, how long rows are, and each row's documents with what they may predict from.
struct Laid {
  std::multiset<std::int64_t> targets;
  std::int64_t longest = 0, tokens = 0;
  std::vector<std::vector<std::vector<std::int64_t>>> rows;
  DataReport report;
};
constexpr std::int32_t kBos = 0;  // document 0 begins with it

std::vector<std::int64_t> ids_of(const data::TokenStore& store, const data::Piece& piece) {
  std::vector<std::int64_t> ids(piece.length);
  const std::size_t kept = piece.has_first ? 1 : 0;
  if (piece.has_first) ids[0] = store.id(store.begin(piece.doc));
  store.copy_ids(piece.begin, piece.end(), ids.data() + kept);
  return ids;
}
Laid lay(const data::TokenStore& store, const Dataset::Options& options) {
  Laid laid;
  const auto name = [](std::int64_t doc) { return "doc " + std::to_string(doc); };
  const data::RowTable table = data::cut_and_pack(store, all_of(store), options, kBos, name, laid.report);
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::int64_t length = 0, supervised = 0;
    laid.rows.emplace_back();
    for (const data::Piece& piece : table.row(row)) {
      length += piece.length;
      laid.rows.back().push_back(ids_of(store, piece));
      std::vector<std::int64_t> labels(piece.targets_end() - piece.first_target());
      store.copy_labels(piece.first_target(), piece.targets_end(), labels.data());
      for (const std::int64_t label : labels)
        if (label != -100) laid.targets.insert(label), ++supervised;
    }
    EXPECT_GT(supervised, 0) << "row " << row;
    laid.longest = std::max(laid.longest, length);
    laid.tokens += length;
  }
  return laid;
}

TEST(Cut, ScoresEveryTokenAfterTheFirstExactlyOnce) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<int> lengths(1 + random() % 30);
    for (int& length : lengths) length = 1 + static_cast<int>(random() % 60);
    const bool some = round % 2 == 0;  // else all tokens are learnt
    const auto learnt = [&](int doc, int t) { return !some || t == 0 || (doc * 7 + t / 3) % 3 != 0; };
    const auto store = store_of(lengths, learnt);
    std::multiset<std::int64_t> expected;
    for (int doc = 0; doc < static_cast<int>(lengths.size()); ++doc)
      for (int t = 1; t < lengths[static_cast<std::size_t>(doc)]; ++t)
        if (learnt(doc, t)) expected.insert(1000 * doc + t);
    for (const Packing packing : {Packing::best_fit, Packing::concat, Packing::none}) {
      Dataset::Options options;
      options.packing = packing;
      options.max_length = 1 + static_cast<int>(random() % 40);
      const Laid laid = lay(store, options);
      EXPECT_EQ(laid.targets, expected) << static_cast<int>(packing) << " " << options.max_length;
      EXPECT_LE(laid.longest, options.max_length);
      EXPECT_EQ(laid.report.cut + laid.report.dropped + laid.report.cut_tokens, 0);
    }
  }
}

TEST(Cut, FillsRowsWithConcat) {
  const auto store = store_of({7, 9, 4, 11, 30}, [](int, int) { return true; });
  Dataset::Options options;
  options.packing = Packing::concat;
  options.max_length = 8;
  DataReport report;
  const auto table = data::cut_and_pack(store, all_of(store), options, kBos, [](auto) { return ""; }, report);
  std::vector<std::int64_t> lengths;
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    lengths.push_back(0);
    for (const data::Piece& piece : table.row(row)) lengths.back() += piece.length;
  }
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{8, 8, 8, 8, 8, 8, 8, 5}));
  EXPECT_EQ(report.split, 3);  // documents 1, 3 and 4 lie in several rows
}

TEST(Cut, DoesWhatOverlongSays) {
  const auto store = store_of({3, 10, 4}, [](int, int) { return true; });
  Dataset::Options options;
  options.packing = Packing::none;
  options.max_length = 4;
  using Targets = std::multiset<std::int64_t>;
  options.overlong = Overlong::keep_start;
  Laid laid = lay(store, options);
  EXPECT_EQ(laid.targets, (Targets{1, 2, 1001, 1002, 1003, 2001, 2002, 2003}));
  EXPECT_EQ(laid.report.cut, 1);
  EXPECT_EQ(laid.report.cut_tokens, 6);
  options.overlong = Overlong::keep_end;
  EXPECT_EQ(lay(store, options).targets, (Targets{1, 2, 1007, 1008, 1009, 2001, 2002, 2003}));
  options.overlong = Overlong::drop;
  laid = lay(store, options);
  EXPECT_EQ(laid.targets, (Targets{1, 2, 2001, 2002, 2003}));
  EXPECT_EQ(laid.report.dropped, 1);
  EXPECT_EQ(laid.report.cut_tokens, 10);
  options.overlong = Overlong::split;
  laid = lay(store, options);
  EXPECT_EQ(laid.targets.size(), 2u + 9 + 3);
  EXPECT_EQ(laid.report.split, 1);
  options.overlong = Overlong::error;
  const std::string message = error_of(ErrorKind::data, [&] { lay(store, options); });
  EXPECT_THAT(message, ::testing::HasSubstr("doc 1: 10 tokens; expected at most max_length 4"));
}

TEST(Cut, DropsAndCountsWhatCarriesNoLoss) {
  // Document 0 learns nothing; document 1 only its last two tokens, which keep_start cuts off.
  const auto store = store_of({5, 10, 5}, [](int doc, int t) { return doc == 2 || (doc == 1 && t >= 8); });
  Dataset::Options options;
  options.max_length = 6;
  options.overlong = Overlong::keep_start;
  Laid laid = lay(store, options);
  EXPECT_EQ(laid.targets.size(), 4u);
  EXPECT_EQ(laid.report.unsupervised_records, 2);
  EXPECT_EQ(laid.report.records, 3);
  EXPECT_EQ(laid.report.lost_supervised, 2);
  options.overlong = Overlong::split;  // the prompt loses its start instead
  laid = lay(store, options);
  EXPECT_EQ(laid.targets.size(), 6u);
  EXPECT_EQ(laid.report.unsupervised_records, 1);
  EXPECT_EQ(laid.report.lost_supervised, 0);
}

using Row = std::vector<std::vector<std::int64_t>>;

Dataset::Options rows_of(std::int64_t length, Packing packing = Packing::none) {
  Dataset::Options options;
  options.max_length = length;
  options.packing = packing;
  return options;
}

TEST(Cut, SplitCutsThePromptsStartAndNeverTheCompletionFromIt) {
  // Document 0 begins with the token that begins texts: that stays. In both the last three of ten are learnt.
  const auto store = store_of({10, 10}, [](int, int t) { return t >= 7; });
  const Laid laid = lay(store, rows_of(6));
  EXPECT_EQ(laid.rows, (std::vector<Row>{{{0, 5, 6, 7, 8, 9}}, {{1004, 1005, 1006, 1007, 1008, 1009}}}));
  EXPECT_EQ(laid.targets, (std::multiset<std::int64_t>{7, 8, 9, 1007, 1008, 1009}));
  EXPECT_EQ(laid.report.cut, 2);
  EXPECT_EQ(laid.report.cut_prompts, 2);
  EXPECT_EQ(laid.report.cut_tokens, 8);
  EXPECT_EQ(laid.report.split + laid.report.lost_supervised, 0);
}

TEST(Cut, WhatFollowsTheLastLearntTokenGoesBeforeThePrompt) {
  const auto store = store_of({10}, [](int, int t) { return t >= 3 && t < 6; });
  Laid laid = lay(store, rows_of(7));
  EXPECT_EQ(laid.rows, (std::vector<Row>{{{0, 1, 2, 3, 4, 5, 6}}}));
  EXPECT_EQ(laid.report.cut_prompts, 0);
  EXPECT_EQ(laid.report.cut_tokens, 3);
  laid = lay(store, rows_of(5));
  EXPECT_EQ(laid.rows, (std::vector<Row>{{{0, 2, 3, 4, 5}}}));
  EXPECT_EQ(laid.report.cut_tokens, 5);
}

TEST(Cut, ACompletionThatLeavesNoRoomLosesItsEnd) {
  const auto store = store_of({20, 20}, [](int, int t) { return t >= 8; });
  const Laid laid = lay(store, rows_of(9));
  // Half of the row for the prompt: of the 8 places behind the first token 4, of the 9 without it 4.
  EXPECT_EQ(laid.rows, (std::vector<Row>{{{0, 4, 5, 6, 7, 8, 9, 10, 11}},
                                         {{1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012}}}));
  EXPECT_EQ(laid.targets, (std::multiset<std::int64_t>{8, 9, 10, 11, 12, 1008, 1009, 1010, 1011, 1012, 1013}));
  EXPECT_EQ(laid.report.lost_supervised, 7 + 6);
}

TEST(Cut, APromptOfOneTokenIsAPromptToo) {
  const auto store = store_of({8, 8}, [](int, int t) { return t >= 1; });
  const Laid laid = lay(store, rows_of(4, Packing::best_fit));
  EXPECT_EQ(laid.rows, (std::vector<Row>{{{0, 1, 2, 3}}, {{1000, 1001, 1002, 1003}}}));
  EXPECT_EQ(laid.report.cut_prompts, 0);
}

TEST(Cut, ATurnThatWouldBeCutIntoGoesAsAWhole) {
  // Turns at 2..5 and 9..11; a row of 9 would begin at 3, inside the first one.
  const auto store = store_of({12, 12}, [](int, int t) { return (t >= 2 && t < 6) || t >= 9; });
  const Laid laid = lay(store, rows_of(9));
  EXPECT_EQ(laid.rows, (std::vector<Row>{{{0, 6, 7, 8, 9, 10, 11}}, {{1006, 1007, 1008, 1009, 1010, 1011}}}));
  EXPECT_EQ(laid.report.lost_supervised, 8);
}

TEST(Cut, ConcatLaysNoPromptOverTheEndOfARow) {
  const auto store = store_of({5, 5, 5, 9}, [](int doc, int t) { return doc == 3 || t >= 3; });
  const Laid laid = lay(store, rows_of(8, Packing::concat));
  EXPECT_EQ(laid.rows, (std::vector<Row>{{{0, 1, 2, 3, 4}},
                                         {{1000, 1001, 1002, 1003, 1004}},
                                         {{2000, 2001, 2002, 2003, 2004}, {3000, 3001, 3002}},
                                         {{3003, 3004, 3005, 3006, 3007, 3008}}}));
}

TEST(Cut, NoLearntTokenEverStandsWithoutThePromptBeforeIt) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const int prompt = 1 + static_cast<int>(random() % 30), length = prompt + 1 + static_cast<int>(random() % 30);
    const auto store = store_of({length}, [&](int, int t) { return t >= prompt; });
    const Packing packings[] = {Packing::best_fit, Packing::concat, Packing::none};
    const Dataset::Options options = rows_of(3 + static_cast<int>(random() % 40), packings[round % 3]);
    const Laid laid = lay(store, options);
    ASSERT_EQ(laid.rows.size(), 1u);
    ASSERT_EQ(laid.rows[0].size(), 1u);
    const auto& ids = laid.rows[0][0];
    const auto learnt = static_cast<std::int64_t>(laid.targets.size());
    EXPECT_LE(static_cast<std::int64_t>(ids.size()), options.max_length);
    EXPECT_LT(ids[0], prompt);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), prompt), 1) << "the completion begins behind its prompt";
    EXPECT_EQ(*laid.targets.begin(), prompt);
    EXPECT_EQ(laid.report.lost_supervised, length - prompt - learnt);
    if (length - prompt < options.max_length - 1) {
      EXPECT_EQ(learnt, length - prompt);
    }
  }
}

}  // namespace
}  // namespace hone::test
