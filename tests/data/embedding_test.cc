// Texts to embed: forms of records, which documents they become, and what is refused.
#include <fmt/format.h>

#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextsToEmbed : public ::testing::Test {
 protected:
  static Dataset::Options options(std::int64_t max_length = 64) {
    Dataset::Options made;
    made.records = RecordKind::embedding;
    made.packing = Packing::none;
    made.max_length = max_length;
    return made;
  }
  std::shared_ptr<const Dataset> make(const std::string& content, const Dataset::Options& how = options(),
                                      const std::map<std::string, std::string>& columns = {},
                                      const std::string& name = "a.jsonl") {
    std::vector<DataFile> all = files({folder_.write(name, content)});
    all[0].columns = columns;
    return Dataset::make(all, *tokenizer_, how);
  }
  // "query: ab | chosen: c" of a row.
  std::string row(const Dataset& data, std::int64_t number = 0) const {
    std::string text;
    for (const HostDoc& doc : data.row(number)) {
      const std::vector<std::int32_t> ids(doc.ids.begin(), doc.ids.end());
      const char* role = doc.role == Role::query ? "query" : doc.role == Role::chosen ? "chosen" : "rejected";
      text += fmt::format("{}{}: {}", text.empty() ? "" : " | ", role, tokenizer_->decode(ids, true));
    }
    return text;
  }
  std::string refused(const std::string& line) {
    return error_of(ErrorKind::data, [&] { make(line + "\n"); });
  }
  TempFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer("bytes");
};

TEST_F(TextsToEmbed, AreDocumentsOfOneRow) {
  EXPECT_EQ(row(*make(R"({"query": "ab", "positive": "c"})")), "query: ab | chosen: c");
  EXPECT_EQ(row(*make(R"({"anchor": "ab", "positive": "c", "negative": "d"})")), "query: ab | chosen: c | rejected: d");
  const auto many = make(R"({"query": "ab", "positive": "c", "negatives": ["d", "ef"]})"
                         "\n"
                         R"({"query": "g", "positive": "h", "negatives": []})");
  EXPECT_EQ(row(*many), "query: ab | chosen: c | rejected: d | rejected: ef");
  EXPECT_EQ(row(*many, 1), "query: g | chosen: h");
  const HostBatch batch = many->batch({0, 1}, 0);
  EXPECT_EQ(batch.docs.size(), 6u);
  EXPECT_EQ(batch.supervised, 0);
  EXPECT_EQ(batch.docs[3].group, 0);
  EXPECT_EQ(batch.docs[4].group, 1);
  EXPECT_FALSE(batch.extra.contains("score"));
}

TEST_F(TextsToEmbed, MayHaveNegativesInSeveralFields) {
  const auto data = make(R"({"query": "a", "positive": "b", "negative_2": "d", "negative_10": "e", "negative_1": "c"})"
                         "\n"
                         R"({"query": "a", "positive": "b", "negative": "x", "negative_1": ["y", "z"]})");
  EXPECT_EQ(row(*data), "query: a | chosen: b | rejected: c | rejected: d | rejected: e");
  EXPECT_EQ(row(*data, 1), "query: a | chosen: b | rejected: x | rejected: y | rejected: z");
  EXPECT_EQ(row(*make("query,positive,negative_1,negative_2\na,b,c,d\n", options(), {}, "a.csv")),
            "query: a | chosen: b | rejected: c | rejected: d");
}

TEST_F(TextsToEmbed, MayHaveAScore) {
  const auto data = make(R"({"sentence1": "ab", "sentence2": "c", "score": 0.25})"
                         "\n"
                         R"({"query": "a", "positive": "c", "score": -1.5})");
  EXPECT_THAT(data->batch({0, 1}, 0).extra.at("score").numbers, ElementsAre(0.25, 1, 0.25, 1, -1.5, 1, -1.5, 1));
}

