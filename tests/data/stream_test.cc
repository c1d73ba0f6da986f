// Streams: what comes of them, going on from any step, mixing, ending, and what they refuse.
#include "data/stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "harness/scale.h"
#include "hone/registry.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

// Numbers as texts, without an end where `count` is 0.
class Counting final : public Source {
 public:
  struct Config {
    std::int64_t count = 0;
    static constexpr auto fields() {
      return std::tuple{field("count", &Config::count, "How many records; 0: no end.", at_least(0))};
    }
  };
  explicit Counting(const Config& config) : count_(config.count) {}
  bool next(Record& record) override {
    if (count_ > 0 && made_ == count_) return false;
    record = Record();
    record.content = TextRecord{fmt::format("number {}", ++made_)};
    record.line = made_;
    return true;
  }

 private:
  std::int64_t count_, made_ = 0;
};

class Streams : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (registries().sources.find("counting") == nullptr)
      registries().sources.add<Counting>("counting", "Numbers as texts.");
  }
  void SetUp() override {
    options_.max_length = 32;
    options_.window = 4;
    loading_.batch_size = 2;
    loading_.accumulate = 2;
  }
  std::string lines(const std::string& name, int count, const std::string& word = "record") const {
    std::string content;
    for (int i = 0; i < count; ++i)
      content +=
          fmt::format("{{\"text\": \"{} {}{}\"}}\n", word, i, std::string(static_cast<std::size_t>(i * 7 % 23), 'x'));
    return folder_.write(name, content);
  }
  std::shared_ptr<const TrainingData> open(const std::vector<DataFile>& files) const {
    return data::open_stream(files, std::make_shared<ByteTokenizer>(), options_);
  }
  static DataFile generated(std::int64_t count) {
    DataFile file;
    auto options = std::make_shared<config::OptionsOf<Counting::Config>>();
    options->value.count = count;
    file.source = {"counting", options};
    return file;
  }
  static std::string text_of(const HostBatch& batch, const Doc& doc) {
    std::string text;
    for (std::int32_t t = doc.begin; t < doc.end; ++t) {
      const std::int64_t id = batch.ids[static_cast<std::size_t>(doc.row * batch.length + t)];
      if (id < 256) text.push_back(static_cast<char>(id));
    }
    return text;
  }
  // The groups of `steps` steps, and the position before each.
  struct Run {
    std::vector<std::vector<HostBatch>> groups;
    std::vector<std::string> positions;
  };
  Run run(const std::shared_ptr<const TrainingData>& data, int steps) const {
    Loader loader(data, loading_);
    Run all;
    for (int step = 0; step < steps; ++step) {
      all.positions.push_back(loader.position());
      all.groups.push_back(loader.next());
    }
    return all;
  }
  // From every step, with and without a thread, the rest is the same.
  void expect_resumes(const std::vector<DataFile>& files, int steps = 30) {
    const Run whole = run(open(files), steps);
    ASSERT_FALSE(whole.groups.back().empty());
    for (int step = 0; step < steps; step += scaled(kSlowness > 1 ? 4 : 1, 1)) {
      loading_.ahead = step % 3;
      Loader loader(open(files), loading_);
      loader.seek(step, whole.positions[static_cast<std::size_t>(step)]);
      for (int at = step; at < std::min(step + 7, steps); ++at) {
        const auto group = loader.next();
        const auto& expected = whole.groups[static_cast<std::size_t>(at)];
        ASSERT_EQ(group.size(), expected.size());
        for (std::size_t i = 0; i < group.size(); ++i) {
          ASSERT_EQ(group[i].ids, expected[i].ids) << "from " << step << " at " << at;
          ASSERT_EQ(group[i].labels, expected[i].labels);
          for (std::size_t d = 0; d < group[i].docs.size(); ++d)
            ASSERT_EQ(group[i].docs[d].record, expected[i].docs[d].record);
        }
      }
    }
  }

  TempFolder folder_;
  Dataset::Options options_;
  Loader::Options loading_;
};

