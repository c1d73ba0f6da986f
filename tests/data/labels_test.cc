// Several labels of a text, and numbers: what a field may say, what a batch has, and what is refused.
#include "data/labels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "data/inspect.h"
#include "data/pair_tokenizer.h"
#include "data/support.h"
#include "hone/data_in_memory.h"
#include "io/parquet.h"

namespace hone {
namespace {

using test::files;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kSeveral = ProblemType::multi_label_classification;
constexpr auto kNumbers = ProblemType::regression;

class TargetsOfTexts : public testing::Test {
 protected:
  static Dataset::Options options(ProblemType problem, const std::vector<std::string>& labels = {}) {
    Dataset::Options made;
    made.records = RecordKind::labelled;
    made.problem_type = problem;
    made.packing = Packing::none;
    made.labels = labels;
    return made;
  }
  std::shared_ptr<const Dataset> make(const std::string& name, const std::string& text, const Dataset::Options& how) {
    return Dataset::make(files({folder_.write(name, text)}), tokenizer_, how);
  }
  // Of a record whose label is `label`, in JSON.
  std::string error(ProblemType problem, const std::string& label, const std::vector<std::string>& labels = {}) {
    const std::string lines = R"({"text": "a", "label": )" + label + "}\n" + R"({"text": "b", "label": 2})" + "\n";
    return test::error_of(ErrorKind::data, [&] { make("e.jsonl", lines, options(problem, labels)); });
  }
  static HostColumn column(const Dataset& data, const std::vector<std::int64_t>& rows) {
    return data.batch(rows, 0).extra.at("label");
  }
  TempFolder folder_;
  test::PairTokenizer tokenizer_;
};

constexpr const char* kSets =
    R"({"text": "a", "label": ["news", "sport"]}
{"text": "b", "label": []}
{"text": "c", "label": "news"}
{"text": "d", "label": ["sport", "news"]}
)";

TEST_F(TargetsOfTexts, SeveralLabelsAreOnesAndZeros) {
  const auto data = make("a.jsonl", kSets, options(kSeveral));
  EXPECT_THAT(data->labels(), ElementsAre("news", "sport"));
  EXPECT_EQ(data->report().labels, (std::map<std::string, std::int64_t>{{"news", 3}, {"sport", 2}}));
  const HostColumn label = column(*data, {0, 1, 2, 3});
  EXPECT_EQ(label.width, 2);
  EXPECT_EQ(label.per, HostColumn::Per::document);
  EXPECT_THAT(label.numbers, ElementsAre(1, 1, 0, 0, 1, 0, 1, 1));
  const auto shown = data::inspect_records(*data);
  EXPECT_EQ(shown[0].label, "news, sport");
  EXPECT_EQ(shown[1].label, "");
}

constexpr auto kOne = ProblemType::single_label_classification;

TEST_F(TargetsOfTexts, WhiteSpaceAroundALabelIsNoneOfIt) {
  const auto data = make("a.csv", "text,label\na, spam\nb,ham\nc,\"ham \"\nd,spam\n", options(kOne));
  EXPECT_THAT(data->labels(), ElementsAre("ham", "spam"));
  EXPECT_EQ(data->report().labels, (std::map<std::string, std::int64_t>{{"ham", 2}, {"spam", 2}}));
  const auto lines = make("a.jsonl", "{\"text\": \"a\", \"label\": \"\\tx \"}\n{\"text\": \"b\", \"label\": \"y z\"}\n",
                          options(kOne));
  EXPECT_THAT(lines->labels(), ElementsAre("x", "y z"));
  std::vector<Record> records(3);
  records[0].content = LabelledRecord{.text = "a", .label = " x"};
  records[1].content = LabelledRecord{.text = "b", .label = "x"};
  records[2].content = LabelledRecord{.text = "c", .label = "y"};
  EXPECT_THAT(make_dataset(records, "texts", tokenizer_, options(kOne))->labels(), ElementsAre("x", "y"));
}

TEST_F(TargetsOfTexts, LabelsThatDifferByCaseAloneAreToldOf) {
  for (const ProblemType problem : {kOne, kSeveral}) {
    std::string said;
    log::set_sink([&](log::Level, std::string_view text) { said += std::string(text) + "\n"; });
    const auto data = make("a.csv", "text,label\na,Spam\nb,ham\nc,spam\n", options(problem));
    log::set_sink({});
    EXPECT_EQ(data->labels().size(), 3);
    EXPECT_THAT(said, HasSubstr("a.csv: labels \"Spam\" and \"spam\" differ by case alone: they are two labels"));
  }
}

TEST_F(TargetsOfTexts, SeveralLabelsMayBeNumbers) {
  const auto data =
      make("a.jsonl", "{\"text\": \"a\", \"label\": [10, 2]}\n{\"text\": \"b\", \"label\": 3}\n", options(kSeveral));
  EXPECT_THAT(data->labels(), ElementsAre("2", "3", "10"));
  EXPECT_THAT(column(*data, {0, 1}).numbers, ElementsAre(1, 0, 1, 0, 1, 0));
}

TEST_F(TargetsOfTexts, ACellHasAListOrNamesBetweenCommas) {
  const auto data = make("a.csv", "text,label\na,\"news, sport\"\nb,\nc,news\nd,\"[\"\"sport\"\", \"\"a, b\"\"]\"\n",
                         options(kSeveral));
  EXPECT_THAT(data->labels(), ElementsAre("a, b", "news", "sport"));
  EXPECT_THAT(column(*data, {0, 1, 2, 3}).numbers, ElementsAre(0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1));
  const auto numbers = make("b.csv", "text,label\na,0.5\nb, -3 \nc,[1e2]\n", options(kNumbers));
  EXPECT_THAT(column(*numbers, {0, 1, 2}).numbers, ElementsAre(0.5, -3, 100));
}

// What a text says does not depend on the file that it is from.
TEST_F(TargetsOfTexts, ATextIsReadAsACellIs) {
  const std::string lines = R"({"text": "a", "label": "news, sport"}
{"text": "b", "label": "[\"a, b\"]"}
{"text": "c", "label": ""}
)";
  const auto data = make("a.jsonl", lines, options(kSeveral));
  EXPECT_THAT(data->labels(), ElementsAre("a, b", "news", "sport"));
  EXPECT_THAT(column(*data, {0, 1, 2}).numbers, ElementsAre(0, 1, 1, 1, 0, 0, 0, 0, 0));
}

