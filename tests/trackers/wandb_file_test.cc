// Files of W&B's offline runs: the bytes of wandb's own writer, what is cut off or damaged.
#include "trackers/wandb_file.h"

#include <gtest/gtest.h>

#include "harness/files.h"
#include "trackers/checksum.h"
#include "trackers/wandb_records.h"

namespace hone::trackers {
namespace {

constexpr std::uint64_t kBlockOfLog = 32768;

// Of tools/golden/golden_wandb.py.
WandbRun golden_run() {
  WandbRun run;
  run.id = "abcd1234";
  run.entity = "team";
  run.project = "hone";
  run.group = "sweep";
  run.name = "sft größe";
  run.notes = "a note";
  run.host = "host";
  run.tags = {"x", "y"};
  run.config = {{"model", R"({"path":"m","layers":[1,2.5,null,true]})"}, {"run", R"({"seed":1})"}};
  run.start = 1700000000;
  return run;
}

// A file of these records, each where the one before ends.
class LogFile {
 public:
  void add(const WandbRecord& record) { bytes_ += wandb_framed(record, ++number_, bytes_.size()); }
  // A summary behind which so much of a block is left.
  void fill_up_to(std::uint64_t left) {
    for (std::string text;;) {
      const WandbRecord record = wandb_summary({{"text", "\"" + text + "\""}});
      const std::uint64_t end = bytes_.size() + wandb_framed(record, number_ + 1, bytes_.size()).size();
      const std::uint64_t missing = (2 * kBlockOfLog - end % kBlockOfLog - left) % kBlockOfLog;
      if (missing == 0) return add(record);
      text.append(missing > 16 ? missing - 16 : 1, 'x');
    }
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_{kWandbStart};
  std::int64_t number_ = 0;
};

std::string golden_file() {
  LogFile file;
  file.add(wandb_run(golden_run()));
  file.add(wandb_step_metric());
  file.add(wandb_other_metrics());
  const WandbValues line{{"_step", "0"}, {"train/global_step", "1"}, {"train/loss", "NaN"}};
  file.add(wandb_summary(line));
  file.add(wandb_history(line, 0));
  file.add(wandb_history({{"eval/loss", "1.25"}}, 300));
  for (const std::uint64_t left : {0, 3, 6, 7, 8, 20}) {
    file.fill_up_to(left);
    file.add(wandb_history({{"eval/loss", "1.25"}}, 1));
  }
  file.add(wandb_summary({{"text", "\"" + std::string(3 * kBlockOfLog, 'x') + "\""}}));
  file.add(wandb_exit(12.75));
  return file.bytes();
}

// Long runs of x are 64 of them, in the golden file as well.
std::string without_filling(const std::string& bytes) {
  std::string rest;
  std::size_t count = 0;
  for (const char byte : bytes) {
    count = byte == 'x' ? count + 1 : 0;
    if (count <= 64) rest += byte;
  }
  return rest;
}

struct Read {
  std::vector<WandbRecord> records;
  std::vector<std::uint64_t> ends;
  WandbEnd end;
};

Read read_as_file(std::string_view bytes) {
  const test::TempFolder folder;
  Read read;
  read.end = each_wandb_record(InFile(folder.write("run.wandb", bytes)), [&](const WandbRecord& record, WandbPlace at) {
    read.records.push_back(record);
    read.ends.push_back(at.end);
  });
  return read;
}

using Why = WandbEnd::Why;

TEST(WandbFile, ItsChecksumIsTheCommonOne) {
  EXPECT_EQ(crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(crc32(""), 0u);
}

TEST(WandbFile, RecordsAreWandbsByteForByte) {
  const std::string ours = golden_file();
  EXPECT_EQ(ours.size() / kBlockOfLog, 9u);
  EXPECT_EQ(without_filling(ours), test::content_of(test::golden("trackers/wandb.log")));
}

TEST(WandbFile, ReadsWhatItWrites) {
  const auto [records, ends, end] = read_as_file(golden_file());
  ASSERT_EQ(records.size(), 20u);
  EXPECT_EQ(read_wandb_run(records[0].content).id, "abcd1234");
  EXPECT_EQ(read_wandb_run(records[0].content).start, 1700000000);
  EXPECT_EQ(read_wandb_values(records[4].content).at("train/loss"), "NaN");
  EXPECT_EQ(records[18].content, wandb_summary({{"text", "\"" + std::string(3 * kBlockOfLog, 'x') + "\""}}).content);
  EXPECT_EQ(records[19].kind, kWandbExit);
  EXPECT_EQ(end.why, Why::whole);
  EXPECT_EQ(end.at, golden_file().size());
}

TEST(WandbFile, ARecordThatIsCutOffEndsIt) {
  const std::string file = golden_file();
  const std::vector<std::uint64_t> ends = read_as_file(file).ends;
  EXPECT_EQ(ends.back(), file.size());
  for (std::size_t i = 0; i < ends.size(); ++i)
    for (const std::uint64_t less : {1, 3, 7, 8}) {
      const Read read = read_as_file(std::string_view(file).substr(0, ends[i] - less));
      EXPECT_EQ(read.records.size(), i) << less;
      EXPECT_EQ(read.end.why, Why::torn) << i << " " << less;
      EXPECT_EQ(read.end.at, i == 0 ? kWandbStart.size() : ends[i - 1]);
    }
  for (const char* none : {"", ":W&B"}) EXPECT_EQ(read_as_file(none).end.why, Why::torn);
  EXPECT_EQ(read_as_file(kWandbStart).end.why, Why::whole);
  EXPECT_EQ(read_as_file("a text").end.why, Why::damaged);
}

TEST(WandbFile, ADamagedByteEndsIt) {
  LogFile log;
  for (int line = 0; line < 3; ++line) log.add(wandb_history({{"train/loss", "2.5"}}, line));
  const std::string& file = log.bytes();
  const std::size_t record = (file.size() - kWandbStart.size()) / 3;  // the first is shorter: its step is not written
  for (std::size_t at = 0; at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    const Read read = read_as_file(damaged);
    const std::size_t whole = read.records.size();
    EXPECT_LT(whole, 3u) << at;
    EXPECT_LE(whole, at / record) << at;
    if (whole < 2) {
      EXPECT_EQ(read.end.why, Why::damaged) << at;
    }
    EXPECT_EQ(read.end.at, at < kWandbStart.size() ? 0 : whole == 0 ? kWandbStart.size() : read.ends.back()) << at;
  }
}

// It seems to run past the end of the file then, as a torn record does.
TEST(WandbFile, ALengthThatIsTooLargeIsDamageWhereRecordsStandBehind) {
  LogFile log;
  for (int line = 0; line < 3; ++line) log.add(wandb_history({{"train/loss", "2.5"}}, line));
  std::string file = log.bytes();
  const std::vector<std::uint64_t> ends = read_as_file(file).ends;
  for (const std::size_t i : {0, 1}) {
    std::string damaged = file;
    damaged[ends[i] + 5] ^= 0x10;
    const Read read = read_as_file(damaged);
    EXPECT_EQ(read.records.size(), i + 1);
    EXPECT_EQ(read.end.why, i == 0 ? Why::damaged : Why::torn);
  }
}

}  // namespace
}  // namespace hone::trackers
