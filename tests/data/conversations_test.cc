// Conversations in the forms that data sets have, and which of their tokens are learnt, through the whole data path.
#include "data/conversations.h"

#include <map>
#include <set>

#include "base/strings.h"
#include "io/parquet.h"
#include "support.h"
#include "text/tokenizer/load.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTemplate =
    "{% for t in tools or [] %}[{{ (t.function or t).name }}]{% endfor %}"
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}!{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}<|eos|>{% "
    "endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";

// Bytes, <|eos|> is 257; pad is the same token.
std::shared_ptr<const Tokenizer> tokenizer_with(const std::string& chat_template) {
  text::Files files = {text::bytes_tokenizer_files()[0],
                       {"tokenizer_config.json", R"({"eos_token": "<|eos|>", "pad_token": "<|eos|>"})"}};
  if (!chat_template.empty()) files.emplace_back("chat_template.jinja", chat_template);
  return text::make_tokenizer(files, {}, "test");
}

struct Made {
  std::string text, learnt;  // of all documents, one after the other
  std::multiset<std::string> each;
};

Made read(const std::vector<DataFile>& file, const Dataset::Options& options, const std::string& chat_template) {
  const auto tokenizer = tokenizer_with(chat_template);
  EXPECT_EQ(tokenizer->pad_id, tokenizer->eos_id);
  const auto data = Dataset::make(file, *tokenizer, options);
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < data->rows(); ++row) all.push_back(row);
  const HostBatch batch = data->batch(all, *tokenizer->pad_id);
  Made made;
  for (const Doc& doc : batch.docs) {
    std::vector<std::int32_t> ids, learnt;
    for (auto i = doc.row * batch.length + doc.begin; i < doc.row * batch.length + doc.end; ++i) {
      ids.push_back(static_cast<std::int32_t>(batch.ids[static_cast<std::size_t>(i)]));
      const std::int64_t label = batch.labels[static_cast<std::size_t>(i)];
      if (label == -100) continue;
      learnt.push_back(static_cast<std::int32_t>(label));
      if (i + 1 == doc.row * batch.length + doc.end) continue;
      EXPECT_EQ(label, batch.ids[static_cast<std::size_t>(i + 1)]) << "at " << i;  // the next token, of this document
    }
    made.text += tokenizer->decode(ids, false);
    made.learnt += tokenizer->decode(learnt, false);
    made.each.insert(tokenizer->decode(ids, false) + " | " + tokenizer->decode(learnt, false));
  }
  return made;
}

Made talk_of(const std::string& rows, const Dataset::Options& options = {},
             const std::string& chat_template = kTemplate, const std::map<std::string, std::string>& columns = {}) {
  const TempFolder folder;
  std::vector<DataFile> file = files({folder.write("f.jsonl", rows)});
  file[0].columns = columns;
  return read(file, options, chat_template);
}

Dataset::Options learning(std::optional<Loss> loss) {
  Dataset::Options options;
  options.loss = loss;
  return options;
}

constexpr const char* kTwoTurns =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "one"}, )"
    R"({"role": "assistant", "content": "ONE"}, {"role": "user", "content": "two"}, )"
    R"({"role": "assistant", "content": "TWO"}]})";

// What a message says beside its text may be meant: who wrote it is told that nobody reads it.
TEST(Conversations, FieldsOfMessagesThatNobodyReadsAreTold) {
  const TempFolder folder;
  using Names = std::vector<std::string>;
  const auto unread = [&](const std::string& lines, const std::string& chat_template = kTemplate) {
    const std::string path = folder.write("a.jsonl", lines);
    const auto tokenizer = tokenizer_with(chat_template);
    const auto all = Dataset::make(files({path}), *tokenizer, {})->report().unread_fields;
    return all.contains(path) ? all.at(path) : Names{};
  };
  const std::string user = R"({"role": "user", "content": "a", "foo": null, "name": "b", "weight": 0})";
  const auto messages = [&](const std::string& more) {
    return R"({"messages": [)" + user + R"(, {"role": "assistant", "content": "c", "loss": true)" + more + "}]}\n";
  };
  EXPECT_EQ(unread(messages("")), Names{});
  EXPECT_EQ(unread(messages(R"(, "masked": true)") + messages(R"(, "masked": false, "foo": 1)")),
            (Names{"messages[].masked", "messages[].foo"}));
  EXPECT_EQ(unread(messages(R"(, "masked": true, "foo": 1)"),
                   std::string(kTemplate) + "{% for m in messages %}{% if m.foo %}{% endif %}{% endfor %}"),
            Names{"messages[].masked"});
  EXPECT_EQ(unread(messages(R"(, "reasoning": "b")"),
                   std::string(kTemplate) + "{% for m in messages %}{{ m.reasoning_content }}{% endfor %}"),
            Names{});
  EXPECT_EQ(unread(R"({"id": 1, "conversations": [{"from": "human", "value": "a", "markdown": 1}, )"
                   R"({"from": "gpt", "value": "b"}]})"),
            (Names{"id", "conversations[].markdown"}));
  EXPECT_EQ(unread(R"({"prompt": [{"role": "user", "content": "a", "foo": 1}], )"
                   R"("completion": [{"role": "assistant", "content": "b", "ignore": 1}]})"),
            (Names{"prompt[].foo", "completion[].ignore"}));
}

