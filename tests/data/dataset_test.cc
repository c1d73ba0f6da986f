// Dataset: rows, batches, splits and the errors of whole data sets.
#include <set>

#include "base/log.h"
#include "data/inspect.h"
#include "hone/data.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Dataset> make(const std::vector<std::string>& paths, const Dataset::Options& options = {},
                                    const Tokenizer& tokenizer = ByteTokenizer()) {
  return Dataset::make(files(paths), tokenizer, options);
}

std::string stories(int count) {
  std::string content;
  for (int i = 0; i < count; ++i)
    content += "{\"text\": \"" + std::string(static_cast<std::size_t>(i % 17), 'x') + std::to_string(i) + "\"}\n";
  return content;
}

std::vector<std::int64_t> all_rows(const Dataset& data) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < data.rows(); ++row) rows.push_back(row);
  return rows;
}

// Ids and labels of each document, whatever rows they lie in.
using Content = std::multiset<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>;
Content content_of(const HostBatch& batch) {
  Content content;
  for (const Doc& doc : batch.docs) {
    const auto begin = doc.row * batch.length + doc.begin, end = doc.row * batch.length + doc.end;
    content.insert({{batch.ids.begin() + begin, batch.ids.begin() + end},
                    {batch.labels.begin() + begin, batch.labels.begin() + end}});
  }
  return content;
}

void check_invariants(const HostBatch& batch) {
  const auto cells = static_cast<std::size_t>(batch.rows * batch.length);
  ASSERT_EQ(batch.ids.size(), cells);
  std::vector<std::int64_t> segments(cells, 0), positions(cells, 0);
  std::int64_t tokens = 0, supervised = 0;
  std::map<std::int32_t, std::int64_t> docs;
  for (const Doc& doc : batch.docs) {
    ++docs[doc.row];
    tokens += doc.end - doc.begin;
    for (std::int32_t t = doc.begin; t < doc.end; ++t) {
      const auto cell = static_cast<std::size_t>(doc.row * batch.length + t);
      segments[cell] = docs[doc.row];
      positions[cell] = t - doc.begin;
      const std::int64_t label = batch.labels[cell];
      if (label != -100 && t + 1 < doc.end) {  // the target at t
        EXPECT_EQ(label, batch.ids[cell + 1]);
      }
    }
  }
  EXPECT_EQ(batch.segments, segments);
  EXPECT_EQ(batch.positions, positions);
  for (std::size_t i = 0; i < cells; ++i) {
    supervised += batch.labels[i] != -100;
    EXPECT_EQ(batch.weight[i], batch.labels[i] == -100 ? 0.0f : 1.0f);
    if (segments[i] == 0) {
      EXPECT_EQ(batch.ids[i], 999);
      EXPECT_EQ(batch.labels[i], -100);
    }
  }
  EXPECT_EQ(batch.tokens, tokens);
  EXPECT_EQ(batch.supervised, supervised);
}

TEST(Batch, HoldsDocumentsThatNeverSeeEachOther) {
  const TempFolder folder;
  const std::string path = folder.write("a.jsonl", stories(100));
  for (const Packing packing : {Packing::best_fit, Packing::concat, Packing::none})
    for (const std::int64_t max_length : {1, 5, 16, 300}) {
      Dataset::Options options;
      options.packing = packing;
      options.max_length = max_length;
      const auto data = make({path}, options);
      const HostBatch batch = data->batch(all_rows(*data), 999);
      check_invariants(batch);
      EXPECT_LE(batch.length, max_length);
      EXPECT_EQ(batch.supervised, data->report().supervised);
      EXPECT_EQ(batch.tokens, data->report().tokens);
    }
}

TEST(Batch, HasTheSameContentPackedAndUnpacked) {
  const TempFolder folder;
  const std::string path = folder.write("a.jsonl", stories(200));
  for (const std::int64_t max_length : {7, 64}) {
    Dataset::Options options;
    options.max_length = max_length;
    const auto packed = make({path}, options);
    options.packing = Packing::none;
    const auto single = make({path}, options);
    EXPECT_LT(packed->rows(), single->rows());
    EXPECT_EQ(content_of(packed->batch(all_rows(*packed), 0)), content_of(single->batch(all_rows(*single), 0)));
  }
}

