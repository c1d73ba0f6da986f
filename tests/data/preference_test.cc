// Preference pairs: reading, learning the answers only, cutting, packing both sides into one row, the cache.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>

#include "data/inspect.h"
#include "data/stream.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Dataset::Options preference(std::int64_t max_length = 64) {
  Dataset::Options options;
  options.records = RecordKind::preference;
  options.max_length = max_length;
  return options;
}

std::shared_ptr<const Dataset> make(const std::vector<DataFile>& all, const Dataset::Options& options = preference()) {
  return Dataset::make(all, ByteTokenizer(), options);
}

std::string line(const std::string& prompt, const std::string& chosen, const std::string& rejected) {
  return nlohmann::json{{"prompt", prompt}, {"chosen", chosen}, {"rejected", rejected}}.dump() + "\n";
}

class Preference : public ::testing::Test {
 protected:
  std::string refused(const std::string& content, const std::string& name = "a.jsonl",
                      ErrorKind kind = ErrorKind::data) {
    return error_of(kind, [&] { make(files({folder_.write(name, content)})); });
  }
  TempFolder folder_;
};

TEST_F(Preference, BothSidesShareARowAndOnlyTheirAnswersAreLearnt) {
  const auto data = make(files({folder_.write("a.jsonl", line("ab", "c", "de") + line("f", "", "g"))}));
  EXPECT_EQ(data->report().records, 2);
  EXPECT_EQ(data->rows(), 1);
  const HostBatch batch = data->batch({0}, 9);
  // abc<eos> abde<eos> f<eos> fg<eos>
  EXPECT_THAT(batch.ids, ElementsAre('a', 'b', 'c', 257, 'a', 'b', 'd', 'e', 257, 'f', 257, 'f', 'g', 257));
  EXPECT_THAT(batch.labels,
              ElementsAre(-100, 'c', 257, -100, -100, 'd', 'e', 257, -100, 257, -100, 'g', 257, -100));
  ASSERT_EQ(batch.docs.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batch.docs[i].role, i % 2 == 0 ? Role::chosen : Role::rejected);
    EXPECT_EQ(batch.docs[i].group, static_cast<std::int32_t>(i / 2));
    EXPECT_EQ(data->record_name(batch.docs[i].record), fmt::format("{}:{}", folder_.file("a.jsonl"), 1 + i / 2));
  }
}

TEST_F(Preference, GroupsAreCountedThroughABatch) {
  Dataset::Options options = preference();
  options.packing = Packing::none;
  const auto data = make(files({folder_.write("a.jsonl", line("a", "b", "c") + line("a", "b", "c"))}), options);
  const HostBatch batch = data->batch({0, 1}, 9);
  ASSERT_EQ(batch.docs.size(), 4u);
  EXPECT_EQ(batch.docs[1].group, 0);
  EXPECT_EQ(batch.docs[2].group, 1);
  const auto texts = Dataset::make(files({folder_.write("t.jsonl", "\"ab\"\n\"cd\"\n")}), ByteTokenizer(), {});
  const HostBatch plain = texts->batch({0}, 9);
  EXPECT_EQ(plain.docs[0].group, 0);  // documents that belong with none have a number of their own
  EXPECT_EQ(plain.docs[1].group, 1);
  EXPECT_EQ(plain.docs[1].role, Role::none);
}

TEST_F(Preference, ASideThatIsTooLongLosesItsPromptsStartAndThePairStaysTogether) {
  const auto data = make(files({folder_.write("a.jsonl", line("0123456789", "ab", "c"))}), preference(6));
  const HostBatch batch = data->batch({0}, 9);
  ASSERT_EQ(batch.docs.size(), 2u);
  EXPECT_THAT(batch.ids, ElementsAre('7', '8', '9', 'a', 'b', 257, '6', '7', '8', '9', 'c', 257));
  EXPECT_EQ(data->report().cut, 1);  // of records
  EXPECT_EQ(data->report().cut_prompts, 1);
  EXPECT_EQ(data->report().cut_tokens, 7 + 6);
}