TEST(Conversations, OfOpenAiAreLearntWhereTheAssistantWrites) {
  const Made made = talk_of(kTwoTurns);
  EXPECT_EQ(made.text, "s:S<|eos|>u:one<|eos|>a:ONE<|eos|>u:two<|eos|>a:TWO<|eos|>");
  EXPECT_EQ(made.learnt, "ONE<|eos|>TWO<|eos|>");
}

TEST(Conversations, AreLearntAsLossSays) {
  EXPECT_EQ(talk_of(kTwoTurns, learning(Loss::assistant)).learnt, "ONE<|eos|>TWO<|eos|>");
  EXPECT_EQ(talk_of(kTwoTurns, learning(Loss::last)).learnt, "TWO<|eos|>");
  // The first token has nothing before it to be predicted from.
  EXPECT_EQ(talk_of(kTwoTurns, learning(Loss::all)).learnt,
            ":S<|eos|>u:one<|eos|>a:ONE<|eos|>u:two<|eos|>a:TWO<|eos|>");
  EXPECT_THAT(error_of(ErrorKind::data, [] { talk_of(kTwoTurns, learning(Loss::completion)); }),
              HasSubstr("f.jsonl:1: loss completion, but the conversation has no prompt and completion"));
}

TEST(Conversations, OfShareGptBecomeTheSame) {
  const Made made = talk_of(R"({"system": "S", "conversations": [{"from": "human", "value": "q"}, )"
                            R"({"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"}, )"
                            R"({"from": "observation", "value": "r"}, {"from": "gpt", "value": "A"}], )"
                            R"("tools": "[{\"name\": \"f\", \"parameters\": {}}]"})");
  EXPECT_EQ(made.text, "[f]s:S<|eos|>u:q<|eos|>a:!f{\"x\": 1}<|eos|>t:r<|eos|>a:A<|eos|>");
  EXPECT_EQ(made.learnt, "!f{\"x\": 1}<|eos|>A<|eos|>");
}

TEST(Conversations, OfShareGptKeepWhatTheirTurnsSayBesides) {
  const std::string thinking =
      "{% for m in messages %}{{ m.role[0] }}:{{ m.reasoning_content }}={{ m.content }}<|eos|>{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  const std::string row =
      R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "A", "reasoning_content": "R"}]})";
  EXPECT_EQ(talk_of(row, {}, thinking).text, "u:=q<|eos|>a:R=A<|eos|>");
  EXPECT_EQ(talk_of(row, {}, thinking).learnt, "R=A<|eos|>");
  EXPECT_THAT(error_of(ErrorKind::data, [&] { talk_of(row); }),
              HasSubstr("messages[1].reasoning_content: the chat template does not write it"));
}

TEST(Conversations, ARoleThatTheTemplateDoesNotKnowIsNamed) {
  const std::string two =
      "{% for m in messages %}{% if m.role == 'user' %}u:{{ m.content }}<|eos|>"
      "{% elif m.role == 'assistant' %}a:{{ m.content }}<|eos|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  const std::string row =
      R"({"messages": [{"role": "ROLE", "content": "q"}, {"role": "assistant", "content": "A"}]})";
  const auto said = [&](const std::string& role) {
    return error_of(ErrorKind::data, [&] { talk_of(hone::replace_all(row, "ROLE", role), {}, two); });
  };
  EXPECT_THAT(said("User"), HasSubstr("messages[0].role: got \"User\", of which the chat template writes nothing"));
  EXPECT_THAT(said("User"), HasSubstr("did you mean user?"));
  EXPECT_THAT(said("wizard"), HasSubstr("messages[0].role: got \"wizard\""));
  EXPECT_THAT(said("tool"), HasSubstr("messages[0].content: the chat template does not write it"));
}

