// A reference that follows the model. Against TRL's trainers it is in dpo_variants_test.cc and policy_golden_test.cc;
// here is what is mixed, what a checkpoint keeps of it, and where it cannot be.
#include <gmock/gmock.h>

#include "train/pair_runs.h"
#include "train/together.h"

namespace hone {
namespace {

constexpr const char* kKeptOfFollowers = "state/following.safetensors";

class FollowingRuns : public test::PairRuns {
 protected:
  static std::filesystem::path kept(const std::filesystem::path& run, std::int64_t step) {
    return run / test::step_folder(step) / kKeptOfFollowers;
  }
};

TEST_F(FollowingRuns, KtoEqualsTrl) {
  objective_ = "type: kto, beta: 0.2";
  const nlohmann::json golden = test::read_json(test::golden("train/kto/moving.json"));
  for (const auto& [name, made] : golden["runs"].items()) {
    SCOPED_TRACE(name);
    test::Overrides more{{"data.train", test::golden("train/kto/answers.jsonl").string()}, {"trainer.steps", "10"}};
    for (const auto& [option, value] : made["options"].items())
      more.emplace_back("objective." + option, value.is_string() ? value.get<std::string>() : value.dump());
    nlohmann::json history = made["history"];
    if (name == "unpaired") history.erase("kl");  // TRL logs 0 of what it does not ask
    expect_history(run(name, more), history);
  }
}

// The masters, not what they are rounded to: with a share this small bf16 would stay where it is.
TEST_F(FollowingRuns, MastersAreMixed) {
  for (const std::string precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    const auto made = run(precision,
                          {{"trainer.precision", precision},
                           {"trainer.steps", "3"},
                           {"trainer.save.every", "1"},
                           {"trainer.save.keep", "0"}},
                          "reference_sync_steps: 1, reference_mixup_alpha: 0.001");
    std::map<std::string, Tensor> reference = test::read_tensors(test::golden("train/dpo") / "model.safetensors");
    for (std::int64_t step = 1; step <= 3; ++step) {
      const auto model =
          test::read_tensors(made / test::step_folder(step) / "model.safetensors");  // as exact as masters
      const auto saved = test::read_tensors(kept(made, step));
      ASSERT_EQ(saved.size(), model.size());
      for (auto& [name, value] : reference) {
        value = value.mul(1 - 0.001).add(model.at(name), 0.001);
        EXPECT_TRUE(at::equal(saved.at("reference." + name), value)) << name << ", step " << step;
      }
    }
  }
}

TEST_F(FollowingRuns, BeforeItMovesItIsTheUsualReference) {
  const std::string fresh =
      "{type: llama, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, "
      "num_attention_heads: 4, max_position_embeddings: 256}";
  for (const std::string precision : {"fp32", "bf16"})
    for (const std::string& model : {test::golden("train/dpo").string(), fresh}) {
      SCOPED_TRACE(precision + model);
      const test::Overrides few{{"trainer.precision", precision}, {"trainer.steps", "5"}, {"model", model}};
      const std::string name = precision + std::to_string(model.size());
      EXPECT_EQ(values(run(name, few, "reference_sync_steps: 100"), "loss"), values(run("plain" + name, few), "loss"));
    }
}

TEST_F(FollowingRuns, GoOnBitForBit) {
  for (const std::string precision : {"fp32", "bf16"})
    for (const std::string& reference : {std::string(), ", reference: " + test::golden("train/dpo").string()}) {
      SCOPED_TRACE(precision + reference);
      const std::string name = precision + std::to_string(reference.size()),
                        objective = "reference_sync_steps: 4" + reference;
      const test::Overrides saves{{"trainer.precision", precision},
                                  {"trainer.save.every", "1"},
                                  {"trainer.save.keep", "0"},
                                  {"trainer.steps", "12"}};
      const auto whole = run(name + "-whole", saves, objective);
      EXPECT_FALSE(std::filesystem::exists(kept(whole, 3)));  // it is as the run began with it
      for (const char* step : {"3", "6", "8"}) {
        const auto parts = run(name + "-parts" + step, saves, objective);
        TrainOptions back = test::quiet_options();
        back.resume = step;
        run(name + "-parts" + step, saves, objective, back);
        test::expect_equal_runs(whole, parts, 12);
        EXPECT_EQ(test::read_text(kept(whole, 12)), test::read_text(kept(parts, 12)));
      }
    }
}

// What is on its way into a checkpoint stays as it was.
TEST_F(FollowingRuns, SavedBesideTheyAreTheSame) {
  const test::Overrides saves{{"trainer.save.every", "2"}, {"trainer.save.keep", "0"}, {"trainer.steps", "6"}};
  test::Overrides beside = saves;
  beside.emplace_back("trainer.save.asynchronous", "true");
  const auto one = run("one", saves, "reference_sync_steps: 1"),
             other = run("other", beside, "reference_sync_steps: 1");
  for (const std::int64_t step : {2, 4, 6}) {
    EXPECT_FALSE(test::read_text(kept(one, step)).empty());
    EXPECT_EQ(test::read_text(kept(one, step)), test::read_text(kept(other, step))) << step;
  }
}

TEST_F(FollowingRuns, ACheckpointWithoutPartOfThemIsRefused) {
  const test::Overrides saves{{"trainer.save.every", "2"}, {"trainer.steps", "4"}};
  const auto made = run("a", saves, "reference_sync_steps: 2");
  TrainOptions back = test::quiet_options();
  back.resume = "2";
  test::TempFolder other;
  std::filesystem::remove(kept(made, 2));
  EXPECT_HONE_ERROR(run("a", saves, "reference_sync_steps: 2", back), checkpoint, "following.safetensors");
}

// Where the first one has come to is nothing to it.
TEST_F(FollowingRuns, AnotherReferenceBeginsAnewAtAResume) {
  const test::Overrides saves{{"trainer.save.every", "2"}, {"trainer.save.keep", "0"}, {"trainer.steps", "4"}};
  const auto other = run("other", {{"trainer.steps", "1"}, {"optimizer.schedule.warmup_steps", "0"}});
  const auto made = run("a", saves, "reference_sync_steps: 2");
  TrainOptions back = test::quiet_options();
  back.resume = "2", back.override_keys = {"objective.reference"};
  run("a", saves, "reference_sync_steps: 2, reference: " + other.string(), back);
  const auto reference = test::read_tensors(other / test::step_folder(1) / "model.safetensors"),
             model = test::read_tensors(made / test::step_folder(4) / "model.safetensors"),
             saved = test::read_tensors(kept(made, 4));
  for (const auto& [name, value] : reference)
    EXPECT_TRUE(at::equal(saved.at("reference." + name), value.mul(1 - 0.6).add(model.at(name), 0.6))) << name;
}

TEST_F(FollowingRuns, WhereNoneCanBeIsRefused) {
  const auto refused = [&](const std::string& objective, const std::string& why, const test::Overrides& more = {}) {
    EXPECT_HONE_ERROR(run("a", more, objective), config, why);
  };
  refused("reference_sync_steps: 2, precompute_reference: true", "not together with precompute_reference");
  refused("reference_sync_steps: 2, reference_free: true", "reference_sync_steps: not together with reference_free");
  refused("reference_mixup_alpha: 0.5", "only with reference_sync_steps above 0");
  refused("reference_sync_steps: 2, reference_mixup_alpha: 0", "reference_mixup_alpha: got 0");
  refused("reference_sync_steps: 2", "not with an adapter: the reference follows whole weights",
          {{"adapter", "{type: lora}"}});
  const std::string half =
      "{path: " + test::golden("train/dpo").string() + ", num_hidden_layers: 1, load: {strict: false}}";
  const auto smaller = run("half", {{"model", half}, {"trainer.steps", "1"}, {"optimizer.schedule.warmup_steps", "0"}});
  refused("reference_sync_steps: 2, reference: " + smaller.string(), "objective.reference_sync_steps: model.layers.1.");
  objective_ = "type: kto, loss_type: apo_zero_unpaired";
  refused("reference_sync_steps: 2, precompute_reference: true", "not together with precompute_reference");
  objective_ = "type: grpo, rewards: [{type: format, pattern: x}]";
  refused("reference_sync_steps: 2", "reference_sync_steps: only with beta above 0");
}

using FollowingTogether = test::Together;

TEST_F(FollowingTogether, RanksMixTheSame) {
  const std::string base = test::golden("train/dpo").string();
  const test::Overrides pairs{{"data.train", base + "/pairs.jsonl"},
                              {"data.max_length", "256"},
                              {"model", base},
                              {"tokenizer", "bytes"},
                              {"objective", "{type: dpo, reference_sync_steps: 3}"},
                              {"trainer.save.every", "2"}};
  run(1, "one", pairs), run(2, "two", pairs);
  expect_close(in("one"), in("two"), 1e-10);
  const auto one = test::read_tensors(in("one") / test::step_folder(8) / kKeptOfFollowers),
             two = test::read_tensors(in("two") / test::step_folder(8) / kKeptOfFollowers);
  ASSERT_FALSE(one.empty());
  for (const auto& [name, value] : one) EXPECT_TRUE(at::allclose(value, two.at(name), 0, 1e-10)) << name;
  test::Overrides shares = pairs;
  shares.emplace_back("parallel.fsdp", "-1");
  EXPECT_THAT(fails(2, shares, ErrorKind::config),
              ::testing::HasSubstr("objective.reference_sync_steps: the reference follows whole weights"));
}

}  // namespace
}  // namespace hone
