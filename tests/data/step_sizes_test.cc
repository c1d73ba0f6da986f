// Batches that grow and documents that are cut: the same rows in the same order, whatever the batch.
#include "data/step_sizes.h"

#include <numeric>

#include "data/shorten.h"
#include "hone/data.h"
#include "support.h"

namespace hone::test {
namespace {

const std::vector<Loader::Stage> kWarmup{{3, 4, 1}, {5, 4, 2}, {6, 2, 3}};

TEST(StepSizes, AreThoseOfTheStageAndThenTheRuns) {
  const data::StepSizes sizes(4, 6, kWarmup);
  const std::vector<std::int64_t> rows{4, 4, 4, 8, 8, 6, 24, 24};
  std::int64_t before = 0;
  for (std::int64_t step = 0; step < std::ssize(rows); ++step) {
    EXPECT_EQ(sizes.at(step).rows(), rows[static_cast<std::size_t>(step)]) << step;
    EXPECT_EQ(sizes.rows_before(step), before) << step;
    for (std::int64_t more = 1; more <= rows[static_cast<std::size_t>(step)]; ++more)
      EXPECT_EQ(sizes.steps_for(static_cast<double>(before + more)), step + 1) << step << " and " << more;
    before += rows[static_cast<std::size_t>(step)];
  }
  EXPECT_EQ(sizes.rows_before(1'000'000'000'000), 34 + 24 * (1'000'000'000'000 - 6));
}

class Growing : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string content;
    for (int i = 0; i < 50; ++i) content += "\"" + std::string(static_cast<std::size_t>(3 + i % 17), 'a') + "\"\n";
    Dataset::Options options;
    options.packing = Packing::none;
    data_ = Dataset::make(files({folder_.write("a.jsonl", content)}), ByteTokenizer(), options);
    options_.batch_size = 4, options_.accumulate = 6, options_.warmup = kWarmup;
  }
  // Records in the order of training; a stop and a start before the steps `seeks`.
  std::vector<std::int64_t> records(int steps, const std::vector<int>& seeks = {}) {
    std::vector<std::int64_t> all;
    auto loader = std::make_unique<Loader>(data_, options_);
    for (int step = 0; step < steps; ++step) {
      if (std::find(seeks.begin(), seeks.end(), step) != seeks.end()) {
        loader = std::make_unique<Loader>(data_, options_);
        loader->seek(step);
      }
      for (const HostBatch& batch : loader->next())
        for (const Doc& doc : batch.docs) all.push_back(doc.record);
    }
    return all;
  }
  TempFolder folder_;
  std::shared_ptr<const Dataset> data_;
  Loader::Options options_;
};

TEST_F(Growing, SeesTheSameRowsInTheSameOrder) {
  const std::vector<std::int64_t> grown = records(9);
  EXPECT_EQ(grown.size(), 34u + 3 * 24);
  EXPECT_EQ(records(9, {1, 4, 5, 7}), grown);
  options_.warmup.clear(), options_.batch_size = 1, options_.accumulate = 1;
  EXPECT_EQ(records(static_cast<int>(grown.size())), grown);
}

TEST_F(Growing, CountsEpochsByRows) {
  const Loader loader(data_, options_);
  EXPECT_DOUBLE_EQ(loader.epoch_at(6).value(), 34.0 / 50);
  EXPECT_DOUBLE_EQ(loader.epoch_at(7).value(), 58.0 / 50);
}

TEST_F(Growing, RefusesAStageWhoseBatchTheDataDoNotFill) {
  options_.warmup = {{2, 51, 1}};
  EXPECT_THAT(error_of(ErrorKind::data, [&] { Loader(data_, options_); }),
              testing::HasSubstr("expected at least one batch of 51"));
}

TEST_F(Growing, CutsDocumentsInTheStepsThatSaySo) {
  options_.longest = [](std::int64_t step) { return step < 3 ? 5 : 1000; };
  Loader loader(data_, options_);
  std::int64_t cut_supervised = 0, whole_supervised = 0;
  for (int step = 0; step < 3; ++step)
    for (const HostBatch& batch : loader.next()) {
      for (const Doc& doc : batch.docs) EXPECT_LE(doc.end - doc.begin, 5);
      cut_supervised += batch.supervised;
    }
  options_.longest = {};
  Loader whole(data_, options_);
  for (int step = 0; step < 3; ++step)
    for (const HostBatch& batch : whole.next()) whole_supervised += batch.supervised;
  EXPECT_EQ(cut_supervised, whole_supervised);  // of texts no target is lost
  std::int32_t longest = 0;
  const auto step = loader.next();
  for (const Doc& doc : step[0].docs) longest = std::max(longest, doc.end - doc.begin);
  EXPECT_GT(longest, 5);
}