TEST(Conversations, WithAFunctionCallThatNobodyWritesAreAnError) {
  const std::string row =
      R"({"messages": [{"role": "user", "content": "q"}, )"
      R"({"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}}]})";
  EXPECT_THAT(error_of(ErrorKind::data, [&] { talk_of(row); }),
              HasSubstr("messages[1].function_call.name: the chat template does not write it"));
  const std::string calling = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{% if m.function_call %}"
                              "!{{ m.function_call.name }}{{ m.function_call.arguments }}{% endif %}<|eos|>{% endfor %}"
                              "{% if add_generation_prompt %}a:{% endif %}";
  EXPECT_EQ(talk_of(row, {}, calling).learnt, "!f{}<|eos|>");
}

TEST(Conversations, RoundNoInteger) {
  const auto calling = [](const std::string& arguments) {
    return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": )"
           R"([{"type": "function", "function": {"name": "f", "arguments": )" + arguments + "}}]}]}";
  };
  EXPECT_THAT(error_of(ErrorKind::data, [&] { talk_of(calling(R"({"n": -12345678901234567890123})")); }),
              HasSubstr("f.jsonl:1: got the integer -12345678901234567890123, expected one that fits 64 bits"));
  EXPECT_EQ(talk_of(calling(R"({"n": 1e22, "m": 9223372036854775807})")).learnt,
            R"(!f{"n": 1e+22, "m": 9223372036854775807}<|eos|>)");
  EXPECT_THAT(error_of(ErrorKind::data, [&] { talk_of(calling(R"({"n": 9223372036854775808})")); }),
              HasSubstr("f.jsonl:1: got the integer 9223372036854775808, expected"));
  // In a string they stay there.
  EXPECT_EQ(talk_of(calling(R"("{\"n\": 12345678901234567890123}")")).learnt,
            R"(!f"{\"n\": 12345678901234567890123}"<|eos|>)");
}

TEST(Conversations, DropNoKeyOfJsonInAString) {
  const std::string row =
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "A", "tool_calls": )"
      R"([{"function": {"name": "f", "arguments": "{\"x\": 1, \"x\": 2}"}}]}]})";
  EXPECT_EQ(talk_of(row).learnt, R"(A!f"{\"x\": 1, \"x\": 2}"<|eos|>)");
  const std::string twice = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "A"}], )"
                            R"("tools": "[{\"name\": \"f\", \"name\": \"g\"}]"})";
  EXPECT_THAT(error_of(ErrorKind::data, [&] { talk_of(twice); }), HasSubstr("the key \"name\" is given twice"));
}

TEST(Conversations, MayCallToolsWithArgumentsInAString) {
  const Made made =
      talk_of(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": )"
              R"([{"type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2.0}"}}]}], )"
              R"("tools": [{"type": "function", "function": {"name": "f"}}]})");
  EXPECT_EQ(made.text, "[f]u:q<|eos|>a:!f{\"b\": 1, \"a\": 2.0}<|eos|>");
  EXPECT_EQ(made.learnt, "!f{\"b\": 1, \"a\": 2.0}<|eos|>");
}

TEST(Conversations, KeepArgumentsInAStringForTemplatesThatTakeNoObject) {
  const std::string calling =
      "{% for m in messages %}{{ m.role[0] }}:{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
      "{{ '!' + c.function.name + ' ' + c.function.arguments }}{% endfor %}<|eos|>{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  const auto row = [](const std::string& content) {
    return R"({"messages": [{"role": "user", "content": )" + content +
           R"(}, {"role": "assistant", "tool_calls": )"
           R"([{"type": "function", "function": {"name": "f", "arguments": "{\"b\":1}"}}]}]})";
  };
  EXPECT_EQ(talk_of(row("\"q\""), {}, calling.c_str()).learnt, R"(!f {"b":1}<|eos|>)");
  EXPECT_EQ(talk_of(row(R"([{"type": "text", "text": "q"}])"), {}, calling.c_str()).learnt, R"(!f {"b":1}<|eos|>)");
  // It would print an object, as Python does.
  const std::string printing =
      "{% for m in messages %}{{ m.role[0] }}:{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
      "!{{ c.function.name }} {{ c.function.arguments }}{% endfor %}<|eos|>{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  EXPECT_EQ(talk_of(row("\"q\""), {}, printing).learnt, R"(!f {"b":1}<|eos|>)");
}