TEST_F(Streams, EveryRecordComesOncePerPassAndWindowsAreShuffled) {
  const auto data = open(files({lines("a.jsonl", 60)}));
  Loader loader(data, loading_);
  std::map<std::string, int> seen;
  std::vector<std::string> order;
  for (std::size_t documents = 0; documents < 120;)
    for (const HostBatch& batch : loader.next())
      for (const Doc& doc : batch.docs) {
        ++documents;
        order.push_back(text_of(batch, doc).substr(0, 9));
        if (++seen[data->record_name(doc.record)] > 1) {
          EXPECT_GE(seen.size(), 60u) << "before all were there";
        }
      }
  EXPECT_EQ(seen.size(), 60u);
  EXPECT_TRUE(seen.contains(folder_.file("a.jsonl") + ":60"));
  EXPECT_FALSE(std::is_sorted(order.begin(), order.begin() + 10));
  // The same rows as those of the file read beforehand, where a window holds it all.
  options_.window = 1000;
  loading_.shuffle = false;
  const auto whole = Dataset::make(files({folder_.file("a.jsonl")}), ByteTokenizer(), options_);
  Loader streamed(open(files({folder_.file("a.jsonl")})), loading_), read(whole, loading_);
  for (int step = 0; step < 4; ++step) EXPECT_EQ(streamed.next()[0].ids, read.next()[0].ids);
}

// One line of several records, as json.dump writes it, between others: each has a name and a number of its own.
TEST_F(Streams, NameRecordsOfAOneLineArrayApart) {
  std::string array = "[";
  for (int i = 0; i < 5; ++i) array += fmt::format("{}{{\"text\": \"text {} of the array\"}}", i ? ", " : "", i);
  const std::vector<DataFile> both = files({lines("a.jsonl", 3), folder_.write("b.json", array + "]")});
  std::set<std::string> expected;
  for (int i = 1; i <= 3; ++i) expected.insert(folder_.file("a.jsonl") + fmt::format(":{}", i));
  for (int i = 0; i < 5; ++i) expected.insert(folder_.file("b.json") + fmt::format(":1[{}]", i));
  const auto data = open(both);
  Loader loader(data, loading_);
  std::set<std::string> seen;
  for (int documents = 0; documents < 40;)
    for (const HostBatch& batch : loader.next())
      for (const Doc& doc : batch.docs) ++documents, seen.insert(data->record_name(doc.record));
  EXPECT_EQ(seen, expected);
}

TEST_F(Streams, GoOnFromAnyStep) {
  expect_resumes(files({lines("a.jsonl", 97)}));  // seeks
  loading_.shuffle = false;
  expect_resumes(files({lines("a.jsonl", 97)}), 9);
  loading_.shuffle = true;
  std::string table = "text\n", array = "[";
  for (int i = 0; i < 40; ++i) {
    table += fmt::format("a row {}\n", i);
    array += fmt::format("{}\"text {}\"", i ? "," : "", i);
  }
  expect_resumes(files({folder_.write("a.csv", table)}));  // reads and passes over
  expect_resumes(files({folder_.write("a.json", array + "]")}));
  expect_resumes({generated(0)});
  expect_resumes({generated(11)});
}

TEST_F(Streams, GoOnFromAnyStepWhateverThePacking) {
  for (const Packing packing : {Packing::concat, Packing::none}) {
    options_.packing = packing;
    expect_resumes(files({lines("a.jsonl", 50)}), 20);
  }
}

TEST_F(Streams, GoOnFromAnyStepOfSeveralFilesAndMixtures) {
  lines("many/1.jsonl", 13, "one");
  lines("many/2.jsonl", 1, "two");
  lines("many/3.jsonl", 29, "three");
  std::vector<DataFile> all = files({folder_.file("many"), lines("b.jsonl", 37, "other")});
  expect_resumes({all[0]});
  all[0].max_samples = 20;
  expect_resumes({all[0]});
  all[1].weight = 0.3;
  all.push_back(generated(0));
  expect_resumes(all);
}

