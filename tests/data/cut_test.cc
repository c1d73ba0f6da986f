// Cutting and packing: every target once, nothing lost uncounted.
#include "data/cut.h"

#include <cmath>
#include <random>
#include <set>

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
  const auto start = std::chrono::steady_clock::now();
  const auto bins = best_fit(lengths, 2048);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_LE(bins_of(bins), sum / 2048 * 1.002 + 1);
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

// The targets of all rows, and how long rows are.
struct Laid {
  std::multiset<std::int64_t> targets;
  std::int64_t longest = 0, tokens = 0;
  DataReport report;
};
Laid lay(const data::TokenStore& store, const Dataset::Options& options) {
  Laid laid;
  const auto name = [](std::int64_t doc) { return "doc " + std::to_string(doc); };
  const data::RowTable table = data::cut_and_pack(store, all_of(store), options, name, laid.report);
  for (std::int64_t row = 0; row < table.rows(); ++row) {
    std::int64_t length = 0, supervised = 0;
    for (const data::Piece& piece : table.row(row)) {
      length += piece.length;
      std::vector<std::int64_t> labels(piece.targets_end() - piece.begin - 1);
      store.copy_labels(piece.begin + 1, piece.targets_end(), labels.data());
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
    const auto learnt = [&](int doc, int t) { return !some || (doc * 7 + t / 3) % 3 != 0; };
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
  const auto table = data::cut_and_pack(store, all_of(store), options, [](auto) { return ""; }, report);
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
  options.overlong = Overlong::split;
  laid = lay(store, options);
  EXPECT_EQ(laid.targets.size(), 6u);
  EXPECT_EQ(laid.report.unsupervised_records, 1);
  EXPECT_EQ(laid.tokens, 4 + 5);  // the piece that holds only the prompt is not computed
}

}  // namespace
}  // namespace hone::test
