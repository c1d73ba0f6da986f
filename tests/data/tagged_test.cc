// Texts whose words have labels, and answers whose steps have: forms of records, what becomes of them, what is refused.
#include <fmt/format.h>

#include "base/log.h"
#include "data/inspect.h"
#include "data/words.h"
#include "hone/data_in_memory.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Tagged : public ::testing::Test {
 protected:
  static Dataset::Options options(RecordKind records = RecordKind::tagged) {
    Dataset::Options made;
    made.records = records;
    made.packing = Packing::none;
    made.max_length = 64;
    return made;
  }
  std::shared_ptr<const Dataset> make(const std::string& content, const Dataset::Options& how = options(),
                                      const std::map<std::string, std::string>& columns = {}) {
    std::vector<DataFile> all = files({folder_.write(fmt::format("{}.jsonl", ++made_), content)});
    all[0].columns = columns;
    return Dataset::make(all, tokenizer_, how);
  }
  std::string refused(const std::string& content, const Dataset::Options& how = options()) {
    return error_of(ErrorKind::data, [&] { make(content + "\n", how); });
  }
  // "B-PER at 0" and so on, of one row.
  static std::vector<std::string> labels_in(const Dataset& data, std::int64_t row = 0) {
    const HostBatch batch = data.batch({row}, 0);
    std::vector<std::string> all;
    for (std::size_t i = 0; i < batch.labels.size(); ++i)
      if (batch.labels[i] != -100)
        all.push_back(fmt::format("{} at {}", data.labels()[static_cast<std::size_t>(batch.labels[i])], i));
    return all;
  }

  TempFolder folder_;
  const ByteTokenizer tokenizer_{/*bos=*/true, /*eos=*/true};
  int made_ = 0;
};

constexpr const char* kAda = R"({"tokens": ["Ada", "met", "Bo"], "tags": ["B-PER", "O", "B-PER"], "id": 7})";

TEST_F(Tagged, TheFirstTokenOfAWordHasItsLabel) {
  const auto data = make(std::string(kAda) + "\n");
  EXPECT_THAT(data->labels(), ElementsAre("B-PER", "O"));
  EXPECT_THAT(labels_in(*data),
              ElementsAre("B-PER at 1", "O at 4", "B-PER at 8"));  // "<Ada met Bo>", a blank is of "met"
  EXPECT_EQ(data->report().labels, (std::map<std::string, std::int64_t>{{"B-PER", 2}, {"O", 1}}));
  EXPECT_EQ(data->report().supervised, 3);
  EXPECT_EQ(data->report().tokens, 12);
  const HostBatch batch = data->batch({0}, 0);
  EXPECT_EQ(batch.supervised, 3);
  EXPECT_EQ(batch.weight[1], 1.0f);
  EXPECT_EQ(batch.weight[2], 0.0f);
}

TEST_F(Tagged, EveryTokenOfAWordMayHaveIt) {
  Dataset::Options how = options();
  how.token_labels.all = true;
  const auto data = make(std::string(kAda) + "\n", how);
  EXPECT_THAT(data->labels(), ElementsAre("B-PER", "I-PER", "O"));
  EXPECT_THAT(labels_in(*data), ElementsAre("B-PER at 1", "I-PER at 2", "I-PER at 3", "O at 4", "O at 5", "O at 6",
                                            "O at 7", "B-PER at 8", "I-PER at 9", "I-PER at 10"));
}

// Characters, of which some are several bytes; what is cut in two by an entity's end is the entity's whole.
TEST_F(Tagged, SpansBecomeWordsOfAScheme) {
  const auto data = make(
      R"({"text": "Zoë Łu, of New York", "entities": [{"start": 11, "end": 19, "label": "LOC"},)"
      R"( {"start": 0, "end": 6, "label": "PER"}]})"
      "\n");
  EXPECT_THAT(data->labels(), ElementsAre("B-LOC", "B-PER", "I-LOC", "I-PER", "O"));
  EXPECT_THAT(labels_in(*data),
              ElementsAre("B-PER at 1", "I-PER at 5", "O at 9", "O at 10", "B-LOC at 13", "I-LOC at 17"));
}

