// Nothing that a record or a data file says is passed over: each field and option changes what is learnt, or is
// refused.
#include <fmt/format.h>

#include <map>

#include "data/fields.h"
#include "data/pictures.h"
#include "data/source.h"
#include "data/stream.h"
#include "data/tokenise.h"
#include "data/training_fields.h"
#include "hone/config_read.h"
#include "support.h"
#include "text/tokenizer/load.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPrinting =
    "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}"
    "{% for d in documents or [] %}({{ d.title }}){% endfor %}{{ tone }}"
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}<|eos|>{% endfor %}{% if add_generation_prompt %}a:{% endif "
    "%}";

const Tokenizer& tokenizer() {
  static const std::shared_ptr<const Tokenizer> made =
      text::make_tokenizer({text::bytes_tokenizer_files()[0],
                            {"tokenizer_config.json", R"({"eos_token": "<|eos|>"})"},
                            {"chat_template.jinja", kPrinting}},
                           {}, "test");
  return *made;
}

// Ids and labels of the file's records as text, or the error.
std::string outcome(const DataFile& file, std::optional<Loss> loss = {}) {
  std::string text;
  const auto add = [&](const std::vector<std::int32_t>& numbers) {
    for (const std::int32_t one : numbers) text += std::to_string(one) + " ";
    text += "| ";
  };
  try {
    data::each_tokens(file, data::Tokenising(tokenizer(), true, loss), [&](const Tokens& tokens, const Record&) {
      add(tokens.ids);
      add(tokens.labels);
    });
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
  return text;
}

std::string outcome_of(const std::string& records, std::optional<Loss> loss = {}) {
  const TempFolder folder;
  return outcome(files({folder.write("f.jsonl", records)})[0], loss);
}
std::string refused(const std::string& records, std::optional<Loss> loss = {}) {
  const std::string text = outcome_of(records, loss);
  EXPECT_THAT(text, HasSubstr("error: "));
  return text;
}

const std::string kTurns = R"("messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])";

TEST(Intent, EveryKnownFieldChangesWhatIsLearnt) {
  const std::string alpaca = R"({"instruction": "a", "output": "b")";
  // Two records that differ in this field only.
  const std::map<std::string, std::pair<std::string, std::string>> cases = {
      {"text", {R"({"text": "a"})", R"({"text": "b"})"}},
      {"prompt", {R"({"prompt": "a", "completion": "c"})", R"({"prompt": "b", "completion": "c"})"}},
      {"completion", {R"({"prompt": "a", "completion": "c"})", R"({"prompt": "a", "completion": "d"})"}},
      {"input_ids", {R"({"input_ids": [1, 2]})", R"({"input_ids": [1, 3]})"}},
      {"labels", {R"({"input_ids": [1, 2]})", R"({"input_ids": [1, 2], "labels": [1, -100]})"}},
      {"messages", {"{" + kTurns + "}", R"({"messages": [{"role": "assistant", "content": "y"}]})"}},
      {"conversations",
       {R"({"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]})",
        R"({"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "z"}]})"}},
      {"instruction", {alpaca + "}", R"({"instruction": "z", "output": "b"})"}},
      {"input", {alpaca + "}", alpaca + R"(, "input": "more"})"}},
      {"output", {alpaca + "}", R"({"instruction": "a", "output": "c"})"}},
      {"history", {alpaca + "}", alpaca + R"(, "history": [["q", "r"]]})"}},
      {"system", {"{" + kTurns + "}", "{" + kTurns + R"(, "system": "s"})"}},
      {"tools", {"{" + kTurns + "}", "{" + kTurns + R"(, "tools": [{"name": "f"}]})"}},
      {"images", {R"({"text": "a"})", R"({"text": "a", "images": ["a.png"]})"}},  // nobody reads them here: refused
      {"documents", {"{" + kTurns + "}", "{" + kTurns + R"(, "documents": [{"title": "t", "text": "u"}]})"}},
      {"chat_template_kwargs", {"{" + kTurns + "}", "{" + kTurns + R"(, "chat_template_kwargs": {"tone": "t"}})"}},
  };
  for (const std::string& name : data::known_fields(RecordKind::language)) {
    const auto found = cases.find(name);
    ASSERT_NE(found, cases.end()) << name << " has no case: say what it changes";
    EXPECT_NE(outcome_of(found->second.first), outcome_of(found->second.second)) << name << " changes nothing";
  }
}