TEST_F(Preference, APairOfWhichOneSideIsCutToNothingIsDroppedAndCounted) {
  Dataset::Options options = preference(6);
  options.overlong = Overlong::keep_start;
  const std::string pairs = line("01234567", "abc", "d") + line("x", "y", "z");
  const auto data = make(files({folder_.write("a.jsonl", pairs)}), options);
  EXPECT_EQ(data->report().unsupervised_records, 1);
  EXPECT_EQ(data->report().lost_supervised, 4 + 2);
  EXPECT_EQ(data->batch({0}, 9).docs.size(), 2u);
  options.overlong = Overlong::drop;
  const std::string long_one = line("0", "abcdefgh", "d") + line("x", "y", "z");
  const auto dropped = make(files({folder_.write("b.jsonl", long_one)}), options);
  EXPECT_EQ(dropped->report().dropped, 1);
  EXPECT_EQ(dropped->report().cut_tokens, 10 + 3);
  EXPECT_EQ(dropped->batch({0}, 9).docs.size(), 2u);
}

TEST_F(Preference, WithoutAnythingToLearnOnOneSideAPairIsDropped) {
  Dataset::Options options = preference();
  options.append_eos = false;
  const auto data = make(files({folder_.write("a.jsonl", line("p", "", "z") + line("x", "y", "z"))}), options);
  EXPECT_EQ(data->report().unsupervised_records, 1);
  EXPECT_EQ(data->rows(), 1);
}

// Whatever is packed how, each pair is whole, in one row, side by side, and in it once.
TEST_F(Preference, NoPackingTearsAPairApart) {
  std::mt19937 random(3);
  std::string content;
  for (int i = 0; i < 300; ++i)
    content += line(std::string(random() % 30, 'p'), std::string(1 + random() % 20, 'c'),
                    std::string(1 + random() % 40, 'r'));
  for (const Packing packing : {Packing::best_fit, Packing::concat, Packing::none}) {
    Dataset::Options options = preference(48);
    options.packing = packing;
    const auto data = make(files({folder_.write("a.jsonl", content)}), options);
    EXPECT_EQ(data->report().unsupervised_records, 0);
    std::int64_t pairs = 0;
    for (std::int64_t row = 0; row < data->rows(); ++row) {
      const HostBatch batch = data->batch({row}, 0);
      EXPECT_LE(batch.length, 2 * 48);
      ASSERT_EQ(batch.docs.size() % 2, 0u);
      for (std::size_t i = 0; i < batch.docs.size(); i += 2) {
        EXPECT_EQ(batch.docs[i].role, Role::chosen);
        EXPECT_EQ(batch.docs[i + 1].role, Role::rejected);
        EXPECT_EQ(batch.docs[i].group, batch.docs[i + 1].group);
        EXPECT_LE(batch.docs[i].end - batch.docs[i].begin, 48);
        EXPECT_EQ(data->record_name(batch.docs[i].record), data->record_name(batch.docs[i + 1].record));
        ++pairs;
      }
    }
    EXPECT_EQ(pairs, 300);
    EXPECT_EQ(data->rows() == 300, packing == Packing::none);
  }
}

TEST_F(Preference, TheCacheKeepsThePairs) {
  Dataset::Options options = preference();
  options.cache_folder = folder_.file("cache");
  const std::string path = folder_.write("a.jsonl", line("ab", "c", "de") + line("f", "h", "g"));
  const auto first = make(files({path}), options), second = make(files({path}), options);
  const HostBatch a = first->batch({0}, 0), b = second->batch({0}, 0);
  EXPECT_EQ(a.ids, b.ids);
  for (std::size_t i = 0; i < a.docs.size(); ++i) {
    EXPECT_EQ(a.docs[i].role, b.docs[i].role);
    EXPECT_EQ(a.docs[i].group, b.docs[i].group);
  }
  EXPECT_EQ(b.docs[3].role, Role::rejected);
}

TEST_F(Preference, AHeldOutShareHasWholePairs) {
  std::string content;
  for (int i = 0; i < 20; ++i) content += line("p", std::string(1, static_cast<char>('a' + i)), "z");
  const auto [held, rest] = make(files({folder_.write("a.jsonl", content)}))->split(0.25, 1);
  EXPECT_EQ(held->report().records, 5);
  EXPECT_EQ(rest->report().records, 15);
  for (const auto& half : {held, rest})
    for (std::int64_t row = 0; row < half->rows(); ++row) EXPECT_EQ(half->batch({row}, 0).docs.size() % 2, 0u);
}

