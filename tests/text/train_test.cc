// Training: the same vocabulary as the reference trainer for byte-pair encoding, and tokenizers that work.
#include "text/train/train_tokenizer.h"

#include <gtest/gtest.h>

#include "harness/errors.h"
#include "text/made_golden.h"

namespace hone::text {
namespace {

using nlohmann::json;

std::function<bool(std::string&)> lines_of(const std::vector<std::string>& lines) {
  auto at = std::make_shared<std::size_t>(0);
  return [=](std::string& line) { return *at < lines.size() && (line = lines[(*at)++], true); };
}

TEST(TrainBpe, MakesTheVocabularyOfTheReference) {
  const json golden = read_golden("train.json");
  for (const json& c : golden["cases"])
    for (const int threads : {1, 3}) {
      TrainerConfig config;
      config.options.vocab_size = c["vocab_size"];
      config.options.min_frequency = c["min_frequency"];
      config.options.special_tokens = c["special_tokens"].get<std::vector<std::string>>();
      config.options.threads = threads;
      const Files files = train_tokenizer(config, lines_of(golden["lines"].get<std::vector<std::string>>()));
      const json model = json::parse(files[0].second)["model"];
      EXPECT_EQ(model["vocab"], c["vocab"]);
      EXPECT_EQ(model["merges"], c["merges"]);
    }
}

TEST(TrainBpe, KeepsTheLaterOfTwoEqualMerges) {
  // "aaa" is made from a+aa and from aa+a; words are chosen so that a pair is queued twice.
  TrainOptions options;
  options.vocab_size = 20;
  const TrainedBpe made = train_bpe({{"aaaa", 5}, {"aaab", 4}, {"baaa", 3}}, options);
  std::set<std::pair<std::int32_t, std::int32_t>> once(made.merges.begin(), made.merges.end());
  EXPECT_EQ(once.size(), made.merges.size());
}

std::vector<std::string> some_lines() { return read_golden("train.json")["lines"].get<std::vector<std::string>>(); }

TEST(TrainTokenizer, GivesBackTheTextItWasTrainedOn) {
  for (const TrainedKind kind : {TrainedKind::bpe, TrainedKind::unigram}) {
    TrainerConfig config;
    config.kind = kind;
    config.options.vocab_size = 400;
    const Files files = train_tokenizer(config, lines_of(some_lines()));
    const auto tokenizer = make_tokenizer(files, {}, "trained");
    EXPECT_LE(tokenizer->vocab_size(), 400);
    const std::string text = "the quick brown fox";
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text).ids), text);
    EXPECT_LT(tokenizer->encode(text).ids.size(), text.size());
  }
}

TEST(TrainTokenizer, MakesWordPieces) {
  TrainerConfig config;
  config.kind = TrainedKind::word_piece;
  config.options.vocab_size = 300;
  const auto tokenizer = make_tokenizer(train_tokenizer(config, lines_of(some_lines())), {}, "trained");
  const auto ids = tokenizer->encode("The QUICK fox").ids;
  EXPECT_EQ(ids.front(), tokenizer->id_of("[CLS]"));
  EXPECT_EQ(ids.back(), tokenizer->id_of("[SEP]"));
  EXPECT_EQ(tokenizer->decode(ids), "the quick fox");
}

// transformers' class for a tokenizer.json gives only inputs that are named, so a pair's types are.
TEST(TrainTokenizer, NamesTheInputsOfWordPieces) {
  for (const TrainedKind kind : {TrainedKind::bpe, TrainedKind::word_piece, TrainedKind::unigram}) {
    TrainerConfig config;
    config.kind = kind;
    config.options.vocab_size = 300;
    const Files files = train_tokenizer(config, lines_of({"a text of some words", "some words of a text"}));
    const json written = json::parse(files[1].second);
    ASSERT_EQ(files[1].first, "tokenizer_config.json");
    const json expected = {"input_ids", "token_type_ids", "attention_mask"};
    EXPECT_EQ(written.value("model_input_names", json()), kind == TrainedKind::word_piece ? expected : json());
  }
}

TEST(TrainTokenizer, DoesNotDependOnTheNumberOfThreads) {
  for (const TrainedKind kind : {TrainedKind::bpe, TrainedKind::word_piece, TrainedKind::unigram}) {
    std::vector<Files> made;
    for (const int threads : {1, 4}) {
      TrainerConfig config;
      config.kind = kind;
      config.options.vocab_size = 350;
      config.options.threads = threads;
      made.push_back(train_tokenizer(config, lines_of(some_lines())));
    }
    EXPECT_EQ(made[0], made[1]);
  }
}

TEST(TrainTokenizer, EndsWhenThereIsNothingLeftToMerge) {
  TrainerConfig config;
  config.options.vocab_size = 100'000;
  EXPECT_LT(make_tokenizer(train_tokenizer(config, lines_of({"a b"})), {}, "trained")->vocab_size(), 300);
  config.kind = TrainedKind::unigram;
  EXPECT_LT(make_tokenizer(train_tokenizer(config, lines_of({"a b"})), {}, "trained")->vocab_size(), 300);
  config.options.vocab_size = 1;  // less than there are characters
  EXPECT_GT(make_tokenizer(train_tokenizer(config, lines_of({"a b"})), {}, "trained")->vocab_size(), 3);
}

TEST(TrainTokenizer, EndsWhenReadingFails) {
  const auto fails = [](std::string&) -> bool { throw Error(ErrorKind::data, "corpus.txt: cannot be read"); };
  for (const TrainedKind kind : {TrainedKind::bpe, TrainedKind::unigram}) {
    TrainerConfig config;
    config.kind = kind;
    EXPECT_HONE_ERROR(train_tokenizer(config, fails), data, "corpus.txt: cannot be read");
  }
}

TEST(TrainTokenizer, RefusesTextThatIsNone) {
  EXPECT_HONE_ERROR(train_tokenizer({}, lines_of({"ab\xFF"})), data, "text to train on: not UTF-8 at byte 2");
  EXPECT_HONE_ERROR(train_tokenizer({}, lines_of({})), data, "no words");
}

}  // namespace
}  // namespace hone::text
