// Offline runs for W&B: lines, the recipe, resumes, what is uploaded, torn ends, a folder that cannot be written.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/log.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "hone/registry.h"
#include "hone/tracker.h"

namespace hone {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

struct WandbBegin {
  std::int64_t step = 0;
  bool resumed = true;
};

std::unique_ptr<Tracker> wandb(const fs::path& folder, WandbBegin begin, const std::string& options = "{}") {
  const auto& trackers = registries().trackers;
  Problems problems;
  const auto chosen = trackers.options("wandb");
  chosen->read(config::parse_yaml(options, "test", problems), problems, "");
  problems.raise();
  RunInfo run;
  run.folder = folder.string();
  run.config_yaml = "run: {seed: 1}\nmodel: {path: m, sizes: [1, 2.5], tied: true, text: '1'}\n";
  run.start_step = begin.step;
  run.resumed = begin.resumed;
  return trackers.make("wandb", *chosen, run);
}

// A reader of its own, after LevelDB's and protobuf's documents. Fields of a message by number, integers as digits.
using Message = std::multimap<int, std::string>;

Message message_in(const std::string& bytes) {
  Message message;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0; at < bytes.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (at < bytes.size()) {
    const std::uint64_t key = varint(), value = varint();
    EXPECT_TRUE((key & 7) == 0 || (key & 7) == 2);
    const bool is_text = (key & 7) == 2;
    message.emplace(static_cast<int>(key >> 3), is_text ? bytes.substr(at, value) : fmt::format("{}", value));
    if (is_text) at += value;
  }
  return message;
}

std::string text_in(const Message& message, int field) {
  return message.contains(field) ? message.find(field)->second : "";
}

std::vector<Message> records_in(const fs::path& file) {
  const std::string bytes = test::content_of(file);
  std::vector<Message> records;
  std::string record;
  for (std::size_t at = 7; at + 7 <= bytes.size();) {
    const std::size_t size =
        static_cast<unsigned char>(bytes[at + 4]) + 256 * static_cast<unsigned char>(bytes[at + 5]);
    const char kind = bytes[at + 6];
    record += bytes.substr(at + 7, size);
    at += 7 + size;
    if (at > bytes.size()) break;  // cut off
    if (32768 - at % 32768 < 7) at += 32768 - at % 32768;
    if (kind == 1 || kind == 4) records.push_back(message_in(std::exchange(record, "")));
  }
  return records;
}

std::map<std::string, std::string> items_in(const std::string& content) {
  std::map<std::string, std::string> items;
  const Message message = message_in(content);
  for (auto [at, end] = message.equal_range(1); at != end; ++at)
    items[text_in(message_in(at->second), 1)] = text_in(message_in(at->second), 16);
  return items;
}

std::vector<fs::path> files_of(const fs::path& run) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(run / "wandb"))
    if (entry.path().extension() == ".wandb") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// "_step: name value, ..." of each line of the history, without times.
Lines history_in(const fs::path& file) {
  Lines lines;
  for (const Message& record : records_in(file)) {
    if (!record.contains(2)) continue;
    auto items = items_in(text_in(record, 2));
    const std::string number = text_in(message_in(text_in(message_in(text_in(record, 2)), 2)), 1);
    EXPECT_EQ(number.empty() ? "0" : number, items["_step"]);
    std::string line = items["_step"] + ":";
    for (const auto& [name, json] : items)
      if (!name.starts_with("_")) line += fmt::format(" {} {},", name, json);
    lines.push_back(line.substr(0, line.size() - 1));
  }
  return lines;
}

Lines history_of(const fs::path& run) {
  Lines all;
  for (const fs::path& file : files_of(run))
    for (const std::string& line : history_in(file)) all.push_back(line);
  return all;
}

Message run_in(const fs::path& file) { return message_in(text_in(records_in(file).at(1), 17)); }

std::string kinds_in(const fs::path& file) {
  std::string kinds;
  int number = 0;
  for (const Message& record : records_in(file)) {
    EXPECT_EQ(text_in(record, 1), fmt::format("{}", ++number));
    kinds += fmt::format("{} ", record.rbegin()->first);
  }
  return kinds;
}