TEST_F(Preference, ColumnsTablesAndStreamsGiveTheSame) {
  const auto plain = make(files({folder_.write("a.jsonl", line("ab", "c", "d"))}));
  auto renamed = files({folder_.write("b.jsonl", R"({"q": "ab", "better": {"value": "c"}, "worse": "d", "id": 7})")});
  renamed[0].columns = {{"prompt", "q"}, {"chosen", "better.value"}, {"rejected", "worse"}};
  const auto table = files({folder_.write("c.csv", "rejected,prompt,chosen\nd,ab,c\n")});
  const auto stream = data::first_window(
      *data::open_stream(files({folder_.file("a.jsonl")}), std::make_shared<ByteTokenizer>(), preference()));
  for (const auto& other : {make(renamed), make(table), stream}) {
    EXPECT_EQ(other->batch({0}, 0).ids, plain->batch({0}, 0).ids);
    EXPECT_EQ(other->batch({0}, 0).docs[1].role, Role::rejected);
  }
}

TEST_F(Preference, InspectionShowsBothSides) {
  const auto data = make(files({folder_.write("a.jsonl", line("ab", "c", "d") + line("ab", "c", "d"))}));
  const auto records = data::inspect_records(*data, 1);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].role, "chosen");
  EXPECT_EQ(records[1].role, "rejected");
  EXPECT_EQ(records[1].supervised, 2);
}

TEST_F(Preference, OtherRecordsAreRefused) {
  EXPECT_THAT(refused(R"({"prompt": "a", "completion": "b"})"),
              HasSubstr("no field \"chosen\"; found \"completion\", \"prompt\"; expected prompt, chosen and rejected"));
  EXPECT_THAT(refused(R"({"question": "a", "preferred": "b", "rejected": "c"})"),
              HasSubstr("columns: {prompt: question, chosen: preferred}"));
  EXPECT_THAT(refused(R"({"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}], "rejected": "c"})"),
              HasSubstr("expected a string\n  hint: pairs of conversations are not supported"));
  EXPECT_THAT(refused(R"({"prompt": "a", "chosen": null, "rejected": "c"})"), HasSubstr("got null"));
  EXPECT_THAT(refused(R"("a text")"), HasSubstr("expected an object with prompt, chosen and rejected"));
  EXPECT_THAT(refused(R"({"prompt": "a", "chosen": "b", "rejected": "c", "margin": 2})"),
              HasSubstr("\"margin\": only which answer is the better one is learnt"));
  EXPECT_THAT(refused("a text", "a.txt"), HasSubstr("a text file has no preferences"));
  EXPECT_THAT(error_of(ErrorKind::data, [&] {
    Dataset::make(files({folder_.write("l.jsonl", line("a", "b", "c"))}), ByteTokenizer(), {});
  }), HasSubstr("preference pairs are not one of these forms"));
}

TEST_F(Preference, LossHasNoSay) {
  Dataset::Options options = preference();
  options.loss = Loss::all;
  const auto path = folder_.write("a.jsonl", line("a", "b", "c"));
  EXPECT_THAT(error_of(ErrorKind::config, [&] { make(files({path}), options); }),
              HasSubstr("a preference pair, but loss is all"));
}

// LlamaFactory's pairs, whose prompts are conversations: made texts, as one would.
TEST_F(Preference, RealPairsStayTogether) {
  HONE_TEST_DATA_OR_SKIP(root);
  std::ifstream file(std::string(root) + "/datasets/llamafactory/dpo_en_demo.json");
  if (!file) GTEST_SKIP() << "no dpo_en_demo.json";
  std::string content;
  std::int64_t count = 0;
  for (const nlohmann::json& one : nlohmann::json::parse(file)) {
    std::string prompt;
    for (const nlohmann::json& turn : one.at("conversations")) prompt += turn.at("value").get<std::string>() + "\n";
    content += line(prompt, one.at("chosen").at("value"), one.at("rejected").at("value"));
    ++count;
  }
  const auto data = make(files({folder_.write("a.jsonl", content)}), preference(2048));
  EXPECT_EQ(data->report().records, count);
  std::int64_t docs = 0;
  for (std::int64_t row = 0; row < data->rows(); ++row) {
    const HostBatch batch = data->batch({row}, 0);
    docs += std::ssize(batch.docs);
    for (std::size_t i = 0; i + 1 < batch.docs.size(); i += 2) EXPECT_EQ(batch.docs[i].group, batch.docs[i + 1].group);
  }
  EXPECT_EQ(docs, 2 * (count - data->report().unsupervised_records));
}

}  // namespace
}  // namespace hone::test