// What a teacher says is of a query's texts, and not of the query; a margin is a difference of two of them.
TEST_F(TextsToEmbed, MayHaveScoresOfATeacher) {
  const auto numbers = [&](const std::string& line) { return make(line)->batch({0}, 0).extra.at("score").numbers; };
  const std::string pair = R"({"query": "a", "positive": "b", "negative": "c", )";
  EXPECT_THAT(numbers(pair + R"("scores": [2, -1.5]})"), ElementsAre(0, 0, 2, 1, -1.5, 1));
  EXPECT_THAT(numbers(pair + R"("score": 0.5})"), ElementsAre(0, 0, 0, 1, -0.5, 1));
  const std::string three = R"({"query": "a", "positive": "b", "negative_1": "c", "negative_2": "d", )";
  EXPECT_THAT(numbers(three + R"("scores": [0.5, 2]})"), ElementsAre(0, 0, 0, 1, -0.5, 1, -2, 1));
  const auto listed = make(R"({"query": "a", "documents": ["b", "c", "d"], "scores": [3, 2, 1]})");
  EXPECT_EQ(row(*listed), "query: a | chosen: b | rejected: c | rejected: d");
  EXPECT_THAT(listed->batch({0}, 0).extra.at("score").numbers, ElementsAre(0, 0, 3, 1, 2, 1, 1, 1));
  const auto renamed = make(R"({"q": "a", "docs": ["b", "c"], "labels": [1, 0]})", options(),
                            {{"query", "q"}, {"documents", "docs"}, {"scores", "labels"}});
  EXPECT_THAT(renamed->batch({0}, 0).extra.at("score").numbers, ElementsAre(0, 0, 1, 1, 0, 1));
  EXPECT_THAT(make("query,positive,negative,scores\na,b,c,\"[2, 1]\"\n", options(), {}, "a.csv")
                  ->batch({0}, 0).extra.at("score").numbers,
              ElementsAre(0, 0, 2, 1, 1, 1));
  EXPECT_THAT(refused(three + R"("score": 1})"), HasSubstr("got one number, expected one for each of 3 texts, or"));
  EXPECT_THAT(refused(three + R"("scores": [1, 2, 3, 4]})"), HasSubstr("got 4 numbers, expected one for each of 3"));
  EXPECT_THAT(refused(pair + R"("scores": [1, "x"]})"), HasSubstr("got \"x\", expected a list of numbers"));
  EXPECT_THAT(refused(pair + R"("scores": [1, "0"]})"), HasSubstr("a.jsonl:1: field \"scores\": got \"0\", expected a"));
  EXPECT_THAT(refused(pair + R"("score": "[2, -1.5]"})"), HasSubstr("in quotes it is a text: write it without them"));
  EXPECT_THAT(refused(R"({"query": "a", "documents": ["b", "c"]})"), HasSubstr("no field \"scores\""));
  EXPECT_THAT(refused(R"({"query": "a", "positive": "b", "documents": ["c"], "scores": [1]})"),
              HasSubstr("both \"positive\" and \"documents\""));
  EXPECT_THAT(refused(R"({"query": "a", "documents": "b", "scores": [1]})"), HasSubstr("expected a list of texts"));
}

// A table's cells are all texts, and so is what a template makes.
TEST_F(TextsToEmbed, ATextIsNoScoreButInTables) {
  const std::string pair = R"({"query": "a", "positive": "b", "score": )";
  EXPECT_THAT(refused(pair + "1}\n" + pair + R"("0.5"})"),
              HasSubstr("a.jsonl:2: field \"score\": got \"0.5\", expected a number\n  hint: in quotes it is a text"));
  EXPECT_THAT(refused(pair + R"("much"})"), ::testing::Not(HasSubstr("in quotes")));
  const auto scores = [&](const std::string& lines, const std::map<std::string, std::string>& columns,
                          const std::string& name) {
    return make(lines, options(), columns, name)->batch({0}, 0).extra.at("score").numbers;
  };
  EXPECT_THAT(scores("query,positive,score\na,b, 0.5\n", {}, "a.csv"), ElementsAre(0.5, 1, 0.5, 1));
  EXPECT_THAT(scores("query,positive,worth\na,b,-2e-3\n", {{"score", "worth"}}, "a.csv"),
              ElementsAre(-0.002, 1, -0.002, 1));
  EXPECT_THAT(scores("query,positive,n\na,b,3\n", {{"score", "{{ n | int / 4 }}"}}, "a.csv"),
              ElementsAre(0.75, 1, 0.75, 1));
  EXPECT_THAT(scores(pair + "3}", {{"score", "{{ score / 4 }}"}}, "a.jsonl"), ElementsAre(0.75, 1, 0.75, 1));
  for (const char* cell : {"", "nan", "much"})
    EXPECT_THAT(error_of(ErrorKind::data,
                         [&] { scores(fmt::format("query,positive,score\na,b,{}\n", cell), {}, "a.csv"); }),
                HasSubstr(fmt::format("a.csv:2: field \"score\": got \"{}\", expected a number", cell)));
}

