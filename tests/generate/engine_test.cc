// Answers that join others while these are being written: each is what it is alone.
#include "generate/engine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <map>

#include "generate/prompt_log_probs.h"
#include "hone/hub.h"
#include "nn/kv_cache.h"

namespace hone::generate {
namespace {

using Ids = std::vector<std::int32_t>;

struct Wish {
  Ids prompt;
  double temperature;
  std::int64_t most, at;  // its tokens; after how many steps it comes
  std::optional<std::int64_t> forced_end = {};
};

// `leaves`: this one goes in its third step.
std::map<std::size_t, Ids> answered(const Model& model, const std::vector<Wish>& wishes, std::size_t leaves = 99) {
  const at::NoGradGuard no_grad;
  const auto tokenizer = load_tokenizer("bytes");
  Engine engine(*model.causal_lm(), *tokenizer, "", 4);
  std::map<std::size_t, Ids> found;
  std::map<std::size_t, std::int64_t> told;
  std::size_t next = 0;
  for (std::int64_t step = 0; next < wishes.size() || engine.rows() > 0; ++step) {
    std::vector<Asked> asked;
    for (; next < wishes.size() && wishes[next].at <= step; ++next) {
      auto config = std::make_shared<GenerateConfig>();
      config->temperature = wishes[next].temperature, config->ignore_eos = true;
      config->forced_eos_token_id = wishes[next].forced_end;
      asked.push_back({next, wishes[next].prompt, config, Random(next, "generate"), wishes[next].most});
    }
    engine.add(asked);
    if (engine.rows() == 0) continue;
    engine.step([&](std::size_t number, std::int32_t, const std::string&, const TokenLogProbs*) { ++told[number]; },
                [&](std::size_t number, const Generated& answer) { found[number] = answer.ids; });
    if (told.contains(leaves) && told[leaves] == 3) engine.leave(leaves), told.erase(leaves);
  }
  return found;
}

class Engines : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Model> model =
      load_model(std::string(HONE_SOURCE_DIR "/tests/golden/") + GetParam(), Precision::fp32);
};

TEST_P(Engines, GiveWhatEachAnswerIsAlone) {
  const std::vector<Wish> wishes = {{{5, 9, 33}, 0, 30, 0}, {{1, 17, 42, 8}, 0.9, 12, 0, 11},
                                    {{60, 3, 3}, 0, 9, 4},  {{2, 3, 4, 5, 6}, 0.7, 20, 4},
                                    {{7}, 0, 25, 13},       {{7, 8}, 0.5, 3, 60}};
  const auto together = answered(*model, wishes);
  ASSERT_EQ(together.size(), wishes.size());
  for (std::size_t i = 0; i < wishes.size(); ++i) EXPECT_EQ(std::ssize(together.at(i)), wishes[i].most) << i;
  EXPECT_EQ(together.at(1).back(), 11);
  std::vector<Wish> apart = wishes;
  for (std::size_t j = 0; j < apart.size(); ++j) apart[j].at = 100 * static_cast<std::int64_t>(j);
  EXPECT_EQ(together, answered(*model, apart));
}

TEST_P(Engines, GoOnWhereOneLeaves) {
  const std::vector<Wish> wishes = {{{5, 9, 33}, 0, 20, 0}, {{1, 17}, 0.9, 20, 0}, {{60, 3}, 0.8, 20, 2}};
  auto all = answered(*model, wishes), without = answered(*model, wishes, 1);
  EXPECT_FALSE(without.contains(1));
  all.erase(1);
  EXPECT_EQ(all, without);
}

// A chat that goes on, one with the same beginning, one that is new: what is asked at a time, and what each had kept.
struct Turn {
  std::vector<Ids> prompts;
  std::vector<Ids> answers = {};
  std::vector<std::int64_t> kept = {};
};
void answer(Engine& engine, Turn& turn) {
  std::vector<Asked> asked;
  for (const Ids& prompt : turn.prompts) {
    auto config = std::make_shared<GenerateConfig>();
    config->ignore_eos = true;
    asked.push_back({asked.size(), prompt, config, Random(1, "generate"), 6});
  }
  turn.answers.resize(asked.size());
  turn.kept = engine.add(asked);
  while (engine.rows() > 0)
    engine.step({}, [&](std::size_t number, const Generated& answer) { turn.answers[number] = answer.ids; });
}
Ids counting(std::int64_t count, std::int32_t by) {
  Ids ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>((i * by + 3) % 31));
  return ids;
}