TEST(Conversations, SayWhatIsWrittenOfThemAsAWhole) {
  const std::string row = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, )"
                          R"("tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}]})";
  EXPECT_THAT(talk_of(row, learning(Loss::all), "{{ messages|tojson }}").text, HasSubstr(R"("name": "f")"));
  EXPECT_THAT(error_of(ErrorKind::data,
                       [&] {
                         talk_of(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", )"
                                 R"("content": null, "tool_calls": []}]})",
                                 learning(Loss::all), "{{ messages[0].content }}");
                       }),
              HasSubstr("nothing that the chat template writes"));
}

TEST(Conversations, TeachNoEmptyAnswerForATextUnderAnotherName) {
  const auto refused = [](const std::string& answer) {
    return error_of(ErrorKind::data,
                    [&] { talk_of(R"({"messages": [{"role": "user", "content": "q"}, )" + answer + "]}"); });
  };
  for (const char* answer :
       {R"({"role": "assistant", "text": "A"})", R"({"role": "assistant", "from": "gpt", "value": "A"})",
        R"({"role": "assistant", "content": null})", R"({"role": "assistant", "content": [], "text": "A"})"})
    EXPECT_THAT(refused(answer), HasSubstr("messages[1]: nothing that the chat template writes; found \"role\""))
        << answer;
  for (const char* answer : {"5", "1.5", "true"})
    EXPECT_THAT(refused(std::string(R"({"role": "assistant", "content": )") + answer + "}"),
                HasSubstr("messages[1].content: got a"))
        << answer;
  EXPECT_EQ(talk_of(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ""}]})").learnt,
            "<|eos|>");
  const char* other =
      "{% for m in messages %}{{ m.role[0] }}:{{ m.text }}<|eos|>{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}";
  EXPECT_EQ(
      talk_of(R"({"messages": [{"role": "user", "text": "q"}, {"role": "assistant", "text": "A"}]})", {}, other).learnt,
      "A<|eos|>");
}

TEST(Conversations, PassBareToolsAsTheyAre) {
  const std::string plain = "{% for t in tools or [] %}{{ t|tojson }}{% endfor %}" + std::string(kTemplate);
  EXPECT_EQ(talk_of(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "A"}], )"
                    R"("tools": [{"name": "f", "parameters": {}}]})",
                    {}, plain.c_str())
                .text,
            R"({"name": "f", "parameters": {}}[f]u:q<|eos|>a:A<|eos|>)");
}

TEST(Conversations, InPartsOfTextAreJoined) {
  const Made made =
      talk_of(R"({"messages": [{"role": "user", "content": [{"type": "text", "value": "a"}]}, )"
              R"({"role": "assistant", "content": [{"type": "text", "text": "B"}, {"type": "text", "text": "C"}]}]})");
  EXPECT_EQ(made.text, "u:a<|eos|>a:BC<|eos|>");
  EXPECT_EQ(made.learnt, "BC<|eos|>");
}

TEST(Conversations, OfAlpacaLearnTheOutput) {
  const std::string row =
      R"({"instruction": "add", "input": "1 2", "output": "3", "history": [["hi", "HI"]], "system": null})";
  EXPECT_EQ(talk_of(row).text, "u:hi<|eos|>a:HI<|eos|>u:add\n1 2<|eos|>a:3<|eos|>");
  EXPECT_EQ(talk_of(row).learnt, "3<|eos|>");
  EXPECT_EQ(talk_of(row, learning(Loss::assistant)).learnt, "HI<|eos|>3<|eos|>");
  EXPECT_EQ(talk_of(R"({"instruction": "add", "input": "", "output": "3"})").text, "u:add<|eos|>a:3<|eos|>");
}

TEST(Conversations, OfPairsLearnTheCompletion) {
  const std::string row =
      R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "B"}, )"
      R"({"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "D"}]})";
  EXPECT_EQ(talk_of(row).text, "u:a<|eos|>a:B<|eos|>u:c<|eos|>a:D<|eos|>");
  EXPECT_EQ(talk_of(row).learnt, "D<|eos|>");
  EXPECT_EQ(talk_of(row, learning(Loss::completion)).learnt, "D<|eos|>");
  EXPECT_EQ(talk_of(row, learning(Loss::assistant)).learnt, "B<|eos|>D<|eos|>");
}

