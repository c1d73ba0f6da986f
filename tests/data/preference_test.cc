// Preference pairs: reading, learning the answers only, cutting, packing both sides into one row, the cache.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/log.h"
#include "data/choose_template.h"
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
  const auto data = make(files({folder_.write("a.jsonl", line("ab", "c", "de") + line("f", "h", "g"))}));
  EXPECT_EQ(data->report().records, 2);
  EXPECT_EQ(data->rows(), 1);
  const HostBatch batch = data->batch({0}, 9);
  // abc<eos> abde<eos> fh<eos> fg<eos>
  EXPECT_THAT(batch.ids, ElementsAre('a', 'b', 'c', 257, 'a', 'b', 'd', 'e', 257, 'f', 'h', 257, 'f', 'g', 257));
  EXPECT_THAT(batch.labels,
              ElementsAre(-100, 'c', 257, -100, -100, 'd', 'e', 257, -100, 'h', 257, -100, 'g', 257, -100));
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

TEST_F(Preference, BothSidesLoseTheStartOfThePromptThatTheLongerOneHasNoRoomFor) {
  const auto data = make(files({folder_.write("a.jsonl", line("0123456789", "ab", "c"))}), preference(6));
  const HostBatch batch = data->batch({0}, 9);
  ASSERT_EQ(batch.docs.size(), 2u);
  EXPECT_THAT(batch.ids, ElementsAre('7', '8', '9', 'a', 'b', 257, '7', '8', '9', 'c', 257));
  EXPECT_EQ(data->report().cut, 1);  // of records
  EXPECT_EQ(data->report().cut_prompts, 1);
  EXPECT_EQ(data->report().cut_tokens, 7 + 7);
}

TEST_F(Preference, ASideThatFitsIsComparedUnderThePromptThatTheOtherHasLeft) {
  for (const bool longer_first : {true, false}) {
    const std::string pair = longer_first ? line("01234", "abcd", "x") : line("01234", "x", "abcd");
    Dataset::Options options = preference(7);
    const auto data = make(files({folder_.write("a.jsonl", pair)}), options);
    const HostBatch batch = data->batch({0}, 9);
    if (longer_first)
      EXPECT_THAT(batch.ids, ElementsAre('3', '4', 'a', 'b', 'c', 'd', 257, '3', '4', 'x', 257));
    else
      EXPECT_THAT(batch.ids, ElementsAre('3', '4', 'x', 257, '3', '4', 'a', 'b', 'c', 'd', 257));
    EXPECT_EQ(data->report().cut, 1);
    EXPECT_EQ(data->report().cut_tokens, 3 + 3);
    options.overlong = Overlong::keep_end;
    EXPECT_EQ(make(files({folder_.write("a.jsonl", pair)}), options)->batch({0}, 9).ids, batch.ids);
  }
}

// A prompt of which nothing is left is not taken from an answer that has room for it.
TEST_F(Preference, AnAnswerIsNotCutBecauseTheOtherOneIs) {
  Dataset::Options options = preference(4);
  options.overlong = Overlong::keep_end;
  const HostBatch batch =
      make(files({folder_.write("a.jsonl", line("01", "01234567", "x"))}), options)->batch({0}, 9);
  EXPECT_THAT(batch.ids, ElementsAre('5', '6', '7', 257, '0', '1', 'x', 257));
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

// Whatever is packed how, each pair is whole, in one row, side by side, and in it once.
TEST_F(Preference, NoPackingTearsAPairApart) {
  std::mt19937 random(3);
  std::string content;
  for (int i = 0; i < 300; ++i)
    content +=
        line(std::string(random() % 30, 'p'), std::string(1 + random() % 20, 'c'), std::string(1 + random() % 40, 'r'));
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
              HasSubstr("no field \"chosen\"; found \"completion\", \"prompt\"; expected chosen and rejected, and a "
                        "prompt unless both begin with it"));
  EXPECT_THAT(refused(R"({"question": "a", "preferred": "b", "rejected": "c"})"),
              HasSubstr("columns: {prompt: question, chosen: preferred}"));
  EXPECT_THAT(refused(R"({"prompt": "a", "chosen": null, "rejected": "c"})"), HasSubstr("got null"));
  EXPECT_THAT(refused(R"("a text")"), HasSubstr("expected an object with chosen and rejected"));
  EXPECT_THAT(refused(R"({"prompt": "a", "chosen": "b", "rejected": "c", "margin": 2})"),
              HasSubstr("\"margin\": only which answer is the better one is learnt"));
  EXPECT_THAT(refused("a text", "a.txt"), HasSubstr("a text file has no preferences"));
  EXPECT_THAT(
      error_of(ErrorKind::data,
               [&] { Dataset::make(files({folder_.write("l.jsonl", line("a", "b", "c"))}), ByteTokenizer(), {}); }),
      HasSubstr("preference pairs are not one of these forms"));
}