TEST_P(Engines, ReadNothingAgainThatWasKept) {
  const at::NoGradGuard no_grad;
  const auto tokenizer = load_tokenizer("bytes");
  Engine plain(*model->causal_lm(), *tokenizer, "", 4), keeping(*model->causal_lm(), *tokenizer, "", 4);
  keeping.keep_texts(1 << 26);
  Turn first{{counting(18, 7)}};
  answer(keeping, first);
  EXPECT_EQ(first.kept, std::vector<std::int64_t>{0});
  Ids next = first.prompts[0], other = first.prompts[0];
  next.insert(next.end(), first.answers[0].begin(), first.answers[0].end());
  next.insert(next.end(), {5, 6, 7});
  other.resize(17);
  other.insert(other.end(), {9, 9, 9, 9, 9, 9, 9, 9});
  Turn again{{counting(20, 11), next, next, other}}, expected = again;
  answer(keeping, again);
  answer(plain, expected);
  EXPECT_EQ(again.answers, expected.answers);
  EXPECT_EQ(again.kept[0], 0);
  EXPECT_EQ(again.kept[1], 23);  // the newest token of an answer was told, and not read
  EXPECT_EQ(again.kept[2], 23);
  const std::string name = GetParam();
  const bool keeps_all = name == "models/llama" || name == "decoders/deepseek_v3" || name == "gpt2/gpt2";
  EXPECT_EQ(again.kept[3], keeps_all ? 17 : 0) << "memories and windows have gone on";
  EXPECT_EQ(keeping.stats().prompt_tokens, 18 + 20 + (std::ssize(next) - 23) + 25 - again.kept[3]);
}

TEST(KeptTexts, TakeNoMoreMemoryThanTheyMay) {
  const at::NoGradGuard no_grad;
  const auto model = load_model(HONE_SOURCE_DIR "/tests/golden/models/llama", Precision::fp32);
  const auto tokenizer = load_tokenizer("bytes");
  const auto one = nn::cache_bytes(model->causal_lm()->cache_spec(), at::kFloat, 1, 29) + 29 * 4;
  Engine engine(*model->causal_lm(), *tokenizer, "", 4);
  engine.keep_texts(2 * one);
  Turn a{{counting(24, 7)}}, b{{counting(24, 11)}}, c{{counting(24, 13)}};
  for (Turn* turn : {&a, &b, &a, &c}) answer(engine, *turn);
  EXPECT_EQ(a.kept[0], 23) << "one token is read in any case";
  for (Turn* turn : {&b, &a, &c}) answer(engine, *turn);
  EXPECT_EQ(b.kept[0], 0) << "it was not of use for longest";
  EXPECT_EQ(a.kept[0], 0) << "b took its place";
}

// Conversations that go on side by side, of unlike lengths; one is new, and one is told the same as another.
TEST_P(Engines, ReadTurnsFromWhereTheLastOnesEnded) {
  const at::NoGradGuard no_grad;
  const auto tokenizer = load_tokenizer("bytes");
  const auto kept = std::make_shared<KeptTurns>(3);
  Engine plain(*model->causal_lm(), *tokenizer, "", 4), keeping(*model->causal_lm(), *tokenizer, "", 4);
  keeping.keep_texts_in(kept);
  std::vector<Ids> texts = {counting(5, 7), counting(9, 11), counting(7, 13), counting(7, 13)};
  for (int turn = 0; turn < 3; ++turn) {
    Turn now{texts}, expected{texts};
    answer(keeping, now);
    answer(plain, expected);
    EXPECT_EQ(now.answers, expected.answers) << turn;
    EXPECT_EQ(kept->size(), 3) << "of four";
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const bool is_kept = turn > 0 && i < 3;
      EXPECT_EQ(now.kept[i], is_kept ? std::ssize(texts[i]) - 2 - static_cast<std::int64_t>(i) : 0) << turn << i;
      texts[i].insert(texts[i].end(), now.answers[i].begin(), now.answers[i].end());
      for (std::size_t k = 0; k <= i; ++k) texts[i].push_back(static_cast<std::int32_t>(3 + k + i));
    }
  }
  for (std::size_t i = 0; i < 3; ++i) kept->forget(texts[i]);
  EXPECT_EQ(kept->size(), 0);
}