// tools/golden/golden_parquet.py made the files: rows whose structs have each other's keys, as nulls.
TEST(Conversations, AreReadFromParquet) {
  if (!io::has_parquet()) GTEST_SKIP() << "this build reads no Parquet";
  const auto made = [](const std::string& name) {
    return read(files({std::string(HONE_SOURCE_DIR) + "/tests/golden/data/" + name}), {}, kTemplate).each;
  };
  const auto expected = [](std::initializer_list<std::string> documents) {
    return std::multiset<std::string>(documents);
  };
  EXPECT_EQ(made("messages.parquet"),
            expected({"[f]u:q<|eos|>a:!f{\"x\": 1}!g{\"list\": [\"a\", \"b\"]}<|eos|>t:r<|eos|>a:A<|eos|>"
                      " | !f{\"x\": 1}!g{\"list\": [\"a\", \"b\"]}<|eos|>A<|eos|>",
                      "u:zwei<|eos|>a:ZWEI<|eos|> | ZWEI<|eos|>"}));
  EXPECT_EQ(made("conversations.parquet"),
            expected({"[f]s:S<|eos|>u:q<|eos|>a:!f{\"x\": 1}<|eos|>t:r<|eos|>a:A<|eos|> | !f{\"x\": 1}<|eos|>A<|eos|>",
                      "u:b<|eos|>a:B<|eos|> | B<|eos|>"}));
  EXPECT_EQ(made("maps.parquet"),
            expected({"u:q<|eos|>a:!f{\"z\": 1, \"a\": null}<|eos|> | !f{\"z\": 1, \"a\": null}<|eos|>"}));
  EXPECT_EQ(made("pairs.parquet"), expected({"u:a<|eos|>a:B<|eos|> | B<|eos|>"}));
  EXPECT_EQ(made("json.parquet"),
            expected({"[f]u:q<|eos|>a:!f{\"x\": 1}!g{\"list\": [\"a\", \"b\"]}<|eos|>t:r<|eos|>a:A<|eos|>"
                      " | !f{\"x\": 1}!g{\"list\": [\"a\", \"b\"]}<|eos|>A<|eos|>",
                      "u:null<|eos|>a:[1]<|eos|> | [1]<|eos|>"}));
  EXPECT_EQ(made("views.parquet"), expected({"u:zwei<|eos|>a:ZWEI<|eos|> | ZWEI<|eos|>"}));
}

TEST(Conversations, OfParquetHaveTheColumnsThatAreNamed) {
  if (!io::has_parquet()) GTEST_SKIP() << "this build reads no Parquet";
  std::vector<DataFile> file = files({std::string(HONE_SOURCE_DIR) + "/tests/golden/data/messages.parquet"});
  file[0].columns = {{"system", "persona"}};
  EXPECT_THAT(error_of(ErrorKind::data, [&] { read(file, {}, kTemplate); }),
              HasSubstr("messages.parquet: no column \"persona\" to read system from; found \"messages\", \"tools\""));
}

TEST(Conversations, OfParquetThatAreNotUtf8AreNamed) {
  if (!io::has_parquet()) GTEST_SKIP() << "this build reads no Parquet";
  std::vector<DataFile> bytes = files({std::string(HONE_SOURCE_DIR) + "/tests/golden/data/bytes.parquet"});
  const auto read_all = [&] { return read(bytes, {}, kTemplate).each; };
  EXPECT_THAT(error_of(ErrorKind::data, read_all), HasSubstr("bytes.parquet:2: field \"messages\": invalid UTF-8"));
  bytes[0].max_samples = 1;
  EXPECT_EQ(read_all(), (std::multiset<std::string>{"u:é<|eos|>a:B<|eos|> | B<|eos|>"}));
}

TEST(Conversations, HaveExtrasFromInsideOtherFields) {
  const std::string rows =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "B"}], )"
      R"("meta": {"system": "S", "tools": [{"name": "f"}]}})"
      "\n"
      R"({"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "D"}], "meta": {}})";
  EXPECT_EQ(talk_of(rows, {}, kTemplate, {{"system", "meta.system"}, {"tools", "meta.tools"}}).text,
            "[f]s:S<|eos|>u:a<|eos|>a:B<|eos|>u:c<|eos|>a:D<|eos|>");
}