TEST_F(TargetsOfTexts, NumbersAreWhatTheyAre) {
  const auto data = make("a.jsonl",
                         "{\"text\": \"a\", \"label\": 3}\n{\"text\": \"b\", \"label\": -0.1}\n"
                         "{\"text\": \"c\", \"label\": \"2.5\"}\n{\"text\": \"d\", \"label\": [1e-3]}\n",
                         options(kNumbers));
  EXPECT_THAT(data->labels(), ElementsAre("LABEL_0"));
  EXPECT_THAT(column(*data, {0, 1, 2, 3}).numbers, ElementsAre(3, -0.1, 2.5, 1e-3));
  const LabelNumbers& seen = data->report().label_numbers.at("LABEL_0");
  EXPECT_EQ(seen.low, -0.1);
  EXPECT_EQ(seen.high, 3);
  EXPECT_NEAR(seen.sum, 5.401, 1e-12);
  EXPECT_EQ(seen.count, 4);
  EXPECT_TRUE(data->report().labels.empty());
  EXPECT_EQ(data::inspect_records(*data)[1].label, "-0.1");
}

TEST_F(TargetsOfTexts, SeveralNumbersHaveTheNamesOfTheirLabels) {
  const std::string lines = "{\"text\": \"a\", \"label\": [3, 0.5]}\n{\"text\": \"b\", \"label\": [4, 1]}\n";
  EXPECT_THAT(make("a.jsonl", lines, options(kNumbers))->labels(), ElementsAre("LABEL_0", "LABEL_1"));
  const auto data = make("a.jsonl", lines, options(kNumbers, {"help", "length"}));
  EXPECT_THAT(column(*data, {1, 0}).numbers, ElementsAre(4, 1, 3, 0.5));
  EXPECT_EQ(data->report().label_numbers.at("length").high, 1);
  EXPECT_EQ(data::inspect_records(*data)[0].label, "3, 0.5");
}

