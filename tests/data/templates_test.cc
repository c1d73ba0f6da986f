// Columns that are templates: what is read is made of several fields.
#include "data/templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/inspect.h"
#include "data/pair_tokenizer.h"
#include "data/support.h"
#include "io/parquet.h"

namespace hone::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Templates : public testing::Test {
 protected:
  std::shared_ptr<const Dataset> make(const std::string& name, const std::string& content,
                                      const std::map<std::string, std::string>& columns,
                                      RecordKind records = RecordKind::language) {
    DataFile file = files({folder_.write(name, content)})[0];
    file.columns = columns;
    return make(file, records);
  }
  std::shared_ptr<const Dataset> make(const DataFile& file, RecordKind records) {
    Dataset::Options options;
    options.packing = Packing::none;
    options.records = records;
    options.cache_folder = folder_.file("cache");
    return Dataset::make({file}, tokenizer_, options);
  }
  std::string refused(const std::string& line, const std::map<std::string, std::string>& columns) {
    return error_of(ErrorKind::data, [&] { make("e.jsonl", line + "\n", columns); });
  }
  // Of each row its text, with what is learnt behind a bar.
  static std::vector<std::string> texts(const Dataset& data) {
    std::vector<std::string> all;
    for (std::int64_t row = 0; row < data.rows(); ++row) {
      const HostBatch batch = data.batch({row}, 0);
      std::string before, learnt;
      for (std::size_t at = 0; at < batch.ids.size(); ++at) {
        if (batch.ids[at] > 255) continue;
        (at > 0 && batch.labels[at - 1] != -100 ? learnt : before) += static_cast<char>(batch.ids[at]);
      }
      all.push_back(before + "|" + learnt);
    }
    return all;
  }
  TempFolder folder_;
  PairTokenizer tokenizer_;
};

TEST_F(Templates, MakeATextOfFields) {
  const auto data =
      make("a.jsonl",
           "{\"question\": \"1+1\", \"answer\": 2, \"id\": 7}\n"
           "{\"question\": \"2+1\", \"answer\": 3, \"id\": 8, \"note\": \"odd\"}\n",
           {{"prompt", "Q: {{question}}{% if note %} ({{ note }}){% endif %}\nA:"}, {"completion", " {{ answer }}"}});
  EXPECT_THAT(texts(*data), ElementsAre("Q: 1+1\nA:| 2", "Q: 2+1 (odd)\nA:| 3"));
  EXPECT_THAT(data->report().unread_fields, ElementsAre(testing::Pair(testing::_, ElementsAre("id"))));
}

// As jinja has it by itself: chat templates lose line ends behind blocks, and the one at their end.
TEST_F(Templates, KeepTheirWhiteSpace) {
  EXPECT_THAT(texts(*make("a.jsonl", "{\"a\": \"x\"}\n", {{"text", "{% if a %}\n  {% endif %}\n{{ a }}\n"}})),
              ElementsAre("\n|  \nx\n"));
}

TEST_F(Templates, MayReadTheFieldWhosePlaceTheyTake) {
  EXPECT_THAT(texts(*make("a.jsonl", "{\"text\": \"ab\"}\n", {{"text", "<{{ text }}>"}})), ElementsAre("<|ab>"));
  EXPECT_THAT(texts(*make("a.jsonl", "{\"text\": \"ab\"}\n", {{"text", "({{ text }})"}})), ElementsAre("(|ab)"));
}

TEST_F(Templates, MakeListsAsJson) {
  const auto data = make("a.jsonl", "{\"goal\": \"g\", \"sol1\": \"x\", \"sol2\": \"y\", \"label\": 1}\n",
                         {{"prompt", "{{ goal }}"}, {"choices", "{{ [sol1, sol2] | tojson }}"}, {"answer", "label"}},
                         RecordKind::choice);
  const HostBatch batch = data->batch({0}, 0);
  ASSERT_EQ(batch.docs.size(), 2u);
  EXPECT_EQ(batch.docs[1].role, Role::chosen);
}

TEST_F(Templates, OfTables) {
  const std::string rows = "question,label,other\na b,x,1\n\"c, d\",y,2\n";
  const auto data = make("a.csv", rows, {{"text", "{{ question }}?"}}, RecordKind::labelled);
  EXPECT_THAT(data->labels(), ElementsAre("x", "y"));
  EXPECT_THAT(texts(*data), ElementsAre("a b?|", "c, d?|"));
  EXPECT_THAT(data->report().unread_fields, ElementsAre(testing::Pair(testing::_, ElementsAre("other"))));
}

TEST_F(Templates, OfTablesWithoutNames) {
  const auto data = make("a.tsv", "x\tHello there\ny\tWin a prize\n",
                         {{"text", "SMS: {{ row[\"2\"] }}"}, {"label", "1"}}, RecordKind::labelled);
  EXPECT_THAT(texts(*data), ElementsAre("SMS: Hello there|", "SMS: Win a prize|"));
}

TEST_F(Templates, OfParquet) {
  if (!io::has_parquet()) GTEST_SKIP() << "this build reads no Parquet";
  DataFile file = files({std::string(HONE_SOURCE_DIR) + "/tests/golden/data/messages.parquet"})[0];
  file.columns = {{"text", "{{ messages | length }} of {{ messages[0].role }}"}};
  file.ignore = {"tools"};
  EXPECT_THAT(texts(*make(file, RecordKind::language)), ElementsAre("4| of user", "2| of user"));
}