TEST_F(Tagged, NumbersCountTheLabelsThatAreNamed) {
  const std::string line = R"({"tokens": ["Ada", "met"], "ner_tags": [1, 0]})"
                           "\n";
  EXPECT_THAT(make(line)->labels(), ElementsAre("0", "1"));
  Dataset::Options how = options();
  how.labels = {"O", "B-PER"};
  EXPECT_THAT(labels_in(*make(line, how)), ElementsAre("B-PER at 1", "O at 4"));
  how.labels = {"O"};
  EXPECT_THAT(refused(R"({"tokens": ["Ada"], "ner_tags": [1]})", how), HasSubstr(R"(label "1"; expected one of "O")"));
}

TEST_F(Tagged, WhatIsNotLearntHasNoLabel) {
  const auto data = make(R"({"tokens": ["a", "b", "c"], "labels": [0, -100, 1]})"
                         "\n");
  EXPECT_THAT(labels_in(*data), ElementsAre("0 at 1", "1 at 4"));
}

TEST_F(Tagged, ColumnsSayWhichFieldsAreRead) {
  const std::string line = R"({"words": ["a", "b"], "pos": ["X", "Y"], "text": "a b"})"
                           "\n";
  EXPECT_THAT(make(line, options(), {{"tokens", "words"}, {"tags", "pos"}})->labels(), ElementsAre("X", "Y"));
  EXPECT_THAT(refused(line), HasSubstr("columns: {tokens: words, tags: pos}"));
}

// What is too long loses its end, but not what ends a text; it is counted, and a text that has lost all goes.
TEST_F(Tagged, WhatIsTooLongIsCut) {
  Dataset::Options how = options();
  how.max_length = 6, how.labels = {"B-PER", "O"};
  const auto data = make(std::string(kAda) + "\n", how);
  EXPECT_THAT(labels_in(*data), ElementsAre("B-PER at 1", "O at 4"));
  EXPECT_EQ(data->batch({0}, 0).ids.back(), 257);
  EXPECT_EQ(data->report().cut, 1);
  EXPECT_EQ(data->report().cut_tokens, 6);
  how.overlong = Overlong::keep_end;
  EXPECT_THAT(labels_in(*make(std::string(kAda) + "\n", how)),
              ElementsAre("B-PER at 2"));  // "<t Bo>": of "met" the rest
  how.overlong = Overlong::drop;
  EXPECT_THAT(refused(kAda, how), HasSubstr("1 longer than max_length 6 dropped"));
  how.overlong = Overlong::keep_start, how.max_length = 3, how.labels = {};
  const auto rest =
      make(std::string(R"({"tokens": ["a", "b"], "tags": [-100, "X"]})") + "\n" +
               R"({"tokens": ["a"], "tags": ["Y"]})" + "\n" + R"({"tokens": ["a"], "tags": ["X"]})" + "\n",
           how);
  EXPECT_EQ(rest->report().unsupervised_records, 1);
  EXPECT_EQ(rest->rows(), 2);
}

