// chat_template_kwargs of a recipe: all conversations have them that do not say otherwise.
#include "data/template_variables.h"

#include "data/choose_template.h"
#include "data/stream.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

// What it writes says what was given.
constexpr const char* kMarkedTemplate =
    "{% if think is defined %}<{{ think }}>{% endif %}{{ mark }}"
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}a:{% endif %}";

std::map<std::string, config::Open> variables(const std::string& yaml) {
  Problems problems;
  const config::Node all = config::parse_yaml(yaml, "test", problems);
  problems.raise();
  std::map<std::string, config::Open> made;
  for (const auto& [name, node] : all.entries()) made[name] = {node};
  return made;
}

class TemplateVariables : public ::testing::Test {
 protected:
  std::vector<DataFile> file(const std::string& rows, const std::string& own = "{}") {
    DataFile made;
    made.path = folder_.write("f.jsonl", rows);
    made.chat_template_kwargs = variables(own);
    return {made};
  }
  std::string text_of(const Dataset& data) const {
    std::string text;
    for (std::int64_t row = 0; row < data.rows(); ++row)
      for (const HostDoc& doc : data.row(row))
        text += tokenizer_->decode({doc.ids.begin(), doc.ids.end()}, false) + "|";
    return text;
  }
  std::string read(const std::string& rows, const std::string& own = "{}", const std::string& all = "") {
    options_.chat_template_kwargs = all;
    return text_of(*Dataset::make(file(rows, own), *tokenizer_, options_));
  }

  const TempFolder folder_;
  const std::shared_ptr<const Tokenizer> tokenizer_ =
      data::with_chat_template(load_tokenizer("bytes"), kMarkedTemplate, "template");
  Dataset::Options options_;
};

const std::string kChat = R"("messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "A"}])";

TEST_F(TemplateVariables, ARecordsOwnComeBeforeAFilesAndTheseBeforeAll) {
  const std::string plain = "{" + kChat + "}\n",
                    own = "{" + kChat + R"(, "chat_template_kwargs": {"think": "record"}})" + "\n";
  const std::string all = R"({"think": "all", "mark": "+"})";
  EXPECT_EQ(read(plain), "u:q;a:A;|");
  EXPECT_EQ(read(plain, "{}", all), "<all>+u:q;a:A;|");
  EXPECT_EQ(read(plain, R"({"think": "file"})", all), "<file>+u:q;a:A;|");
  EXPECT_EQ(read(own, R"({"think": "file"})", all), "<record>+u:q;a:A;|");
  EXPECT_EQ(read(own, R"({"mark": "-"})"), "<record>-u:q;a:A;|");
  // As YAML and JSON write them: no texts.
  EXPECT_EQ(read(plain, R"({"think": false, "mark": [1, {"a": null}]})"), "<False>[1, {'a': None}]u:q;a:A;|");
  const auto text = [](const std::string& yaml) { return data::variables_text(variables(yaml)); };
  EXPECT_EQ(text("a: False\nb: 'False'\nc: [TRUE, 1.5, word]\n"),
            R"({"a": false, "b": "False", "c": [true, 1.5, "word"]})");
  EXPECT_EQ(text("{}"), "");
}

TEST_F(TemplateVariables, AreOfEachKindOfConversation) {
  const std::string all = R"({"think": 1})", prompt = R"("prompt": [{"role": "user", "content": "q"}])",
                    one = R"([{"role": "assistant", "content": "A"}])",
                    other = R"([{"role": "assistant", "content": "B"}])";
  options_.packing = Packing::none, options_.append_eos = false;
  options_.records = RecordKind::preference;
  EXPECT_EQ(read("{" + prompt + ", \"chosen\": " + one + ", \"rejected\": " + other + "}\n", "{}", all),
            "<1>u:q;a:A;|<1>u:q;a:B;|");
  options_.records = RecordKind::judged;
  EXPECT_EQ(read("{" + prompt + ", \"completion\": " + one + ", \"label\": true}\n", "{}", all), "<1>u:q;a:A;|");
  options_.records = RecordKind::choice;
  EXPECT_EQ(read("{" + prompt + R"(, "choices": ["A", "B"], "answer": 0})" + "\n", "{}", all),
            "<1>u:q;a:A|<1>u:q;a:B|");
  options_.records = RecordKind::asked, options_.overlong = Overlong::drop;
  EXPECT_EQ(read("{" + prompt + R"(, "answer": "A"})" + "\n", "{}", all), "<1>u:q;a:A|");
  EXPECT_EQ(read("{\"prompt\": \"q\", \"answer\": \"A\"}\n", "{}", all), "qA|") << "no conversation";
}

TEST_F(TemplateVariables, AreOfStreamsToo) {
  std::vector<DataFile> files = file("{" + kChat + "}\n", R"({"mark": "!"})");
  files[0].stream = true;
  options_.packing = Packing::none, options_.window = 1;
  const auto open = [&] { return data::open_stream(files, tokenizer_, options_); };
  const std::string before = open()->fingerprint();
  options_.chat_template_kwargs = R"({"think": 2})";
  EXPECT_EQ(text_of(*data::first_window(*open())), "<2>!u:q;a:A;|");
  EXPECT_NE(open()->fingerprint(), before);
}

TEST_F(TemplateVariables, AreKnownToTheCache) {
  options_.cache_folder = folder_.file("cache");
  const std::string plain = "{" + kChat + "}\n";
  EXPECT_EQ(read(plain), "u:q;a:A;|");
  EXPECT_EQ(read(plain, R"({"mark": "+"})"), "+u:q;a:A;|");
  EXPECT_EQ(read(plain, "{}", R"({"mark": "-"})"), "-u:q;a:A;|");
  EXPECT_EQ(read(plain), "u:q;a:A;|");
}

TEST_F(TemplateVariables, OthersThanVariablesAreRefused) {
  const std::string plain = "{" + kChat + "}\n";
  EXPECT_THAT(error_of(ErrorKind::data, [&] { read(plain, R"({"add_generation_prompt": true})"); }),
              HasSubstr("f.jsonl:1: variables of the template: add_generation_prompt is none of them"));
  EXPECT_THAT(error_of(ErrorKind::usage, [] { data::check_variables("[1]", "--x"); }),
              HasSubstr("--x: expected a JSON object"));
}

}  // namespace
}  // namespace hone::test
