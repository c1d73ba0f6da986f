// Loader: the same groups whatever is made ahead; seeking, failing and stopping.
#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "hone/data.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

bool same(const std::vector<HostBatch>& a, const std::vector<HostBatch>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const HostBatch& x, const HostBatch& y) {
    return x.ids == y.ids && x.labels == y.labels && x.segments == y.segments && x.positions == y.positions &&
           x.weight == y.weight && x.rows == y.rows && x.length == y.length;
  });
}

class Loading : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string content;
    for (int i = 0; i < 97; ++i)
      content += "\"" + std::string(static_cast<std::size_t>(1 + i % 23), static_cast<char>('a' + i % 26)) +
                 std::to_string(i) + "\"\n";
    Dataset::Options options;
    options.packing = Packing::none;
    data_ = Dataset::make(files({folder_.write("a.jsonl", content)}), ByteTokenizer(), options);
    options_.batch_size = 4;
    options_.accumulate = 3;
  }
  TempFolder folder_;
  std::shared_ptr<const Dataset> data_;
  Loader::Options options_;
};

TEST_F(Loading, GivesTheSameGroupsWhateverIsMadeAhead) {
  options_.ahead = 0;
  Loader plain(data_, options_);
  options_.ahead = 3;
  Loader ahead(data_, options_);
  for (int step = 0; step < 40; ++step) EXPECT_TRUE(same(plain.next(), ahead.next())) << step;
}

TEST_F(Loading, SeeksToAnyStep) {
  options_.ahead = 0;
  Loader from_start(data_, options_);
  std::vector<std::vector<HostBatch>> groups;
  constexpr int kAfter = 22;  // 66 batches
  for (int step = 0; step < 60 + kAfter; ++step) groups.push_back(from_start.next());
  std::mt19937 random(1);
  for (const int ahead : {0, 1, 3}) {
    options_.ahead = ahead;
    Loader loader(data_, options_);
    for (int round = 0; round < 30; ++round) {
      const std::size_t step = random() % 60;
      loader.seek(static_cast<std::int64_t>(step));
      for (std::size_t i = 0; i < kAfter; ++i) ASSERT_TRUE(same(loader.next(), groups[step + i])) << step << "+" << i;
    }
    loader.seek(3'000'000'000'000);
    EXPECT_EQ(loader.next().size(), 3u);
  }
}

// Steps that were made with other batches: what they have taken is told, and nothing is skipped or comes twice.
TEST_F(Loading, GoesOnBehindRowsOfOtherBatches) {
  Loader before(data_, options_);  // 12 rows a step
  std::vector<std::int64_t> expected, found;
  const auto add = [](std::vector<std::int64_t>& records, const std::vector<HostBatch>& group) {
    for (const HostBatch& batch : group)
      for (const Doc& doc : batch.docs) records.push_back(doc.record);
  };
  for (int step = 0; step < 5; ++step) add(expected, before.next());
  EXPECT_EQ(before.rows_before(3), 36);
  for (const int ahead : {0, 2}) {
    options_.batch_size = 2, options_.accumulate = 1, options_.ahead = ahead;
    Loader after(data_, options_);
    after.seek(3, "", 36);
    found.assign(expected.begin(), expected.begin() + 36);
    for (int step = 3; step < 15; ++step) add(found, after.next());
    EXPECT_EQ(found, expected);
    EXPECT_EQ(after.rows_before(15), 60);
    EXPECT_DOUBLE_EQ(after.epoch_at(15).value() * static_cast<double>(data_->epoch_rows()), 60);
  }
}

TEST_F(Loading, SeesTheSameRowsHoweverABatchIsSplit) {
  options_.batch_size = 8;
  options_.accumulate = 1;
  Loader wide(data_, options_);
  options_.batch_size = 1;
  options_.accumulate = 8;
  Loader narrow(data_, options_);
  for (int step = 0; step < 30; ++step) {
    const HostBatch all = wide.next().at(0);
    const auto ones = narrow.next();
    for (std::size_t row = 0; row < 8; ++row) {
      ASSERT_EQ(all.docs[row].record, ones[row].docs[0].record);
      const auto begin = all.ids.begin() + static_cast<std::ptrdiff_t>(row) * all.length;
      EXPECT_TRUE(std::equal(ones[row].ids.begin(), ones[row].ids.end(), begin));
    }
  }
}

TEST_F(Loading, SeesEveryRecordOncePerEpoch) {
  options_.batch_size = 97;
  options_.accumulate = 1;
  Loader loader(data_, options_);
  std::vector<std::int64_t> first_order;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int64_t> order;
    const auto group = loader.next();
    for (const Doc& doc : group[0].docs) order.push_back(doc.record);
    EXPECT_NE(order, first_order);
    first_order = order;
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < 97; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  EXPECT_DOUBLE_EQ(loader.epoch_at(3).value(), 3.0);
}