// Numbers are those of each record, whatever the order and the file that labels come from first; the cache has them.
TEST_F(Tagged, TheCacheHasThem) {
  const std::string a =
      folder_.write("a.jsonl", std::string(kAda) + "\n" + R"({"tokens": ["x"], "tags": ["O"]})" + "\n");
  const std::string b = folder_.write("b.jsonl", R"({"tokens": ["Ulm", "x"], "tags": ["B-LOC", "O"]})"
                                                 "\n");
  Dataset::Options how = options();
  how.cache_folder = folder_.file("cache");
  for (int times = 0; times < 2; ++times) {
    const auto data = Dataset::make(files({a, b}), tokenizer_, how);
    EXPECT_THAT(data->labels(), ElementsAre("B-LOC", "B-PER", "O"));
    EXPECT_THAT(labels_in(*data, 0), ElementsAre("B-PER at 1", "O at 4", "B-PER at 8"));
    EXPECT_THAT(labels_in(*data, 1), ElementsAre("O at 1"));
    EXPECT_THAT(labels_in(*data, 2), ElementsAre("B-LOC at 1", "O at 4"));
  }
  how.token_labels.all = true;
  EXPECT_EQ(Dataset::make(files({a, b}), tokenizer_, how)->report().supervised, 10 + 1 + 3 + 2);
}

// Of a tokenizer that puts nothing around a text its first token has a label like any other.
TEST_F(Tagged, FirstTokensHaveLabels) {
  const ByteTokenizer plain;
  std::vector<Record> records(2);
  records[0].content = TaggedRecord{.words = {"a", "b"}, .tags = {"X", "Y"}};
  records[1].content = TaggedRecord{.words = {"c"}, .tags = {"Y"}};
  const auto data = make_dataset(records, "memory", plain, options());
  EXPECT_THAT(labels_in(*data, 0), ElementsAre("X at 0", "Y at 1"));
  EXPECT_THAT(labels_in(*data, 1), ElementsAre("Y at 0"));
}

TEST_F(Tagged, AReportShowsThem) {
  const auto data = make(std::string(kAda) + "\n");
  const auto records = data::inspect_records(*data);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].supervised, 3);
  EXPECT_EQ(records[0].pieces[0].labels[1], "B-PER");
  EXPECT_EQ(records[0].pieces[0].labels[2], "");
  EXPECT_TRUE(records[0].pieces[0].learnt[1]);
}

TEST_F(Tagged, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(refused(R"({"tokens": ["a", "b"], "tags": ["O"]})"),
              HasSubstr("got 1 label, expected 2, one for each word"));
  EXPECT_THAT(refused(R"({"tokens": "a b", "tags": ["O"]})"), HasSubstr("expected a list of texts"));
  EXPECT_THAT(refused(R"({"tokens": ["a"], "tags": [0.5]})"), HasSubstr("expected a name or a whole number"));
  EXPECT_THAT(refused(R"({"tokens": ["a"], "ner_tags": [0], "labels": [0]})"),
              HasSubstr("ner_tags and labels; expected one"));
  EXPECT_THAT(refused(R"({"text": "a"})"), HasSubstr("no field \"entities\""));
  EXPECT_THAT(refused(R"({"text": "abc", "entities": [{"start": 2, "end": 9, "label": "X"}]})"),
              HasSubstr("an entity at 2 to 9; expected places in a text of 3 characters"));
  EXPECT_THAT(
      refused(
          R"({"text": "abc", "entities": [{"start": 0, "end": 2, "label": "X"},)"
                      R"( {"start": 1, "end": 3, "label": "Y"}]})"),
      HasSubstr("none lie one over the other"));
  EXPECT_THAT(refused(R"({"tokens": ["a", "b"], "tags": ["O", "O"]})"),
              HasSubstr("all that has a label has the label \"O\""));
  EXPECT_THAT(refused(R"({"text": "abc", "label": "X"})"), HasSubstr("no field"));
  EXPECT_THAT(refused(kAda, options(RecordKind::language)), HasSubstr("objective: {type: token_classification}"));
}

