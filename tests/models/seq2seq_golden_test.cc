// T5, mT5, UMT5, BART, mBART, M2M-100, Pegasus and Marian against transformers: logits, losses, every gradient, ten
// AdamW steps; with kernels and without. Then what every model has to do: packing, the cache, recomputed blocks, lower
// precision, folders.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/files.h"
#include "hub/save.h"
#include "models/golden_checks.h"
#include "models/seq2seq.h"
#include "nn/kv_cache.h"

namespace hone::test {
namespace {

struct Read {
  explicit Read(const std::string& name, Precision precision = Precision::fp32)
      : golden(name, kSeq2Seq), model(golden.model(precision)), pairs(pairs_of(golden, *model->seq2seq_lm())) {}
  Batch batch(bool packed = false) const { return batch_of(pairs, packed); }
  Golden golden;
  std::unique_ptr<CausalLm> model;
  std::vector<Pair> pairs;
};

class Seq2SeqGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  ops::LevelScope scope_{GetParam().level()};
  Read read_{GetParam().name};
};

TEST_P(Seq2SeqGolden, LogitsAndLoss) {
  for (const bool packed : {false, true}) {
    const Batch batch = read_.batch(packed);
    const std::vector<Tensor> logits = of_targets(read_.model->logits(batch), batch);
    for (std::int64_t row = 0; row < std::ssize(logits); ++row) {
      const Tensor expected = read_.golden["logits"][row].slice(0, 0, logits[row].size(0));
      const Tensor learnt = at::tensor(read_.pairs[row].labels, at::kLong).ne(-100).unsqueeze(1);
      expect_close(logits[row] * learnt, expected, 1e-5 * std::max(1.0, largest(expected)), std::to_string(row));
    }
    Pass pass(batch);
    const double expected = read_.golden["loss"].item<double>();
    EXPECT_NEAR(mean_loss(*read_.model, batch, pass).item<double>(), expected, 2e-6 * std::max(1.0, expected));
  }
}

TEST_P(Seq2SeqGolden, EveryGradient) {
  const Batch batch = read_.batch();
  Pass pass(batch);
  mean_loss(*read_.model, batch, pass).backward();
  // What is added to all keys changes no weight: the gradient is a sum of large parts that is 0, but for rounding.
  expect_golden_gradients(*read_.model, read_.golden.tensors,
                          [](const std::string& name) { return name.ends_with("k_proj.bias") ? 1e-2 : 1e-3; });
}

TEST_P(Seq2SeqGolden, TenSteps) {
  const Batch batch = read_.batch();
  expect_ten_golden_steps(
      *read_.model, batch, read_.golden["ten_losses"], [&](Pass& pass) { return mean_loss(*read_.model, batch, pass); },
      /*training=*/false);
}

// transformers 5 says of a head with a weight of its own that it is tied.
TEST_P(Seq2SeqGolden, ConfigComesBackAsItWas) {
  expect_same_config(read_.golden.folder, *read_.model,
                     read_.model->head().tied() ? std::set<std::string>{"transformers_version"}
                                                : std::set<std::string>{"transformers_version", "tie_word_embeddings"});
}

// Token by token: keys and values of sources are made once, and the rows are of different lengths.
TEST_P(Seq2SeqGolden, TheCacheGivesWhatAWholePassGives) {
  const at::NoGradGuard no_graph;
  const Batch whole = read_.batch();
  const std::vector<Tensor> expected = of_targets(read_.model->logits(whole), whole);
  nn::KvCache cache(read_.model->cache_spec(), 3);
  const auto step = [&](const Batch& batch) {
    Pass pass(batch);
    pass.cache = &cache;
    return read_.model->head().logits(read_.model->forward(batch, pass).hidden_BTD, pass);
  };
  std::vector<Pair> firsts = read_.pairs;
  for (Pair& pair : firsts) pair.target.resize(1), pair.labels.resize(1);
  const Batch first = batch_of(firsts, /*packed=*/false);
  std::vector<Tensor> made = of_targets(step(first), first);
  cache.keep({2, 0, 1, 0});  // rows change their order, and one is there twice
  const std::vector<std::int64_t> rows{2, 0, 1, 0};
  for (std::size_t t = 1; t < 6; ++t) {
    Batch batch;
    batch.ids_BT = at::empty({4, 1}, at::kLong);
    for (std::size_t r = 0; r < 4; ++r) batch.ids_BT[r][0] = read_.pairs[rows[r]].target[t];
    const Tensor logits = step(batch);
    for (std::size_t r = 0; r < 4; ++r)
      expect_close(logits[r][0], expected[rows[r]][t], 2e-5 * std::max(1.0, largest(expected[rows[r]])),
                   std::to_string(r) + " at " + std::to_string(t));
  }
  for (std::int64_t row = 0; row < 3; ++row) expect_close(made[row][0], expected[row][0], 1e-5, "first");
}

INSTANTIATE_TEST_SUITE_P(Models, Seq2SeqGolden, testing::ValuesIn(golden_params(golden_names(kSeq2Seq))), print_golden);

TEST(Seq2SeqGoldens, AreThere) { EXPECT_EQ(golden_names(kSeq2Seq).size(), 11u); }

// Dropout is a function of the seed, so that blocks that are computed again drop the same.
TEST(Seq2Seq, CheckpointedBlocksGiveTheSameBits) {
  for (const std::string& name : golden_names(kSeq2Seq))
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const Read read(name, precision);
      const Gradients kept = gradients(*read.model, read.batch(), false),
                      remade = gradients(*read.model, read.batch(), true);
      ASSERT_EQ(remade.size(), kept.size());
      for (const auto& [key, expected] : kept) EXPECT_TRUE(at::equal(remade.at(key), expected)) << name << " " << key;
    }
}

