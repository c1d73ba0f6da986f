// A teacher's log-probabilities in records: the forms they have, on which tokens they lie, and what is refused.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "data/cache.h"
#include "data/shorten.h"
#include "data/taught.h"
#include "data/teacher_fields.h"
#include "hone/data_in_memory.h"
#include "harness/errors.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNone = -std::numeric_limits<float>::infinity();

class StoredTeacher : public ::testing::Test {
 protected:
  void SetUp() override { options_.teacher_log_probs = 0, options_.append_eos = false; }

  std::shared_ptr<const Dataset> read(const std::string& lines, const std::string& name = "a.jsonl") {
    DataFile file;
    file.path = folder_.write(name, lines), file.columns = columns_;
    return Dataset::make({file}, ByteTokenizer(), options_);
  }
  // Of the first row's first document.
  TaughtTargets taught(const std::string& lines) { return read(lines)->row(0).at(0).taught; }
  std::string error(const std::string& lines) {
    try {
      read(lines);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TempFolder folder_;
  Dataset::Options options_;
  std::map<std::string, std::string> columns_;
};

constexpr const char* kTwo = R"("logprobs": [null, [-2, -1], [-0.5, -3]], "target_token_ids": [null, [5, 7], [1, 2]])";

TEST_F(StoredTeacher, WhatIsSaidOfATokenIsATargetOfTheTokenBefore) {
  const TaughtTargets made = taught(std::string(R"({"text": "abc", )") + kTwo + "}\n");
  EXPECT_EQ(made.width, 2);
  EXPECT_THAT(made.ids, ElementsAre(7, 5, 1, 2, 0, 0));  // the likeliest first
  EXPECT_THAT(made.log_probs, ElementsAre(-1, -2, -0.5, -3, kNone, kNone));
}

TEST_F(StoredTeacher, AllFormsSayTheSame) {
  const TaughtTargets lists = taught(std::string(R"({"text": "abc", )") + kTwo + "}\n");
  const auto token = [](int id, double log_prob) {
    return R"({"token": "token_id:)" + std::to_string(id) + R"(", "logprob": )" + std::to_string(log_prob) + "}";
  };
  const TaughtTargets tokens = taught(R"({"text": "abc", "logprobs": [[], [)" + token(5, -2) + "," + token(7, -1) +
                                      "], [" + token(1, -0.5) + "," + token(2, -3) + "]]}\n");
  const TaughtTargets by_id = taught(R"({"text": "abc", "logprobs": [null, {"5": {"logprob": -2, "rank": 2}, )"
                                     R"("7": {"logprob": -1}}, {"1": -0.5, "2": -3}]})"
                                     "\n");
  EXPECT_EQ(tokens.ids, lists.ids);
  EXPECT_EQ(tokens.log_probs, lists.log_probs);
  EXPECT_EQ(by_id.ids, lists.ids);
  EXPECT_EQ(by_id.log_probs, lists.log_probs);
}

// As Parquet has ids.
TEST_F(StoredTeacher, IdsMayBeNumbersWithASign) {
  const std::string path = "a.parquet";
  nlohmann::ordered_json row;
  row["logprobs"].push_back(std::vector<double>{-1, -2});
  row["target_token_ids"].push_back(std::vector<std::int64_t>{9, 0});
  const data::Form form{.logprobs = "logprobs", .logprob_ids = "target_token_ids"};
  EXPECT_THAT(data::read_teacher(row, form, {path, 1}).ids, ElementsAre(9, 0));
}

TEST_F(StoredTeacher, ColumnsNameOtherFields) {
  columns_ = {{"logprobs", "said.by"}, {"target_token_ids", "ids"}};
  const TaughtTargets made =
      taught("{\"text\": \"ab\", \"said\": {\"by\": [null, [-1]]}, \"ids\": [null, [9]]}\n");
  EXPECT_THAT(made.ids, ElementsAre(9, 0));
}

// A generation's log-probabilities are of what was generated; nothing is said of what nobody learns.
TEST_F(StoredTeacher, OfTheLearntTokensOrOfAll) {
  const std::string pair = R"({"prompt": "ab", "completion": "cd", )";
  const TaughtTargets learnt = taught(pair + R"("logprobs": [[-1], [-2]], "target_token_ids": [[3], [4]]})" "\n");
  const TaughtTargets all = taught(
      pair + R"("logprobs": [null, [-9], [-1], [-2]], "target_token_ids": [null, [8], [3], [4]]})" "\n");
  EXPECT_THAT(learnt.ids, ElementsAre(0, 3, 4, 0));
  EXPECT_THAT(learnt.log_probs, ElementsAre(kNone, -1, -2, kNone));
  EXPECT_EQ(all.ids, learnt.ids);
  EXPECT_EQ(all.log_probs, learnt.log_probs);
}

TEST_F(StoredTeacher, TheLikeliestOfEachPlaceAreTaken) {
  options_.teacher_log_probs = 2;
  const TaughtTargets made = taught(
      R"({"text": "abc", "logprobs": [null, [-2, -1, -3], [-0.5, -3]], "target_token_ids": [null, [5, 7, 9], [1, 2]]})"
      "\n");
  EXPECT_THAT(made.ids, ElementsAre(7, 5, 1, 2, 0, 0));
}

TEST_F(StoredTeacher, WhatDoesNotFitIsRefusedWithItsRecord) {
  const auto with = [&](const std::string& log_probs, const std::string& ids) {
    return error("{\"text\": \"abc\", \"logprobs\": " + log_probs + ", \"target_token_ids\": " + ids + "}\n");
  };
  EXPECT_THAT(with("[null, [-1]]", "[null, [1]]"),
              HasSubstr("a.jsonl:1: log-probabilities of 2 tokens; expected all 3 of the record, or the 3 that are"));
  EXPECT_THAT(with("[null, [-1], [0.5]]", "[null, [1], [2]]"),
              HasSubstr("a.jsonl:1: log-probabilities of place 3: got the log-probability 0.5, expected a number of"));
  EXPECT_THAT(with("[null, [-1], [-1, -2]]", "[null, [1], [2, 3]]"),
              HasSubstr("of place 3: got 2 tokens, expected 1 as at the places before"));
  EXPECT_THAT(with("[null, [-1, -2], [-1, -2]]", "[null, [1, 2], [3, 3]]"), HasSubstr("got token 3 twice"));
  EXPECT_THAT(with("[null, [-1], [-1, -2]]", "[null, [1], [2]]"),
              HasSubstr("place 3: 2 log-probabilities and 1 token ids; expected as many"));
  EXPECT_THAT(with("[null, [-1], [\"a\"]]", "[null, [1], [2]]"), HasSubstr("expected a log-probability"));
  EXPECT_THAT(with("[null, [-1], [-1]]", "[null, [1], [-2]]"), HasSubstr("expected token ids of 0 to 2147483647"));
  EXPECT_THAT(with("[null, null, null]", "[null, null, null]"), HasSubstr("of no token that is learnt"));
  EXPECT_THAT(error("{\"text\": \"abc\"}\n"), HasSubstr("a.jsonl:1: no field \"logprobs\" with a teacher's"));
  EXPECT_THAT(error("{\"text\": \"ab\", \"logprobs\": [null, [{\"token\": \"the\", \"logprob\": -1}]]}\n"),
              HasSubstr("expected a token as token_id:17"));
  const std::string one = R"({"text": "ab", "logprobs": [null, [-1]], "target_token_ids": [null, [1]]})",
                    two = R"({"text": "ab", "logprobs": [null, [-1, -2]], "target_token_ids": [null, [1, 2]]})";
  EXPECT_THAT(error(one + "\n" + two + "\n"),
              HasSubstr("a.jsonl:2: log-probabilities of 2 tokens at each place, expected 1 as in the records before"));
  options_.teacher_log_probs = 2;
  EXPECT_THAT(error(one + "\n"), HasSubstr("of place 2: got 1 token, expected at least top_k 2"));
  options_.teacher_log_probs = 0, options_.vocab_size = 110;
  EXPECT_THAT(error(R"({"text": "ab", "logprobs": [null, [-1]], "target_token_ids": [null, [110]]})" "\n"),
              HasSubstr("a.jsonl:1: token id 110 in its log-probabilities; expected less than the model's vocabulary"));
}

// Records of a program, too.
TEST_F(StoredTeacher, NumbersOfAProgramAreLookedAt) {
  const float nan = std::nanf("");
  for (const float bad : {nan, 1.0f, kNone}) {
    Record record{.content = TextRecord{"ab"}};
    record.teacher = TeacherLogProbs{{0, 1}, {5}, {bad}};
    EXPECT_THROW(make_dataset({record}, "records", ByteTokenizer(), options_), Error) << bad;
  }
}

TEST_F(StoredTeacher, TheHighestIdMayBeInAnyRecord) {
  options_.vocab_size = 110;
  const std::string high = R"({"text": "ab", "logprobs": [null, [-1]], "target_token_ids": [null, [110]]})",
                    low = R"({"text": "ab", "logprobs": [null, [-1]], "target_token_ids": [null, [109]]})";
  EXPECT_EQ(error(low + "\n" + low + "\n"), "");
  EXPECT_THAT(error(high + "\n" + low + "\n"), HasSubstr("a.jsonl:1: token id 110"));
  EXPECT_THAT(error(low + "\n" + high + "\n"), HasSubstr("a.jsonl:2: token id 110"));
}

// Of a program, too, which gives them without a file's checks.
TEST_F(StoredTeacher, IdsOfAProgramAreLookedAt) {
  for (const std::vector<std::int32_t>& bad : {std::vector{5, -1}, {5, 5}}) {
    Record record{.content = TextRecord{"ab"}};
    record.teacher = TeacherLogProbs{{0, 2}, bad, {-1, -2}};
    EXPECT_THROW(make_dataset({record}, "records", ByteTokenizer(), options_), Error) << bad[1];
  }
}

// The logarithm of a probability of 1, as it is rounded.
TEST_F(StoredTeacher, ALittleAboveZeroIsZero) {
  EXPECT_THAT(taught(R"({"text": "ab", "logprobs": [null, [8e-6]], "target_token_ids": [null, [9]]})" "\n").log_probs,
              ElementsAre(0, kNone));
  EXPECT_THAT(error(R"({"text": "ab", "logprobs": [null, [2e-5]], "target_token_ids": [null, [9]]})" "\n"),
              HasSubstr("got the log-probability 2e-05, expected a number of 0 at most"));
}

// Nothing predicts the first token, and what is not learnt has no targets: but numbers that are wrong are.
TEST_F(StoredTeacher, WhatIsSaidInVainIsCheckedAndNotKept) {
  const std::string first = R"({"text": "ab", "logprobs": [[-1], [-2]], "target_token_ids": [[8], [9]]})";
  EXPECT_THAT(taught(first + "\n").ids, ElementsAre(9, 0));
  EXPECT_THAT(error(R"({"text": "ab", "logprobs": [[-1], null], "target_token_ids": [[8], null]})" "\n"),
              HasSubstr("of no token that is learnt"));
  const auto asked = [](const char* log_probs, const char* ids) {
    return std::string(R"({"prompt": "ab", "completion": "c", "logprobs": )") + log_probs +
           R"(, "target_token_ids": )" + ids + "}\n";
  };
  EXPECT_THAT(taught(asked("[null, [-3], [-1]]", "[null, [7], [9]]")).ids, ElementsAre(0, 9, 0));
  EXPECT_THAT(error(asked("[null, [3], [-1]]", "[null, [7], [9]]")),
              HasSubstr("of place 2: got the log-probability 3"));
  EXPECT_THAT(error(asked("[null, [-3, -4], [-1]]", "[null, [7, 6], [9]]")),
              HasSubstr("of place 3: got 1 token, expected 2 as at the places before"));
}

TEST_F(StoredTeacher, WhatIsNoListOfNumbersIsRefused) {
  const auto with = [&](const std::string& log_probs, const std::string& ids) {
    return error("{\"text\": \"ab\", \"logprobs\": " + log_probs + ", \"target_token_ids\": " + ids + "}\n");
  };
  EXPECT_THAT(with("[null, [-1]]", "[null, [1.5]]"), HasSubstr("place 2: got 1.5, expected a token id"));
  EXPECT_THAT(with("[null, [-1]]", "[null, [4294967297]]"), HasSubstr("expected token ids of 0 to 2147483647"));
  EXPECT_THAT(with("[null, [-1]]", "[null]"), HasSubstr("target_token_ids has 1 place, and logprobs has 2;"));
  EXPECT_THAT(with("5", "[null, [1]]"), HasSubstr("got a number, expected a list with a list for each token"));
  EXPECT_THAT(error(R"({"text": "ab", "logprobs": [null, -1]})" "\n"),
              HasSubstr("place 2: got a number, expected a list of the likeliest tokens"));
}

// Where nothing of a record is learnt, what was said of it is of no width that others would have to have.
TEST_F(StoredTeacher, ARecordThatIsNotLearntHasNoWidth) {
  const std::string none =
      R"({"input_ids": [5, 6], "labels": [-100, -100], "logprobs": [null, [-1, -2]], )"
      R"("target_token_ids": [null, [1, 2]]})";
  const std::string one = R"({"input_ids": [5, 6], "logprobs": [null, [-1]], "target_token_ids": [null, [1]]})";
  for (const std::string& lines : {none + "\n" + one + "\n", one + "\n" + none + "\n"})
    EXPECT_EQ(read(lines)->row(0).at(0).taught.width, 1);
}

TEST_F(StoredTeacher, WithoutAskingTheFieldsAreRefused) {
  options_.teacher_log_probs.reset();
  EXPECT_THAT(error(std::string(R"({"text": "abc", )") + kTwo + "}\n"),
              HasSubstr("is for distillation, which is not this kind of training"));
  columns_ = {{"logprobs", "said"}};
  EXPECT_THAT(error("{\"text\": \"ab\"}\n"), HasSubstr("teacher_logprobs: true"));
}

std::string many_records(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += R"({"prompt": ")" + std::string(1 + i % 3, 'p') + R"(", "completion": "xy", "logprobs": [[-)" +
             std::to_string(i + 1) + R"(, -900], [-0.25, -1]], "target_token_ids": [[)" + std::to_string(i % 200) +
             R"(, 201], [7, 8]]})" "\n";
  return lines;
}

std::vector<HostDoc> documents_of(const Dataset& data) {
  std::vector<HostDoc> all;
  for (std::int64_t row = 0; row < data.rows(); ++row)
    for (const HostDoc& doc : data.row(row)) all.push_back(doc);
  return all;
}

void expect_same(const Dataset& a, const Dataset& b) {
  const std::vector<HostDoc> one = documents_of(a), other = documents_of(b);
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].ids, other[i].ids);
    EXPECT_EQ(one[i].taught.width, other[i].taught.width);
    EXPECT_EQ(one[i].taught.ids, other[i].taught.ids);
    EXPECT_EQ(one[i].taught.log_probs, other[i].taught.log_probs);
  }
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
}