TEST_F(Streams, ShareTokensByWeight) {
  std::vector<DataFile> all =
      files({lines("a.jsonl", 100, "first"), lines("b.jsonl", 7, "second"), lines("c.jsonl", 5)});
  all[0].weight = 3;
  all[1].weight = 1;
  all[2].weight = 0;
  options_.window = 50;
  std::map<char, double> tokens;
  for (const auto& group : run(open(all), 150).groups)
    for (const HostBatch& batch : group)
      for (const Doc& doc : batch.docs) tokens[text_of(batch, doc)[0]] += doc.end - doc.begin;
  EXPECT_EQ(tokens.size(), 2u);
  EXPECT_NEAR(tokens['f'] / tokens['s'], 3, 0.2);
}

// By what comes to stand in rows, not by what is read of long records.
TEST_F(Streams, ShareTokensByWeightWhereRecordsAreCut) {
  std::string lengthy;
  for (int i = 0; i < 200; ++i) lengthy += fmt::format("\"f{}\"\n", std::string(static_cast<std::size_t>(300), 'x'));
  const auto both = files({folder_.write("long.jsonl", lengthy), lines("b.jsonl", 7, "second")});
  for (const Overlong overlong : {Overlong::keep_start, Overlong::split}) {
    options_.overlong = overlong;
    options_.window = 50;
    loading_.batch_size = 10;
    std::map<char, double> tokens;
    Loader loader(open(both), loading_);
    for (std::int64_t rows = 0; rows < 400;)
      for (const HostBatch& batch : loader.next()) {
        rows += batch.rows;
        for (const Doc& doc : batch.docs) tokens[text_of(batch, doc)[0] == 's' ? 's' : 'f'] += doc.end - doc.begin;
      }
    EXPECT_NEAR(tokens['f'] / tokens['s'], 1, 0.15);
  }
  options_.overlong = Overlong::keep_start;
  EXPECT_GE(data::first_window(*open(files({folder_.file("long.jsonl")})))->rows(), options_.window);
  // Where nothing is left of any record, memory is not filled without an end.
  options_.overlong = Overlong::drop;
  options_.window = 2;
  EXPECT_THAT(error_of(ErrorKind::data, [&] { run(open(files({folder_.file("long.jsonl")})), 1); }),
              HasSubstr("no supervised token in 200 records"));
}

TEST_F(Streams, AnotherBeginningIsRefused) {
  const std::string path = lines("a.jsonl", 90), table = folder_.write("a.csv", [] {
    std::string text = "text\n";
    for (int i = 0; i < 90; ++i) text += fmt::format("a row of some length {}\n", i);
    return text;
  }());
  const auto rewrite = [](const std::string& file, const auto& change) {
    std::ifstream in(file);
    std::string content((std::istreambuf_iterator<char>(in)), {});
    change(content);
    std::ofstream(file, std::ios::binary) << content;
  };
  for (const std::string& file : {path, table}) {
    const Run whole = run(open(files({file})), 12);
    const auto resume = [&] { Loader(open(files({file})), loading_).seek(11, whole.positions[11]); };
    resume();
    rewrite(file, [](std::string& content) { content += content; });  // what comes later is not compared
    resume();
    rewrite(file, [](std::string& content) { content.replace(content.find(" 7"), 2, " 8"), content.erase(9, 1); });
    EXPECT_THAT(error_of(ErrorKind::data, resume), HasSubstr(file));
    rewrite(file, [](std::string& content) { content.resize(60); });
    EXPECT_THAT(error_of(ErrorKind::data, resume), HasSubstr(file));
  }
  // The first window, while it is trained on.
  const std::string fresh = lines("c.jsonl", 90);
  const std::string early = run(open(files({fresh})), 2).positions[1];
  EXPECT_NE(early.find("\"window\":0"), std::string::npos);
  lines("c.jsonl", 90, "RECORD");
  EXPECT_THAT(error_of(ErrorKind::data, [&] { Loader(open(files({fresh})), loading_).seek(1, early); }),
              HasSubstr("not what the run was trained on so far"));
  // The same number of records and bytes, but one of the window before is another.
  const std::string third = lines("b.jsonl", 90);
  const Run whole = run(open(files({third})), 3);
  lines("b.jsonl", 90, "RECORD");
  EXPECT_THAT(error_of(ErrorKind::data, [&] { Loader(open(files({third})), loading_).seek(2, whole.positions[2]); }),
              HasSubstr("not what the run was trained on so far"));
}

