// A field that is to be passed over, or that columns name, and that no record has, is told.
#include "data/unmet.h"

#include <algorithm>

#include "base/log.h"
#include "data/choose_template.h"
#include "data/stream.h"
#include "hone/data.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

class UnmetFields : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_sink([this](log::Level level, std::string_view message) {
      if (level >= log::Level::warning) told_ += std::string(message) + "\n";
    });
  }
  void TearDown() override { log::set_sink({}); }

  DataFile file(const std::string& name, const std::string& content, const std::vector<std::string>& ignore) const {
    DataFile made = files({folder_.write(name, content)})[0];
    made.ignore = ignore;
    return made;
  }
  std::string told_of(const std::vector<DataFile>& all) {
    told_.clear();
    Dataset::make(all, *tokenizer_, options_);
    return told_;
  }
  // Reads so many rows of a stream.
  std::string told_of_stream(const DataFile& file, int rows, const std::string& position = "") {
    told_.clear();
    const auto stream = data::open_stream({file}, tokenizer_, options_);
    const auto reader = stream->read(0, false, 0, position);
    HostRow row;
    for (int i = 0; i < rows && reader->next(row); ++i) position_ = reader->position();
    return told_;
  }

  TempFolder folder_;
  Dataset::Options options_;
  std::shared_ptr<const Tokenizer> tokenizer_ = data::with_chat_template(
      load_tokenizer("bytes"), "{% for m in messages %}{{ m.content }}<|eos|>{% endfor %}", "test");
  std::string told_, position_;
  static constexpr const char* kLabelled = "{\"text\": \"one\", \"label\": 1}\n";
};

TEST_F(UnmetFields, ThatNoRecordHasAreTold) {
  EXPECT_EQ(told_of({file("a.jsonl", kLabelled, {"label"})}), "");
  EXPECT_EQ(told_of({file("a.jsonl", kLabelled, {"label", "lable"})}),
            folder_.file("a.jsonl") + ": ignore: no record has a field \"lable\" to pass over\n");
  EXPECT_EQ(told_of({file("a.csv", "text,label\na,1\n", {"label"})}), "");
  EXPECT_EQ(told_of({file("a.csv", "text,label\na,1\n", {"2"})}), "");
  EXPECT_THAT(told_of({file("b.csv", "text\na\n", {"label"})}), HasSubstr("no record has a field \"label\""));
  EXPECT_THAT(told_of({file("a.txt", "a text", {"label"})}), HasSubstr("no record has a field \"label\""));
}

TEST_F(UnmetFields, AreInSomeRecordOfTheFilesThatNameThem) {
  const DataFile with = file("a.jsonl", kLabelled, {"label"});
  const DataFile without = file("b.jsonl", "{\"text\": \"b\"}\n", {"label"});
  EXPECT_EQ(told_of({with, without}), "");
  EXPECT_EQ(told_of({without, without}), without.path + ", " + without.path +
                                             ": ignore: no record has a field \"label\" to pass over\n");
}

TEST_F(UnmetFields, ThatWouldBeReadAreNot) {
  const DataFile both = file("a.jsonl", R"({"text": "one", "prompt": "p", "completion": "c"})", {"text"});
  EXPECT_EQ(told_of({both}), "");
  EXPECT_EQ(Dataset::make({both}, ByteTokenizer(), options_)->row(0)[0].ids,
            (std::vector<std::int64_t>{'p', 'c', 257}));
  const DataFile ids = file("ids.jsonl", R"({"input_ids": [1, 2, 3], "labels": [-100, -100, 3]})", {"labels"});
  EXPECT_EQ(Dataset::make({ids}, ByteTokenizer(), options_)->report().supervised, 2);
  EXPECT_EQ(told_of({file("a.csv", "text,prompt,completion\none,p,c\n", {"text"})}), "");
  EXPECT_THAT(error_of(ErrorKind::data, [&] { told_of({file("b.jsonl", R"({"text": "b"})", {"text"})}); }),
              HasSubstr("b.jsonl:1: no known fields"));
}

TEST_F(UnmetFields, AreToldWhenTheyAreReadNotOfACache) {
  options_.cache_folder = folder_.file("cache");
  const DataFile wrong = file("a.jsonl", "{\"text\": \"a text\"}\n", {"label"});
  EXPECT_THAT(told_of({wrong}), HasSubstr("no record has a field"));
  EXPECT_EQ(told_of({wrong}), "");  // the cache does not know, and it has been told
  EXPECT_EQ(told_of({file("b.jsonl", "{\"text\": \"b\", \"label\": 1}\n", {"label"})}), "");
  EXPECT_EQ(told_of({file("b.jsonl", "{\"text\": \"b\", \"label\": 1}\n", {"label"})}), "");
}

TEST_F(UnmetFields, ThatColumnsNameAreTold) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  const auto with = [&](const std::string& name, const std::string& content, const std::string& field) {
    DataFile made = file(name, content, {});
    made.columns = {{"messages", "messages"}, {"system", field}};
    return made;
  };
  const std::string some = chat + "}\n" + chat + R"(, "about": "s", "meta": {"system": "t"}})";
  EXPECT_EQ(told_of({with("a.jsonl", some, "about")}), "");
  EXPECT_EQ(told_of({with("a.jsonl", some, "meta.system")}), "");
  EXPECT_EQ(told_of({with("a.jsonl", some, "abuot")}),
            folder_.file("a.jsonl") + ": columns: no record has a field \"abuot\" to read system from\n");
  EXPECT_THAT(told_of({with("a.jsonl", some, "meta.sytem")}), HasSubstr("no record has a field \"meta.sytem\""));
  EXPECT_EQ(told_of({with("b.jsonl", chat + "}", "about"), with("a.jsonl", some, "about")}), "");
  options_.window = 2, options_.max_length = 8;
  EXPECT_THAT(told_of_stream(with("s.jsonl", some, "abuot"), 20), HasSubstr("to read system from"));
  EXPECT_EQ(told_of_stream(with("s.jsonl", some, "about"), 20), "");
}

// Before that nobody knows.
TEST_F(UnmetFields, OfAStreamAreToldOnceAllOfItHasBeenRead) {
  options_.window = 2, options_.max_length = 8;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "{\"text\": \"some text\"}\n";
  const DataFile none = file("s.jsonl", lines, {"label"});
  EXPECT_EQ(told_of_stream(none, 3), "");
  const std::string in_the_middle = position_;
  const std::string told = told_of_stream(none, 200);
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  EXPECT_THAT(told, HasSubstr("s.jsonl: ignore: no record has a field \"label\" to pass over"));
  EXPECT_EQ(told_of_stream(none, 200, in_the_middle), "");  // what came before has not been looked at
  EXPECT_EQ(told_of_stream(file("t.jsonl", lines + kLabelled, {"label"}), 200), "");
}

}  // namespace
}  // namespace hone::test