void limit_files(rlim_t bytes) {  // a write beyond it fails with EFBIG
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
  setrlimit(RLIMIT_FSIZE, &limit);
}

// What is said while it lives, a message a line.
class WandbWords {
 public:
  WandbWords() {
    log::set_sink([this](log::Level, std::string_view text) { said_.emplace_back(text); });
  }
  ~WandbWords() { log::set_sink({}); }
  const Lines& said() const { return said_; }

 private:
  Lines said_;
};

const std::string kStart = "21 17 12 12 ";  // kinds: header, run, two metrics

TEST(WandbTracker, ARunHasItsNumbersAndItsRecipe) {
  const test::TempFolder folder;
  const double before = wall_seconds();
  const auto tracker = wandb(folder / "sft/", {.resumed = false});
  EXPECT_FALSE(fs::exists(folder / "sft"));
  fs::create_directory(folder / "sft");
  tracker->log(1, {{"loss", 2.5}, {"step", 1}, {"rewards/accuracies", 0.5}});
  tracker->log(2, {{"loss", 1.5}, {"learning_rate", 1e-5}});
  EXPECT_EQ(history_of(folder / "sft").size(), 2u);  // there when log() returns
  tracker->log(2, {{"eval_loss", 1.25}, {"eval_code_loss", 3}, {"loss", 1.5}});
  tracker->finish();
  EXPECT_EQ(history_of(folder / "sft"), (Lines{"0: train/global_step 1, train/loss 2.5, train/rewards/accuracies 0.5",
                                               "1: train/global_step 2, train/learning_rate 1e-05, train/loss 1.5",
                                               "2: eval/code_loss 3, eval/loss 1.25, train/global_step 2"}));
  ASSERT_EQ(files_of(folder / "sft").size(), 1u);
  const fs::path file = files_of(folder / "sft")[0];
  EXPECT_THAT(fs::relative(file, folder / "sft").string(),
              testing::MatchesRegex("wandb/offline-run-[0-9]{8}_[0-9]{6}-([a-z0-9]{8})/run-([a-z0-9]{8}).wandb"));
  EXPECT_TRUE(fs::is_directory(file.parent_path() / "files"));
  EXPECT_EQ(test::content_of(file).substr(0, 7), (std::string{":W&B\xE1\xBE\0", 7}));
  EXPECT_EQ(kinds_in(file), kStart + "3 2 3 2 3 2 18 ");
  const Message run = run_in(file);
  EXPECT_EQ(file.filename(), "run-" + text_in(run, 1) + ".wandb");
  EXPECT_EQ(text_in(run, 3), "hone");
  EXPECT_EQ(text_in(run, 8), "sft");
  EXPECT_EQ(
      items_in(text_in(run, 4)),
      (std::map<std::string, std::string>{
          {"run", R"({"seed": 1})"}, {"model", R"({"path": "m", "sizes": [1, 2.5], "tied": true, "text": "1"})"}}));
  const auto times = items_in(text_in(records_in(file).at(9), 2));
  EXPECT_GE(std::stod(times.at("_timestamp")), before);
  EXPECT_LE(std::stod(times.at("_runtime")), wall_seconds() - before);
  EXPECT_EQ(items_in(text_in(records_in(file).at(8), 3)), times);  // a summary of the same values
}

TEST(WandbTracker, NumbersAreOverTheSteps) {
  const test::TempFolder folder;
  wandb(folder.path(), {});
  const std::vector<Message> records = records_in(files_of(folder.path()).at(0));
  EXPECT_EQ(message_in(text_in(records.at(2), 12)), (Message{{1, "train/global_step"}, {6, "\x18\x01"}}));
  EXPECT_EQ(message_in(text_in(records.at(3), 12)),
            (Message{{2, "*"}, {4, "train/global_step"}, {6, "\x08\x01\x18\x01"}}));
}