TEST_F(Streams, APipeIsReadToItsEndAndNothingIsLost) {
  const std::string pipe = folder_.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string source = lines("a.jsonl", 41);
  ASSERT_TRUE(data::is_stream(files({pipe})));
  const auto write = [&] { std::ofstream(pipe) << std::ifstream(source).rdbuf(); };
  std::multiset<std::string> texts;
  std::vector<std::string> positions;
  {
    std::thread writer(write);
    Loader loader(open(files({pipe})), loading_);
    while (loader.has_next()) {
      positions.push_back(loader.position());
      for (const HostBatch& batch : loader.next())
        for (const Doc& doc : batch.docs) texts.insert(text_of(batch, doc));
    }
    EXPECT_TRUE(loader.next().empty());
    positions.push_back(loader.position());
    writer.join();
  }
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 41u);
  EXPECT_EQ(texts.size(), 41u);
  ASSERT_GT(positions.size(), 3u);
  // What is behind the end changes nothing of the window that it cut short.
  std::ofstream(source, std::ios::app) << std::ifstream(lines("more.jsonl", 30, "more")).rdbuf();
  for (const std::size_t steps : {positions.size() - 1, positions.size() - 2}) {
    std::thread writer(write);  // the program that prints the same again
    Loader again(open(files({pipe})), loading_);
    again.seek(static_cast<std::int64_t>(steps), positions[steps]);
    std::multiset<std::string> rest;
    while (again.has_next())
      for (const HostBatch& batch : again.next())
        for (const Doc& doc : batch.docs) rest.insert(text_of(batch, doc));
    writer.join();
    const auto is_more = [](const std::string& text) { return text.starts_with("more"); };
    EXPECT_EQ(std::count_if(rest.begin(), rest.end(), is_more), 30);
    EXPECT_EQ(rest.size() > 30, steps + 1 < positions.size());
    EXPECT_EQ(std::set<std::string>(rest.begin(), rest.end()).size(), rest.size());
  }
}

TEST_F(Streams, WhoWaitsForAPipeCanBeTold) {
  const std::string pipe = folder_.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  loading_.ahead = 2;
  {
    Loader loader(open(files({pipe})), loading_);
    const int writer = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // keeps it open, and says too little
    ASSERT_GE(writer, 0);
    EXPECT_EQ(write(writer, "\"a\"\n", 4), 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    loader.seek(0, "");
    close(writer);
  }
  EXPECT_THAT(error_of(ErrorKind::data, [&] { Dataset::make(files({pipe}), ByteTokenizer(), {}); }),
              HasSubstr("a pipe"));
}

TEST_F(Streams, RefuseWhatHasNothingToLearn) {
  const auto refused = [&](const std::string& content) {
    const auto path = folder_.write("a.jsonl", content);
    return error_of(ErrorKind::data, [&] { run(open(files({path})), 1); });
  };
  EXPECT_THAT(refused(""), HasSubstr("a.jsonl: no records"));
  EXPECT_THAT(refused("\"\"\n\"\"\n"), HasSubstr("no supervised token in 2 records"));
  const auto mixed = files({folder_.write("empty.jsonl", "\"\"\n"), lines("b.jsonl", 3)});
  EXPECT_THAT(error_of(ErrorKind::data, [&] { run(open(mixed), 1); }), HasSubstr("empty.jsonl: every record is empty"));
  EXPECT_THAT(refused("{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n"), HasSubstr("no supervised token in"));
  options_.vocab_size = 100;
  EXPECT_THAT(refused("\"z\"\n"), HasSubstr("a.jsonl:1: token id 257; expected less than the model's vocabulary"));
  options_.vocab_size = 0;
  EXPECT_THAT(refused("\"good\"\n{bad\n"), HasSubstr("a.jsonl:2"));
  options_.records = RecordKind::labelled;
  EXPECT_THAT(error_of(ErrorKind::config, [&] { open(files({lines("a.jsonl", 3)})); }),
              HasSubstr("labels are not known before it is read"));
}

TEST_F(Streams, RefuseWhatWouldBeReadWrongly) {
  const std::string pipe = folder_.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of(ErrorKind::config, [&] { open(files({pipe, pipe})); }), HasSubstr("given twice"));
  DataFile with_path = generated(3);
  with_path.path = lines("a.jsonl", 3);
  EXPECT_THAT(error_of(ErrorKind::data, [&] { Dataset::make({with_path}, ByteTokenizer(), {}); }),
              HasSubstr("source counting makes its records itself"));
  options_.records = RecordKind::preference;
  EXPECT_THAT(error_of(ErrorKind::data, [&] { run(open({generated(3)}), 1); }),
              HasSubstr("counting:1: the source gave a language record; this kind of training reads preference"));
}

