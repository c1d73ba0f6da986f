// Answers of several turns: what the environment is told, what the model reads, and what is learnt of it.
#include "objectives/conversations.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/files.h"
#include "hone/hub.h"
#include "hone/layers.h"
#include "hone/world.h"
#include "text/tokenizer/load.h"
#include "text/tokenizer/template_files.h"

namespace hone::objectives {
namespace {

using nlohmann::json;

class Conversations : public test::WithFolder {
 protected:
  Conversations() {
    Problems problems;
    model_ = build_model(
        config::parse_json(R"({"model_type": "llama", "vocab_size": 259, "hidden_size": 32, "intermediate_size": 48,
                               "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2})",
                           "config.json", problems),
        "config.json");
    init_weights(*model_, 3, Precision::fp64);
    sampling_.max_completion_length = 40;
    sampling_.stop = {"a", "e", "i", "o", "u", "\n"};  // bytes are drawn: turns end soon
  }
  // Of one prompt so many answers.
  std::vector<GivenAnswer> talk(const std::string& command, std::int64_t each = 6, std::int64_t max_turns = 8,
                                bool counts_rewards = true, bool keep_turns = true) {
    EnvironmentOptions options;
    options.command = command, options.max_turns = max_turns, options.timeout = 20, options.keep_turns = keep_turns;
    Environment environment(options, counts_rewards);
    auto made = converse({{.ids = {'w', 'h', 'y'}, .reference = "r", .record = 4}}, each, seeds(), sampling_,
                         environment, context());
    environment.finish();
    return made;
  }
  StepContext context() const {
    return {*model_, world_, none_, 6, 6, 1, tokenizer_, [](std::int64_t i) { return "d:" + std::to_string(i); }};
  }
  static SeedOfAnswer seeds() {
    return [](std::size_t, std::int64_t which) { return 40 + static_cast<std::uint64_t>(which); };
  }
  std::string text_of(const GivenAnswer& answer, bool heard) const {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < answer.ids.size(); ++i)
      if (answer.heard[i] == heard) ids.push_back(answer.ids[i]);
    return tokenizer_->decode(ids, false);
  }

  struct NoModels final : Resources {
    RoleModel model(const std::string&) const override { throw Error(ErrorKind::bug, "none"); }
  } none_;
  const World world_;
  std::unique_ptr<Model> model_;
  std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer("bytes");
  SamplingOptions sampling_;
};

// Tells each first turn "!?", and is done at the second.
constexpr const char* kTwice =
    "while read -r line; do case \"$line\" in *'\"turn\":1,'*) echo '{\"text\": \"!?\"}';; "
    "*) echo '{\"done\": true, \"reward\": 0.5}';; esac; done";

TEST_F(Conversations, KeepTheTurnsOfTheModelAsTheyWereSaid) {
  const auto once = sample({{.ids = {'w', 'h', 'y'}}}, 6, seeds(), sampling_, context());
  const auto twice = talk(kTwice);
  ASSERT_EQ(twice.size(), once.size());
  std::size_t of_two = 0;
  for (std::size_t i = 0; i < twice.size(); ++i) {
    const std::vector<std::int32_t>& first = once[i].ids;
    ASSERT_GE(twice[i].ids.size(), first.size());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), twice[i].ids.begin()));
    if (twice[i].turns == 1) {
      EXPECT_EQ(once[i].reason, FinishReason::length);
      continue;
    }
    ++of_two;
    EXPECT_EQ(twice[i].turns, 2);
    EXPECT_EQ(text_of(twice[i], true), "!?");
    EXPECT_TRUE(twice[i].heard[first.size()] && twice[i].heard[first.size() + 1]);
    EXPECT_FALSE(twice[i].heard[first.size() - 1] || twice[i].heard[first.size() + 2]);
    EXPECT_EQ(twice[i].outcome, 0.5);
    const json messages = json::parse(twice[i].messages);
    ASSERT_EQ(messages.size(), 3u);
    EXPECT_EQ(messages[1], (json{{"role", "user"}, {"content", "!?"}}));
    EXPECT_EQ(messages[2]["role"], "assistant");
  }
  EXPECT_GE(of_two, 3u);
}

TEST_F(Conversations, AreDrawnByTheirSeedsHoweverManyAreMadeAtOnce) {
  const auto together = talk(kTwice);
  sampling_.generation_batch_size = 2;
  const auto some = talk(kTwice);
  for (std::size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i].ids, some[i].ids);
    EXPECT_EQ(together[i].heard, some[i].heard);
  }
  EXPECT_NE(together[0].ids, together[1].ids);
}