TEST(WandbTracker, WhatIsNotFiniteIsAsWandbHasIt) {
  const test::TempFolder folder;
  const double infinite = std::numeric_limits<double>::infinity();
  wandb(folder.path(), {})->log(1, {{"a", std::nan("")}, {"b", infinite}, {"c", -infinite}, {"d", 1e300}, {"e", -0.1}});
  EXPECT_EQ(
      history_of(folder.path()),
      Lines{"0: train/a NaN, train/b Infinity, train/c -Infinity, train/d 1e+300, train/e -0.1, train/global_step 1"});
}

TEST(WandbTracker, AResumedRunGoesOnBehindItsCheckpoint) {
  const test::TempFolder folder;
  {
    const auto tracker = wandb(folder.path(), {.resumed = false});
    for (int step = 1; step <= 4; ++step) tracker->log(step, {{"loss", step}, {fmt::format("only_{}", step), 1}});
    tracker->finish();
  }
  const auto tracker = wandb(folder.path(), {.step = 2});
  tracker->log(3, {{"loss", 0.5}});
  EXPECT_EQ(history_of(folder.path()),
            (Lines{"0: train/global_step 1, train/loss 1, train/only_1 1",
                   "1: train/global_step 2, train/loss 2, train/only_2 1", "2: train/global_step 3, train/loss 0.5"}));
  const std::vector<fs::path> files = files_of(folder.path());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(kinds_in(files[0]), kStart + "3 2 3 2 ");
  EXPECT_EQ(kinds_in(files[1]), kStart + "3 3 2 ");
  EXPECT_EQ(files[0].filename(), files[1].filename());  // one id
  const auto start = [](const fs::path& file) { return std::stoll(text_in(message_in(text_in(run_in(file), 17)), 1)); };
  EXPECT_LT(start(files[0]), start(files[1]));
  auto last = items_in(text_in(records_in(files[1]).at(4), 3));  // an upload begins with it
  EXPECT_EQ(last["train/loss"], "2");
  EXPECT_EQ(last["train/only_1"], "1");
  EXPECT_FALSE(last.contains("train/only_3"));
  EXPECT_EQ(last["_step"], "1");
  auto next = items_in(text_in(records_in(files[1]).at(6), 2));
  EXPECT_GT(std::stod(next["_runtime"]), std::stod(last["_runtime"]));  // of all processes
}

TEST(WandbTracker, WhatIsUploadedStaysAndComesAgain) {
  for (const char* mark : {".synced", ".syncstate"}) {
    const test::TempFolder folder;
    {
      const auto tracker = wandb(folder.path(), {.resumed = false});
      for (int step = 1; step <= 3; ++step) tracker->log(step, {{"loss", step}});
    }
    const fs::path first = files_of(folder.path()).at(0);
    const std::string before = test::content_of(first);
    std::ofstream(first.string() + mark).flush();
    wandb(folder.path(), {.step = 2})->log(3, {{"loss", 3}});
    EXPECT_EQ(test::content_of(first), before);
    EXPECT_EQ(history_in(files_of(folder.path()).at(1)), Lines{"3: train/global_step 3, train/loss 3"});
  }
}

// The evaluation at the start, of a process that was killed before its first checkpoint.
TEST(WandbTracker, ARunThatBeginsAnewHasNoLineOfTheOneBefore) {
  const test::TempFolder folder;
  for (int i = 0; i < 2; ++i) wandb(folder.path(), {.resumed = false})->log(0, {{"eval_loss", 2.5}});
  EXPECT_EQ(history_of(folder.path()), Lines{"0: eval/loss 2.5, train/global_step 0"});
}

// A run is killed between an evaluation and its checkpoint, and goes on from one of the same step before it.
TEST(WandbTracker, AnEvaluationThatIsMadeAgainHasItsLineOnce) {
  const test::TempFolder folder;
  const Metrics evaluation{{"eval_loss", 1.25}, {"tokens", 8}};
  {
    const auto tracker = wandb(folder.path(), {.resumed = false});
    tracker->log(2, {{"loss", 1.5}, {"tokens", 8}});
    tracker->log(2, evaluation);
  }
  const Lines lines{"0: train/global_step 2, train/loss 1.5, train/tokens 8", "1: eval/loss 1.25, train/global_step 2"};
  EXPECT_EQ(history_of(folder.path()), lines);
  wandb(folder.path(), {.step = 2})->log(2, evaluation);
  EXPECT_EQ(history_of(folder.path()), lines);
}

