// data.chat_template: a name, a file or a text takes the place of the tokenizer's own template, in its files too.
#include "data/choose_template.h"

#include <algorithm>

#include "data/tokenise.h"
#include "support.h"
#include "text/tokenizer/load.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<const Tokenizer> tokenizer_with_own(const std::string& config) {
  return text::make_tokenizer({text::bytes_tokenizer_files()[0], {"tokenizer_config.json", config}}, {}, "test");
}

const std::string kContents = "{% for m in messages %}{{ m.content }}{% endfor %}";
const std::string kOwn = R"({"chat_template": "own )" + kContents + R"(", "eos_token": "<|eos|>", "a": 1})";

std::string text_of(const Tokenizer& tokenizer) {
  const data::Tokenising how(tokenizer, true, Loss::all);
  Record record;
  record.content = ChatRecord{
      Conversation{R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "A"}])", "", "", "", -1}};
  return tokenizer.decode(data::to_tokens(record, how, "f").ids, false);
}

std::string file_of(const Tokenizer& tokenizer, const std::string& name) {
  for (const auto& [known, content] : tokenizer.files)
    if (known == name) return content;
  return "";
}

TEST(ChooseTemplate, TakesANameAFileOrAText) {
  const TempFolder folder;
  const auto own = tokenizer_with_own(kOwn);
  EXPECT_EQ(data::with_chat_template(own, "", "x"), own);
  EXPECT_EQ(text_of(*own), "own qA");
  EXPECT_EQ(text_of(*data::with_chat_template(own, "zephyr", "x")), "<|user|>\nq<|eos|>\n<|assistant|>\nA<|eos|>\n");
  EXPECT_EQ(text_of(*data::with_chat_template(own, "{{ messages|length }}!" + kContents, "x")), "2!qA");
  EXPECT_EQ(text_of(*data::with_chat_template(own, folder.write("t.jinja", "from a file: " + kContents), "x")),
            "from a file: qA");
}

TEST(ChooseTemplate, IsExportedInPlaceOfTheTokenizersOwn) {
  const auto own = tokenizer_with_own(kOwn);
  const auto made = data::with_chat_template(own, "{{ 'new' }}", "x");
  EXPECT_EQ(file_of(*made, "chat_template.jinja"), "{{ 'new' }}");
  EXPECT_THAT(file_of(*made, "tokenizer_config.json"), Not(HasSubstr("chat_template")));
  EXPECT_THAT(file_of(*made, "tokenizer_config.json"), HasSubstr("\"a\": 1"));
  EXPECT_EQ(file_of(*made, "tokenizer.json"), file_of(*own, "tokenizer.json"));
  EXPECT_NE(made->fingerprint, own->fingerprint);  // the token cache's key
  EXPECT_EQ(made->eos_id, own->eos_id);
  const auto again = data::with_chat_template(made, "{{ 'newer' }}" + kContents, "x");
  EXPECT_EQ(again->files.size(), made->files.size());
  EXPECT_EQ(text_of(*again), "newerqA");
}

// As transformers 5.23: files take the place of all of tokenizer_config.json's templates, and a name chooses one.
TEST(ChooseTemplate, TakesTheTokenizersOwnTemplatesByName) {
  const TempFolder folder;
  const auto bytes = text::bytes_tokenizer_files();
  folder.write("m/tokenizer.json", bytes[0].second);
  folder.write("m/tokenizer_config.json", R"({"chat_template": [{"name": "old", "template": "old"}]})");
  folder.write("m/chat_template.jinja", "one" + kContents);
  folder.write("m/additional_chat_templates/rag.jinja", "rag " + kContents);
  folder.write("m/additional_chat_templates/tool_use.jinja", "tools");
  folder.write("m/additional_chat_templates/notes.txt", "no template");
  const auto own = load_tokenizer(folder.file("m"));
  EXPECT_EQ(text_of(*own), "oneqA");
  EXPECT_EQ(text_of(*data::with_chat_template(own, "rag", "x")), "rag qA");
  EXPECT_EQ(file_of(*own, "additional_chat_templates/tool_use.jinja"), "tools");
  EXPECT_EQ(file_of(*own, "additional_chat_templates/notes.txt"), "");
  const auto chosen = data::with_chat_template(own, "tool_use", "x");
  EXPECT_EQ(file_of(*chosen, "chat_template.jinja"), "tools");
  EXPECT_EQ(file_of(*chosen, "additional_chat_templates/rag.jinja"), "");
  EXPECT_THAT(error_of(ErrorKind::config, [&] { data::with_chat_template(own, "old", "x"); }),
              HasSubstr("one of default, rag, tool_use, alpaca"));
}

TEST(ChooseTemplate, KnowsWhatEndsATurn) {
  const auto own = tokenizer_with_own(kOwn);
  EXPECT_EQ(data::turn_end(*own), std::nullopt);
  EXPECT_EQ(data::turn_end(*data::with_chat_template(own, "zephyr", "x")), 257);
  EXPECT_EQ(data::turn_end(*data::with_chat_template(own, "{{ messages[1].content }}<|pad|>", "x")), 258);
  EXPECT_EQ(data::turn_end(*data::with_chat_template(own, "{{ raise_exception('no') }}", "x")), std::nullopt);
  EXPECT_EQ(data::turn_end(*text::make_tokenizer({text::bytes_tokenizer_files()[0]}, {}, "test")), std::nullopt);
}

TEST(ChooseTemplate, KeepsIdsThatOtherFilesGave) {
  const auto own = text::make_tokenizer({text::bytes_tokenizer_files()[0]},
                                        {{"config.json", R"({"eos_token_id": 257, "pad_token_id": 258})"}}, "test");
  const auto made = data::with_chat_template(own, "{{ 1 }}", "x");
  EXPECT_EQ(made->eos_id, 257);
  EXPECT_EQ(made->pad_id, 258);
}

TEST(ChooseTemplate, SaysWhatIsWrong) {
  const auto own = tokenizer_with_own(kOwn);
  const auto error = [&](const std::string& chosen) {
    return error_of(ErrorKind::config, [&] { data::with_chat_template(own, chosen, "data.chat_template"); });
  };
  EXPECT_THAT(error("zephir"),
              HasSubstr("data.chat_template: got \"zephir\", expected a file, the text of a template, or "
                        "one of alpaca, chatml, gemma, llama3, mistral, phi3, zephyr"));
  EXPECT_THAT(error("zephir"), HasSubstr("did you mean zephyr?"));
  EXPECT_THAT(error("chatml"), HasSubstr("data.chat_template: chatml needs the token \"<|im_start|>\", which the "
                                         "tokenizer does not have"));
  EXPECT_THAT(error("a\n{% if"), HasSubstr("data.chat_template:2: "));
  const TempFolder folder;
  EXPECT_THAT(error(folder.write("bad.jinja", "{% for %}")), HasSubstr("bad.jinja:1: "));
  EXPECT_THAT(error(folder.file("none.jinja")), HasSubstr("none.jinja\", expected a file"));
  const auto without_eos = tokenizer_with_own("{}");
  EXPECT_THAT(error_of(ErrorKind::config, [&] { data::with_chat_template(without_eos, "zephyr", "x"); }),
              HasSubstr("x: zephyr needs an end-of-sequence token"));
}

}  // namespace
}  // namespace hone::test