TEST_F(Conversations, SayTheSameWhetherTurnsAreKeptOrReadAnew) {
  const std::string command = "while read -r line; do echo '{\"text\": \" and then?\"}'; done";
  sampling_.max_completion_length = 160;
  std::int64_t most = 0;
  for (const std::int64_t at_once : {8, 3}) {  // of the latter only so many are kept
    sampling_.generation_batch_size = at_once;
    const auto kept = talk(command, 8, 7), anew = talk(command, 8, 7, true, /*keep_turns=*/false);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(kept[i].ids, anew[i].ids) << at_once;
      EXPECT_EQ(kept[i].heard, anew[i].heard) << at_once;
      most = std::max(most, kept[i].turns);
    }
  }
  EXPECT_GE(most, 6);
}

TEST_F(Conversations, DrawEachTurnAnew) {
  sampling_.temperature = 100;  // then what is drawn goes by the draw alone
  const auto answers = talk(kTwice, 12);
  std::size_t same = 0, compared = 0;
  for (const GivenAnswer& one : answers) {
    const auto told = std::find(one.heard.begin(), one.heard.end(), true) - one.heard.begin();
    if (one.turns < 2) continue;
    ++compared;
    same += one.ids[0] == one.ids[static_cast<std::size_t>(told) + 2];
  }
  EXPECT_GE(compared, 3u);
  EXPECT_LE(same, 1u);
}

TEST_F(Conversations, TellWhatWasSaid) {
  const std::string file = (folder_ / "told").string();
  talk("while read -r line; do printf '%s\\n' \"$line\" >> " + file +
           "; case \"$line\" in *'\"last\":true'*) echo '{\"done\": true}';; *) echo '{\"text\": \".\"}';; esac; done",
       2, 2);
  std::istringstream lines(test::content_of(file));
  std::vector<json> told;
  for (std::string line; std::getline(lines, line);) told.push_back(json::parse(line));
  ASSERT_EQ(told.size(), 4u);
  EXPECT_EQ(told[0]["prompt"], "why");
  EXPECT_EQ(told[0]["reference"], "r");
  EXPECT_EQ(told[0]["record"], "d:4");
  EXPECT_EQ(told[0]["step"], 7);
  EXPECT_EQ(told[0]["turn"], 1);
  EXPECT_EQ(told[0]["last"], false);
  EXPECT_EQ(told[0]["complete"], true);
  EXPECT_TRUE(told[0]["tool_calls"].is_null());
  EXPECT_EQ(told[0]["messages"], json::array({{{"role", "assistant"}, {"content", told[0]["completion"]}}}));
  EXPECT_EQ(told[0]["unreadable_tool_calls"], 0);
  EXPECT_EQ(told[2]["turn"], 2);
  EXPECT_EQ(told[2]["last"], true);
  EXPECT_EQ(told[2]["messages"].size(), 3u);
  EXPECT_EQ(told[2]["id"], told[0]["id"]);
  EXPECT_EQ(told[2]["seed"], told[0]["seed"]);
  EXPECT_NE(told[1]["id"], told[0]["id"]);
  EXPECT_NE(told[1]["seed"], told[0]["seed"]);
}

TEST_F(Conversations, EndCutOffWhereNothingFitsIn) {
  for (const GivenAnswer& one :
       talk("while read -r line; do case \"$line\" in *'\"last\":true'*) echo '{\"done\": true,"
            " \"reward\": 2}';; *) echo '{\"text\": \"" +
            std::string(40, 'x') + "\"}';; esac; done")) {
    EXPECT_EQ(one.turns, 1);
    EXPECT_FALSE(one.is_complete());
    EXPECT_EQ(text_of(one, true), "");
    EXPECT_EQ(one.outcome, 2);
  }
  // All that there is room for: 40 tokens with what was heard.
  bool any_cut = false;
  for (const GivenAnswer& one : talk("while read -r line; do echo '{\"text\": \"xxxx\"}'; done", 8, 50)) {
    EXPECT_LE(one.ids.size(), 40u);
    EXPECT_FALSE(one.heard.back());
    EXPECT_FALSE(one.is_complete());
    any_cut = any_cut || one.ids.size() == 40;
    EXPECT_EQ(one.outcome, std::nullopt);
  }
  EXPECT_TRUE(any_cut);
}