TEST_F(TextsToEmbed, ATextWithALabelHasNoScore) {
  const auto told = [&](const std::map<std::string, std::string>& columns, const std::string& line) {
    return error_of(ErrorKind::data, [&] { make(line + "\n", options(), columns); });
  };
  const std::string fact = "a.jsonl:1: a text with \"label\", and \"{}\"; expected a text with a label, or two texts";
  EXPECT_THAT(told({}, R"({"text": "a", "label": 1, "score": 0.5})"), HasSubstr(fmt::format(fmt::runtime(fact), "score")));
  EXPECT_THAT(told({{"score", "worth"}}, R"({"text": "a", "label": 1, "worth": 0.5})"),
              HasSubstr(fmt::format(fmt::runtime(fact), "worth")));
}

TEST_F(TextsToEmbed, MayStandAloneWithALabel) {
  const auto data = make(R"({"text": "ab", "label": 3})"
                         "\n"
                         R"({"text": "c", "label": "rain"})"
                         "\n"
                         R"({"text": "d", "label": "3"})");
  EXPECT_EQ(row(*data), "query: ab");
  const std::vector<std::int64_t> labels = data->batch({0, 1, 2}, 0).extra.at("class").values;
  EXPECT_EQ(labels[0], labels[2]);
  EXPECT_NE(labels[0], labels[1]);
  EXPECT_TRUE(labels[0] != 0 && labels[1] != 0);
  EXPECT_EQ(data->rows(), 3);
  EXPECT_EQ(make("text,label\nab,3\n", options(), {}, "a.csv")->batch({0}, 0).extra.at("class").values[0], labels[0]);
  EXPECT_EQ(row(*make(R"({"sentence": "ab", "class": 1})", options(), {{"text", "sentence"}, {"label", "class"}})),
            "query: ab");
  EXPECT_THAT(refused(R"({"text": "ab"})"), HasSubstr("no field \"query\""));
  EXPECT_THAT(refused(R"({"text": "ab", "label": 0.5})"), HasSubstr("field \"label\": got 0.5"));
  Dataset::Options how = options();
  how.query_prompt = "q:", how.document_prompt = "d:";
  EXPECT_EQ(row(*make(R"({"text": "ab", "label": 1})", how)), "query: q:ab");
}

TEST_F(TextsToEmbed, ScoresAndLabelsAreTheSameFromTheCache) {
  Dataset::Options how = options();
  how.cache_folder = folder_.file("cache");
  const std::string lines = R"({"query": "ab", "positive": "c", "negative": "d", "scores": [0.1, -3e-7]})"
                            "\n"
                            R"({"text": "ab", "label": "x"})";
  const auto first = make(lines, how)->batch({0, 1}, 0), again = make(lines, how)->batch({0, 1}, 0);
  EXPECT_EQ(first.extra.at("score").numbers, again.extra.at("score").numbers);
  EXPECT_EQ(first.extra.at("class").values, again.extra.at("class").values);
}

// Each of a query's texts is read behind it.
TEST_F(TextsToEmbed, ArePairsWhereTheyAreRanked) {
  Dataset::Options how = options();
  how.records = RecordKind::ranked;
  const auto data = make(R"({"query": "ab", "documents": ["c", "d", "e"], "scores": [1, 0.5, 0]})"
                         "\n"
                         R"({"query": "ab", "positive": "c", "negatives": ["d"]})",
                         how);
  EXPECT_EQ(row(*data), "chosen: abc | rejected: abd | rejected: abe");
  const HostBatch batch = data->batch({0, 1}, 0);
  EXPECT_THAT(batch.extra.at("score").numbers, ElementsAre(1, 1, 0.5, 1, 0, 1, 0, 0, 0, 0));
  EXPECT_EQ(batch.docs[2].group, 0);
  EXPECT_EQ(batch.docs[3].group, 1);
  how.max_length = 2;
  EXPECT_EQ(make(R"({"query": "ab", "positive": "c", "negatives": ["d"]})", how)->report().cut, 1);
}

