// Pictures of records: the forms that data sets have, their places among tokens, rows, the token cache and batches.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "data/choose_template.h"
#include "data/inspect.h"
#include "data/pictures.h"
#include "data/stream.h"
#include "hone/data.h"
#include "hone/data_in_memory.h"
#include "hone/pictures.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int32_t kImage = '#';

// A picture's tokens are as many as the digit that its name begins with, or its content; its one value is that, too.
class DigitReader final : public PictureReader {
 public:
  const PictureInput& input() const override { return input_; }
  PatchGrid grid(const PictureFile& file) const override {
    const std::string name = file.path.empty() ? file.bytes : std::filesystem::path(file.path).filename().string();
    if (!std::isdigit(name[0])) throw Error(ErrorKind::data, file.path + ": no such file");
    return {1, 1, name[0] - '0' + more};
  }
  std::int64_t tokens(const PatchGrid& grid) const override { return grid.patches(); }
  Patches read(const PictureFile& file) const override {
    if (file.path.ends_with(".bad")) throw Error(ErrorKind::data, file.path + ": ends too soon");
    const PatchGrid one = grid(file);
    return {one, std::vector<float>(static_cast<std::size_t>(one.patches() * input_.values()),
                                    static_cast<float>(one.columns))};
  }
  std::string fingerprint() const override { return "digits"; }
  std::int64_t more = 0;

 private:
  PictureInput input_{.token = kImage};
};

const std::string kPictureTemplate =
    "{% for m in messages %}{{ m.role[0] ~ ':' }}{% if m.content is string %}{{ m.content }}{% else %}{% for c in "
    "m.content %}{% if c.type == 'image' %}#{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}{{ '.' }}"
    "{% endfor %}{% if add_generation_prompt %}a:{% endif %}";

struct PictureData : testing::Test {
  const TempFolder folder;
  std::shared_ptr<DigitReader> reader = std::make_shared<DigitReader>();
  std::shared_ptr<const Tokenizer> tokenizer =
      data::with_chat_template(load_tokenizer("bytes"), kPictureTemplate, "data.chat_template");

