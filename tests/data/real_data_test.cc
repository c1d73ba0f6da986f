// Real data sets of every kind, read from HONE_TEST_DATA.
#include "base/clock.h"
#include "data/inspect.h"
#include "data/source.h"
#include "hone/data.h"
#include "io/parquet.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Dataset> make(const std::string& path, const std::map<std::string, std::string>& columns = {},
                                    const std::vector<std::string>& ignore = {}, const Dataset::Options& options = {}) {
  auto all = files({path});
  all[0].columns = columns;
  all[0].ignore = ignore;
  return Dataset::make(all, ByteTokenizer(), options);
}

TEST(RealData, TinystoriesIsAnArrayOfStrings) {
  HONE_TEST_DATA_OR_SKIP(folder);
  const auto data = make(std::string(folder) + "/datasets/tinystories/tinystories_1000.json");
  EXPECT_EQ(data->report().records, 1000);
  EXPECT_EQ(data->report().empty, 0);
  const auto first = data::inspect_records(*data, 1).at(0);
  EXPECT_EQ(ByteTokenizer().decode({first.pieces[0].ids.begin(), first.pieces[0].ids.begin() + 34}, true),
            "One day, a little girl named Lily ");
  EXPECT_THAT(first.name, HasSubstr("tinystories_1000.json:2"));
  const auto [held, rest] = data->split(0.05, 1);
  EXPECT_EQ(held->report().records, 50);
  EXPECT_EQ(rest->report().records, 950);
  EXPECT_EQ(held->report().supervised + rest->report().supervised, data->report().supervised);
}

// Numbers by transformers 5: sums over tokenizer(text).input_ids, with eos after each text.
TEST(RealData, TokensAreThoseOfTransformers) {
  HONE_TEST_DATA_OR_SKIP(folder);
  const auto tokenizer = load_tokenizer(std::string(folder) + "/models/stories260K");
  Dataset::Options options;
  options.max_length = 2048;
  options.packing = Packing::none;
  const auto stories =
      Dataset::make(files({std::string(folder) + "/datasets/tinystories/tinystories_1000.json"}), *tokenizer, options);
  EXPECT_EQ(stories->rows(), 1000);
  EXPECT_EQ(stories->report().tokens, 479318 + 1000);
  std::uint64_t hash = 0;
  for (std::int64_t row = 0; row < stories->rows(); ++row) {
    const HostBatch batch = stories->batch({row}, 0);
    for (const std::int64_t id : batch.ids) hash = hash * 1000003 + static_cast<std::uint64_t>(id);
  }
  EXPECT_EQ(hash, 4270501375139945469u);
  auto gsm8k = files({std::string(folder) + "/datasets/gsm8k/test.jsonl"});
  gsm8k[0].columns = {{"prompt", "question"}, {"completion", "answer"}};
  const auto pairs = Dataset::make(gsm8k, *tokenizer, options);
  // Prompt and completion as one text: tokens in all, and those whose offsets reach beyond the prompt.
  EXPECT_EQ(pairs->report().supervised, 282828 + 1319);
  EXPECT_EQ(pairs->report().tokens, 469993 + 1319);
}

TEST(RealData, Gsm8kNeedsColumnsAndSaysWhich) {
  HONE_TEST_DATA_OR_SKIP(folder);
  const std::string path = std::string(folder) + "/datasets/gsm8k/test.jsonl";
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(path); }),
              HasSubstr("columns: {prompt: question, completion: answer}"));
  const auto data = make(path, {{"prompt", "question"}, {"completion", "answer"}});
  EXPECT_EQ(data->report().records, 1319);
  EXPECT_EQ(data->report().unsupervised_records, 0);
  EXPECT_LT(data->report().supervised, data->report().tokens);
}

TEST(RealData, Gsm8kIsTheSameInParquet) {
  HONE_TEST_DATA_OR_SKIP(folder);
  if (!io::has_parquet()) GTEST_SKIP() << "this build reads no Parquet";
  const std::string base = std::string(folder) + "/datasets/gsm8k/";
  const auto lines = make(base + "test.jsonl", {{"prompt", "question"}, {"completion", "answer"}});
  const auto flat = make(base + "hf_main_test.parquet", {{"prompt", "question"}, {"completion", "answer"}});
  EXPECT_EQ(flat->report().records, 1319);
  EXPECT_EQ(flat->report().supervised, lines->report().supervised);
  EXPECT_EQ(flat->batch({0}, 0).ids, lines->batch({0}, 0).ids);
  EXPECT_EQ(make(base + "calc_test.parquet", {{"prompt", "question"}, {"completion", "chain"}})->report().records,
            1319);
}