TEST(Batch, IsPaddedOnTheRightToItsLongestRow) {
  const TempFolder folder;
  Dataset::Options options;
  options.packing = Packing::none;
  const auto data =
      make({folder.write("a.jsonl", "{\"text\": \"abcd\"}\n{\"prompt\": \"x\", \"completion\": \"y\"}\n")}, options);
  const HostBatch batch = data->batch({1, 0}, 0);
  EXPECT_EQ(batch.length, 5);
  EXPECT_EQ(batch.ids, (std::vector<std::int64_t>{'x', 'y', 257, 0, 0, 'a', 'b', 'c', 'd', 257}));
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{'y', 257, -100, -100, -100, 'b', 'c', 'd', 257, -100}));
  EXPECT_EQ(batch.segments, (std::vector<std::int64_t>{1, 1, 1, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(batch.docs[0].record, 1);
  EXPECT_EQ(data->record_name(1), folder.file("a.jsonl") + ":2");
  EXPECT_EQ(data->batch({1}, 0).length, 3);
}

TEST(Batch, NamesRecordsOfAOneLineArrayApart) {
  const TempFolder folder;
  Dataset::Options options;
  options.packing = Packing::none;
  const auto data = make({folder.write("a.json", "[\"a\", \"b\"]")}, options);
  EXPECT_EQ(data->record_name(1), folder.file("a.json") + ":1[1]");
}

TEST(Batch, KeepsTheTargetAcrossACut) {
  const TempFolder folder;
  Dataset::Options options;
  options.max_length = 3;
  const auto data = make({folder.write("a.txt", "abcdefg")}, options, ByteTokenizer(false, false, false));
  const HostBatch batch = data->batch(all_rows(*data), 0);
  EXPECT_EQ(batch.rows, 2);  // g alone has no target
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{'b', 'c', 'd', 'e', 'f', 'g'}));
  EXPECT_EQ(batch.positions, (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2}));
}

TEST(Dataset, KeepsTheOrderOfItsFilesAndRecords) {
  const TempFolder folder;
  Dataset::Options options;
  options.packing = Packing::none;
  const auto data =
      make({folder.write("a.jsonl", "\"one\"\n\"\"\n\"two\"\n"), folder.write("b.txt", "three")}, options);
  ASSERT_EQ(data->rows(), 3);
  EXPECT_EQ(data->report().records, 4);
  EXPECT_EQ(data->report().empty, 1);
  EXPECT_EQ(data->batch({0}, 0).ids[0], 'o');
  EXPECT_EQ(data->batch({2}, 0).ids[1], 'h');
  EXPECT_EQ(data->record_name(data->batch({1}, 0).docs[0].record), folder.file("a.jsonl") + ":3");
  EXPECT_EQ(data->record_name(data->batch({2}, 0).docs[0].record), folder.file("b.txt") + ":1");
}

TEST(Dataset, RefusesEmptyAndUnsupervisedData) {
  const TempFolder folder;
  const auto error = [&](const std::string& name, const std::string& content, const Dataset::Options& options = {}) {
    return error_of(ErrorKind::data, [&] { make({folder.write(name, content)}, options); });
  };
  for (const char* name : {"a.jsonl", "a.json", "a.txt", "a.csv", "a.tsv"}) {
    EXPECT_THAT(error(name, ""), HasSubstr(folder.file(name) + ": no records")) << name;
    EXPECT_THAT(error(name, "\n\n\r\n"), HasSubstr("no records")) << name;
  }
  EXPECT_THAT(error("b.json", "[]"), HasSubstr("no records"));
  EXPECT_THAT(error("c.jsonl", "{\"text\": \"\"}\n"), HasSubstr("no supervised token in 1 record: 1 empty"));
  EXPECT_THAT(error("d.jsonl", "{\"input_ids\": [1, 2], \"labels\": [-100, -100]}\n"),
              HasSubstr("no supervised token in 1 record: 1 without a token that is learnt"));
  Dataset::Options cut;
  cut.max_length = 4;
  cut.overlong = Overlong::keep_start;
  EXPECT_THAT(error("e.jsonl", "{\"prompt\": \"a long one\", \"completion\": \"x\"}\n", cut),
              HasSubstr("raise data.max_length"));
}

TEST(Dataset, RefusesIdsBeyondTheVocabulary) {
  const TempFolder folder;
  Dataset::Options options;
  options.vocab_size = 512;
  const auto error = [&](const char* line) {
    return error_of(ErrorKind::data, [&] {
      make({folder.write("a.jsonl", std::string("{\"input_ids\": [1, 511]}\n") + line)}, options);
    });
  };
  EXPECT_THAT(error("{\"input_ids\": [1, 512]}"),
              HasSubstr("a.jsonl:2: token id 512; expected less than the model's vocabulary of 512"));
  EXPECT_THAT(error("{\"input_ids\": [1, 2], \"labels\": [-100, 600]}"), HasSubstr("a.jsonl:2: token id 600"));
  EXPECT_EQ(make({folder.write("b.jsonl", "{\"input_ids\": [1, 511]}\n")}, options)->rows(), 1);
}