// How some files are made: the answers of a pair that has a prompt begin with it nevertheless.
TEST_F(Preference, APromptThatMostAnswersRepeatIsTold) {
  std::string told;
  log::set_sink([&](log::Level level, std::string_view message) {
    if (level == log::Level::warning) told += message;
  });
  const std::string twice = line("Say A:", "Say A: A", "Say A: B"), once = line("Say B:", "B", "A");
  make(files({folder_.write("some.jsonl", twice + once + once)}));
  EXPECT_EQ(told, "");
  make(files({folder_.write("most.jsonl", twice + once + line("Say C:", "Say C: C", "Say C: B"))}));
  log::set_sink({});
  EXPECT_THAT(told, HasSubstr("most.jsonl: in 2 of 3 pairs both answers begin with the prompt"));
}

TEST_F(Preference, LossHasNoSay) {
  Dataset::Options options = preference();
  options.loss = Loss::all;
  const auto path = folder_.write("a.jsonl", line("a", "b", "c"));
  EXPECT_THAT(error_of(ErrorKind::config, [&] { make(files({path}), options); }),
              HasSubstr("a preference pair, but loss is all"));
}

// What both sides say first is the prompt of texts that have none.
TEST_F(Preference, ThePromptThatTextsShareIsFound) {
  const auto split = [&](const std::string& chosen, const std::string& rejected) {
    const std::string content = nlohmann::json{{"chosen", chosen}, {"rejected", rejected}}.dump();
    const auto records = data::inspect_records(*make(files({folder_.write("s.jsonl", content)})), 1);
    std::vector<std::string> learnt;
    for (const auto& record : records) {
      learnt.emplace_back();
      for (std::size_t i = 0; i < record.pieces[0].ids.size(); ++i)
        if (record.pieces[0].learnt[i] && record.pieces[0].ids[i] < 256)
          learnt.back() += static_cast<char>(record.pieces[0].ids[i]);
    }
    return learnt;
  };
  EXPECT_THAT(split("\n\nHuman: hi\n\nAssistant: yes", "\n\nHuman: hi\n\nAssistant: you"), ElementsAre(" yes", " you"));
  EXPECT_THAT(split("\n\nHuman: hi\n\nAssistant: a\n\nHuman: b\n\nAssistant: c d",
                    "\n\nHuman: hi\n\nAssistant: a\n\nHuman: b\n\nAssistant: c e"),
              ElementsAre(" c d", " c e"));
  EXPECT_THAT(split("Is it so? Certainly", "Is it so? Certain ly"), ElementsAre(" Certainly", " Certain ly"));
  EXPECT_THAT(split("ab\u00e9c", "ab\u00e8c"), ElementsAre("\u00e9c", "\u00e8c"));
  EXPECT_THAT(refused(R"({"chosen": "so it is", "rejected": "so it"})"),
              HasSubstr("rejected is the beginning of chosen: it cannot be told where their prompt ends"));
  EXPECT_THAT(refused(R"({"chosen": "\n\nHuman: hi\n\nAssistant: a", "rejected": "\n\nHuman: hi\n\nAssistant:"})"),
              HasSubstr("rejected, behind the prompt that both sides begin with, is empty"));
  EXPECT_THAT(refused(R"({"chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "\n\nHuman: c\n\nAssistant: b"})"),
              HasSubstr("share no turn of an assistant"));
  EXPECT_THAT(refused(R"({"chosen": "\n\nHuman: a\n\nAssistant: b",)"
                      R"("rejected": "\n\nHuman: a\n\nAssistant: c\n\nHuman: d\n\nAssistant: e"})"),
              HasSubstr("rejected: goes on with a human's turn behind the first one that differs"));
}