TEST_F(Tagged, NoEntityIsLostWithoutAWord) {
  const auto text = [](const std::string& text, const std::string& entities) {
    return R"({"text": ")" + text + R"(", "entities": [)" + entities + "]}";
  };
  EXPECT_THAT(refused(text("Ada  ran", R"({"start": 3, "end": 5, "label": "PER"})")),
              HasSubstr("1.jsonl:1: entity \"PER\" at 3 to 5: no character of a word"));
  EXPECT_THAT(refused(text("  ", R"({"start": 0, "end": 1, "label": "PER"})")), HasSubstr("no character of a word"));
  EXPECT_THAT(refused(R"({"tokens": ["a", " "], "tags": ["O", "B-PER"]})"),
              HasSubstr("3.jsonl:1: word 2 is \" \" and has the label \"B-PER\""));
  EXPECT_THAT(refused(R"({"tokens": ["", "a"], "tags": ["B-PER", "O"]})"), HasSubstr("word 1 is \"\" and"));
  EXPECT_THAT(refused(R"({"tokens": ["a", "\u200b"], "tags": ["O", "B-PER"]})"), HasSubstr("word 2 is"));
  EXPECT_THAT(make(R"({"tokens": ["a", " ", ""], "tags": ["X", "O", -100]})"
                   "\n" +
                   std::string(kAda) + "\n")
                  ->labels(),
              ElementsAre("B-PER", "O", "X"));
  EXPECT_THAT(refused(text("Zoë ran", R"({"start": 0, "end": 3, "label": "PER", "text": "Zo"})")),
              HasSubstr(R"("entities": got an entity at 0 to 3 whose text is "Zo", expected "Zoë", which stands there)"));
  EXPECT_EQ(make(text("Zoë ran", R"({"start": 0, "end": 3, "label": "PER", "text": "Zoë"})") + "\n")->rows(), 1);
}

// The word has the label of the first, and it is told.
TEST_F(Tagged, EntitiesThatShareAWordAreCounted) {
  std::string told;
  log::set_sink([&](log::Level level, std::string_view message) {
    if (level == log::Level::warning) told += message;
  });
  const auto data = make(std::string(kAda) + "\n" +
                         R"({"text": "Ulm-New York", "entities": [{"start": 0, "end": 3, "label": "X"},)"
                         R"( {"start": 4, "end": 12, "label": "Y"}]})"
                         "\n");
  log::set_sink({});
  EXPECT_THAT(told, HasSubstr("1.jsonl: 1 entity is in a word with another entity, which the word has the label of; "
                              "the first at line 2"));
  EXPECT_THAT(labels_in(*data, 1), ElementsAre("B-X at 1", "B-Y at 8"));
}

TEST_F(Tagged, LabelsAreOfOneForm) {
  for (const std::string label : {"B-PER", "I-PER", "O"})
    EXPECT_THAT(refused(R"({"text": "Ada", "entities": [{"start": 0, "end": 3, "label": ")" + label + R"("}]})"),
                HasSubstr("\"entities\": got the label \"" + label + "\", expected what an entity is"));
  EXPECT_THAT(refused(R"({"tokens": ["a", "b"], "tags": ["O", 1]})"),
              HasSubstr("got mixed kinds of labels: names and whole numbers, expected labels of one kind"));
  EXPECT_THAT(refused(R"({"prompt": "a", "completions": ["b", "c"], "labels": [true, 1]})", options(RecordKind::steps)),
              HasSubstr("got mixed kinds of labels: true and false and whole numbers"));
  EXPECT_THAT(refused(std::string(kAda) + "\n" + R"({"tokens": ["a"], "tags": [1]})"),
              HasSubstr(R"(mixed kinds of labels: "1" and "B-PER"; expected names or whole numbers)"));
  const auto entity = [&](const std::string& members) {
    return refused(R"({"text": "Ada", "entities": [{)" + members + "}]}");
  };
  EXPECT_THAT(entity(R"("start": 0, "end": 3)"), HasSubstr("without \"label\", expected {start, end, label}"));
  EXPECT_THAT(entity(R"("start": 0, "label": "X")"), HasSubstr("without \"end\", expected {start, end, label}"));
  EXPECT_THAT(entity(R"("start": 0.5, "end": 3, "label": "X")"),
              HasSubstr("whose \"start\" is 0.5, expected a whole number of characters"));
}

