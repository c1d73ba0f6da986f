// Answers that are judged one by one: forms of records, which role they have, what is refused; and records that are
// there twice.
#include <fmt/format.h>

#include "data/choose_template.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Dataset::Options judged(std::int64_t max_length = 64) {
  Dataset::Options options;
  options.records = RecordKind::judged;
  options.packing = Packing::none;
  options.max_length = max_length;
  return options;
}

class JudgedRecords : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> make(const std::string& content, const std::string& name = "a.jsonl",
                                      std::map<std::string, std::string> columns = {}) {
    std::vector<DataFile> all = files({folder_.write(name, content)});
    all[0].columns = std::move(columns);
    return Dataset::make(all, *tokenizer_, judged());
  }
  std::string refused(const std::string& content, const std::string& name = "a.jsonl") {
    return error_of(ErrorKind::data, [&] { make(content, name); });
  }
  static std::vector<Role> roles(const Dataset& data) {
    std::vector<Role> all;
    for (std::int64_t row = 0; row < data.rows(); ++row)
      for (const Doc& doc : data.batch({row}, 0).docs) all.push_back(doc.role);
    return all;
  }
  // What is learnt of a row.
  static std::string learnt(const Dataset& data, std::int64_t row) {
    std::string text;
    for (const std::int64_t label : data.batch({row}, 0).labels)
      if (label != -100 && label < 256) text += static_cast<char>(label);
    return text;
  }
  TempFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_ = std::make_shared<ByteTokenizer>();
};

TEST_F(JudgedRecords, AnswersAreDocumentsOfTheirOwnWithARole) {
  const auto data = make(
      "{\"prompt\": \"ab\", \"completion\": \"c\", \"label\": true}\n"
      "{\"prompt\": \"d\", \"completion\": \"ef\", \"label\": 0}\n"
      "{\"prompt\": \"g\", \"completion\": \"h\", \"label\": \"True\"}\n");
  EXPECT_THAT(roles(*data), ElementsAre(Role::chosen, Role::rejected, Role::chosen));
  EXPECT_EQ(learnt(*data, 1), "ef");
  const HostBatch batch = data->batch({0, 1}, 9);
  EXPECT_THAT(batch.ids, ElementsAre('a', 'b', 'c', 257, 'd', 'e', 'f', 257));
  EXPECT_NE(batch.docs[0].group, batch.docs[1].group);
  EXPECT_THAT(data->report().labels, ElementsAre(Pair("desirable", 2), Pair("undesirable", 1)));
}

TEST_F(JudgedRecords, PreferencesAreTwoOfThem) {
  const auto data = make("{\"prompt\": \"ab\", \"chosen\": \"c\", \"rejected\": \"de\"}\n");
  EXPECT_THAT(roles(*data), ElementsAre(Role::chosen, Role::rejected));
  EXPECT_EQ(data->rows(), 1);
  EXPECT_EQ(learnt(*data, 0), "cde");
}

TEST_F(JudgedRecords, ConversationsAreJudgedByTheirLastAnswer) {
  tokenizer_ = data::with_chat_template(load_tokenizer("bytes"),
                                        "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content }}{% endfor %}"
                                        "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}",
                                        "template");
  for (const char* record :
       {R"({"prompt": [{"role": "user", "content": "hi"}], "completion": [{"role": "assistant", "content": "yes"}],
            "label": false})",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}], "label": false})",
        R"({"instruction": "hi", "output": "yes", "label": false})"}) {
    SCOPED_TRACE(record);
    std::string line = record;
    std::erase(line, '\n');
    const auto data = make(line + "\n");
    EXPECT_EQ(learnt(*data, 0), "yes");
    EXPECT_THAT(roles(*data), ElementsAre(Role::rejected));
  }
  EXPECT_THAT(refused(R"({"messages": [{"role": "user", "content": "a"}], "label": true})"),
              HasSubstr("no message and its answer"));
  EXPECT_THAT(
      refused(R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], "label": 1})"),
      HasSubstr("begins with a message of the role \"user\", expected assistant"));
  EXPECT_THAT(refused(R"({"instruction": "a", "output": "", "label": true})"), HasSubstr("the answer is empty"));
}

