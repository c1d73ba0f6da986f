// What stands in texts for pictures: transformers' ids of texts with pictures, and tiles from records to batches.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "data/framed_places.h"
#include "data/picture_reader.h"
#include "data/pictures.h"
#include "data/tokenise.h"
#include "harness/errors.h"
#include "hone/data.h"
#include "hone/safetensors.h"
#include "io/json.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::filesystem::path golden_path(const std::string& name) {
  return std::filesystem::path(HONE_SOURCE_DIR) / "tests/golden" / name;
}

struct WordsGolden {
  explicit WordsGolden(const std::string& name)
      : folder(golden_path("picture_words/" + name)), words(io::read_json_file(folder / "words.json")) {
    const auto id = [&](const char* key) { return words.value(key, std::int32_t{-1}); };
    const std::map<std::string, PictureWords> kinds{{"none", PictureWords::none},
                                                    {"rows", PictureWords::rows},
                                                    {"named", PictureWords::named},
                                                    {"bracketed", PictureWords::bracketed}};
    input = {.token = id("token"),
             .patch_size = words["patch"],
             .frames = words.value("frames", 1),
             .merged = words["merged"],
             .side = words["side"],
             .words = words.contains("words")    ? kinds.at(words["words"])
                      : id("before") >= 0        ? PictureWords::framed
                      : words.contains("joined") ? PictureWords::none
                                                 : PictureWords::tiled,
             .before = id("before"),
             .after = id("after"),
             .joined = words.contains("joined")};
    reader = data::open_pictures(input, folder);
    tokenizer = load_tokenizer(folder.string());
  }
  // Of a picture's tokens, where rows have one behind them.
  bool is_word(const data::PlacedPicture& picture, std::uint64_t token) const {
    if (input.words != PictureWords::rows) return false;
    const PatchGrid grid = reader->grid(picture.file);
    const auto row = static_cast<std::uint64_t>(grid.columns / input.merged);
    return token % (row + 1) == row;
  }
  static PictureFile file(const std::string& name) { return {.path = golden_path("images/files/" + name).string()}; }

  std::filesystem::path folder;
  nlohmann::json words;
  PictureInput input;
  std::shared_ptr<const PictureReader> reader;
  std::shared_ptr<const Tokenizer> tokenizer;
};

TEST(PictureWords, AreTransformers) {
  for (const char* name : {"gemma3", "idefics3", "llava_next", "pixtral", "qwen3_5", "lfm2_vl",
                           "internvl"}) {
    SCOPED_TRACE(name);
    const WordsGolden golden(name);
    const auto of_places = data::tokenizer_of_places(*golden.tokenizer, golden.reader.get());
    EXPECT_EQ(of_places != nullptr, golden.input.words == PictureWords::framed);
    const Tokenizer& tokenizer = of_places ? *of_places : *golden.tokenizer;
    for (const nlohmann::json& one : golden.words["cases"]) {
      SCOPED_TRACE(one["text"].dump());
      std::vector<PictureFile> pictures;
      for (const nlohmann::json& file : one["pictures"]) pictures.push_back(WordsGolden::file(file));
      std::vector<std::int32_t> ids = tokenizer.encode(one["text"].get<std::string>()).ids;
      const auto placed = data::widen_places({ids}, pictures, {*golden.reader, tokenizer}, "a test");
      EXPECT_EQ(ids, one["ids"].get<std::vector<std::int32_t>>());
      for (const data::PlacedPicture& picture : placed)
        for (std::uint64_t t = 0; t < picture.tokens; ++t)
          EXPECT_EQ(ids[picture.begin + t] == golden.input.token, !golden.is_word(picture, t)) << t;
    }
  }
}