TEST_F(StoredTeacher, TheCacheGivesWhatTheFileDoes) {
  const std::string lines = many_records(300);
  const auto plain = read(lines);
  options_.cache_folder = folder_.file("cache");
  const auto made = read(lines), cached = read(lines);
  expect_same(*plain, *made);
  expect_same(*plain, *cached);
  // Also where ids are put away meanwhile.
  DataFile file;
  file.path = folder_.file("a.jsonl");
  std::filesystem::remove_all(options_.cache_folder);
  const auto small = data::load_tokens(file, ByteTokenizer(), options_, /*most_bytes=*/64);
  EXPECT_EQ(small.store->taught().places(), 600u);
  const auto again = data::load_tokens(file, ByteTokenizer(), options_);
  EXPECT_FALSE(again.made);
  for (const auto& store : {small.store, again.store}) {
    const TaughtTargets last = store->taught().targets(store->end(299) - 2, store->end(299), 2);
    EXPECT_THAT(last.ids, ElementsAre(99, 201, 7, 8));
    EXPECT_THAT(last.log_probs, ElementsAre(-300, -900, -0.25, -1));
  }
}

std::string only_file_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  EXPECT_EQ(files.size(), 1u);
  std::ifstream in(files.at(0), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Whenever they are put into files of their own.
TEST_F(StoredTeacher, TheCacheIsTheSameFileHoweverLittleIsInMemory) {
  DataFile file;
  file.path = folder_.write("a.jsonl", many_records(300));
  options_.cache_folder = folder_.file("cache");
  std::string all;
  for (const std::uint64_t most : {std::uint64_t{1} << 30, std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{1000},
                                   std::uint64_t{7000}, std::uint64_t{19'000}}) {
    std::filesystem::remove_all(options_.cache_folder);
    const auto made = data::load_tokens(file, ByteTokenizer(), options_, most);
    EXPECT_EQ(made.store->taught().places(), 600u);
    EXPECT_EQ(made.store->taught().highest_id(), 201);
    const std::string content = only_file_in(options_.cache_folder);
    if (all.empty()) all = content;
    EXPECT_TRUE(content == all) << most;
  }
}

TEST_F(StoredTeacher, NothingIsLostWhereTheCacheCannotBeWrittenToItsEnd) {
  DataFile file;
  file.path = folder_.write("a.jsonl", many_records(300));
  options_.cache_folder = folder_.file("cache");
  const auto whole = data::load_tokens(file, ByteTokenizer(), options_);
  const std::size_t size = only_file_in(options_.cache_folder).size();
  const TaughtTargets expected = whole.store->taught().targets(0, whole.store->size(), whole.store->size());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  for (const std::uint64_t most : {64, 1000})
    for (std::size_t room = 0; room < size; room += 997) {
      std::filesystem::remove_all(options_.cache_folder);
      const rlimit limit{room, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &limit);
      const auto made = data::load_tokens(file, ByteTokenizer(), options_, most);
      setrlimit(RLIMIT_FSIZE, &before);
      const TaughtTargets there = made.store->taught().targets(0, made.store->size(), made.store->size());
      EXPECT_EQ(there.ids, expected.ids) << room;
      EXPECT_EQ(there.log_probs, expected.log_probs) << room;
      EXPECT_FALSE(std::filesystem::exists(options_.cache_folder)) << room;
    }
  std::signal(SIGXFSZ, SIG_DFL);
}

TEST_F(StoredTeacher, AFileOfTheCacheIsAskedForItsHighestId) {
  options_.cache_folder = folder_.file("cache");
  read(many_records(1) + R"({"text": "abcd", "logprobs": [null, [-1, -2], [-1, -2], [-1, -2]], "target_token_ids": )"
       R"([null, [1, 2], [1, 250], [1, 2]]})" "\n");
  options_.vocab_size = 240;
  DataFile file;
  file.path = folder_.file("a.jsonl");
  EXPECT_HONE_ERROR(Dataset::make({file}, ByteTokenizer(), options_), data,
                    "a.jsonl:2: token id 250 in its log-probabilities; expected less than the model's vocabulary");
}

// Of two documents of four tokens, of which the first and the third have targets.
struct ColumnArrays {
  std::vector<std::uint64_t> places{1, 3, 5, 7};
  std::vector<std::uint32_t> ids{9, 20, 8, 7};
  std::vector<float> log_probs{-1, -2, -3, -4};
  data::TaughtColumns columns() const {
    data::TaughtColumns made;
    made.lie_at(1, places, ids, log_probs);
    return made;
  }
  std::uint64_t content() const {
    Hasher hasher;
    columns().add_content(hasher, 4, 8);
    return hasher.digest64();
  }
};

TEST(TaughtColumns, AnswerForSomeOfTheirPlaces) {
  const ColumnArrays arrays;
  const data::TaughtColumns all = arrays.columns();
  EXPECT_EQ(all.highest_id(), 20);
  EXPECT_EQ(all.highest_id(4, 8), 8);
  EXPECT_EQ(all.highest_id(4, 5), -1);
  EXPECT_EQ(all.highest_id(0, 2), 9);
}

TEST(TaughtColumns, OfAForgedFileDoNotFit) {
  EXPECT_TRUE(ColumnArrays().columns().fits(8));
  EXPECT_FALSE(ColumnArrays().columns().fits(7));
  ColumnArrays twice;
  twice.places = {1, 3, 3, 7};
  EXPECT_FALSE(twice.columns().fits(8));
  ColumnArrays large;
  large.ids[2] = 0x80000000u;
  EXPECT_FALSE(large.columns().fits(8));
  large.ids[2] = 0x7FFFFFFFu;
  EXPECT_TRUE(large.columns().fits(8));
}

TEST(TaughtColumns, TheirContentIsPlacesIdsAndLogProbabilitiesOfADocument) {
  const std::uint64_t plain = ColumnArrays().content();
  ColumnArrays other;
  other.places = {1, 3, 5, 6};
  EXPECT_NE(other.content(), plain);
  other = {}, other.ids[3] = 6;
  EXPECT_NE(other.content(), plain);
  other = {}, other.log_probs[3] = -5;
  EXPECT_NE(other.content(), plain);
  other = {}, other.places[0] = 0, other.ids[0] = 1, other.log_probs[1] = -9;  // of another document
  EXPECT_EQ(other.content(), plain);
}

TEST_F(StoredTeacher, TheFingerprintIsOfWhatWasSaidAndOfHowMuchIsTaken) {
  const std::string lines = many_records(10);
  std::string other = lines;
  other.replace(other.find("-0.25"), 5, "-0.75");
  const auto of = [&](const std::string& text, std::int64_t top_k) {
    options_.teacher_log_probs = top_k;
    return read(text)->fingerprint();
  };
  const std::string all = of(lines, 0);
  EXPECT_NE(of(other, 0), all);
  EXPECT_NE(of(lines, 1), all);
  EXPECT_EQ(of(lines, 0), all);
}

// A file's own temperature: its log-probabilities are brought to that of the others.
TEST_F(StoredTeacher, AFilesTemperatureIsBroughtToTheOthers) {
  DataFile own, other;
  own.path = folder_.write("own.jsonl", std::string(R"({"text": "abc", )") + kTwo + "}\n");
  other.path = folder_.write("other.jsonl", std::string(R"({"text": "abd", )") + kTwo + "}\n");
  const auto said = [&](double of_own, double of_others) {
    own.teacher_temperature = of_own, options_.teacher_temperature = of_others;
    const auto data = Dataset::make({own, other}, ByteTokenizer(), options_);
    EXPECT_THAT(data->row(1).at(0).taught.log_probs, ElementsAre(-1, -2, -0.5, -3, kNone, kNone));
    EXPECT_THAT(data->row(0).at(0).taught.ids, ElementsAre(7, 5, 1, 2, 0, 0));
    return data->row(0).at(0).taught.log_probs;
  };
  options_.packing = Packing::none;
  for (const char* cache : {"", "cache", "cache"}) {
    options_.cache_folder = std::string(cache).empty() ? "" : folder_.file(cache);
    EXPECT_THAT(said(2, 1), ElementsAre(-2, -4, -1, -6, kNone, kNone));
    EXPECT_THAT(said(2, 8), ElementsAre(-0.25, -0.5, -0.125, -0.75, kNone, kNone));
    EXPECT_THAT(said(8, 8), ElementsAre(-1, -2, -0.5, -3, kNone, kNone));
  }
  options_.teacher_log_probs.reset();
  own.ignore = {"logprobs", "target_token_ids"};
  EXPECT_HONE_ERROR(Dataset::make({own}, ByteTokenizer(), options_), config,
                    "own.jsonl: teacher_temperature: no log-probabilities of a teacher are read");
}

TEST_F(StoredTeacher, PackedAndCutPiecesKeepTheirs) {
  std::string text, log_probs = "null", ids = "null";
  for (int i = 0; i < 20; ++i) text += static_cast<char>('a' + i);
  for (int i = 1; i < 20; ++i) log_probs += ", [-" + std::to_string(i) + "]", ids += ", [" + std::to_string(i) + "]";
  const std::string line = "{\"text\": \"" + text + "\", \"logprobs\": [" + log_probs +
                           "], \"target_token_ids\": [" + ids + "]}\n";
  options_.max_length = 8;
  for (const Packing packing : {Packing::none, Packing::best_fit, Packing::concat}) {
    options_.packing = packing;
    const auto data = read(line + line);
    const HostBatch batch = data->batch({0, 1, 2}, 0);
    ASSERT_EQ(batch.taught.width, 1);
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      const bool learnt = batch.labels[i] != -100;
      EXPECT_EQ(batch.taught.ids[i], learnt ? batch.labels[i] - 'a' : 0);
      EXPECT_EQ(batch.taught.log_probs[i], learnt ? static_cast<float>('a' - batch.labels[i]) : kNone);
    }
  }
  options_.max_length = 64, options_.packing = Packing::none;
  HostRow row = read(line)->row(0);
  data::shorten(row, 6, -1);
  ASSERT_EQ(row.size(), 4u);
  EXPECT_THAT(row[1].taught.ids, ElementsAre(7, 8, 9, 10, 11, 12));
}

TEST_F(StoredTeacher, FilesThatSaidDifferentAmountsShareABatch) {
  DataFile one, two;
  one.path = folder_.write(
      "1.jsonl", R"({"text": "ab", "logprobs": [null, [-1]], "target_token_ids": [null, [1]]})" "\n");
  two.path = folder_.write(
      "2.jsonl", R"({"text": "cd", "logprobs": [null, [-1, -2]], "target_token_ids": [null, [3, 4]]})" "\n");
  options_.packing = Packing::none;
  const HostBatch batch = Dataset::make({one, two}, ByteTokenizer(), options_)->batch({0, 1}, 0);
  EXPECT_EQ(batch.taught.width, 2);
  EXPECT_THAT(batch.taught.ids, ElementsAre(1, 0, 0, 0, 3, 4, 0, 0));
  EXPECT_THAT(batch.taught.log_probs, ElementsAre(-1, kNone, kNone, kNone, -1, -2, kNone, kNone));
}

TEST_F(StoredTeacher, RepeatedRecordsAreTheSameInWhatWasSaidToo) {
  options_.deduplicate = true;
  const std::string lines = many_records(1);
  std::string other = lines;
  other.replace(other.find("-0.25"), 5, "-0.75");
  EXPECT_EQ(documents_of(*read(lines + lines)).size(), 1u);
  EXPECT_EQ(documents_of(*read(lines + other)).size(), 2u);
}

}  // namespace
}  // namespace hone::test