  Dataset::Options options() const {
    Dataset::Options made;
    made.max_length = 40;
    made.append_eos = false;
    made.packing = Packing::none;
    made.pictures = reader;
    return made;
  }
  std::shared_ptr<const Dataset> make(const std::string& lines, Dataset::Options how) const {
    return Dataset::make(files({folder.write("d.jsonl", lines)}), *tokenizer, how);
  }
  std::shared_ptr<const Dataset> make(const std::string& lines) const { return make(lines, options()); }
  std::string problem_of(const std::string& lines, const Dataset::Options& how) const {
    try {
      make(lines, how);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  std::string problem_of(const std::string& lines) const { return problem_of(lines, options()); }
  // The text of a record's document.
  std::string text_of(const std::string& line) const {
    std::string text;
    const auto row = make(line)->row(0);
    for (const std::int64_t id : row[0].ids) text += static_cast<char>(id);
    return text;
  }
};

const std::string kAnswer = R"({"role": "assistant", "content": "ok"})";
std::string messages(const std::string& user, const std::string& more = "") {
  return R"({"messages": [{"role": "user", "content": )" + user + "}, " + kAnswer + "]" + more + "}\n";
}

TEST_F(PictureData, AreReadInTheFormsThatDataSetsHave) {
  const std::string expected = "u:Is it ##so?.a:ok.", first = "u:##Is it so?.a:ok.";
  const std::string parts = R"([{"type": "text", "text": "Is it "}, PART, {"type": "text", "text": "so?"}])";
  const auto with = [&](std::string part) { return replace_all(parts, "PART", part); };
  // The picture beside the messages, as in TRL, in its part in several ways, and OpenAI's.
  EXPECT_EQ(text_of(messages(with(R"({"type": "image"})"), R"(, "images": ["2.png"])")), expected);
  EXPECT_EQ(text_of(messages(with(R"({"type": "image", "text": null})"), R"(, "image": "2.png")")), expected);
  for (const char* key : {"image", "url", "path"})
    EXPECT_EQ(text_of(messages(with(std::string(R"({"type": "image", ")") + key + R"(": "2.png"})"))), expected);
  EXPECT_EQ(text_of(messages(with(R"({"type": "image", "base64": "Mm5v"})"))), expected);
  EXPECT_EQ(text_of(messages(with(R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,Mm5v"}})"))),
            expected);
  // Nothing says where it belongs: before what the user says first.
  EXPECT_EQ(text_of(messages(R"("Is it so?")", R"(, "images": ["2.png"])")), first);
  EXPECT_EQ(text_of(messages(R"("Is it so?")", R"(, "images": [{"bytes": null, "path": "2.png"}])")), first);
}

TEST_F(PictureData, LlavasPlaceholdersArePlaces) {
  EXPECT_EQ(text_of(R"({"image": "2.png", "conversations": [{"from": "human", "value": "<image>\nIs it so?"}, )"
                    R"({"from": "gpt", "value": "ok"}]})"
                    "\n"),
            "u:##Is it so?.a:ok.");
}

TEST_F(PictureData, OfTextsStandWhereTheirTokenDoes) {
  EXPECT_EQ(text_of(R"({"prompt": "a # b # c", "completion": "d", "images": ["3.png", "1.png"]})"
                    "\n"),
            "a ### b # cd");
  EXPECT_EQ(text_of(R"({"text": "a # b", "image": "2.png"})"
                    "\n"),
            "a ## b");
}

TEST_F(PictureData, AreNotLearntAndLieInTheBatchWhereTheyBelong) {
  const auto data = make(messages(R"("x")", R"(, "images": ["2.png", "3.png"])") + messages(R"("y")") +
                         messages(R"([{"type": "text", "text": "zz"}, {"type": "image", "image": "1.png"}])"));
  EXPECT_EQ(data->report().pictures, 3);
  EXPECT_EQ(data->report().picture_tokens, 6);
  const HostBatch batch = data->batch({0, 1, 2}, 0);
  ASSERT_EQ(batch.pictures.spans.size(), 3u);
  for (const PictureSpan& span : batch.pictures.spans)
    for (std::int32_t t = span.begin; t < span.end; ++t) {
      EXPECT_EQ(batch.ids[static_cast<std::size_t>(span.row * batch.length + t)], kImage);
      if (t > 0) {
        EXPECT_EQ(batch.labels[static_cast<std::size_t>(span.row * batch.length + t - 1)], -100);
      }
    }
  const auto begins = [&](std::size_t i) {
    return std::pair(batch.pictures.spans[i].row, batch.pictures.spans[i].begin);
  };
  EXPECT_EQ(begins(0), std::pair(0, 2));
  EXPECT_EQ(begins(1), std::pair(0, 4));
  EXPECT_EQ(begins(2), std::pair(2, 4));
  EXPECT_EQ(batch.pictures.width, 3);
  EXPECT_EQ(batch.pictures.values.size(), 6u * 3);
  EXPECT_EQ(batch.pictures.values[2 * 3], 3);  // of the second picture
}

TEST_F(PictureData, AreNotLearntWhereAllElseIs) {
  const auto row = make(R"({"text": "a#b", "image": "2.png"})"
                        "\n")
                       ->row(0);
  EXPECT_THAT(row[0].targets, ElementsAre(-100, -100, 'b', -100));
}

TEST_F(PictureData, PackedRowsHaveThemWhereTheirDocumentsAre) {
  Dataset::Options how = options();
  how.packing = Packing::best_fit;
  const auto data =
      make(messages(R"("x")", R"(, "images": ["2.png"])") + messages(R"("yyy")", R"(, "images": ["3.png"])"), how);
  ASSERT_EQ(data->rows(), 1);
  const HostBatch batch = data->batch({0}, 0);
  ASSERT_EQ(batch.docs.size(), 2u);
  ASSERT_EQ(batch.pictures.spans.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(batch.pictures.spans[i].begin, batch.docs[i].begin + 2);
}

TEST_F(PictureData, WhatIsTooLongIsDroppedAndNeverCut) {
  const std::string lines = messages(R"("a long long long long question")", R"(, "images": ["9.png"])") +
                            messages(R"("x")", R"(, "images": ["2.png"])");
  for (const Overlong overlong : {Overlong::split, Overlong::keep_start, Overlong::keep_end, Overlong::drop})
    for (const Packing packing : {Packing::none, Packing::best_fit, Packing::concat}) {
      Dataset::Options how = options();
      how.overlong = overlong, how.packing = packing;
      const auto data = make(lines, how);
      EXPECT_EQ(data->report().dropped, 1);
      EXPECT_EQ(data->report().with_pictures, 1);
      EXPECT_EQ(data->report().pictures, 1);
    }
  Dataset::Options how = options();
  how.overlong = Overlong::error;
  EXPECT_THAT(problem_of(lines, how), HasSubstr("tokens; expected at most max_length 40"));
}

TEST_F(PictureData, WhatDoesNotFitIsAnError) {
  EXPECT_THAT(problem_of(messages(R"([{"type": "image"}])", R"(, "images": ["1.png", "2.png"])")),
              HasSubstr("d.jsonl:1: 1 place for 2 pictures of the record's own; expected as many"));
  EXPECT_THAT(problem_of(messages(R"([{"type": "image"}])")), HasSubstr("1 place for 0 pictures"));
  EXPECT_THAT(problem_of(messages(R"([{"type": "video", "video": "v.mp4"}])")), HasSubstr("message 1, part 1: video"));
  EXPECT_THAT(problem_of(messages(R"("x")", R"(, "images": ["http://a.b/2.png"])")), HasSubstr("images[0]"));
  EXPECT_THAT(problem_of(messages(R"("x")", R"(, "images": ["none.png"])")), HasSubstr("none.png: no such file"));
  EXPECT_THAT(problem_of(R"({"prompt": "a", "completion": "d", "images": ["3.png"]})"
                         "\n"),
              HasSubstr("1 picture and 0 places of token 35"));
  EXPECT_THAT(problem_of(R"({"prompt": "a # b", "completion": "d"})"
                         "\n"),
              HasSubstr("0 pictures and 1 place of token 35"));
}

TEST_F(PictureData, AreRefusedWhereNobodyReadsThem) {
  Dataset::Options how = options();
  how.pictures = nullptr;
  EXPECT_THAT(problem_of(messages(R"("x")", R"(, "images": ["2.png"])"), how),
              HasSubstr("field \"images\" is for models of images"));
  how.pictures = reader, how.records = RecordKind::asked;
  EXPECT_THAT(problem_of(R"({"prompt": "x", "images": ["2.png"]})"
                         "\n",
                         how),
              HasSubstr("images"));
}

TEST_F(PictureData, TheTokenCacheKeepsThem) {
  Dataset::Options how = options();
  how.cache_folder = folder.file("cache");
  folder.write("2.png", "");
  const std::string lines = messages(R"("x")", R"(, "images": ["2.png"])") +
                            messages(R"([{"type": "image", "base64": "M25v"}, {"type": "text", "text": "y"}])");
  const HostBatch made = make(lines, how)->batch({0, 1}, 0), kept = make(lines, how)->batch({0, 1}, 0);
  EXPECT_EQ(kept.ids, made.ids);
  EXPECT_EQ(kept.pictures.values, made.pictures.values);
  ASSERT_EQ(kept.pictures.spans.size(), 2u);
  // A picture that is another one now.
  const auto data = make(lines, how);
  reader->more = 1;
  EXPECT_THAT(
      [&] {
        data->batch({0, 1}, 0);
      },
      testing::ThrowsMessage<Error>(HasSubstr("3 tokens of the model's; expected 2, as when the data were")));
}

// Whichever thread meets it first, the first record is named.
TEST_F(PictureData, OneThatCannotBeReadSaysWhoseItIs) {
  std::string lines;
  for (const char* name : {"1.png", "2.png", "3.bad", "4.bad", "5.png"})
    lines += messages(R"("x")", fmt::format(R"(, "images": ["1.png", "{}"])", name));
  const auto data = make(lines);
  for (int again = 0; again < 20; ++again)
    EXPECT_THAT(error_of(ErrorKind::data, [&] { data->batch({0, 1, 2, 3, 4}, 0); }),
                HasSubstr("3.bad: ends too soon\n  while " + folder.file("d.jsonl:3")));
}

TEST_F(PictureData, OfManyTheOrderIsThatOfTheirPlaces) {
  std::string lines;
  std::vector<float> expected;
  std::vector<std::int64_t> rows;
  for (int i = 0; i < 40; ++i) {
    const int first = i * 7 % 9 + 1, second = i * 5 % 9 + 1;
    lines += messages(R"("x")", fmt::format(R"(, "images": ["{}.png", "{}.png"])", first, second));
    for (const int one : {first, second}) expected.insert(expected.end(), 3 * one, static_cast<float>(one));
    rows.push_back(i);
  }
  const auto data = make(lines);
  for (int again = 0; again < 5; ++again) EXPECT_EQ(data->batch(rows, 0).pictures.values, expected);
}

// Headers are read when records are tokenised; of what is in the cache nobody has looked at them since.
TEST_F(PictureData, ThatAreGoneAreFoundBeforeTraining) {
  Dataset::Options how = options();
  how.cache_folder = folder.file("cache");
  const std::string lines = messages(R"("y")") + messages(R"("x")", R"(, "images": ["2.png"])");
  folder.write("2.png", "");
  make(lines, how);
  make(lines, how);
  std::filesystem::remove(folder.file("2.png"));
  EXPECT_THAT(problem_of(lines, how), HasSubstr("d.jsonl:2: " + folder.file("2.png") + ": no such file any more"));
}

TEST_F(PictureData, PathsStartFromTheFolderThatIsGiven) {
  DataFile file = files({folder.write("d.jsonl", messages(R"("x")", R"(, "images": ["2.png"])"))})[0];
  EXPECT_EQ(Dataset::make({file}, *tokenizer, options())->row(0)[0].pictures[0].file->path, folder.file("2.png"));
  file.image_folder = "elsewhere";
  EXPECT_EQ(Dataset::make({file}, *tokenizer, options())->row(0)[0].pictures[0].file->path, "elsewhere/2.png");
}

TEST_F(PictureData, ComeWithStreams) {
  DataFile file = files({folder.write("d.jsonl", messages(R"("x")", R"(, "images": ["2.png"])"))})[0];
  file.stream = true;
  const auto stream = data::open_stream({file}, tokenizer, options());
  HostRow row;
  ASSERT_TRUE(stream->read(1, false, 0, "")->next(row));
  ASSERT_EQ(row[0].pictures.size(), 1u);
  EXPECT_EQ(row[0].pictures[0].tokens, 2);
}

TEST_F(PictureData, OfRecordsInMemoryAreTheSame) {
  Record record;
  record.content = PromptRecord{"a # b", "d"};
  record.pictures = {{.path = "2.png"}};
  const auto data = make_dataset({record}, "memory", *tokenizer, options());
  EXPECT_EQ(data->row(0)[0].pictures.size(), 1u);
}

}  // namespace
}  // namespace hone::test
