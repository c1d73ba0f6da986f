// Texts with labels: their forms, the numbers of labels, cutting, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/inspect.h"
#include "data/pair_tokenizer.h"
#include "data/support.h"
#include "data/tokenise.h"

namespace hone {
namespace {

using test::files;
using test::PairTokenizer;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

Dataset::Options labelled(std::int64_t max_length = 64) {
  Dataset::Options options;
  options.records = RecordKind::labelled;
  options.packing = Packing::none;
  options.max_length = max_length;
  return options;
}

std::shared_ptr<const Dataset> make(const std::vector<DataFile>& all, const Dataset::Options& options = labelled()) {
  static const PairTokenizer tokenizer;
  return Dataset::make(all, tokenizer, options);
}

const std::vector<std::int64_t>& labels_of(const HostBatch& batch) { return batch.extra.at("label").values; }

constexpr const char* kLines =
    "{\"text\": \"ab\", \"label\": \"spam\"}\n"
    "{\"text\": \"c\", \"text_pair\": \"de\", \"label\": \"ham\", \"idx\": 3}\n"
    "{\"text\": \"\", \"label\": \"spam\"}\n";

TEST(Labelled, BatchesHaveLabelsAndTypes) {
  const TempFolder folder;
  const auto data = make(files({folder.write("a.jsonl", kLines)}));
  EXPECT_THAT(data->labels(), ElementsAre("ham", "spam"));
  EXPECT_EQ(data->report().labels, (std::map<std::string, std::int64_t>{{"ham", 1}, {"spam", 2}}));
  EXPECT_EQ(data->report().records, 3);
  const HostBatch batch = data->batch({0, 1, 2}, 9);
  EXPECT_EQ(batch.length, 6);
  EXPECT_THAT(labels_of(batch), ElementsAre(1, 0, 1));
  EXPECT_THAT(batch.ids, ElementsAre(256, 'a', 'b', 257, 9, 9, 256, 'c', 257, 'd', 'e', 257, 256, 257, 9, 9, 9, 9));
  EXPECT_THAT(batch.extra.at("token_type_ids").values,
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(batch.supervised, 0);
  EXPECT_FALSE(data->batch({0, 2}, 9).extra.contains("token_type_ids"));
  const auto records = data::inspect_records(*data);
  EXPECT_EQ(records.at(1).label, "ham");
}

TEST(Labelled, NumbersAreInOrderOfTheirValues) {
  const TempFolder folder;
  std::string lines;
  for (const char* label : {"10", "2", "0", "2", "10", "1"})
    lines += fmt::format("{{\"text\": \"x\", \"label\": {}}}\n", label);
  EXPECT_THAT(make(files({folder.write("a.jsonl", lines)}))->labels(), ElementsAre("0", "1", "2", "10"));
}

TEST(Labelled, TablesAndColumns) {
  const TempFolder folder;
  DataFile file = files({folder.write("sms.tsv", "ham\tHello there\nspam\tWin a prize\nham\tok\n")})[0];
  file.columns = {{"label", "1"}, {"text", "2"}};
  const auto data = make({file});
  EXPECT_THAT(labels_of(data->batch({0, 1, 2}, 0)), ElementsAre(0, 1, 0));
  const auto csv = make(files({folder.write("p.csv", "label,text,text_pair\nx,a,b\ny,c,d\n")}));
  EXPECT_THAT(csv->batch({1}, 0).extra.at("token_type_ids").values, ElementsAre(0, 0, 0, 1, 1));
}

TEST(Labelled, WhatIsIgnoredIsNotRead) {
  const TempFolder folder;
  DataFile file = files({folder.write("a.jsonl", kLines)})[0];
  file.ignore = {"text_pair"};
  EXPECT_FALSE(make({file})->batch({0, 1, 2}, 0).extra.contains("token_type_ids"));
}

TEST(Labelled, ACacheIsOfWhatWasIgnoredWhenItWasMade) {
  const TempFolder folder;
  DataFile file = files({folder.write("a.jsonl", kLines)})[0];
  Dataset::Options options = labelled();
  options.cache_folder = folder.file("cache");
  for (int i = 0; i < 2; ++i) {
    file.ignore.clear();
    EXPECT_TRUE(make({file}, options)->batch({0, 1, 2}, 0).extra.contains("token_type_ids"));
    file.ignore = {"text_pair"};
    EXPECT_FALSE(make({file}, options)->batch({0, 1, 2}, 0).extra.contains("token_type_ids"));
  }
}

TEST(Labelled, KnownLabelsDecideTheNumbers) {
  const TempFolder folder;
  const auto file = files({folder.write("a.jsonl", kLines)});
  Dataset::Options options = labelled();
  options.labels = {"spam", "maybe", "ham"};
  EXPECT_THAT(labels_of(make(file, options)->batch({0, 1, 2}, 0)), ElementsAre(0, 2, 0));
  options.labels = {"spam", "other"};
  EXPECT_THAT(test::error_of(ErrorKind::data, [&] { make(file, options); }),
              HasSubstr("a.jsonl:2: label \"ham\"; expected one of"));
  EXPECT_NE(make(file)->fingerprint(), make(file, [&] {
                                         Dataset::Options other = labelled();
                                         other.labels = {"spam", "ham"};
                                         return other;
                                       }())->fingerprint());
}

TEST(Labelled, WhatIsTooLongIsCutOnceAndCounted) {
  const TempFolder folder;
  const auto file = files({folder.write("a.jsonl",
                                        "{\"text\": \"abcdef\", \"label\": 0}\n"
                                        "{\"text\": \"abcdef\", \"text_pair\": \"xyz\", \"label\": 1}\n"
                                        "{\"text\": \"ab\", \"label\": 1}\n")});
  const auto with = [&](Overlong overlong) {
    Dataset::Options options = labelled(6);
    options.overlong = overlong;
    return make(file, options);
  };
  for (const Overlong overlong : {Overlong::split, Overlong::keep_start}) {
    const auto data = with(overlong);
    EXPECT_THAT(data->batch({0}, 0).ids, ElementsAre(256, 'a', 'b', 'c', 'd', 257));
    EXPECT_THAT(data->batch({1}, 0).ids, ElementsAre(256, 'a', 'b', 257, 'x', 257));
    EXPECT_EQ(data->report().cut, 2);
    EXPECT_EQ(data->report().cut_tokens, 2 + 6);
    EXPECT_EQ(data->report().split, 0);
  }
  EXPECT_THAT(with(Overlong::keep_end)->batch({0}, 0).ids, ElementsAre(256, 'c', 'd', 'e', 'f', 257));
  const auto dropped = with(Overlong::drop);
  EXPECT_EQ(dropped->rows(), 1);
  EXPECT_EQ(dropped->report().dropped, 2);
  EXPECT_THAT(test::error_of(ErrorKind::data, [&] { with(Overlong::error); }), HasSubstr("a.jsonl:1: 8 tokens"));
}

TEST(Labelled, TheCacheKeepsThem) {
  const TempFolder folder;
  const auto file = files({folder.write("a.jsonl", kLines)});
  Dataset::Options options = labelled();
  options.cache_folder = folder.file("cache");
  const auto first = make(file, options), again = make(file, options);
  for (const std::int64_t row : {0, 1, 2}) {
    const HostBatch a = first->batch({row}, 0), b = again->batch({row}, 0);
    EXPECT_EQ(a.ids, b.ids);
    EXPECT_EQ(labels_of(a), labels_of(b));
    EXPECT_EQ(a.extra.size(), b.extra.size());
  }
  EXPECT_EQ(first->labels(), again->labels());
  EXPECT_EQ(first->fingerprint(), again->fingerprint());
  options.max_length = 4;  // cut when tokenised: other tokens
  EXPECT_EQ(make(file, options)->batch({1}, 0).length, 4);
}

TEST(Labelled, AHeldOutShareKeepsAllLabels) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += fmt::format("{{\"text\": \"t{}\", \"label\": \"{}\"}}\n", i, i == 7 ? "rare" : i % 2 ? "a" : "b");
  const auto [held, rest] = make(files({folder.write("a.jsonl", lines)}))->split(0.25, 1);
  EXPECT_EQ(held->rows(), 5);
  EXPECT_EQ(rest->rows(), 15);
  EXPECT_THAT(held->labels(), ElementsAre("a", "b", "rare"));
  EXPECT_EQ(held->labels(), rest->labels());
}

TEST(Labelled, WhatIsNoLabelIsRefused) {
  const TempFolder folder;
  const auto error = [&](const std::string& lines, const std::map<std::string, std::string>& columns = {}) {
    DataFile file = files({folder.write("e.jsonl", lines)})[0];
    file.columns = columns;
    return test::error_of(ErrorKind::data, [&] { make({file}); });
  };
  EXPECT_THAT(error("{\"text\": \"a\", \"label\": 0.5}\n"),
              HasSubstr("e.jsonl:1: field \"label\": got 0.5, expected a name"));
  EXPECT_THAT(error("{\"text\": \"a\", \"label\": [1, 0]}\n"), HasSubstr("got a list"));
  EXPECT_THAT(error("{\"text\": \"a\", \"label\": -1}\n"), HasSubstr("got -1"));
  EXPECT_THAT(error("{\"text\": \"a\", \"label\": \" \"}\n"), HasSubstr("got an empty text"));
  EXPECT_THAT(error("{\"text\": \"a\", \"label\": null}\n"), HasSubstr("got null, expected a value"));
  EXPECT_THAT(error("{\"text\": \"a\"}\n"), HasSubstr("no field \"label\"; found \"text\""));
  EXPECT_THAT(error("\"a text\"\n"), HasSubstr("expected an object with text and label"));
  EXPECT_THAT(error("{\"premise\": \"a\", \"hypothesis\": \"b\", \"label\": 1}\n"),
              HasSubstr("columns: {text: premise, text_pair: hypothesis}"));
  EXPECT_THAT(error("{\"a\": \"x\", \"label\": 1}\n", {{"text", "a"}, {"text_pair", "b"}}),
              HasSubstr("no field \"b\""));
  EXPECT_THAT(error("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 1}\n"),
              HasSubstr("every record has the label \"1\""));
  EXPECT_THAT(error("{\"text\": \"a\", \"label\": 1, \"chosen\": \"b\"}\n"), HasSubstr("field \"chosen\" is for"));
  std::string many;
  for (int i = 0; i < 40; ++i) many += fmt::format("{{\"text\": \"t\", \"label\": \"{}\"}}\n", i);
  EXPECT_THAT(error(many), HasSubstr("40 labels in 40 records"));
  DataFile prompt = files({folder.write("e.jsonl", "{}\n")})[0];
  prompt.columns = {{"prompt", "a"}};
  EXPECT_THAT(test::error_of(ErrorKind::config, [&] { make({prompt}); }),
              HasSubstr("expected one of text, text_pair, label"));
  EXPECT_THAT(test::error_of(ErrorKind::data, [&] { make(files({folder.write("t.txt", "text")})); }),
              HasSubstr("a text file has no labels"));
}

}  // namespace
}  // namespace hone