TEST(Dataset, RefusesWrongOptions) {
  const TempFolder folder;
  const std::string path = folder.write("a.jsonl", stories(3));
  Dataset::Options options;
  options.max_length = 0;
  EXPECT_THAT(error_of(ErrorKind::config, [&] { make({path}, options); }), HasSubstr("data.max_length: got 0"));
  EXPECT_THAT(error_of(ErrorKind::config, [&] { make({}); }), HasSubstr("no files"));
  auto unused = files({path});
  unused[0].weight = 0;
  EXPECT_THAT(error_of(ErrorKind::config, [&] { Dataset::make(unused, ByteTokenizer(), {}); }),
              HasSubstr("every weight is 0"));
}

TEST(Dataset, HasAFingerprintOfContentTokenizerAndOptions) {
  const TempFolder folder;
  const std::string a = folder.write("a.jsonl", stories(9)), b = folder.write("b.jsonl", stories(10));
  Dataset::Options shorter;
  shorter.max_length = 100;
  std::set<std::string> all = {make({a})->fingerprint(), make({b})->fingerprint(), make({a, b})->fingerprint(),
                               make({a}, shorter)->fingerprint(), make({a}, {}, ByteTokenizer(true))->fingerprint()};
  EXPECT_EQ(all.size(), 5u);
  const auto halves = make({a})->split(0.3, 1);
  all.insert(
      {halves.first->fingerprint(), halves.second->fingerprint(), make({a})->split(0.3, 2).first->fingerprint()});
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(make({a})->fingerprint(), make({folder.write("other.jsonl", stories(9))})->fingerprint());
}

TEST(Split, DealsEachRecordToOnePart) {
  const TempFolder folder;
  const auto data = make({folder.write("a.jsonl", stories(150)), folder.write("b.jsonl", stories(50))});
  const auto [held, rest] = data->split(0.1, 3);
  EXPECT_EQ(held->report().records, 20);
  EXPECT_EQ(rest->report().records, 180);
  std::set<std::int64_t> records;
  for (const auto& part : {rest, held}) {
    const HostBatch batch = part->batch(all_rows(*part), 0);
    for (const Doc& doc : batch.docs) EXPECT_TRUE(records.insert(doc.record).second);
  }
  EXPECT_EQ(records.size(), 200u);
  Content both = content_of(rest->batch(all_rows(*rest), 0));
  both.merge(content_of(held->batch(all_rows(*held), 0)));
  EXPECT_EQ(both, content_of(data->batch(all_rows(*data), 0)));
  const auto again = data->split(0.1, 3), other = data->split(0.1, 4);
  EXPECT_EQ(again.first->batch({0}, 0).ids, held->batch({0}, 0).ids);
  EXPECT_NE(content_of(other.first->batch(all_rows(*other.first), 0)), content_of(held->batch(all_rows(*held), 0)));
}

TEST(Split, HasAtLeastOneRecordInEachPart) {
  const TempFolder folder;
  const auto data = make({folder.write("a.jsonl", "\"one\"\n\"two\"\n")});
  for (const double share : {0.001, 0.5, 0.999}) {
    const auto [held, rest] = data->split(share, 1);
    EXPECT_EQ(rest->report().records, 1);
    EXPECT_EQ(held->report().records, 1);
  }
  const auto one = make({folder.write("b.jsonl", "{\"prompt\": \"p\", \"completion\": \"c\"}\n")});
  EXPECT_THAT(error_of(ErrorKind::data, [&] { one->split(0.5, 1); }), HasSubstr("nothing to hold out"));
  for (const double share : {0.0, 1.0, -1.0, std::nan("")})
    EXPECT_THAT(error_of(ErrorKind::config, [&] { data->split(share, 1); }), HasSubstr("data.eval.held_out"));
}

TEST(Split, CutsASingleTextByPositionAndScoresEachHeldOutByteOnce) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 1234; ++i) text += static_cast<char>('a' + i * i % 26);
  const std::string path = folder.write("a.txt", text);
  for (const bool bos : {false, true})
    for (const Packing packing : {Packing::best_fit, Packing::concat, Packing::none}) {
      Dataset::Options options;
      options.max_length = 64;
      options.packing = packing;
      const auto [held, rest] = make({path}, options, ByteTokenizer(bos))->split(0.1, 1);
      const auto targets = [](const Dataset& data) {
        std::string all;
        const HostBatch batch = data.batch(all_rows(data), 0);
        for (const std::int64_t label : batch.labels)
          if (label >= 0 && label < 256) all.push_back(static_cast<char>(label));
        return all;
      };
      EXPECT_EQ(targets(*held), text.substr(1234 - 123));  // floor(123.4)
      EXPECT_EQ(targets(*rest), text.substr(bos ? 0 : 1, 1234 - 123 - (bos ? 0 : 1)));
      EXPECT_EQ(held->report().supervised, 124);  // and the eos
    }
}