TEST(WandbTracker, ATornRecordIsLostAlone) {
  const test::TempFolder folder;
  {
    const auto tracker = wandb(folder.path(), {.resumed = false});
    tracker->log(1, {{"loss", 1}});
    tracker->log(2, {{"loss", 2}});
  }
  const fs::path first = files_of(folder.path()).at(0);
  fs::resize_file(first, fs::file_size(first) - 3);  // killed while it was written
  wandb(folder.path(), {.step = 2})->log(3, {{"loss", 3}});
  EXPECT_EQ(history_of(folder.path()),
            (Lines{"0: train/global_step 1, train/loss 1", "1: train/global_step 3, train/loss 3"}));
}

// Lines up to the checkpoint are never made again.
TEST(WandbTracker, ADamagedRecordCostsNoLineBehindIt) {
  const test::TempFolder first;
  std::vector<std::uintmax_t> ends;
  {
    const auto tracker = wandb(first.path(), {.resumed = false});
    for (int step = 1; step <= 8; ++step) {
      tracker->log(step, {{"loss", step}});
      ends.push_back(fs::file_size(files_of(first.path()).at(0)));
    }
  }
  const fs::path file = fs::relative(files_of(first.path()).at(0), first.path());
  const std::string whole = test::content_of(first / file.string());
  const auto resumed = [&](std::uintmax_t at, int bit, std::int64_t step) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ bit);
    const test::TempFolder folder;
    folder.write(file.string(), damaged);
    const WandbWords words;
    wandb(folder.path(), {.step = step})->log(step + 1, {{"loss", 9}});
    const std::string after = test::content_of(folder / file.string());
    if (after == damaged) {
      EXPECT_EQ(words.said().size(), 1u) << at;
      EXPECT_THAT(words.said(), testing::Each(testing::AllOf(testing::HasSubstr(file.filename().string()),
                                                             testing::HasSubstr("damaged at byte ")))) << at;
    } else {
      EXPECT_EQ(words.said(), Lines{});
    }
    EXPECT_EQ(files_of(folder.path()).size(), 2u);
    EXPECT_EQ(history_in(files_of(folder.path()).back()).size(), 1u);
    return after.size();
  };
  for (const int bit : {1, 0x20})
    for (std::uintmax_t at = ends[0]; at < ends[1]; at += at < ends[0] + 8 ? 1 : 5)
      EXPECT_EQ(resumed(at, bit, 8), whole.size()) << at;
  for (const std::uintmax_t at : {0, 9, 30}) EXPECT_EQ(resumed(at, 1, 8), whole.size());  // nobody knows whose it was
  EXPECT_EQ(resumed(ends[4] + 20, 1, 3), ends[2]);  // what is made again goes, and the damage in it
  EXPECT_EQ(resumed(ends[0] + 20, 1, 1), whole.size());  // the first line that is made again is the damaged one
}

TEST(WandbTracker, AFileThatIsTooLargeForMemoryIsRead) {
  const test::TempFolder folder;
  {
    const auto tracker = wandb(folder.path(), {.resumed = false});
    for (int step = 1; step <= 2; ++step) tracker->log(step, {{"loss", step}});
  }
  const fs::path first = files_of(folder.path()).at(0);
  const std::uint64_t size = std::uint64_t{17} << 30;
  fs::resize_file(first, size);  // a hole
  const WandbWords words;
  wandb(folder.path(), {.step = 2})->log(3, {{"loss", 3}});
  EXPECT_EQ(fs::file_size(first), size);
  EXPECT_EQ(words.said().size(), 1u);
  EXPECT_EQ(history_in(files_of(folder.path()).at(1)), Lines{"2: train/global_step 3, train/loss 3"});
}