TEST(Conversations, AreFoundThroughColumns) {
  const std::string row = R"({"talk": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "B"}], )"
                          R"("functions": [{"name": "f"}], "text": "not read"})";
  EXPECT_EQ(talk_of(row, {}, kTemplate, {{"messages", "talk"}, {"tools", "functions"}}).text,
            "[f]u:a<|eos|>a:B<|eos|>");
}

// Pairs whose prompts have a turn of the assistant, of lengths that share rows in many ways.
constexpr int kPairs = 60;
std::string pair_rows() {
  std::string rows;
  for (int i = 0; i < kPairs; ++i)
    rows += R"({"prompt": [{"role": "user", "content": ")" + std::string(static_cast<std::size_t>(i % 7), 'q') +
            R"("}, {"role": "assistant", "content": "P"}, {"role": "user", "content": "r"}], )" +
            R"("completion": [{"role": "assistant", "content": ")" + std::to_string(i * 31) + "\"}]}\n";
  return rows;
}
std::string learnt_of_pair(Loss loss, int i) {
  const std::string last = std::to_string(i * 31) + "<|eos|>";
  if (loss == Loss::all)  // the first token has nothing before it
    return ":" + std::string(static_cast<std::size_t>(i % 7), 'q') + "<|eos|>a:P<|eos|>u:r<|eos|>a:" + last;
  return loss == Loss::assistant ? "P<|eos|>" + last : last;
}

TEST(Conversations, AreWhatSomeColumnsAreFor) {
  const auto error = [](const std::string& row, const std::map<std::string, std::string>& columns) {
    return error_of(ErrorKind::config, [&] { talk_of(row, {}, kTemplate, columns); });
  };
  EXPECT_THAT(error(R"({"a": "x", "b": "y"})", {{"text", "a"}, {"system", "b"}}),
              HasSubstr("columns: \"system\" is read only with conversations"));
  EXPECT_THAT(error(R"({"prompt": "x", "completion": "y", "c": "z"})", {{"tools", "c"}}),
              HasSubstr("columns: \"tools\" is read only with conversations"));
  EXPECT_THAT(error(kTwoTurns, {{"input", "c"}}), HasSubstr("columns: \"input\" is read only with instruction"));
}

TEST(Conversations, HaveTheSameLossPackedAndUnpacked) {
  for (const Loss loss : {Loss::all, Loss::assistant, Loss::last, Loss::completion}) {
    std::multiset<std::string> expected;
    std::string in_order;
    for (int i = 0; i < kPairs; ++i) {
      expected.insert("u:" + std::string(static_cast<std::size_t>(i % 7), 'q') + "<|eos|>a:P<|eos|>u:r<|eos|>a:" +
                      std::to_string(i * 31) + "<|eos|> | " + learnt_of_pair(loss, i));
      in_order += learnt_of_pair(loss, i);
    }
    Dataset::Options options = learning(loss);
    options.max_length = 64;
    options.packing = Packing::none;
    EXPECT_EQ(talk_of(pair_rows(), options).each, expected);
    options.packing = Packing::best_fit;
    EXPECT_EQ(talk_of(pair_rows(), options).each, expected);
    options.packing = Packing::concat;  // cuts documents at the ends of rows
    EXPECT_EQ(talk_of(pair_rows(), options).learnt, in_order);
  }
}

TEST(Conversations, KeepTheirMaskWhenTheyAreCut) {
  Dataset::Options options;
  options.max_length = 20;
  options.overlong = Overlong::keep_start;
  EXPECT_EQ(talk_of(kTwoTurns, options).text, "s:S<|eos|>u:one<|eos|>a:ONE<|eos|>u:tw");
  EXPECT_EQ(talk_of(kTwoTurns, options).learnt, "ONE<|eos|>");
}