// Of LLaVA-NeXT: all of the picture, then its tiles, in patches.
TEST(PictureWords, JoinedPicturesHaveTransformersNumbers) {
  const WordsGolden golden("llava_next");
  const Safetensors values((golden.folder / "values.safetensors"));
  ASSERT_EQ(values.tensors().size(), 3u);
  for (const TensorInfo& tensor : values.tensors()) {
    SCOPED_TRACE(tensor.name);
    std::vector<float> expected(tensor.bytes() / sizeof(float));
    values.read(tensor, std::as_writable_bytes(std::span(expected)));
    const Patches made = golden.reader->read(WordsGolden::file(tensor.name));
    EXPECT_EQ(made.tiles.tiles(), tensor.shape[0]);
    ASSERT_EQ(made.values.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {  // a tile's patch, colour, row and column
      const std::size_t tile = i / 432, patch = i / 48 % 9, colour = i / 16 % 3, y = i / 4 % 4, x = i % 4;
      const std::size_t at = ((tile * 3 + colour) * 12 + patch / 3 * 4 + y) * 12 + patch % 3 * 4 + x;
      ASSERT_NEAR(made.values[i], expected[at], 1e-6f * std::max(1.0f, std::abs(expected[at]))) << i;
    }
  }
}

// What the model reads of a picture, patch by patch.
TEST(PictureWords, PatchesAreTransformers) {
  for (const char* name : {"pixtral", "lfm2_vl", "internvl"}) {
    const WordsGolden golden(name);
    const Safetensors values((golden.folder / "values.safetensors"));
    ASSERT_EQ(values.tensors().size(), 3u);
    for (const TensorInfo& tensor : values.tensors()) {
      SCOPED_TRACE(std::string(name) + " " + tensor.name);
      std::vector<float> expected(tensor.bytes() / sizeof(float));
      values.read(tensor, std::as_writable_bytes(std::span(expected)));
      const Patches made = golden.reader->read(WordsGolden::file(tensor.name));
      ASSERT_EQ(made.values.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(made.values[i], expected[i], 1e-6f * std::max(1.0f, std::abs(expected[i]))) << i;
    }
  }
}

// Of LFM2-VL all of a picture has another grid than its tiles, or is not there.
TEST(PictureWords, TilesHaveGridsOfTheirOwn) {
  const WordsGolden golden("lfm2_vl");
  const PictureFile file = WordsGolden::file("rgb.png");
  const PatchGrid tile = golden.reader->grid(file), whole{1, 2, 4};
  EXPECT_EQ(tile, (PatchGrid{1, 4, 4}));
  EXPECT_EQ(golden.reader->tiles(file).grid_of(4, tile), whole);
  EXPECT_EQ(golden.reader->tiles(file).grid_of(3, tile), tile);
  const auto shared = std::make_shared<const PictureFile>(file);
  std::vector<DocPicture> tiles;
  for (std::int64_t i = 0; i < 5; ++i) tiles.push_back({10 * i, i < 4 ? 4 : 2, shared, golden.reader, i});
  HostPictures made;
  add_pictures(made, {{.pictures = tiles, .row = 1}});
  ASSERT_EQ(made.spans.size(), 5u);
  EXPECT_EQ(made.spans[3].grid, tile);
  EXPECT_EQ(made.spans[4].grid, whole);
  EXPECT_EQ(std::ssize(made.values), (4 * 16 + 8) * golden.input.values());
  tiles[4].tokens = 4;
  EXPECT_HONE_ERROR(add_pictures(made, {{.pictures = tiles}}), data, "2 tokens of the model's; expected 4");
}

TEST(PictureWords, AFolderOfAnotherUnitIsAnError) {
  WordsGolden golden("pixtral");
  golden.input.merged = 3;
  const auto other = data::open_pictures(golden.input, golden.folder);
  EXPECT_HONE_ERROR(other->grid(WordsGolden::file("tall.png")), config, "expected multiples of 12");
}

// Offsets are those of the text as it was given: what was written for a place is the place's.
TEST(PictureWords, KeepOffsetsOfTheTextThatWasGiven) {
  const WordsGolden golden("gemma3");
  const data::FramedPlaces tokenizer(*golden.tokenizer, golden.input);
  const std::string text = "a\n<start_of_image>b<start_of_image>c";  // places at 2 to 18 and 19 to 35
  const Encoding made = tokenizer.encode(text);
  std::vector<std::pair<std::string, std::pair<std::uint32_t, std::uint32_t>>> all;
  for (std::size_t i = 0; i < made.ids.size(); ++i)
    all.emplace_back(*tokenizer.token_of(made.ids[i]), made.offsets[i]);
  using Offsets = std::pair<std::uint32_t, std::uint32_t>;
  const Offsets first{2, 18}, second{19, 35};
  EXPECT_THAT(all, ElementsAre(std::pair("a", Offsets{0, 1}), std::pair("\n\n\n", Offsets{1, 18}),
                               std::pair("<start_of_image>", first), std::pair("<image_soft_token>", first),
                               std::pair("<end_of_image>", first), std::pair("\n\n", first),
                               std::pair("b", Offsets{18, 19}),
                               std::pair("\n\n", second), std::pair("<start_of_image>", second),
                               std::pair("<image_soft_token>", second), std::pair("<end_of_image>", second),
                               std::pair("\n\n", second), std::pair("c", Offsets{35, 36})));
}

TEST(PictureWords, WhatTheTokenizerLacksIsAnError) {
  WordsGolden golden("gemma3");
  golden.input.after = 9999;
  EXPECT_THROW(data::FramedPlaces(*golden.tokenizer, golden.input), Error);
  const WordsGolden tiled("idefics3");
  std::vector<std::int32_t> ids{'#'};
  class Bytes final : public PictureReader {
   public:
    const PictureInput& input() const override { return input_; }
    PatchGrid grid(const PictureFile&) const override { return {1, 1, 1}; }
    std::int64_t tokens(const PatchGrid&) const override { return 1; }
    Patches read(const PictureFile&) const override { return {}; }
    std::string fingerprint() const override { return ""; }

   private:
    PictureInput input_{.token = '#', .words = PictureWords::tiled};
  } reader;
  EXPECT_THAT([&] { data::widen_places({ids}, {{.path = "x"}}, {reader, *load_tokenizer("bytes")}, "d:1"); },
              testing::ThrowsMessage<Error>(HasSubstr("no token <fake_token_around_image>")));
}

struct TiledData : testing::Test {
  const TempFolder folder;
  WordsGolden golden{"idefics3"};
  std::string lines(const std::string& picture) const {
    return R"({"prompt": "a <image> b", "completion": "so", "images": [")" + picture + "\"]}\n";
  }
  Dataset::Options options() const {
    Dataset::Options made;
    made.max_length = 400, made.packing = Packing::none, made.append_eos = false;
    made.pictures = golden.reader;
    return made;
  }
  std::shared_ptr<const Dataset> make(const std::string& text, Dataset::Options how) const {
    DataFile file;
    file.path = folder.write("d.jsonl", text);
    return Dataset::make({file}, *golden.tokenizer, how);
  }
};

TEST_F(TiledData, TilesLieInTheBatchOneAfterAnother) {
  Dataset::Options how = options();
  how.cache_folder = folder.file("cache");
  const std::string text = lines(WordsGolden::file("tall.png").path) + lines(WordsGolden::file("rgb.png").path);
  std::int64_t tiles = 0;
  for (const char* name : {"tall.png", "rgb.png"}) tiles += golden.reader->tiles(WordsGolden::file(name)).tiles();
  ASSERT_GT(tiles, 4);
  HostBatch made;
  for (const char* way : {"tokenised", "from the cache"}) {
    SCOPED_TRACE(way);
    const auto data = make(text, how);
    EXPECT_EQ(data->report().pictures, 2);
    EXPECT_EQ(data->report().picture_tokens, 4 * tiles);
    const HostBatch batch = data->batch({0, 1}, 0);
    ASSERT_EQ(std::ssize(batch.pictures.spans), tiles);
    EXPECT_EQ(std::ssize(batch.pictures.values), tiles * 16 * golden.input.values());
    for (const PictureSpan& span : batch.pictures.spans) {
      EXPECT_EQ(span.end - span.begin, 4);
      for (std::int32_t t = span.begin; t < span.end; ++t)
        EXPECT_EQ(batch.ids[static_cast<std::size_t>(span.row * batch.length + t)], golden.input.token);
    }
    if (!made.ids.empty()) {
      EXPECT_EQ(batch.ids, made.ids);
      EXPECT_EQ(batch.pictures.values, made.pictures.values);
    }
    made = batch;
  }
}

// Neither tiles nor the words between them.
TEST_F(TiledData, NothingOfAPictureIsLearnt) {
  Dataset::Options how = options();
  how.loss = Loss::all;
  const auto row = make(lines(WordsGolden::file("tall.png").path), how)->row(0);
  std::string learnt;
  for (const std::int64_t id : row[0].targets)
    if (id >= 0) learnt += *golden.tokenizer->token_of(static_cast<std::int32_t>(id)) + " ";
  EXPECT_EQ(learnt, "Ġ Ġ b so ");
}

}  // namespace
}  // namespace hone::test