TEST(WandbTracker, AFileThatCannotBeReadIsPassedOver) {
  const test::TempFolder folder;
  for (const char* id : {"{id: other}", "{id: mine}"})
    for (int i = 0; i < 2; ++i) wandb(folder.path(), {.step = i}, id)->log(i + 1, {{"loss", i}});
  std::vector<fs::path> files = files_of(folder.path());
  std::erase_if(files, [](const fs::path& file) { return file.filename() != "run-mine.wandb"; });
  fs::permissions(files.at(0), fs::perms::none);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    if (entry.is_directory()) fs::permissions(entry.path(), fs::perms::all);
  fs::permissions(folder.path(), fs::perms::all);
  const uid_t user = ::geteuid();
  if (user == 0 && ::seteuid(65534) != 0) GTEST_SKIP() << "root, who may read everything";
  const WandbWords words;
  wandb(folder.path(), {.step = 2}, "{id: mine}")->log(3, {{"loss", 3}});
  ASSERT_EQ(::seteuid(user), 0);
  fs::permissions(files.at(0), fs::perms::owner_all);
  ASSERT_EQ(words.said().size(), 1u);
  for (const std::string& part : {files.at(0).string(), std::string("cannot open: Permission denied; the file stays")})
    EXPECT_THAT(words.said().at(0), testing::HasSubstr(part));
  EXPECT_EQ(history_of(folder.path()).back(), "2: train/global_step 3, train/loss 3");
}

TEST(WandbTracker, AFileThatIsRemovedMeanwhileIsBegunAnew) {
  const std::vector<std::function<void(const fs::path&, const fs::path&)>> ways{
      [](const fs::path& run, const fs::path&) { fs::remove_all(run / "wandb"); },
      [](const fs::path&, const fs::path& file) { fs::remove_all(file.parent_path()); },
      [](const fs::path&, const fs::path& file) { fs::remove(file); },
      [](const fs::path&, const fs::path& file) { fs::resize_file(file, 0); },
      [](const fs::path&, const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 1); }};
  for (const auto& lose : ways) {
    const test::TempFolder folder;
    const auto tracker = wandb(folder.path(), {.resumed = false});
    for (int step = 1; step <= 2; ++step) tracker->log(step, {{"loss", step}});
    const fs::path file = files_of(folder.path()).at(0);
    const std::string id = text_in(run_in(file), 1);
    const WandbWords words;
    lose(folder.path(), file);
    for (int step = 3; step <= 4; ++step) tracker->log(step, {{"loss", step}});
    EXPECT_EQ(history_of(folder.path()),
              (Lines{"2: train/global_step 3, train/loss 3", "3: train/global_step 4, train/loss 4"}));
    const fs::path now = files_of(folder.path()).at(0);
    EXPECT_EQ(kinds_in(now), kStart + "3 3 2 3 2 ");
    EXPECT_EQ(items_in(text_in(records_in(now).at(4), 3)).at("train/loss"), "2");  // what is uploaded stays so
    EXPECT_EQ(text_in(run_in(now), 1), id);
    EXPECT_TRUE(fs::is_directory(now.parent_path() / "files"));
    ASSERT_EQ(words.said().size(), 1u);
    EXPECT_THAT(words.said().at(0), testing::HasSubstr("removed or cut meanwhile, begun anew"));
  }
}

TEST(WandbTracker, ARunHasTheNameOfItsFolderHoweverThatIsWritten) {
  const test::TempFolder folder;
  for (const char* name : {"one/.", "two/a/..", "three//", "./four/../five/"}) {
    const fs::path run = folder / name;
    fs::create_directories(folder / "four");
    fs::create_directories(run);
    wandb(run, {});
    EXPECT_EQ(text_in(run_in(files_of(run).at(0)), 8), fs::canonical(run).filename());
  }
}