TEST_F(TextsToEmbed, StandBehindTheirPrompts) {
  Dataset::Options how = options();
  how.query_prompt = "q:", how.document_prompt = "d:";
  EXPECT_EQ(row(*make(R"({"query": "ab", "positive": "c", "negative": "e"})", how)),
            "query: q:ab | chosen: d:c | rejected: d:e");
}

// Else all texts were the same.
TEST_F(TextsToEmbed, AreNotReadBehindAPromptThatLeavesNothing) {
  Dataset::Options how = options(10);
  how.document_prompt = "12345678901234567890";
  const std::string line = R"({"query": "ab", "positive": "c"})";
  EXPECT_THAT(error_of(ErrorKind::config, [&] { make(line, how); }),
              HasSubstr("tokens and max_length is 10: nothing of a text is left"));
  how.overlong = Overlong::keep_end;
  EXPECT_EQ(make(line, how)->rows(), 1);
}

TEST_F(TextsToEmbed, AreReadByOtherNamesAndFromTables) {
  EXPECT_EQ(
      row(*make(R"({"question": "ab", "passage": "c"})", options(), {{"query", "question"}, {"positive", "passage"}})),
      "query: ab | chosen: c");
  const auto table = make("query,positive,score\nab,c,0.5\n", options(), {}, "a.csv");
  EXPECT_EQ(row(*table), "query: ab | chosen: c");
  EXPECT_THAT(table->batch({0}, 0).extra.at("score").numbers, ElementsAre(0.5, 1, 0.5, 1));
}

TEST_F(TextsToEmbed, LoseTheirEndsWhereTheyAreTooLong) {
  const std::string line = R"({"query": "abcdefgh", "positive": "c"})";
  const auto bos_and_three = [&](Overlong overlong) {
    Dataset::Options how = options(4);
    how.overlong = overlong;
    return make(line + "\n" + R"({"query": "a", "positive": "b"})", how);
  };
  const auto data = bos_and_three(Overlong::split);
  EXPECT_EQ(data->rows(), 2);
  EXPECT_EQ(data->report().cut, 1);
  for (const HostDoc& doc : data->row(0)) EXPECT_LE(doc.ids.size(), 4u);
  const auto dropped = bos_and_three(Overlong::drop);
  EXPECT_EQ(dropped->rows(), 1);
  EXPECT_EQ(dropped->report().dropped, 1);
  EXPECT_THAT(error_of(ErrorKind::data, [&] { bos_and_three(Overlong::error); }), HasSubstr("expected at most"));
}

TEST_F(TextsToEmbed, AreTheSameFromTheCache) {
  Dataset::Options how = options();
  how.cache_folder = folder_.file("cache");
  const std::string lines = R"({"query": "ab", "positive": "c", "score": 0.1})";
  const auto first = make(lines, how), again = make(lines, how);
  EXPECT_EQ(row(*first), row(*again));
  EXPECT_EQ(first->batch({0}, 0).extra.at("score").numbers, again->batch({0}, 0).extra.at("score").numbers);
  how.query_prompt = "other ";
  EXPECT_EQ(row(*make(lines, how)), "query: other ab | chosen: c");
}

TEST_F(TextsToEmbed, WhatIsNoneIsRefused) {
  EXPECT_THAT(refused(R"({"query": "a"})"), HasSubstr("no field \"positive\""));
  EXPECT_THAT(refused(R"({"question": "a", "answer": "b"})"),
              HasSubstr("columns: {query: question, positive: answer}"));
  EXPECT_THAT(refused(R"({"query": "a", "anchor": "b", "positive": "c"})"), HasSubstr("both \"query\" and \"anchor\""));
  EXPECT_THAT(refused(R"({"query": " ", "positive": "c"})"), HasSubstr("field \"query\": got an empty text"));
  EXPECT_THAT(refused(R"({"query": "a", "positive": "c", "negatives": ["d", 2]})"), HasSubstr("a number in the list"));
  EXPECT_THAT(refused(R"({"query": "a", "positive": "c", "score": "high"})"),
              HasSubstr("field \"score\": got \"high\", expected a number"));
  EXPECT_THAT(refused(R"({"query": "a", "positive": "c", "label": 1})"), HasSubstr("field \"label\" is for"));
}

}  // namespace
}  // namespace hone::test