TEST_F(Conversations, GoByTheChatTemplate) {
  text::Files files = tokenizer_->files;
  files.emplace_back(text::kTemplateFile,
                     "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|eos|>{% endfor %}"
                     "{% if add_generation_prompt %}<assistant>{% endif %}");
  files.emplace_back("tokenizer_config.json", R"({"eos_token": "<|eos|>"})");
  tokenizer_ = text::make_tokenizer(files, {}, "test");
  const auto answers = talk(
      "while read -r line; do case \"$line\" in *'\"turn\":1,'*) echo '{\"messages\": [{\"role\": \"tool\", "
      "\"content\": \"7\"}]}';; *) echo '{\"done\": true}';; esac; done");
  EXPECT_EQ(text_of(answers[0], true), "<|eos|><tool>7<|eos|><assistant>");  // its turn ended by a stop text
}

// With a template that writes calls they are looked for, also where nothing is said any more.
TEST_F(Conversations, TellOfNoCallsWhereTheyAreLookedFor) {
  text::Files files = tokenizer_->files;
  files.emplace_back(text::kTemplateFile,
                     "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls %}<tool_call>{% endif %}"
                     "<|eos|>{% endfor %}");
  files.emplace_back("tokenizer_config.json", R"({"eos_token": "<|eos|>"})");
  tokenizer_ = text::make_tokenizer(files, {}, "test");
  const std::string file = (folder_ / "told").string();
  talk("while read -r line; do printf '%s\\n' \"$line\" >> " + file +
           "; case \"$line\" in *'\"last\":true'*) echo '{\"done\": true}';; *) echo '{\"text\": \"" +
           std::string(40, 'x') + "\"}';; esac; done",
       2);
  std::istringstream lines(test::content_of(file));
  bool has_unsaid = false;
  for (std::string line; std::getline(lines, line);) {
    const json told = json::parse(line);
    has_unsaid = has_unsaid || told["completion"] == "";
    EXPECT_EQ(told["tool_calls"], json::array());
    EXPECT_EQ(told["unreadable_tool_calls"], 0);
  }
  EXPECT_TRUE(has_unsaid);
}

TEST_F(Conversations, RefuseAnswersThatAreNone) {
  const auto says = [&](const std::string& reply) {
    return talk("while read -r line; do printf '%s\\n' '" + reply + "'; done", 1);
  };
  for (const std::string reply :
       {"Loading...", "[]", "3", "{}", "{\"done\": 1}", "{\"done\": false}", "{\"done\": true, \"text\": \"a\"}",
        "{\"done\": true, \"reward\": \"1\"}", "{\"text\": \"\"}", "{\"text\": \"a\", \"reward\": 1}",
        "{\"text\": \"a\", \"messages\": [{\"role\": \"user\"}]}", "{\"messages\": []}", "{\"messages\": [1]}",
        "{\"messages\": [{\"content\": \"a\"}]}", "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
        "{\"done\": true, \"reward\": 1e999}", "{\"done\": true, \"failures\": -1}",
        "{\"done\": true, \"failures\": 0.5}", "{\"done\": true, \"failures\": 1}",
        "{\"done\": true, \"reward\": -1e300}", "{\"done\": true, \"Reward\": 0}"})
    EXPECT_HONE_ERROR(says(reply), data, "line 1 of what it wrote: ");
  EXPECT_HONE_ERROR(says("{\"done\": true, \"Reward\": 0}"), data,
                    "unknown key \"Reward\", known are messages, text, done, reward, failures, id; got ");
  EXPECT_HONE_ERROR(says("{\"done\": true, \"reward\": 1" + std::string(299, '0') + "}"), data, "further from 0");
  EXPECT_HONE_ERROR(says("{\"done\": true, \"failures\": 1}"), data, "\"failures\" 1, of 0 calls");
  EXPECT_HONE_ERROR(says("{\"done\": true, \"id\": 7}"), data, "out of order: \"id\" 7, expected 0");
  EXPECT_EQ(says("{\"done\": true, \"id\": 0, \"failures\": 0}").size(), 1u);
  const std::string worth = "while read -r line; do echo '{\"done\": true, \"reward\": 1}'; done";
  EXPECT_HONE_ERROR(talk(worth, 1, 8, /*counts_rewards=*/false), data, "a \"reward\" that no reward counts");
  EXPECT_HONE_ERROR(says("Loading..."), data, "got \"Loading...\", expected {\"messages\": [...]}, {\"text\"");
  EXPECT_HONE_ERROR(says("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}"), config,
                    "the tokenizer has no chat template");
  EXPECT_HONE_ERROR(talk("exit 3"), data, "environment: `exit 3`: exit code 3 after 0 of 6 lines");
  EXPECT_HONE_ERROR(talk("/no/such/program 2> /dev/null"), data, "exit code 127 after 0 of 6 lines");
  EXPECT_HONE_ERROR(talk(std::string(kTwice) + "; exit 4"), data, "`: exit code 4");
}

}  // namespace
}  // namespace hone::objectives
