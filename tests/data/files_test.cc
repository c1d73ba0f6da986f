// Folders and patterns as data, and the first records of a file.
#include "data/files.h"

#include <sys/stat.h>

#include "data/cache.h"
#include "data/inspect.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const std::string& path) {
  DataFile entry;
  entry.path = path;
  std::vector<std::string> names;
  for (const DataFile& file : data::files_of(entry).files)
    names.push_back(std::filesystem::path(file.path).filename().string());
  return names;
}
std::string refused_file(const std::string& path) {
  return error_of(ErrorKind::data, [&] { names_of(path); });
}

TEST(Files, AFolderStandsForTheDataInIt) {
  const TempFolder folder;
  for (const char* name : {"d/b.jsonl", "d/a.csv", "d/c.TXT.gz", "d/.hidden.jsonl", "d/README.md", "d/below/e.jsonl"})
    folder.write(name, "x");
  EXPECT_THAT(names_of(folder.file("d")), ElementsAre("a.csv", "b.jsonl", "c.TXT.gz"));
  DataFile entry;
  entry.path = folder.file("d/");
  entry.weight = 2;
  entry.columns = {{"text", "x"}};
  const data::FoundFiles found = data::files_of(entry);
  EXPECT_THAT(found.others, ElementsAre("README.md", "below/"));
  EXPECT_EQ(found.files[1].weight, 2);
  EXPECT_EQ(found.files[1].columns, entry.columns);
}

TEST(Files, APatternStandsForTheFilesThatFit) {
  const TempFolder folder;
  for (const char* name : {"a/1.jsonl", "a/2.jsonl", "b/1.jsonl", "b/1.txt", "b/x.jsonl/y"}) folder.write(name, "x");
  EXPECT_THAT(names_of(folder.file("a/*.jsonl")), ElementsAre("1.jsonl", "2.jsonl"));
  EXPECT_THAT(names_of(folder.file("?/1.jsonl")), ElementsAre("1.jsonl", "1.jsonl"));
  EXPECT_THAT(names_of(folder.file("b/1.{txt,jsonl}")), ElementsAre("1.jsonl", "1.txt"));
  EXPECT_THAT(names_of(folder.file("b/*")), ElementsAre("1.jsonl", "1.txt")) << "a folder is no file";
  folder.write("a/[1].jsonl", "x");
  EXPECT_THAT(names_of(folder.file("a/[1].jsonl")), ElementsAre("[1].jsonl")) << "a file is itself";
}

TEST(Files, WhatIsNoFileIsRefused) {
  const TempFolder folder;
  folder.write("none/a.md", "x");
  folder.write("deep/train/a.jsonl", "x");
  EXPECT_THAT(refused_file(folder.file("none")), HasSubstr("none: a folder without data files; expected .jsonl"));
  EXPECT_THAT(refused_file(folder.file("deep")), HasSubstr("folders in it are not looked into"));
  EXPECT_THAT(refused_file(folder.file("*.jsonl")), HasSubstr("no file fits this pattern"));
  EXPECT_THAT(refused_file(folder.file("**/*.jsonl")), HasSubstr("** is not supported"));
  for (const char* input : {"-", "/dev/stdin"})
    EXPECT_THAT(refused_file(input), HasSubstr("standard input; expected a file"));
  EXPECT_THAT(refused_file("/dev/zero"), HasSubstr("/dev/zero: a device; expected a data file"));
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refused_file(folder.file("pipe")), HasSubstr("a pipe; expected a file"));
  EXPECT_THAT(names_of(folder.file("missing.jsonl")), ElementsAre("missing.jsonl"))
      << "its reader says that it is not there";
}

std::shared_ptr<const Dataset> first_of(const std::string& path, std::optional<std::int64_t> most) {
  DataFile entry;
  entry.path = path;
  entry.max_samples = most;
  return Dataset::make({entry}, ByteTokenizer(), {});
}

std::vector<std::string> read_names(const Dataset& data) {
  std::vector<std::string> names;
  for (const data::InspectedRecord& record : data::inspect_records(data))
    names.push_back(std::filesystem::path(record.name).filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Files, MaxSamplesTakesTheFirstRecordsOfAllFilesTogether) {
  const TempFolder folder;
  folder.write("d/a.jsonl", "\"one\"\n\"two\"\n\"three\"\n");
  folder.write("d/b.jsonl", "\"four\"\n\"five\"\n");
  folder.write("d/c.jsonl", "\"six\"\n");
  EXPECT_THAT(read_names(*first_of(folder.file("d"), 2)), ElementsAre("a.jsonl:1", "a.jsonl:2"));
  const auto data = first_of(folder.file("d"), 4);
  EXPECT_THAT(read_names(*data), ElementsAre("a.jsonl:1", "a.jsonl:2", "a.jsonl:3", "b.jsonl:1"));
  EXPECT_EQ(data->report().records, 4);
  EXPECT_EQ(data->report().files, 2);
  EXPECT_EQ(first_of(folder.file("d"), {})->report().records, 6);
  EXPECT_EQ(first_of(folder.file("d"), 100)->report().records, 6);
}

TEST(Files, MaxSamplesAndTheFilesOfAFolderAreInTheFingerprint) {
  const TempFolder folder;
  folder.write("d/a.jsonl", "\"one\"\n\"two\"\n");
  const std::string whole = first_of(folder.file("d"), {})->fingerprint();
  EXPECT_NE(first_of(folder.file("d"), 1)->fingerprint(), whole);
  folder.write("d/b.jsonl", "\"three\"\n");
  EXPECT_NE(first_of(folder.file("d"), {})->fingerprint(), whole);
}

TEST(Files, TheCacheKnowsHowManyRecordsItHolds) {
  const TempFolder folder;
  DataFile entry;
  entry.path = folder.write("a.jsonl", "\"one\"\n\"two\"\n\"three\"\n");
  Dataset::Options options;
  options.cache_folder = folder.file("cache");
  entry.max_samples = 1;
  EXPECT_EQ(data::load_tokens(entry, ByteTokenizer(), options).store->docs(), 1);
  entry.max_samples.reset();
  EXPECT_EQ(data::load_tokens(entry, ByteTokenizer(), options).store->docs(), 3);
}

TEST(Files, WhatComesBehindMaxSamplesIsNotRead) {
  const TempFolder folder;
  EXPECT_EQ(first_of(folder.write("a.jsonl", "\"one\"\nnot json\n"), 1)->report().records, 1);
}

}  // namespace
}  // namespace hone::test