TEST_F(TargetsOfTexts, TheCacheAndCutsKeepThem) {
  Dataset::Options how = options(kNumbers);
  how.cache_folder = folder_.file("cache");
  const std::string lines = "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 2}\n";
  const auto first = make("a.jsonl", lines, how), again = make("a.jsonl", lines, how);
  EXPECT_EQ(column(*first, {0, 1}).numbers, column(*again, {0, 1}).numbers);
  EXPECT_EQ(first->fingerprint(), again->fingerprint());
  how.problem_type = kSeveral;  // of the same file: other labels, and another cache
  EXPECT_THAT(column(*make("a.jsonl", lines, how), {0, 1}).numbers, ElementsAre(1, 0, 0, 1));
  EXPECT_NE(make("a.jsonl", lines, how)->fingerprint(), first->fingerprint());
  const auto [held, rest] = first->split(0.5, 1);
  EXPECT_EQ(held->labels(), rest->labels());
}

// A program and a plug-in may write them as they like.
TEST_F(TargetsOfTexts, RecordsInMemory) {
  std::vector<Record> records(2);
  records[0].content = LabelledRecord{.text = "a", .label = "b, a"};
  records[1].content = LabelledRecord{.text = "b", .label = R"(["b"])"};
  const auto data = make_dataset(records, "texts", tokenizer_, options(kSeveral));
  EXPECT_THAT(column(*data, {0, 1}).numbers, ElementsAre(1, 1, 0, 1));
  const auto bad = [&] { make_dataset(records, "texts", tokenizer_, options(kNumbers)); };
  EXPECT_THAT(test::error_of(ErrorKind::data, bad),
              HasSubstr("texts:1: field \"label\": got \"b, a\", expected a number"));
}

// A cell of a table has no type: it is a number where JSON would have one.
TEST_F(TargetsOfTexts, NumbersWithAPointAreNoLabelsInTablesEither) {
  const auto refused = [&](const std::string& cell, ProblemType problem = kOne) {
    return test::error_of(ErrorKind::data,
                          [&] { make("n.csv", "text,label\na," + cell + "\nb,x\n", options(problem)); });
  };
  for (const char* cell : {"2.5", "0.0", " 1.0", "-1.0", "1e3"})
    EXPECT_THAT(refused(cell), HasSubstr("n.csv:2: field \"label\": got ")) << cell;
  EXPECT_THAT(refused("1.0"), HasSubstr("got 1.0, expected a name or a whole number"));
  EXPECT_THAT(refused("\"a,0.5\"", kSeveral), HasSubstr("got 0.5, expected a list of names or whole numbers"));
  const auto names = make("v.csv", "text,label\na,v1.0\nb,inf\nc,nan\n", options(kOne));
  EXPECT_THAT(names->labels(), ElementsAre("inf", "nan", "v1.0"));
  EXPECT_EQ(make("r.csv", "text,label\na,0.5\nb,1\n", options(kNumbers))->labels().size(), 1u);
  const auto texts = make("t.jsonl", "{\"text\": \"a\", \"label\": \"1.0\"}\n{\"text\": \"b\", \"label\": \"2.0\"}\n",
                          options(kOne));
  EXPECT_THAT(texts->labels(), ElementsAre("1.0", "2.0"));
}