TEST(Intent, FieldsOfOtherKindsOfTrainingAreRefusedAndSayWhose) {
  EXPECT_GT(data::foreign_fields().size(), 25u);
  for (const data::TrainingField& field : data::foreign_fields())
    for (const std::string& form : {std::string(R"("text": "a")"), std::string(R"("prompt": "a", "completion": "b")"), kTurns}) {
      const std::string name(field.name), text = refused("{" + form + ", \"" + name + "\": 1}\n");
      EXPECT_THAT(text, HasSubstr("f.jsonl:1: field \"" + name + "\" is for "));
      EXPECT_THAT(text, HasSubstr(field.kind));
      EXPECT_THAT(text, HasSubstr("ignore: [" + name + "]"));
    }
}

TEST(Intent, ABlankFieldOfAnotherKindSaysNothing) {
  for (const char* blank : {"null", "[]", "{}", "\"\"", "\" \""})
    EXPECT_EQ(outcome_of(std::string(R"({"text": "a", "images": )") + blank + "}"), outcome_of(R"({"text": "a"})")) << blank;
}

TEST(Intent, WhatARecordHasNoPlaceForIsRefused) {
  for (const char* name : {"system", "documents", "chat_template_kwargs", "tools", "history", "labels"})
    for (const char* form : {R"("text": "a")", R"("prompt": "a", "completion": "b")"})
      EXPECT_THAT(refused(std::string("{") + form + ", \"" + name + "\": \"s\"}\n"),
                  HasSubstr(std::string("field \"") + name + "\" is read only with "))
          << form;
}

TEST(Intent, MasksBesideIdsMustSayWhatHoldsAnyway) {
  const std::string ids = R"({"input_ids": [5, 6])";
  EXPECT_EQ(outcome_of(ids + R"(, "attention_mask": [1, 1], "position_ids": [0, 1], "token_type_ids": [0, 0]})"),
            outcome_of(ids + "}"));
  EXPECT_THAT(refused(ids + R"(, "attention_mask": [1, 0]})"), HasSubstr("attention_mask[1] is 0; expected 1"));
  EXPECT_THAT(refused(ids + R"(, "position_ids": [0, 0]})"), HasSubstr("position_ids[1] is 0; expected 1"));
  EXPECT_THAT(refused(ids + R"(, "token_type_ids": [0, 1]})"), HasSubstr("token_type_ids[1] is 1; expected 0"));
}

std::string two_turns(const std::string& of_first, const std::string& of_user = "", const std::string& of_last = "") {
  return R"({"messages": [{"role": "user", "content": "a")" + of_user + R"(}, {"role": "assistant", "content": "b")" +
         of_first + R"(}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d")" + of_last + "}]}";
}

TEST(Intent, AMessageThatIsNotToBeLearntIsNot) {
  const std::string last_only = outcome_of(two_turns(""), Loss::last);
  EXPECT_NE(last_only, outcome_of(two_turns("")));
  for (const char* name : {"weight", "train", "training", "trainable", "loss"}) {
    const std::string key = std::string(", \"") + name + "\": ";
    for (const char* no : {"0", "false", "0.0"}) EXPECT_EQ(outcome_of(two_turns(key + no)), last_only) << name << no;
    for (const char* yes : {"1", "true", "1.0", "null"})
      EXPECT_EQ(outcome_of(two_turns(key + yes)), outcome_of(two_turns("")));
    EXPECT_EQ(outcome_of(two_turns("", key + "0")), outcome_of(two_turns("")))
        << "a user's message is not learnt anyway";
    EXPECT_THAT(refused(two_turns(key + "0.5")),
                HasSubstr(std::string("message 2: ") + name + ": got 0.5, expected 0 or 1"));
    EXPECT_THAT(refused(two_turns(key + "\"yes\"")), HasSubstr("expected 0 or 1, true or false"));
    EXPECT_THAT(refused(two_turns("", key + "1")),
                HasSubstr("message 1 says that it is learnt, but only the assistant's"));
    EXPECT_THAT(refused(two_turns(key + "0"), Loss::all),
                HasSubstr("message 2 says that it is not learnt, but loss is all"));
  }
  EXPECT_EQ(outcome_of(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": 0},)"
                       R"({"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]})"),
            last_only);
  EXPECT_THAT(refused(two_turns(R"(, "weight": 1, "train": false)")), HasSubstr("weight and train contradict each other"));
}