TEST_F(Preference, ASideThatIsEmptyAndSidesThatAreEqualAreRefused) {
  EXPECT_THAT(refused(line("a", "b", "b")), HasSubstr("a.jsonl:1: chosen and rejected are equal"));
  EXPECT_THAT(refused(line("a", "b", "")), HasSubstr("a.jsonl:1: rejected is empty; expected an answer"));
  EXPECT_THAT(refused(line("a", " \n", "b")), HasSubstr("chosen is empty"));
  EXPECT_THAT(refused("rejected,prompt,chosen\nd,ab,d\n", "a.csv"),
              HasSubstr("a.csv:2: chosen and rejected are equal"));
}

// A template that writes each message as its role's first letter, its text and a full stop.
class ChatPreference : public Preference {
 protected:
  std::shared_ptr<const Dataset> read(const std::string& content) {
    return Dataset::make(files({folder_.write("a.jsonl", content)}), *tokenizer_, preference());
  }
  // Each side as "prompt[answer]".
  std::vector<std::string> sides(const std::string& content) {
    std::vector<std::string> all;
    for (const auto& record : data::inspect_records(*read(content), -1)) {
      all.emplace_back();
      bool on = false;
      for (std::size_t i = 0; i < record.pieces[0].ids.size(); ++i) {
        if (std::exchange(on, record.pieces[0].learnt[i]) != on) all.back() += on ? "[" : "]";
        all.back() += static_cast<char>(record.pieces[0].ids[i]);
      }
      if (on) all.back() += "]";
    }
    return all;
  }
  std::string refused(const std::string& content) {
    return error_of(ErrorKind::data, [&] { read(content); });
  }
  std::shared_ptr<const Tokenizer> tokenizer_ = data::with_chat_template(
      load_tokenizer("bytes"),
      "{% for m in messages %}{{ m.role[0] }}{{ m.content }}.{% endfor %}{% if add_generation_prompt %}a{% endif %}",
      "test");
};

TEST_F(ChatPreference, EachFormOfConversationIsRead) {
  const std::vector<std::string> expected = {"uq.a[c.]", "uq.a[r.]"};
  for (const char* form :
       {R"({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "c"}],)"
        R"("rejected": [{"role": "assistant", "content": "r"}]})",
        R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "c"}],)"
        R"("rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]})",
        R"({"prompt": "q", "chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "c"}],)"
        R"("rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]})",
        R"({"prompt": "q", "chosen": [{"role": "assistant", "content": "c"}],)"
        R"("rejected": [{"role": "assistant", "content": "r"}]})",
        R"({"conversations": [{"from": "human", "value": "q"}], "chosen": {"from": "gpt", "value": "c"},)"
        R"("rejected": {"from": "gpt", "value": "r"}})",
        R"({"messages": [{"role": "user", "content": "q"}], "chosen": "c", "rejected": "r"})",
        R"({"instruction": "q", "input": "", "chosen": "c", "rejected": "r"})",
        R"({"chosen_messages": [{"role": "user", "content": "q", "loss_weight": 0.0},)"
        R"({"role": "assistant", "content": "c", "loss_weight": 1.0}],)"
        R"("rejected_messages": [{"role": "user", "content": "q", "loss_weight": 0.0},)"
        R"({"role": "assistant", "content": "r", "loss_weight": 1.0}]})"})
    EXPECT_EQ(sides(form), expected) << form;
  EXPECT_THAT(sides(R"({"system": "s", "instruction": "q", "history": [["x", "y"]], "chosen": "c", "rejected": "r"})"),
              ElementsAre("ss.ux.ay.uq.a[c.]", "ss.ux.ay.uq.a[r.]"));
}