// As a text alone whose tokens are rotated by the angles of longer ones leaves nothing, so does one beside it.
TEST(KeptTurns, KeepNothingOfACacheThatALongerTextHasJoined) {
  const at::NoGradGuard no_grad;
  const auto tokenizer = load_tokenizer("bytes");
  for (const std::string name : {"rope-longrope-short", "rope-dynamic-short"}) {
    const auto model = load_model(HONE_SOURCE_DIR "/tests/golden/models/" + name, Precision::fp32);
    const Ids text = counting(5, 7), longer = counting(20, 11);  // beyond 16 angles are others
    auto config = std::make_shared<GenerateConfig>();
    config->ignore_eos = true;
    const auto run = [&](bool with_longer) {
      const auto kept = std::make_shared<KeptTurns>(4);
      Engine engine(*model->causal_lm(), *tokenizer, "", 2);
      engine.keep_texts_in(kept);
      engine.add({{0, text, config, Random(1, "generate"), 6}});
      Ids found;
      const auto step = [&] {
        engine.step({}, [&](std::size_t number, const Generated& one) { found = number == 0 ? one.ids : found; });
      };
      step();
      if (with_longer) engine.add({{1, longer, config, Random(1, "generate"), 1}});  // which leaves in the next step
      while (engine.rows() > 0) step();
      return std::pair(found, kept->size());
    };
    const auto [alone, of_it] = run(false);
    const auto [beside, of_both] = run(true);
    EXPECT_EQ(alone, beside) << name;
    EXPECT_EQ(of_it, 1) << name;
    EXPECT_EQ(of_both, 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Engines,
                         ::testing::Values("models/llama", "models/mistral-sliding", "decoders/xlstm",
                                           "decoders/qwen3_next", "decoders/deepseek_v3", "decoders/gemma4",
                                           "decoders/lfm2", "decoders/falcon_h1", "decoders/nemotron_h",
                                           "decoders/jamba", "gpt2/gpt2"));

TEST(EngineLogProbs, AreTheModels) {
  const at::NoGradGuard no_grad;
  const auto model = load_model(HONE_SOURCE_DIR "/tests/golden/models/llama", Precision::fp32);
  const auto tokenizer = load_tokenizer("bytes");
  Engine engine(*model->causal_lm(), *tokenizer, "", 2);
  auto config = std::make_shared<GenerateConfig>();
  config->temperature = 0.7, config->repetition_penalty = 1.3, config->ignore_eos = true;
  const Ids prompt{1, 17, 42, 8};
  Ids ids = prompt;
  std::vector<TokenLogProbs> told;
  engine.add({{0, prompt, config, Random(3, "generate"), 6, 3}});
  while (engine.rows() > 0)
    engine.step(
        [&](std::size_t, std::int32_t id, const std::string&, const TokenLogProbs* log_probs) {
          ASSERT_TRUE(log_probs);
          ids.push_back(id), told.push_back(*log_probs);
        },
        [](std::size_t, const Generated&) {});
  const auto of_all = prompt_log_probs(*model->causal_lm(), "", {ids}, 3)[0];
  ASSERT_EQ(of_all.size() + 1, ids.size());
  Batch batch;
  batch.ids_BT = at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end())).view({1, -1});
  Doc doc;
  doc.end = static_cast<std::int32_t>(ids.size());
  batch.docs = {doc};
  const at::Tensor expected = model->causal_lm()->logits(batch)[0].to(at::kDouble).log_softmax(-1);
  for (std::size_t t = 1; t < ids.size(); ++t) {
    const at::Tensor row = expected[static_cast<std::int64_t>(t) - 1];
    const auto [values, places] = row.topk(3);
    EXPECT_NEAR(of_all[t - 1].chosen, row[ids[t]].item<double>(), 1e-5) << t;
    for (std::int64_t k = 0; k < 3; ++k) {
      EXPECT_EQ(of_all[t - 1].likeliest[k].first, places[k].item<std::int64_t>());
      EXPECT_NEAR(of_all[t - 1].likeliest[k].second, values[k].item<double>(), 1e-5);
    }
    if (t < prompt.size()) continue;
    EXPECT_NEAR(told[t - prompt.size()].chosen, of_all[t - 1].chosen, 1e-5) << t;
    EXPECT_EQ(told[t - prompt.size()].likeliest.size(), 3u);
  }
}

}  // namespace
}  // namespace hone::generate