TEST(Seq2Seq, DropoutIsAFunctionOfTheSeed) {
  for (const std::string& name : golden_names(kSeq2Seq)) {
    const Read read(name);
    const Batch batch = read.batch();
    const auto loss = [&](std::uint64_t seed, bool training) {
      Pass pass(batch);
      pass.training = training, pass.seed = seed;
      return mean_loss(*read.model, batch, pass).item<double>();
    };
    EXPECT_EQ(loss(1, true), loss(1, true)) << name;
    EXPECT_NE(loss(1, true), loss(2, true)) << name;
    EXPECT_NE(loss(1, true), loss(1, false)) << name;
  }
}

TEST(Seq2Seq, PackedIsPadded) {
  for (const std::string& name : golden_names(kSeq2Seq)) {
    const Read read(name);
    std::map<bool, Gradients> made;
    for (const bool packed : {false, true}) {
      const Batch batch = read.batch(packed);
      Pass pass(batch);
      mean_loss(*read.model, batch, pass).backward();
      read.model->each_weight([&](const std::string& weight, Weight& w) {
        if (!w.is_buffer()) made[packed][weight] = w.grad().clone(), w.clear_grad();
      });
    }
    for (const auto& [key, expected] : made[false])
      expect_close(made[true].at(key), expected, 2e-6 * std::max(1.0, largest(expected)), name + " " + key);
  }
}

TEST(Seq2Seq, LowerPrecisionStaysNear) {
  for (const std::string& name : golden_names(kSeq2Seq)) {
    const Read wide(name);
    const Batch batch = wide.batch();
    const Tensor expected = at::cat(of_targets(wide.model->logits(batch), batch));
    for (const auto& [precision, tolerance] : {std::pair{Precision::fp64, 1e-5}, {Precision::bf16, 0.06}}) {
      const Tensor made = at::cat(of_targets(Read(name, precision).model->logits(batch), batch));
      expect_close(made, expected, tolerance * largest(expected), name);
    }
  }
}

// Waves are not written: they follow from their places.
TEST(Seq2Seq, ExportedAndReadAgainIsTheSame) {
  const TempFolder root;
  for (const std::string& name : golden_names(kSeq2Seq)) {
    const Read read(name);
    hub::save_model_folder(root / name, *read.model, hub::model_files(*read.model, "", nullptr), {});
    auto source = read_all(read.golden.folder / "model.safetensors");
    const auto written = read_all(root / name / "model.safetensors");
    if (name == "pegasus")
      std::erase_if(source, [](auto& one) { return one.first.ends_with("embed_positions.weight"); });
    ASSERT_EQ(written.size(), source.size()) << name;
    for (const auto& [key, tensor] : source) EXPECT_TRUE(at::equal(written.at(key), tensor)) << key;
    const auto json = [](const std::filesystem::path& file) { return nlohmann::json::parse(content_of(file)); };
    auto expected = json(read.golden.folder / "config.json"), config = json(root / name / "config.json");
    for (auto* one : {&expected, &config}) one->erase("transformers_version"), one->erase("tie_word_embeddings");
    EXPECT_EQ(config.dump(1), expected.dump(1)) << name;
  }
}

TEST(Seq2Seq, WhatIsNoPairIsRefused) {
  const Read read("t5");
  Batch batch = read.batch();
  for (Doc& doc : batch.docs) doc.role = Role::none;
  try {
    read.model->logits(batch);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a model of type t5 reads sources, and the batch has none"));
  }
  batch = read.batch();
  batch.docs.erase(batch.docs.begin() + 2);
  EXPECT_THROW(read.model->logits(batch), Error);
}

}  // namespace
}  // namespace hone::test