TEST(WandbTracker, GoesOnWhenTheDiskHasRoomAgain) {
  const test::TempFolder folder;
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  limit_files(20);  // a part of the first record
  const auto tracker = wandb(folder.path(), {.resumed = false});
  limit_files(RLIM_INFINITY);
  tracker->log(1, {{"loss", 2.5}});
  const fs::path file = files_of(folder.path()).at(0);
  limit_files(fs::file_size(file) + 70);
  tracker->log(2, {{"loss", 1.5}});
  limit_files(RLIM_INFINITY);
  tracker->log(3, {{"loss", 1.25}});
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(history_of(folder.path()),
            (Lines{"0: train/global_step 1, train/loss 2.5", "1: train/global_step 3, train/loss 1.25"}));
  EXPECT_EQ(kinds_in(file), kStart + "3 2 3 2 ");
}

TEST(WandbTracker, AFolderThatCannotBeWrittenIsAWarning) {
  const test::TempFolder folder;
  const std::int64_t before = log::warnings();
  const auto tracker = wandb(folder / "run", {.resumed = false});
  tracker->log(1, {{"loss", 1}});
  EXPECT_GT(log::warnings(), before);
  fs::create_directory(folder / "run");  // it comes back
  tracker->log(2, {{"loss", 2}});
  EXPECT_EQ(history_of(folder / "run"), Lines{"0: train/global_step 2, train/loss 2"});
}

TEST(WandbTracker, ARunIsShownAsItsOptionsSay) {
  const test::TempFolder folder;
  const std::string options =
      "{project: p, entity: e, name: n, group: g, notes: 'a text', tags: [x, größe], id: my.id}";
  wandb(folder.path(), {}, options)->log(1, {{"loss", 1}});
  const Message run = run_in(files_of(folder.path()).at(0));
  for (const auto& [field, text] : Message{{1, "my.id"}, {2, "e"}, {3, "p"}, {6, "g"}, {8, "n"}, {9, "a text"}})
    EXPECT_EQ(text_in(run, field), text);
  EXPECT_EQ(run.count(10), 2u);
  EXPECT_EQ(run.find(10)->second, "x");
}

// Runs of W&B are a project's: in another one, or under another id, a run begins with its first line.
TEST(WandbTracker, AnotherProjectOrIdIsAnotherRun) {
  const test::TempFolder folder;
  for (const char* options : {"{}", "{project: other}", "{entity: other}", "{id: other}"}) {
    const auto tracker = wandb(folder.path(), {}, options);
    for (int step = 1; step <= 3; ++step) tracker->log(step, {{"loss", step}});
  }
  EXPECT_EQ(history_of(folder.path()).size(), 12u);
  wandb(folder.path(), {.step = 2}, "{project: other}");
  EXPECT_EQ(history_of(folder.path()).size(), 11u);
}

TEST(WandbTracker, FilesOfOthersAreLeftAlone) {
  const test::TempFolder folder;
  const std::string name = "wandb/offline-run-20200101_000000-abcd1234/run-abcd1234.wandb";
  folder.write(name, "not of hone, and not to be cut");
  folder.write("wandb/offline-run-none", "a file");
  wandb(folder.path(), {})->log(1, {{"loss", 1}});
  EXPECT_EQ(test::content_of(folder / name), "not of hone, and not to be cut");
}

TEST(WandbTracker, WhatWandbRefusesIsRefused) {
  const test::TempFolder folder;
  for (const char* options : {"{project: a/b}", "{project: ''}", "{project: 'a#b'}"})
    EXPECT_HONE_ERROR(wandb(folder.path(), {}, options), config, "expected up to 128 characters, none of /\\#?%:");
  for (const char* options : {"{id: a/b}", "{id: ''}", "{id: ' a'}", "{id: 'a:b'}"})
    EXPECT_HONE_ERROR(wandb(folder.path(), {}, options), config, "expected up to 128 characters, none of :;,#?/'");
  EXPECT_HONE_ERROR(wandb(folder.path(), {}, "{tags: [a, '']}"), config, "expected 1 to 64 bytes each");
}

}  // namespace
}  // namespace hone