// An assistant's turn that both sides have is the prompt's; what comes behind the first one that differs is learnt
// where the assistant says it.
TEST_F(ChatPreference, OnlyTheAssistantsTurnsBehindThePromptAreLearnt) {
  EXPECT_THAT(sides(R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"},)"
                    R"({"role": "user", "content": "w"}, {"role": "assistant", "content": "c"}],)"
                    R"("rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "x"},)"
                    R"({"role": "user", "content": "w"}, {"role": "assistant", "content": "r"},)"
                    R"({"role": "user", "content": "v"}, {"role": "assistant", "content": "z"}]})"),
              ElementsAre("uq.ax.uw.a[c.]", "uq.ax.uw.a[r.]uv.a[z.]"));
}

TEST_F(ChatPreference, WhatIsNoPairIsRefused) {
  const auto pair = [](const std::string& chosen, const std::string& rejected, const std::string& more = "") {
    return R"({"chosen": [)" + chosen + R"(], "rejected": [)" + rejected + "]" + more + "}";
  };
  const std::string user = R"({"role": "user", "content": "q"})", a = R"({"role": "assistant", "content": "a"})",
                    b = R"({"role": "assistant", "content": "b"})", none = R"({"role": "assistant", "content": ""})";
  EXPECT_THAT(refused(pair(user + "," + a, user + "," + a)), HasSubstr("chosen and rejected are equal"));
  EXPECT_THAT(refused(pair(user + "," + a, user)), HasSubstr("rejected is empty"));
  EXPECT_THAT(refused(pair(user + "," + a, user + "," + none)), HasSubstr("rejected is empty"));
  EXPECT_THAT(refused(pair(a, b)), HasSubstr("no prompt: chosen and rejected have no message in common"));
  EXPECT_THAT(refused(pair(user + "," + a, user + "," + user)),
              HasSubstr("rejected: the first message that is not the prompt's is of the role \"user\""));
  EXPECT_THAT(refused(pair(user + "," + a, user + "," + b, R"(, "prompt": "other")")),
              HasSubstr("field \"prompt\" is a text that none of the messages of chosen has"));
  EXPECT_THAT(refused(pair(user + "," + a, user + "," + b, R"(, "messages": [], "prompt": "q")")),
              HasSubstr("more than one field is a prompt: prompt, messages"));
  EXPECT_THAT(refused(R"({"prompt": "a", "system": "s", "chosen": "b", "rejected": "c"})"),
              HasSubstr("field \"system\" is read only with conversations"));
}

// LlamaFactory's pairs, of two forms, as they are.
TEST_F(ChatPreference, RealPairsAreReadAndStayTogether) {
  HONE_TEST_DATA_OR_SKIP(root);
  const std::string base = std::string(root) + "/datasets/llamafactory/";
  const auto minimind = load_tokenizer(std::string(root) + "/tokenizers/minimind");
  const auto qwen = load_tokenizer(std::string(root) + "/tokenizers/qwen3");
  EXPECT_EQ(Dataset::make(files({base + "v1_dpo_demo.jsonl"}), *qwen, preference(2048))->report().records, 10);
  const auto data = Dataset::make(files({base + "dpo_en_demo.json"}), *minimind, preference(2048));
  EXPECT_EQ(data->report().records, 300);
  std::int64_t docs = 0;
  for (std::int64_t row = 0; row < data->rows(); ++row) {
    const HostBatch batch = data->batch({row}, 0);
    docs += std::ssize(batch.docs);
    for (std::size_t i = 0; i + 1 < batch.docs.size(); i += 2) EXPECT_EQ(batch.docs[i].group, batch.docs[i + 1].group);
  }
  EXPECT_EQ(docs, 2 * (300 - data->report().unsupervised_records));
}

}  // namespace
}  // namespace hone::test