TEST_F(TargetsOfTexts, OfParquetHaveTheNamesThatDatasetsWrote) {
  if (!io::has_parquet()) GTEST_SKIP() << "this build reads no Parquet";
  const std::string path = std::string(HONE_SOURCE_DIR) + "/tests/golden/data/classes.parquet";
  Dataset::Options how = options(kOne);
  const auto data = Dataset::make(files({path}), tokenizer_, how);
  EXPECT_THAT(data->labels(), ElementsAre("no", "yes"));
  EXPECT_THAT(column(*data, {0, 1}).values, ElementsAre(1, 0));
  how.records = RecordKind::tagged;
  std::vector<DataFile> of_words = files({path});
  of_words[0].ignore = {"label"};
  EXPECT_THAT(Dataset::make(of_words, tokenizer_, how)->labels(), ElementsAre("B-PER", "O"));
  how = options(kNumbers);
  EXPECT_THAT(column(*Dataset::make(files({path}), tokenizer_, how), {0, 1}).numbers, ElementsAre(1, 0));
}

TEST_F(TargetsOfTexts, WhatIsNoTargetIsRefused) {
  EXPECT_THAT(error(kSeveral, "[1, 0, 0]"), HasSubstr("e.jsonl:1: field \"label\": got \"0\" twice in a list"));
  EXPECT_THAT(error(kSeveral, "[1.0, 0.0]"), HasSubstr("got 1.0 in a list, expected a list of names"));
  EXPECT_THAT(error(kSeveral, "[[1]]"), HasSubstr("got a list in a list"));
  EXPECT_THAT(error(kSeveral, "[\"\"]"), HasSubstr("got an empty text"));
  EXPECT_THAT(error(kSeveral, "{\"a\": 1}"), HasSubstr("got an object"));
  EXPECT_THAT(error(kSeveral, "[2]"), HasSubstr("every record has the labels [\"2\"]; expected others in some"));
  EXPECT_THAT(error(kSeveral, "[3]", {"2", "4"}), HasSubstr("e.jsonl:1: label \"3\"; expected one of \"2\", \"4\""));
  EXPECT_THAT(error(kNumbers, "\"high\""), HasSubstr("e.jsonl:1: field \"label\": got \"high\", expected a number"));
  EXPECT_THAT(error(kNumbers, "true"), HasSubstr("got a boolean, expected a number"));
  EXPECT_THAT(error(kNumbers, "[]"), HasSubstr("got an empty list"));
  EXPECT_THAT(error(kNumbers, "2.0"), HasSubstr("every record has the number 2.0; expected different ones"));
  EXPECT_THAT(error(kNumbers, "[1, 2]"), HasSubstr("e.jsonl:2: 1 number; expected 2: \"LABEL_0\", \"LABEL_1\""));
  EXPECT_THAT(error(kNumbers, "[1, 2]", {"score"}), HasSubstr("e.jsonl:1: 2 numbers; expected 1: \"score\""));
  EXPECT_THAT(error(kNumbers, "1e999"), HasSubstr("e.jsonl"));
  constexpr auto kOne = ProblemType::single_label_classification;
  EXPECT_THAT(error(kOne, "[1, 0]"), HasSubstr("multi_label_classification learns several"));
  EXPECT_THAT(error(kOne, "0.5"), HasSubstr("regression learns numbers"));
  EXPECT_THAT(error(kOne, "null"), HasSubstr("e.jsonl:1: field \"label\": got null, expected a value"));
  EXPECT_THAT(error(kOne, "true"), HasSubstr("e.jsonl: mixed kinds of labels: \"2\" and \"true\"; expected names or "
                                             "whole numbers"));
  const auto python = [&] { make("p.csv", "text,label\na,\"['x']\"\n", options(kSeveral)); };
  EXPECT_THAT(test::error_of(ErrorKind::data, python), HasSubstr("a text with a list holds JSON"));
}

}  // namespace
}  // namespace hone