TEST(Conversations, AreErrorsWithTheirPlace) {
  const auto error = [](const std::string& row) {
    return error_of(ErrorKind::data, [&] { talk_of(std::string(kTwoTurns) + "\n" + row); });
  };
  EXPECT_THAT(error(R"({"messages": []})"),
              HasSubstr("f.jsonl:2: field \"messages\": got an empty list, expected a list of messages"));
  EXPECT_THAT(error(R"({"messages": "x"})"),
              HasSubstr("f.jsonl:2: field \"messages\": got a string, expected a list of messages"));
  EXPECT_THAT(error(R"({"messages": ["x"]})"),
              HasSubstr("f.jsonl:2: messages[0]: got a string, expected an object with role and content"));
  EXPECT_THAT(error(R"({"messages": [{"role": 1, "content": "x"}]})"),
              HasSubstr("f.jsonl:2: messages[0].role: got a number, expected a string"));
  EXPECT_THAT(error(R"({"prompt": [{"role": "user", "content": "x"}], "completion": "y"})"),
              HasSubstr("f.jsonl:2: field \"completion\": got a string, expected a list of messages, because field "
                        "\"prompt\" is one"));
  EXPECT_THAT(error(R"({"messages": [{"content": "x"}]})"), HasSubstr("f.jsonl:2: messages[0]: no role"));
  EXPECT_THAT(error(R"({"conversations": [{"from": "me", "value": "x"}]})"),
              HasSubstr("f.jsonl:2: conversations[0]: from is \"me\""));
  EXPECT_THAT(error(R"({"conversations": [{"from": "function_call", "value": "x"}]})"),
              HasSubstr("f.jsonl:2: conversations[0]: got a string that is not JSON, expected as the value of a "
                        "function_call a JSON object with a name"));
  EXPECT_THAT(error(R"({"conversations": [{"from": "function_call", "value": "{}"}]})"),
              HasSubstr("f.jsonl:2: conversations[0]: got an object without a name, expected as the value"));
  EXPECT_THAT(error(R"({"messages": [{"role": "user", "content": "x"}], "tools": "x"})"),
              HasSubstr("f.jsonl:2: field \"tools\": got a string that is not JSON, expected a list of tools"));
  EXPECT_THAT(error(R"({"messages": [{"role": "user", "content": "x"}], "tools": {"a": 1}})"),
              HasSubstr("f.jsonl:2: field \"tools\": got an object, expected a list of tools"));
  EXPECT_THAT(error(R"({"instruction": "x", "output": "y", "history": [1]})"),
              HasSubstr("f.jsonl:2: history[0]: got a number, expected a pair of texts"));
  EXPECT_THAT(error(R"({"instruction": "x", "output": "y", "history": [["a", "b"], ["c"]]})"),
              HasSubstr("f.jsonl:2: history[1]: got a list of 1, expected a pair of texts"));
  EXPECT_THAT(error(R"({"messages": null})"), HasSubstr("f.jsonl:2: field \"messages\": got null"));
}

TEST(Conversations, AreAnErrorWhenNobodyCanTellWhatTheAssistantWrote) {
  // The generation prompt is not what stands before the turn.
  const std::string other =
      "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
      "{% if add_generation_prompt %}answer:{% endif %}";
  const std::string said = error_of(ErrorKind::data, [&] { talk_of(kTwoTurns, {}, other); });
  EXPECT_THAT(said, HasSubstr("f.jsonl:1: messages[2]: cannot tell which tokens are the assistant's"));
  EXPECT_THAT(said, HasSubstr("{% generation %}"));
  EXPECT_EQ(talk_of(kTwoTurns, learning(Loss::all), other).text,
            "system=S;user=one;assistant=ONE;user=two;assistant=TWO;");
  EXPECT_THAT(error_of(ErrorKind::config, [&] { talk_of(kTwoTurns, {}, ""); }), HasSubstr("no chat template"));
  EXPECT_THAT(error_of(ErrorKind::data, [&] { talk_of(kTwoTurns, {}, "\n{{ raise_exception('only two') }}"); }),
              HasSubstr("chat_template.jinja:2: only two"));
}

TEST(Conversations, LossIsNotIgnoredWhereItMeansNothing) {
  for (const char* row : {R"({"text": "x"})", R"({"input_ids": [1, 2]})"})
    for (const Loss loss : {Loss::assistant, Loss::last, Loss::completion})
      EXPECT_THAT(error_of(ErrorKind::config, [&] { talk_of(row, learning(loss)); }), HasSubstr("but loss is"));
  EXPECT_EQ(talk_of(R"({"prompt": "ab", "completion": "cd"})", learning(Loss::all)).learnt, "bcd<|eos|>");
  EXPECT_EQ(talk_of(R"({"prompt": "ab", "completion": "cd"})", learning(Loss::completion)).learnt, "cd<|eos|>");
}

}  // namespace
}  // namespace hone::test