TEST_F(Tagged, StepsHaveLabelsAtTheirEnds) {
  const std::string line = R"({"prompt": "1+1?", "completions": ["It is", "3"], "labels": [true, false]})"
                           "\n";
  Dataset::Options how = options(RecordKind::steps);
  const auto data = make(line, how);
  EXPECT_THAT(data->labels(), ElementsAre("false", "true"));
  EXPECT_THAT(labels_in(*data), ElementsAre("true at 10", "false at 12"));  // "<1+1?It is_3_"
  how.labels = {"LABEL_0", "LABEL_1"};  // as a head of transformers without names calls them
  EXPECT_THAT(labels_in(*make(line, how)), ElementsAre("LABEL_1 at 10", "LABEL_0 at 12"));
  how.labels = {}, how.token_labels.last_step_only = true;
  EXPECT_THAT(refused(line, how), HasSubstr("all that has a label has the label \"false\""));
  EXPECT_THAT(refused(R"({"prompt": "a", "completions": [], "labels": []})", how), HasSubstr("at least one step"));
  EXPECT_THAT(refused(R"({"prompt": "a", "completions": ["b"]})", how), HasSubstr("no field \"labels\""));
}

TEST(Words, AreRunsOfLettersAndSignsAlone) {
  const auto words = [](const std::string& text) {
    std::vector<std::string> all;
    for (const auto& [begin, end] : data::words_in(text)) all.push_back(text.substr(begin, end - begin));
    return all;
  };
  EXPECT_THAT(words("Ada's e-mail, 3.5!"), ElementsAre("Ada", "'s", "e-mail", ",", "3.5", "!"));
  EXPECT_THAT(words(" Zoë\n北京 "), ElementsAre("Zoë", "北", "京"));
  EXPECT_THAT(words("e\u0301 x"), ElementsAre("e\u0301", "x"));
  EXPECT_THAT(words("  "), ElementsAre());
  EXPECT_THAT(words("\u200b so\u00adft"), ElementsAre("so\u00adft"));
}

// Punctuation within a word is of it, at its ends not, but for what follows initials.
TEST(Words, HaveTheirPunctuation) {
  const auto words = [](const std::string& text) {
    std::vector<std::string> all;
    for (const auto& [begin, end] : data::words_in(text)) all.push_back(text.substr(begin, end - begin));
    return all;
  };
  EXPECT_THAT(words("(Baden-Baden), \"O'Fallon\"."),
              ElementsAre("(", "Baden-Baden", ")", ",", "\"", "O'Fallon", "\"", "."));
  EXPECT_THAT(words("O\u2019Fallon\u2019s AT&T"), ElementsAre("O\u2019Fallon", "\u2019s", "AT&T"));
  EXPECT_THAT(words("U.S.A. or U.S.A., e.g. now."), ElementsAre("U.S.A.", "or", "U.S.A.", ",", "e.g.", "now", "."));
  EXPECT_THAT(words("the U.S.A."), ElementsAre("the", "U.S.A."));
  EXPECT_THAT(words("Alan M. Turing has a. Plan B."),
              ElementsAre("Alan", "M.", "Turing", "has", "a", ".", "Plan", "B", "."));
  EXPECT_THAT(words("at 10:30, 1,000 of 1/2 or a/b,c:d"),
              ElementsAre("at", "10:30", ",", "1,000", "of", "1/2", "or", "a", "/", "b", ",", "c", ":", "d"));
  EXPECT_THAT(words("Ulm--Rio end...Begin -x-"), ElementsAre("Ulm", "-", "-", "Rio", "end", ".", ".", ".", "Begin", "-",
                                                             "x", "-"));
  EXPECT_THAT(words("\u5317-\u4eac's"), ElementsAre("\u5317", "-", "\u4eac", "'", "s"));
}

}  // namespace
}  // namespace hone::test