TEST_F(JudgedRecords, TablesAndOtherNamesAreRead) {
  const auto table = make("prompt,completion,label\na,b,1\nc,d,false\n", "a.csv");
  EXPECT_THAT(roles(*table), ElementsAre(Role::chosen, Role::rejected));
  const auto renamed = make("{\"q\": \"a\", \"a\": \"b\", \"kto_tag\": false}\n", "b.jsonl",
                            {{"prompt", "q"}, {"completion", "a"}, {"label", "kto_tag"}});
  EXPECT_THAT(roles(*renamed), ElementsAre(Role::rejected));
}

TEST_F(JudgedRecords, WhatIsNoJudgementIsRefused) {
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"completion\": \"b\", \"label\": 0.7}\n"),
              HasSubstr("a.jsonl:1: field \"label\": got 0.7, expected true or false, or 1 or 0"));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"completion\": \"b\", \"label\": \"good\"}\n"), HasSubstr("got \"good\""));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"completion\": \"b\"}\n"),
              HasSubstr("no field \"label\"; found \"completion\", \"prompt\"\n  hint: label is true for"));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"completion\": \"b\", \"liked\": true, \"good\": 1}\n"),
              HasSubstr("columns: {label: good}"));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"completion\": \"b\", \"label\": null}\n"),
              HasSubstr("field \"label\": got null"));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"completion\": \" \", \"label\": 1}\n"), HasSubstr("the answer is empty"));
  EXPECT_THAT(refused("prompt,completion,label\na,b,maybe\n", "a.csv"), HasSubstr("got \"maybe\""));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\", \"label\": true}\n"),
              HasSubstr("chosen and rejected, and \"label\": a pair, or one answer"));
  EXPECT_THAT(refused("{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true, \"score\": 3}\n"),
              HasSubstr("only whether an answer is desirable is learnt, not by how much"));
}

TEST_F(JudgedRecords, LossChoosesNothing) {
  Dataset::Options options = judged();
  options.loss = Loss::all;
  const std::string path = folder_.write("l.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true}\n");
  EXPECT_THAT(error_of(ErrorKind::config, [&] { Dataset::make(files({path}), *tokenizer_, options); }),
              HasSubstr("an answer that is judged, but loss is all"));
}

// Of the training files, whatever lines they stand in; a difference of what is learnt is one.
TEST(Deduplicate, OnlyTheFirstOfEqualRecordsStays) {
  const TempFolder folder;
  const std::vector<DataFile> all =
      files({folder.write("a.jsonl", "\"x\"\n\"y\"\n\"x\"\n{\"prompt\": \"x\", \"completion\": \"y\"}\n"),
             folder.write("b.jsonl", "\"y\"\n\"xy\"\n\"z\"\n{\"prompt\": \"x\", \"completion\": \"y\"}\n")});
  Dataset::Options options;
  options.packing = Packing::none;
  const ByteTokenizer tokenizer;
  const auto whole = Dataset::make(all, tokenizer, options);
  EXPECT_EQ(whole->rows(), 8);
  options.deduplicate = true;
  const auto data = Dataset::make(all, tokenizer, options);
  EXPECT_EQ(data->rows(), 5);  // x, y, x + y as a pair, xy as a text, z
  EXPECT_EQ(data->report().repeated, 3);
  EXPECT_EQ(data->report().records, 8);
  EXPECT_NE(data->fingerprint(), whole->fingerprint());
  EXPECT_THAT(data->record_name(data->row(4)[0].record), HasSubstr("b.jsonl:3"));
  const auto [held, rest] = data->split(0.4, 1);
  EXPECT_EQ(held->rows() + rest->rows(), 5);
}

TEST(Deduplicate, TheSamePromptWithAnotherJudgementIsAnother) {
  const TempFolder folder;
  Dataset::Options options = judged();
  options.deduplicate = true;
  const std::string good = "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true}\n",
                    bad = "{\"prompt\": \"a\", \"completion\": \"b\", \"label\": false}\n";
  const auto data = Dataset::make(files({folder.write("a.jsonl", good + bad + good)}), ByteTokenizer(), options);
  EXPECT_EQ(data->rows(), 2);
}

}  // namespace
}  // namespace hone::test