TEST_F(Loading, RefusesDataSmallerThanABatch) {
  options_.batch_size = 98;
  EXPECT_THAT(error_of(ErrorKind::data, [&] { Loader(data_, options_); }),
              HasSubstr("97 rows per epoch; expected at least one batch of 98"));
}

// What packing would do is advised where it does something: a list of texts has its row anyway.
TEST_F(Loading, AdvisesPackingWhereItHelps) {
  const auto hint = [&](const Dataset::Options& how, const std::string& lines, std::int64_t batch) {
    TempFolder folder;
    options_.batch_size = batch;
    const auto data = Dataset::make(files({folder.write("own.jsonl", lines)}), *load_tokenizer("bytes"), how);
    const std::string told = error_of(ErrorKind::data, [&] { Loader(data, options_); });
    return told.substr(told.find("hint: "));
  };
  Dataset::Options ranked;
  ranked.records = RecordKind::ranked, ranked.packing = Packing::none;
  std::string lists, pairs, texts;
  for (int i = 0; i < 3; ++i) {
    lists += R"({"query": "a", "documents": ["b", "c", "d"], "scores": [1, 0, 0]})" "\n";
    pairs += R"({"prompt": "a", "chosen": "b", "rejected": "c"})" "\n";
    texts += R"({"text": "abc"})" "\n";
  }
  EXPECT_EQ(hint(ranked, lists, 8), "hint: set trainer.batch_size to 3");
  Dataset::Options preference;
  preference.records = RecordKind::preference;
  EXPECT_EQ(hint(preference, pairs, 3),
            "hint: set trainer.batch_size to 1, or data.packing: none, which gives each of the 3 records its own row");
  EXPECT_EQ(hint({}, texts, 9), "hint: set trainer.batch_size to 1, or to at most 3 with data.packing: none");
}

// Fails at one position, until told not to.
class Failing final : public Dataset {
 public:
  explicit Failing(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}
  std::int64_t rows() const override { return data_->rows(); }
  std::int64_t epoch_rows() const override { return data_->epoch_rows(); }
  std::int64_t row_at(std::int64_t position, std::uint64_t seed, bool shuffle) const override {
    if (position == bad) throw Error(ErrorKind::data, "the disk is gone");
    return data_->row_at(position, seed, shuffle);
  }
  HostRow row(std::int64_t row) const override { return data_->row(row); }
  const std::vector<std::string>& labels() const override { return data_->labels(); }
  std::string record_name(std::int64_t record) const override { return data_->record_name(record); }
  const DataReport& report() const override { return data_->report(); }
  std::string fingerprint() const override { return data_->fingerprint(); }
  std::pair<std::shared_ptr<const Dataset>, std::shared_ptr<const Dataset>> split(double,
                                                                                  std::uint64_t) const override {
    return {};
  }
  mutable std::atomic<std::int64_t> bad{-1};

 private:
  std::shared_ptr<const Dataset> data_;
};

TEST_F(Loading, HandsTheBackgroundThreadsErrorToTheCallerAtItsStep) {
  const auto failing = std::make_shared<Failing>(data_);
  failing->bad = 5 * 12 + 3;
  for (const int ahead : {0, 3}) {
    options_.ahead = ahead;
    Loader loader(failing, options_);
    for (int step = 0; step < 5; ++step) EXPECT_EQ(loader.next().size(), 3u);
    EXPECT_THAT(error_of(ErrorKind::data, [&] { loader.next(); }), HasSubstr("the disk is gone"));
    EXPECT_THAT(error_of(ErrorKind::data, [&] { loader.next(); }), HasSubstr("the disk is gone"));
    failing->bad = -1;
    EXPECT_EQ(loader.next().size(), 3u);  // the failed step, again
    failing->bad = 5 * 12 + 3;
  }
}

TEST_F(Loading, StopsAtOnceInEveryState) {
  options_.ahead = 2;
  for (int round = 0; round < 100; ++round) {
    Loader loader(data_, options_);
    for (int i = 0; i < round % 4; ++i) loader.next();
    if (round % 3 == 0) loader.seek(round);
    if (round % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_F(Loading, SharesADatasetBetweenLoadersOfSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<std::vector<HostBatch>> last(4);
  for (std::size_t i = 0; i < last.size(); ++i)
    threads.emplace_back([&, i] {
      Loader loader(data_, options_);
      for (int step = 0; step < 20; ++step) last[i] = loader.next();
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& group : last) EXPECT_TRUE(same(group, last[0]));
}

}  // namespace
}  // namespace hone::test