TEST(Inspect, ShowsWhichTokensAreLearnt) {
  const TempFolder folder;
  Dataset::Options options;
  options.max_length = 4;
  const auto data =
      make({folder.write("a.jsonl", "\"abcdef\"\n{\"prompt\": \"abcdef\", \"completion\": \"x\"}\n")}, options);
  const auto records = data::inspect_records(*data);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].tokens, 7);
  EXPECT_EQ(records[0].supervised, 6);
  ASSERT_EQ(records[0].pieces.size(), 2u);
  EXPECT_EQ(records[0].pieces[0].learnt, (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(records[0].pieces[0].next, 'e');
  EXPECT_EQ(records[0].pieces[1].next, -1);
  EXPECT_EQ(records[1].name, folder.file("a.jsonl") + ":2");
  ASSERT_EQ(records[1].pieces.size(), 1u);
  EXPECT_EQ(records[1].pieces[0].ids, (std::vector<std::int32_t>{'e', 'f', 'x', 257}));
  EXPECT_EQ(records[1].pieces[0].learnt, (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ(data::inspect_records(*data, 1).size(), 1u);
  const auto lines = data::report_lines(data->report());
  using Line = std::pair<std::string, std::int64_t>;
  EXPECT_EQ(std::vector<Line>(lines.end() - 4, lines.end()), (std::vector<Line>{{"records split", 1},
                                                                                {"records cut", 1},
                                                                                {"prompts cut", 1},
                                                                                {"tokens cut off or dropped", 4}}));
  EXPECT_EQ(lines[0], (Line("records", 2)));
}

TEST(Batch, KeepsTheTokenThatBeginsTextsInFrontOfACutPrompt) {
  const TempFolder folder;
  Dataset::Options options;
  options.max_length = 5;
  const auto data =
      Dataset::make(files({folder.write("a.jsonl", "{\"prompt\": \"abcdef\", \"completion\": \"xy\"}\n")}),
                    ByteTokenizer(true), options);
  const HostBatch batch = data->batch({0}, 0);
  EXPECT_EQ(batch.ids, (std::vector<std::int64_t>{256, 'f', 'x', 'y', 257}));
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{-100, 'x', 'y', 257, -100}));
  EXPECT_EQ(batch.positions, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(Inspect, FindsTheEosThatACutMadeTheLastTarget) {
  const TempFolder folder;
  Dataset::Options options;
  options.max_length = 4;
  const auto eos = *ByteTokenizer().eos_id;
  for (const char* text : {"abc", "abcd", "abcde", "abcdefgh"}) {  // the last one: eos would be alone in its piece
    const auto data = make({folder.write("a.jsonl", "\"" + std::string(text) + "\"\n")}, options);
    EXPECT_TRUE(data::learns(data::inspect_records(*data).at(0), eos)) << text;
  }
  options.overlong = Overlong::keep_start;
  const auto cut = make({folder.write("a.jsonl", "\"abcdefgh\"\n")}, options);
  EXPECT_FALSE(data::learns(data::inspect_records(*cut).at(0), eos));
  EXPECT_TRUE(data::learns(data::inspect_records(*cut).at(0), 'b'));
  EXPECT_FALSE(data::learns(data::inspect_records(*cut).at(0), 'a')) << "seen, never predicted";
}

// An epoch has whole rows: where that makes another weight of it, the user is told.
TEST(Dataset, TellsWhichWeightItIsThatAFewRowsHave) {
  const TempFolder folder;
  std::string lines, told;
  for (int i = 0; i < 10; ++i) lines += "{\"text\": \"a\"}\n";
  log::set_sink([&](log::Level level, std::string_view message) {
    if (level >= log::Level::warning) told += std::string(message) + "\n";
  });
  Dataset::Options options;
  options.packing = Packing::none;
  std::vector<DataFile> all = files({folder.write("ten.jsonl", lines), folder.write("other.jsonl", lines)});
  for (const double weight : {0.04, 0.25, 0.5, 1.04, 3.0, 0.0}) {
    all[0].weight = weight;
    Dataset::make(all, ByteTokenizer(), options);
  }
  log::set_sink({});
  const std::string begin = folder.file("ten.jsonl") + ": an epoch has whole rows: ";
  EXPECT_EQ(told, begin + "1 of 10 rows for weight 0.04, as if it were 0.1\n" + begin +
                      "3 of 10 rows for weight 0.25, as if it were 0.3\n");
}

}  // namespace
}  // namespace hone::test