TEST(RealData, NestedParquetGivesATypedErrorOrItsInnerField) {
  HONE_TEST_DATA_OR_SKIP(folder);
  if (!io::has_parquet()) GTEST_SKIP() << "this build reads no Parquet";
  const std::string path = std::string(folder) + "/datasets/gsm8k/verl_nested_test.parquet";
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(path); }), HasSubstr("a prompt without a completion"));
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(path, {{"completion", "ability"}}); }),
              HasSubstr("field \"reward_model\" is for reinforcement learning"));
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(path, {{"completion", "ability"}}, {"reward_model"}); }),
              HasSubstr(":1: field \"ability\": got a string, expected a list of messages, because field \"prompt\" is "
                        "one"));
  const auto data =
      make(path, {{"prompt", "extra_info.question"}, {"completion", "extra_info.answer"}}, {"reward_model"});
  EXPECT_EQ(data->report().records, 1319);
}

TEST(RealData, DollyNeedsItsResponseNamed) {
  HONE_TEST_DATA_OR_SKIP(folder);
  const std::string path = std::string(folder) + "/datasets/dolly-hhrlhf/train_small.jsonl";
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(path); }), HasSubstr("columns: {completion: response}"));
  EXPECT_EQ(make(path, {{"completion", "response"}})->report().records, 1000);
}

TEST(RealData, SmsSpamHasNoHeader) {
  HONE_TEST_DATA_OR_SKIP(folder);
  const std::string path = std::string(folder) + "/datasets/sms_spam/sms.tsv";
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(path); }), HasSubstr("found \"1\", \"2\""));
  const auto data = make(path, {{"prompt", "2"}, {"completion", "1"}});
  EXPECT_EQ(data->report().records, 5574);
  EXPECT_EQ(make(path, {{"text", "2"}})->report().records, data->report().records);
}

TEST(RealData, ShakespearesLastTenthIsHeldOut) {
  HONE_TEST_DATA_OR_SKIP(folder);
  const std::string path = std::string(folder) + "/datasets/tinyshakespeare/input.txt";
  Dataset::Options options;
  options.max_length = 256;
  const auto data = make(path, {}, {}, options);
  EXPECT_EQ(data->report().records, 1);
  EXPECT_EQ(data->report().supervised, 1115394);  // each byte but the first, and the eos
  const auto [held, rest] = data->split(0.1, 1);
  EXPECT_EQ(held->report().supervised, 111539 + 1);
  EXPECT_EQ(rest->report().supervised, 1115394 - 111539 - 1);
}

TEST(RealData, PoemsAndDemosAreRead) {
  HONE_TEST_DATA_OR_SKIP(folder);
  const std::string base = std::string(folder) + "/datasets/";
  EXPECT_GT(make(base + "llamafactory/c4_demo.jsonl")->report().records, 100);
  EXPECT_GT(
      make(base + "llamafactory/alpaca_en_demo.json", {{"prompt", "instruction"}, {"completion", "output"}})->rows(),
      100);
  for (const char* chats : {"llamafactory/v1_sft_demo.jsonl", "fastchat/dummy_conversation.json"})
    EXPECT_THAT(error_of(ErrorKind::config, [&] { make(base + chats); }),
                HasSubstr("conversations, but the tokenizer has no chat template"));
  if (!io::has_parquet()) return;
  const std::string poems = base + "poem_sentiment_parquet/train-00000-of-00001.parquet";
  EXPECT_THAT(error_of(ErrorKind::data, [&] { make(poems, {{"text", "verse_text"}}); }),
              HasSubstr("field \"label\" is for classification"));
  EXPECT_EQ(make(poems, {{"text", "verse_text"}}, {"label"})->report().records, 892);
}

}  // namespace
}  // namespace hone::test
