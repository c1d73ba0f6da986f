// encode_fitting() equals the library's truncation longest_first, for texts and pairs of every length, on both sides.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hone/text.h"
#include "text/tokenizer/json_tokenizer.h"
#include "text/tokenizer/load.h"

namespace hone::text {
namespace {

using json = nlohmann::json;

json base(const char* processor) {
  json vocabulary = {{"[UNK]", 0}, {"[CLS]", 1}, {"[SEP]", 2}};
  for (int i = 0; i < 20; ++i) vocabulary[fmt::format("w{}", i)] = 3 + i;
  return {{"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "[UNK]"}}},
          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
          {"post_processor",
           {{"type", processor},
            {"sep", {"[SEP]", 2}},
            {"cls", {"[CLS]", 1}},
            {"trim_offsets", true},
            {"add_prefix_space", false}}}};
}

std::shared_ptr<const Tokenizer> tokenizer_of(const json& file) {
  return make_tokenizer({{"tokenizer.json", file.dump()}}, {}, "folder");
}

std::string words(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("w{} ", first + i);
  return text;
}

TEST(Fitting, EqualsTheLibrarysTruncation) {
  for (const char* processor : {"BertProcessing", "RobertaProcessing"})
    for (const bool from_left : {false, true})
      for (const int most : {5, 6, 7, 11}) {
        json limited = base(processor);
        limited["truncation"] = {{"max_length", most},
                                 {"stride", 0},
                                 {"strategy", "LongestFirst"},
                                 {"direction", from_left ? "Left" : "Right"}};
        const auto plain = tokenizer_of(base(processor)), cutting = tokenizer_of(limited);
        for (int a = 0; a <= 9; ++a)
          for (int b = -1; b <= 9; ++b) {
            const std::string first = words(0, a), second = words(10, b);
            TextPair texts{first, {}};
            if (b >= 0) texts.second = second;
            const FullEncoding expected = cutting->encode_full({&texts, 1}).front();
            const FittedEncoding got = plain->encode_fitting(texts, static_cast<std::size_t>(most), from_left);
            EXPECT_EQ(got.ids, expected.ids) << processor << " " << most << ": " << a << ", " << b;
            EXPECT_EQ(got.type_ids, expected.type_ids) << processor << " " << most << ": " << a << ", " << b;
            const FittedEncoding whole = plain->encode_fitting(texts, 0);
            EXPECT_EQ(got.cut, std::ssize(whole.ids) - std::ssize(got.ids));
            EXPECT_EQ(whole.ids, plain->encode_full({&texts, 1}).front().ids);
            // What the file says of truncation is not asked.
            EXPECT_EQ(cutting->encode_fitting(texts, 0).ids, whole.ids);
          }
      }
}

// Of ids that were made before: what both texts would have given together. Of texts that were cut before, too, as long
// a pair, whose odd token may be the other text's.
TEST(Fitting, JoinsTextsThatWereEncodedAlone) {
  for (const char* processor : {"BertProcessing", "RobertaProcessing"})
    for (const std::size_t most : {5, 6, 9, 11, 30})
      for (const bool from_left : {false, true}) {
        const auto tokenizer = tokenizer_of(base(processor));
        const auto& joining = dynamic_cast<const JsonTokenizer&>(*tokenizer);
        for (int a = 0; a <= 9; ++a)
          for (int b = 0; b <= 9; ++b) {
            const std::string first = words(0, a), second = words(10, b);
            const auto alone = [&](const std::string& text, std::size_t room) {
              const FittedEncoding made = tokenizer->encode_fitting({text, {}}, room, from_left);
              return std::vector<std::int64_t>(made.ids.begin(), made.ids.end());
            };
            const FittedEncoding expected = tokenizer->encode_fitting({first, second}, most, from_left);
            const FittedEncoding whole = joining.join_fitting(alone(first, 0), alone(second, 0), most, from_left);
            EXPECT_EQ(whole.ids, expected.ids) << processor << " " << most << ": " << a << ", " << b;
            EXPECT_EQ(whole.type_ids, expected.type_ids) << processor;
            EXPECT_EQ(whole.cut, expected.cut) << processor;
            const auto cut = joining.join_fitting(alone(first, most), alone(second, most), most, from_left).ids;
            EXPECT_EQ(cut.size(), expected.ids.size()) << processor << " " << most << ": " << a << ", " << b;
            if (static_cast<std::size_t>(std::max(a, b)) + 2 <= most) {
              EXPECT_EQ(cut, expected.ids) << processor << " " << most << ": " << a << ", " << b;
            }
          }
      }
}

TEST(Fitting, NeedsRoomForAText) {
  const std::string text = words(0, 3);
  const auto tokenizer = tokenizer_of(base("BertProcessing"));
  EXPECT_EQ(tokenizer->encode_fitting({text, {}}, 3).ids, (std::vector<std::int32_t>{1, 3, 2}));
  EXPECT_THROW(tokenizer->encode_fitting({text, {}}, 2), Error);
  EXPECT_THROW(tokenizer->encode_fitting({text, text}, 3), Error);
}

}  // namespace
}  // namespace hone::text