// train_detail; a message's own choice comes first, as in Axolotl.
TEST(Intent, PartsOfAMessageThatAreNotToBeLearntAreNot) {
  const auto detail = [](const char* train) {
    return fmt::format(R"(, "train_detail": [{{"begin_offset": 0, "end_offset": 0, "train": {}}}])", train);
  };
  const std::string all = outcome_of(two_turns("")), parts = outcome_of(two_turns(detail("false")));
  EXPECT_EQ(parts.find("error"), std::string::npos) << parts;
  EXPECT_NE(parts, all);
  EXPECT_NE(parts, outcome_of(two_turns(R"(, "weight": 0)"))) << "its end is learnt";
  EXPECT_EQ(outcome_of(two_turns(R"(, "weight": 0)" + detail("true"))), outcome_of(two_turns(R"(, "weight": 0)")));
  const std::string none = R"(, "train_detail": [])";
  EXPECT_EQ(outcome_of(two_turns(R"(, "train_detail": null)")), all);
  EXPECT_EQ(outcome_of(two_turns(none)), outcome_of(two_turns(R"(, "weight": 0)")));
  EXPECT_EQ(outcome_of(two_turns(R"(, "weight": 1)" + none)), all);
  EXPECT_EQ(outcome_of(two_turns("", none)), all) << "a user's message is not learnt anyway";
  EXPECT_THAT(refused(two_turns(R"(, "train_detail": [{"begin_offset": 0}])")),
              HasSubstr("messages[1]: train_detail[0]: end_offset: expected a whole number"));
  EXPECT_THAT(refused(two_turns("", detail("true"))), HasSubstr("only the assistant's messages can be"));
  EXPECT_THAT(refused(two_turns(detail("true")), Loss::all), HasSubstr("but loss is all"));
}

TEST(Intent, ARecordWhoseMessagesAreAllLeftOutLearnsNothing) {
  const std::string none = outcome_of(two_turns(R"(, "weight": 0)", "", R"(, "weight": 0)"));
  EXPECT_EQ(none.find("error"), std::string::npos) << none;
  const TempFolder folder;
  const auto file = files({folder.write("f.jsonl", two_turns(R"(, "weight": 0)", "", R"(, "weight": 0)") + "\n" +
                                                       two_turns("") + "\n")});
  const auto data = Dataset::make(file, tokenizer(), {});
  EXPECT_EQ(data->report().unsupervised_records, 1);
}

