// What stands in Gemma 4's texts for pictures, and that texts with films and sounds are refused.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "data/picture_reader.h"
#include "data/pictures.h"
#include "harness/errors.h"
#include "io/json.h"
#include "support.h"
#include "text/chat/chat_template.h"

namespace hone::test {
namespace {

struct Gemma4Words : testing::Test {
  std::filesystem::path goldens = std::filesystem::path(HONE_SOURCE_DIR) / "tests/golden",
                        folder = goldens / "picture_words/gemma4";
  nlohmann::json words = io::read_json_file(folder / "words.json");
  PictureInput input{.token = words["token"],
                     .patch_size = words["patch"],
                     .merged = words["merged"],
                     .words = PictureWords::bracketed,
                     .before = words["before"],
                     .after = words["after"],
                     .film = words["film"],
                     .sound = words["sound"]};
  std::shared_ptr<const PictureReader> reader = data::open_pictures(input, folder);
  std::shared_ptr<const Tokenizer> tokenizer = load_tokenizer(folder.string());

  PictureFile file(const std::string& name) const { return {.path = (goldens / "images/files" / name).string()}; }
  std::vector<data::PlacedPicture> widen(std::vector<std::int32_t>& ids, const std::vector<PictureFile>& pictures,
                                         std::vector<std::int32_t>* labels = nullptr) const {
    return data::widen_places({ids, labels}, pictures, {*reader, *tokenizer}, "d:1");
  }
};

TEST_F(Gemma4Words, AreTransformers) {
  for (const nlohmann::json& one : words["cases"]) {
    SCOPED_TRACE(one["text"].dump());
    std::vector<PictureFile> pictures;
    for (const nlohmann::json& name : one["pictures"]) pictures.push_back(file(name));
    std::vector<std::int32_t> ids = tokenizer->encode(one["text"].get<std::string>()).ids;
    const auto placed = widen(ids, pictures);
    EXPECT_EQ(ids, one["ids"].get<std::vector<std::int32_t>>());
    ASSERT_EQ(placed.size(), pictures.size());
    for (const data::PlacedPicture& picture : placed) {
      EXPECT_EQ(ids[picture.begin - 1], input.before);
      EXPECT_EQ(ids[picture.begin + picture.tokens], input.after);
      for (std::uint64_t t = 0; t < picture.tokens; ++t) EXPECT_EQ(ids[picture.begin + t], input.token);
    }
  }
}

TEST_F(Gemma4Words, AreNotLearnt) {
  std::vector<std::int32_t> ids = tokenizer->encode("a<|image|>b").ids, labels = ids;
  const auto placed = widen(ids, {file("tall.png")}, &labels);
  ASSERT_EQ(labels.size(), placed[0].tokens + 4);
  for (std::size_t i = 1; i + 1 < labels.size(); ++i) EXPECT_EQ(labels[i], -100);
  EXPECT_NE(labels.front(), -100);
  EXPECT_NE(labels.back(), -100);
}

TEST_F(Gemma4Words, FilmsAndSoundsAreRefused) {
  std::vector<std::int32_t> sound = tokenizer->encode("a<|audio|>b").ids, film = tokenizer->encode("<|video|>").ids;
  EXPECT_HONE_ERROR(widen(sound, {}), data, "d:1: <|audio|> stands for sounds; these models read texts and pictures");
  EXPECT_HONE_ERROR(widen(film, {}), data, "d:1: <|video|> stands for films");
}

// Its template takes what a system says for a text, and asks of turns whether they are one.
TEST_F(Gemma4Words, TemplatesThatTakeTextsGetTexts) {
  const std::string begin = "{{ messages[0]['content'] | trim }}{% for m in messages %}",
                    parts = "{% for c in m['content'] %}{{ c.type == 'image' }}{% endfor %}", end = "{% endfor %}";
  const text::ChatTemplate of_both(
      begin + "{% if m['content'] is string %}{{ m['content'] }}{% else %}" + parts + "{% endif %}" + end, "a", {});
  const text::ChatTemplate of_parts(begin + parts + end, "b", {});
  Conversation chat;
  chat.messages = R"([{"role": "system", "content": "Be brief."}])";
  EXPECT_EQ(data::for_template(chat, of_both, /*reads_pictures=*/true).messages, chat.messages);
  EXPECT_THAT(data::for_template(chat, of_parts, /*reads_pictures=*/true).messages, testing::HasSubstr("\"type\""));
}

}  // namespace
}  // namespace hone::test