HostDoc document(std::vector<std::int64_t> targets) {
  HostDoc doc;
  doc.targets = std::move(targets);
  doc.ids.resize(doc.targets.size());
  std::iota(doc.ids.begin(), doc.ids.end(), 10);
  doc.per_token["column"] = doc.ids;
  doc.record = 7;
  return doc;
}

TEST(Shorten, CutsATextIntoSeveralAndLosesNoTarget) {
  HostRow row{document({11, 12, 13, 14, 15, 16, -100}), document({1, -100})};
  data::shorten(row, 3, -1);
  ASSERT_EQ(row.size(), 3u);  // the last token alone learns nothing
  EXPECT_EQ(row[0].ids, (std::vector<std::int64_t>{10, 11, 12}));
  EXPECT_EQ(row[0].targets, (std::vector<std::int64_t>{11, 12, 13}));
  EXPECT_EQ(row[1].targets, (std::vector<std::int64_t>{14, 15, 16}));
  EXPECT_EQ(row[1].per_token.at("column"), row[1].ids);
  EXPECT_EQ(row[1].record, 7);
  EXPECT_EQ(row[2].ids.size(), 2u);
}

TEST(Shorten, TakesAPromptsStartAndWhatFollowsTheLastTarget) {
  HostRow row{document({-100, -100, -100, -100, 5, 6, -100, -100})};
  data::shorten(row, 3, -1);
  ASSERT_EQ(row.size(), 1u);
  EXPECT_EQ(row[0].ids, (std::vector<std::int64_t>{13, 14, 15}));
  EXPECT_EQ(row[0].targets, (std::vector<std::int64_t>{-100, 5, 6}));
  HostRow early{document({-100, 5, -100, -100, -100})};
  data::shorten(early, 4, -1);
  EXPECT_EQ(early[0].ids, (std::vector<std::int64_t>{10, 11, 12, 13}));
}

TEST(Shorten, CutsThroughNoEarlierTurnAndLeavesAPromptBeforeTheLast) {
  HostRow turns{document({-100, 1, 2, 3, -100, -100, 7, 8, -100})};
  data::shorten(turns, 6, -1);
  EXPECT_EQ(turns[0].ids, (std::vector<std::int64_t>{15, 16, 17}));
  EXPECT_EQ(turns[0].targets, (std::vector<std::int64_t>{-100, 7, 8}));
  HostRow answer{document({-100, -100, -100, 4, 5, 6, 7, 8, 9, -100})};
  data::shorten(answer, 4, -1);
  EXPECT_EQ(answer[0].ids, (std::vector<std::int64_t>{12, 13, 14, 15}));
  EXPECT_EQ(answer[0].targets, (std::vector<std::int64_t>{-100, 4, 5, 6}));
  HostRow none{document({-100, -100, -100, -100})};
  data::shorten(none, 3, -1);
  EXPECT_EQ(none[0].ids, (std::vector<std::int64_t>{10, 11, 12}));
}

TEST(Shorten, KeepsTheTokenThatBeginsTexts) {
  const auto cut = [](std::vector<std::int64_t> targets, std::int64_t most) {
    HostRow row{document(std::move(targets))};
    data::shorten(row, most, 10);
    return row[0];
  };
  const HostDoc prompt = cut({-100, -100, -100, -100, 5, 6, -100, -100}, 4);
  EXPECT_EQ(prompt.ids, (std::vector<std::int64_t>{10, 13, 14, 15}));
  EXPECT_EQ(prompt.targets, (std::vector<std::int64_t>{-100, -100, 5, 6}));
  EXPECT_EQ(prompt.per_token.at("column").size(), 4u);
  const HostDoc turns = cut({-100, 1, 2, 3, -100, -100, 7, 8, -100}, 6);
  EXPECT_EQ(turns.ids, (std::vector<std::int64_t>{10, 15, 16, 17}));
  EXPECT_EQ(turns.targets, (std::vector<std::int64_t>{-100, -100, 7, 8}));
  const HostDoc answer = cut({-100, -100, -100, 4, 5, 6, 7, 8, 9, -100}, 5);
  EXPECT_EQ(answer.ids, (std::vector<std::int64_t>{10, 12, 13, 14, 15}));
  EXPECT_EQ(answer.targets, (std::vector<std::int64_t>{-100, -100, 4, 5, 6}));
  EXPECT_EQ(cut({-100, 5, 6, 7, 8}, 3).ids, (std::vector<std::int64_t>{10, 11, 12})) << "nothing of a prompt is cut";
  EXPECT_EQ(cut({-100, -100, 6, -100}, 2).ids, (std::vector<std::int64_t>{10, 12}));
  EXPECT_EQ(cut({-100, 5, -100, -100, -100}, 4).ids, (std::vector<std::int64_t>{10, 11, 12, 13}));
}

}  // namespace
}  // namespace hone::test