TEST_F(Streams, AreOthersWithAnotherEndOfText) {
  auto one = files({lines("a.jsonl", 3)});
  one[0].stream = true;
  const auto fingerprint_with = [&](std::int32_t eos_id) {
    auto tokenizer = std::make_shared<ByteTokenizer>();
    tokenizer->eos_id = eos_id;
    return data::open_stream(one, tokenizer, options_)->fingerprint();
  };
  EXPECT_EQ(fingerprint_with(257), open(one)->fingerprint());
  EXPECT_NE(fingerprint_with(258), open(one)->fingerprint());
}

TEST_F(Streams, AreKnownByPipesFlagsAndSources) {
  auto one = files({lines("a.jsonl", 3)});
  EXPECT_FALSE(data::is_stream(one));
  one[0].stream = true;
  EXPECT_TRUE(data::is_stream(one));
  EXPECT_TRUE(data::is_stream({generated(3)}));
  EXPECT_TRUE(data::is_stream(files({"-"})));
  EXPECT_NE(open(one)->fingerprint(), open({generated(3)})->fingerprint());
  const std::string before = open(one)->fingerprint();
  options_.window = 5;
  EXPECT_NE(open(one)->fingerprint(), before);
  EXPECT_FALSE(Loader(open(one), loading_).epoch_at(3).has_value());
}

// Of lists, as they are read before they are trained on; nobody reads a pipe beforehand.
TEST_F(Streams, SayHowManyTextsTheirFirstRecordsHave) {
  const auto entry = [&](const std::string& name, const std::string& content) {
    DataFile file;
    file.path = folder_.write(name, content), file.stream = true;
    return file;
  };
  const std::string bad = R"({"query": "a"})" "\n";
  const DataFile lists = entry("lists.jsonl", R"({"query": "a", "documents": ["b", "c", "d"], "scores": [1, 0, 0]})" "\n"
                                              R"({"query": "a", "positive": "b"})" "\n" + bad),
                 labels = entry("labels.jsonl", R"({"text": "a", "label": 1})" "\n");
  const auto sizes = [&](RecordKind records, const std::vector<DataFile>& files) {
    options_.records = records, options_.packing = Packing::none;
    const auto stream = open(files);
    const auto found = data::sizes_of_first(*stream);
    return found ? std::pair(found->most, found->mean) : std::pair(std::int64_t{-1}, -1.0);
  };
  EXPECT_EQ(sizes(RecordKind::ranked, {lists}), std::pair(std::int64_t{3}, 2.0));
  EXPECT_EQ(sizes(RecordKind::embedding, {lists}), std::pair(std::int64_t{4}, 3.0));
  EXPECT_EQ(sizes(RecordKind::embedding, {labels}), std::pair(std::int64_t{1}, 1.0));
  EXPECT_EQ(sizes(RecordKind::embedding, {lists, labels}).second, 7.0 / 3);
  EXPECT_EQ(sizes(RecordKind::language, {entry("a.jsonl", R"({"text": "a"})" "\n")}).first, -1);
  const std::string pipe = folder_.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  DataFile piped;
  piped.path = pipe;
  EXPECT_EQ(sizes(RecordKind::ranked, {piped}).first, -1);
  EXPECT_EQ(sizes(RecordKind::ranked, {piped, lists}).first, 3);
}

}  // namespace
}  // namespace hone::test