TEST(Intent, EveryOptionOfADataFileChangesSomething) {
  const TempFolder folder;
  const std::string records =
      "{\"text\": \"a\", \"story\": \"b\", \"id\": 1}\n{\"text\": \"c\", \"story\": \"d\", \"id\": 2}\n";
  const std::string labelled = "{\"text\": \"a\", \"label\": 1}\n";
  const auto with = [&](const std::string& name, const std::string& content,
                        const std::function<void(DataFile&)>& change) {
    DataFile file = files({folder.write(name, content)})[0];
    change(file);
    return outcome(file);
  };
  const auto nothing = [](DataFile&) {};
  const std::string plain = with("f.jsonl", records, nothing);
  const auto epoch = [&](double weight) {
    DataFile file = files({folder.file("f.jsonl")})[0];
    file.weight = weight;
    Dataset::Options options;
    options.packing = Packing::none;
    return std::to_string(Dataset::make({file}, tokenizer(), options)->epoch_rows());
  };
  const auto streamed = [&] {
    std::vector<DataFile> file = files({folder.file("f.jsonl")});
    file[0].stream = true;
    return std::to_string(data::is_stream(file));
  };
  const auto taught = [&](std::optional<double> temperature) {
    DataFile file = files({folder.write(
        "t.jsonl", R"({"text": "ab", "logprobs": [null, [-1]], "target_token_ids": [null, [5]]})" "\n")})[0];
    file.teacher_temperature = temperature;
    Dataset::Options options;
    options.teacher_log_probs = 0, options.append_eos = false;
    return std::to_string(Dataset::make({file}, tokenizer(), options)->row(0).at(0).taught.log_probs.at(0));
  };
  const std::map<std::string, std::pair<std::string, std::string>> cases = {
      {"teacher_temperature", {taught({}), taught(2)}},
      {"path", {plain, with("g.jsonl", "\"z\"\n", nothing)}},
      {"weight", {epoch(1), epoch(2)}},
      {"columns", {plain, with("f.jsonl", records, [](DataFile& file) { file.columns = {{"text", "story"}}; })}},
      {"header",
       {with("f.csv", "text\nx\n", nothing), with("f.csv", "text\nx\n",
                                                  [](DataFile& file) {
                                                    file.header = false;
                                                    file.columns = {{"text", "1"}};
                                                  })}},
      {"max_samples", {plain, with("f.jsonl", records, [](DataFile& file) { file.max_samples = 1; })}},
      {"ignore",
       {with("l.jsonl", labelled, nothing),
        with("l.jsonl", labelled, [](DataFile& file) { file.ignore = {"label"}; })}},
      {"stream", {std::to_string(data::is_stream(files({folder.file("f.jsonl")}))), streamed()}},
      {"image_folder",
       {data::picture_folder("a/f.jsonl", "").string(), data::picture_folder("a/f.jsonl", "b").string()}},
      {"chat_template_kwargs",
       {with("c.jsonl", "{" + kTurns + "}\n", nothing),
        with("c.jsonl", "{" + kTurns + "}\n",
             [](DataFile& file) { file.chat_template_kwargs["tone"].node = config::Node::scalar("t"); })}},
      {"source", {plain, with("f.jsonl", records, [](DataFile& file) { file.source = {"text", nullptr}; })}},
  };
  for (const std::string& name : config::Values<DataFile>::names()) {
    const auto found = cases.find(name);
    ASSERT_NE(found, cases.end()) << name << " has no case: say what it changes";
    EXPECT_NE(found->second.first, found->second.second) << name << " changes nothing";
  }
  EXPECT_THAT(with("f.jsonl", records, [](DataFile& file) { file.header = true; }),
              HasSubstr("header: only .csv and .tsv"));
}

TEST(Intent, FieldsThatNobodyReadsAreToldOnce) {
  const TempFolder folder;
  const auto names = [&](const std::string& name, const std::string& content) {
    std::vector<std::string> told;
    data::each_tokens(files({folder.write(name, content)})[0], data::Tokenising(tokenizer(), true, {}),
                      [&](const Tokens&, const Record& record) {
                        told.insert(told.end(), record.unread.begin(), record.unread.end());
                      });
    return told;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("f.jsonl", "{\"text\": \"a\", \"id\": 1}\n{\"id\": 2, \"text\": \"b\", \"source\": \"s\"}\n"),
            (Names{"id", "source"}));
  EXPECT_EQ(names("f.csv", "id,text,url\n1,a,u\n2,b,v\n"), (Names{"id", "url"}));
  EXPECT_EQ(names("f.jsonl", "{\"text\": \"a\"}\n"), (Names{}));
  const auto data = Dataset::make(files({folder.write("f.jsonl", "{\"text\": \"a\", \"id\": 1}\n")}), tokenizer(), {});
  EXPECT_EQ(data->report().unread_fields.at(folder.file("f.jsonl")), (Names{"id"}));
}

TEST(Intent, ATableRefusesColumnsOfOtherKindsOfTraining) {
  const TempFolder folder;
  DataFile file = files({folder.write("f.csv", "text,label\na,1\n")})[0];
  EXPECT_THAT(outcome(file), HasSubstr("field \"label\" is for classification"));
  file.ignore = {"label"};
  EXPECT_THAT(outcome(file), ::testing::Not(HasSubstr("error")));
  EXPECT_THAT(outcome(files({folder.write("p.csv", "prompt,completion,system\na,b,c\n")})[0]),
              HasSubstr("field \"system\" is read only with conversations"));
}

}  // namespace
}  // namespace hone::test