// Names that only look like a field, and fields that nobody reads, do not matter.
TEST_F(Templates, ReadVariablesAndNothingElse) {
  const std::string line = R"({"q": "a", "id": 14630895720147204801, "weight": 0.5})";
  EXPECT_THAT(refused(line, {{"text", "a weight: {{ q }}"}}), HasSubstr("field \"weight\""));
  const auto data = make("a.jsonl", "{\"q\": \"a\", \"id\": 14630895720147204801}\n",
                         {{"text", "{% set x = q %}{{ x }}{% for i in [1] %}{{ loop.index }}{% endfor %}"}});
  EXPECT_THAT(texts(*data), ElementsAre("a|1"));
}

// A name that a template sets somewhere may be a field elsewhere, and a null inside a list is JSON's null.
TEST_F(Templates, ReadFieldsWhoseNamesTheySet) {
  const std::string line = R"({"q": " a ", "hints": ["h"], "hint": "i", "n": {"m": null}})"
                           "\n";
  const auto made = [&](const std::string& how) { return texts(*make("a.jsonl", line, {{"text", how}}))[0]; };
  EXPECT_EQ(made("{% set q = q | trim %}<{{ q }}>"), "<|a>");
  EXPECT_EQ(made("{% with q = q | trim %}<{{ q }}>{% endwith %}"), "<|a>");
  EXPECT_EQ(made("{% for hints in hints %}<{{ hints }}>{% endfor %}"), "<|h>");
  EXPECT_EQ(made("{% macro m(q) %}<{{ q }}{% endmacro %}{{ m(1) }}{{ q }}"), "<|1 a ");
  EXPECT_EQ(made("{% for hint in hints %}{{ hint }}{% endfor %}{% if hint %}{{ hint }}{% endif %}"), "h|i");
  EXPECT_EQ(made("{{ n | tojson }}"), R"({|"m": null})");
}

TEST_F(Templates, MakeMessages) {
  const auto data = make("a.jsonl", R"({"m": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]})"
                                    "\n",
                         {{"text", "{{ m[0].content }} {{ m[1:] | tojson }}"}});
  EXPECT_THAT(texts(*data), ElementsAre("u| [{\"role\": \"assistant\", \"content\": \"a\"}]"));
  EXPECT_THAT(error_of(ErrorKind::config,
                       [&] {
                         make("b.jsonl", R"({"m": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]})"
                                         "\n",
                              {{"prompt", "{{ m[:1] | tojson }}"}, {"completion", "{{ m[1:] | tojson }}"}});
                       }),
              HasSubstr("no chat template"));
}

TEST_F(Templates, MayLeaveOutWhatMayBeMissing) {
  const auto data = make("a.jsonl", "{\"q\": \"a\", \"s\": \"b\"}\n{\"q\": \"c\"}\n",
                         {{"prompt", "{{ q }}"}, {"answer", "{% if s %}{{ s }}{% endif %}"}}, RecordKind::asked);
  EXPECT_EQ(data->report().asked, 2);
  EXPECT_EQ(data->report().without_answer, 1);
}

TEST_F(Templates, WhatIsMissingIsAnError) {
  EXPECT_THAT(refused("{\"question\": \"a\"}", {{"text", "{{ question }} {{ answer }}"}}), HasSubstr("e.jsonl:1: "));
  EXPECT_THAT(refused("{\"question\": \"a\"}", {{"text", "{{ question }} {{ answer }}"}}),
              HasSubstr("columns: text:1: 'answer' is undefined"));
  EXPECT_THAT(refused("{\"question\": \"a\", \"answer\": null}", {{"text", "{{ question }} {{ answer }}"}}),
              HasSubstr("'answer' is undefined"));
  EXPECT_THAT(refused("{\"a\": {\"b\": null}}", {{"text", "{{ a.b }}"}}), HasSubstr("text:1: what is written is null"));
  for (const char* how : {"{{ b | trim }}", "{{ a ~ b }}", "{% for x in b %}{% endfor %}", "{{ [a, b] | join }}",
                          "{{ a | string | replace('x', b) }}"})
    EXPECT_THAT(refused("{\"a\": 1}", {{"text", how}}), HasSubstr("'b' is undefined")) << how;
  EXPECT_THAT(refused("{\"a\": 1}", {{"text", "{% if b %}{{ b }}{% endif %}"}}),
              HasSubstr("e.jsonl:1: text: its template makes nothing of this record"));
  EXPECT_THAT(refused("{\"a\": 14630895720147204801}", {{"text", "{{ a }}"}}), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(refused("{\"a\": 1}", {{"messages", "{{ a }},"}}), HasSubstr("got \"1,\", expected JSON"));
  EXPECT_THAT(error_of(ErrorKind::config,
                       [&] {
                         make("e.jsonl", "{\"a\": 1}\n", {{"text", "{{ a"}});
                       }),
              HasSubstr("columns: text:1"));
  EXPECT_THAT(error_of(ErrorKind::config, [&] { make("e.jsonl", "{\"a\": 1}\n", {{"text", "{{ 2 }}"}}); }),
              HasSubstr("its template reads no field"));
}

}  // namespace
}  // namespace hone::test
