// Whole runs of ranks that each have a slice of the weights: evaluations, checkpoints that go on with other slices, and
// what is refused before any work.
#include <gmock/gmock.h>

#include "train/counted.h"
#include "train/rank_runs.h"
#include "train/together.h"

namespace hone {
namespace {

constexpr const char* kGrouped =
    "{type: llama, hidden_size: 32, intermediate_size: 50, num_hidden_layers: 2, num_attention_heads: 4, "
    "num_key_value_heads: 2, max_position_embeddings: 256}";

class TensorRuns : public test::Together {
 protected:
  test::Overrides sliced(int tensor, int fsdp, test::Overrides made = {}) {
    made.insert(made.begin(), {"model", kGrouped});
    made.insert(made.end(), {{"parallel.tensor", std::to_string(tensor)}, {"parallel.fsdp", std::to_string(fsdp)}});
    return made;
  }
  std::string refused(int ranks, const test::Overrides& more, int tensor = 2) {
    return fails(ranks, sliced(tensor, -1, more), ErrorKind::config);
  }
};

TEST_F(TensorRuns, ARunIsWhatOneProcessMakes) {
  const test::Overrides more{{"callbacks", "[{type: intermediates, match: 'layers\\.1\\.(output|attention)'}]"},
                             {"objective", "{type: causal_lm, metrics: [accuracy, perplexity, weight_sum]}"}};
  run(1, "one", sliced(1, 1, more));
  for (const auto& [ranks, tensor] : {std::pair{2, 2}, {4, 2}, {4, 4}}) {
    const std::string name = fmt::format("{}-{}", ranks, tensor);
    SCOPED_TRACE(name);
    run(ranks, name, sliced(tensor, -1, more));
    expect_close(in("one"), in(name), 1e-6);  // intermediates are added up in fp32
    expect_close_weights(in("one"), in(name), 8, 1e-10);
  }
}

// Saved by two times two, and gone on with by others, with slices, shares and whole.
TEST_F(TensorRuns, GoesOnWithAnyNumberOfRanksAndAnySlices) {
  const test::Overrides all{{"trainer.batch_size", "2"}, {"trainer.accumulate", "4"}, {"trainer.save.every", "3"}};
  run(1, "straight", sliced(1, 1, all));
  run(4, "broken", sliced(2, -1, all));
  TrainOptions options;
  options.resume = "3";
  for (const auto& [ranks, tensor, fsdp] :
       {std::tuple{1, 1, 1}, {2, 2, 1}, {2, 1, -1}, {4, 4, 1}, {2, 1, 1}, {4, 2, -1}}) {
    SCOPED_TRACE(fmt::format("{} ranks, tensor {}, fsdp {}", ranks, tensor, fsdp));
    EXPECT_EQ(run(ranks, "broken", sliced(tensor, fsdp, all), options).resumed_from, 3);
    expect_close(in("straight"), in("broken"), 1e-11);
    expect_close_weights(in("straight"), in("broken"), 8, 1e-10);
  }
}

TEST_F(TensorRuns, ABrokenRunOfTheSameRanksHasTheSameBits) {
  const test::Overrides bf16{{"trainer.precision", "bf16"}, {"trainer.save.every", "3"}, {"trainer.ema", "0.9"}};
  for (const auto& [ranks, tensor] : {std::pair{4, 2}, {2, 2}}) {
    const std::string straight = fmt::format("straight-{}", ranks), broken = fmt::format("broken-{}", ranks);
    run(ranks, straight, sliced(tensor, -1, bf16));
    run(ranks, broken, sliced(tensor, -1, bf16));
    TrainOptions options;
    options.resume = "6";
    run(ranks, broken, sliced(tensor, -1, bf16), options);
    test::expect_equal_runs(in(straight), in(broken), 8);
  }
}

// Its factors are whole, and each rank has a share of what the optimizer keeps of them.
TEST_F(TensorRuns, AnAdaptersFileIsThatOfOneProcess) {
  const auto saved_by = [&](int ranks, const std::string& name, const test::Overrides& parallel) {
    test::Overrides all{{"model", test::golden("train/dpo").string()}, {"tokenizer", "bytes"},
                        {"adapter", "{type: lora, rank: 4, targets: all-linear}"}};
    all.insert(all.end(), parallel.begin(), parallel.end());
    run(ranks, name, all);
    return test::read_tensors(in(name) / test::step_folder(8) / "adapter_model.safetensors");
  };
  const auto one = saved_by(1, "one", {});
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const auto many = saved_by(ranks, std::to_string(ranks), {{"parallel.tensor", "2"}, {"parallel.fsdp", "-1"}});
    ASSERT_EQ(one.size(), many.size());
    for (const auto& [name, value] : one)
      EXPECT_LT((value - many.at(name)).abs().max().item<double>(), 1e-10) << name;
  }
}

// A deep model on so few tokens that passes take next to nothing. While ranks save, what each writes of the tensors
// that are sliced by columns, a third of this model, is there beside: without the optimizer's state that is little.
TEST_F(TensorRuns, ARankHasLittleMoreThanHalfOfAModel) {
  const auto most = [&](int ranks, int tensor, const std::string& precision, const std::string& with_optimizer) {
    test::Counted& counted = test::Counted::installed();
    const std::int64_t before = test::Counted::used;
    counted.restart();
    run(ranks, fmt::format("{}-{}-{}", ranks, precision, with_optimizer),
        {{"model.hidden_size", "128"}, {"model.intermediate_size", "384"}, {"model.num_hidden_layers", "40"},
         {"data.max_length", "8"}, {"trainer.batch_size", "1"}, {"trainer.accumulate", "2"}, {"trainer.steps", "2"},
         {"trainer.eval_every", "0"}, {"data.eval.held_out", "0"}, {"trainer.precision", precision},
         {"trainer.save.every", "0"}, {"trainer.save.optimizer", with_optimizer},
         {"parallel.tensor", std::to_string(tensor)}});
    return static_cast<double>(test::Counted::most - before);
  };
  for (const char* precision : {"bf16", "fp32"}) {
    SCOPED_TRACE(precision);
    const double whole = most(1, 1, precision, "true"), slices = most(2, 2, precision, "false") / 2,
                 saving = most(2, 2, precision, "true") / 2;
    std::printf("%s: %.3f of one process in slices, %.3f while they save all\n", precision, slices / whole,
                saving / whole);
    EXPECT_LE(slices, 0.57 * whole);
    EXPECT_LE(saving, 0.66 * whole);
  }
}

// Values that are bad on one rank alone as on all of them: nobody waits for who has found something.
TEST_F(TensorRuns, WhatIsNotFiniteStopsAllOfThem) {
  const std::string why = fails(2, sliced(2, 1, {{"optimizer.learning_rate", "1e300"}, {"trainer.precision", "fp32"}}),
                                ErrorKind::not_finite);
  EXPECT_THAT(why, testing::HasSubstr("not finite"));
}

TEST_F(TensorRuns, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(fails(2, sliced(2, 2), ErrorKind::config),
              testing::HasSubstr("parallel.fsdp: got 2, expected 1 or -1: among the 1 group of 2 ranks"));
  EXPECT_THAT(refused(2, {}, 3),
              testing::HasSubstr("parallel.tensor: got 3, expected a number that divides the 2 ranks: 1, 2"));
  EXPECT_THAT(fails(4, sliced(2, 1), ErrorKind::config),
              testing::HasSubstr("parallel.fsdp: got 1, expected 2 or -1: among the 2 groups of 2 ranks"));
  EXPECT_THAT(refused(2, {{"objective", "{type: dpo}"}}),
              testing::HasSubstr("objective dpo: not with parallel.tensor"));
  EXPECT_THAT(refused(2, {{"objective", "{type: distillation, teacher_logprobs: true}"}}),
              testing::HasSubstr("objective distillation: not with parallel.tensor"));
  EXPECT_THAT(refused(2, {{"objective", "{type: causal_lm, loss_type: eaft}"}}),
              testing::HasSubstr("objective causal_lm: not with parallel.tensor"));
  EXPECT_THAT(refused(2, {{"optimizer", "{type: muon}"}}),
              testing::HasSubstr("optimizer muon: not with parallel.tensor"));
  EXPECT_THAT(refused(2, {{"optimizer", "{type: sophia}"}}),
              testing::HasSubstr("optimizer sophia: not with parallel.tensor: the model draws labels"));
  EXPECT_THAT(refused(2, {{"model.trainable", "[layers]"}}),
              testing::HasSubstr("model.trainable: not with parallel.tensor"));
  EXPECT_THAT(refused(2, {{"callbacks", "[{type: samples, every: 1, prompts: [a]}]"}}),
              testing::HasSubstr("callbacks: samples: not with parallel.fsdp or parallel.tensor"));
  EXPECT_THAT(fails(2, sliced(2, 1, {{"metrics", "[bleu]"}}), ErrorKind::config),
              testing::HasSubstr("metrics: bleu: not with parallel.tensor"));
  EXPECT_THAT(refused(2, {{"model.num_attention_heads", "9"}, {"model.hidden_size", "36"},
                          {"model.num_key_value_heads", "3"}}),
              testing::HasSubstr("parallel.tensor: got 2 ranks, among which 9 and 3 heads or channels cannot be"));
  EXPECT_THAT(fails(2, {{"parallel.tensor", "2"}, {"model", "{type: gpt2, n_embd: 32, n_layer: 2, n_head: 4}"}},
                    ErrorKind::config),
              testing::HasSubstr("parallel.tensor: ranks cannot compute layers together by a model of type gpt2"));
  EXPECT_THAT(fails(2, {{"parallel.tensor", "2"},
                        {"model", "{type: olmo2, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
                                  "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 256}"}},
                    ErrorKind::config),
              testing::HasSubstr("parallel.tensor: ranks cannot compute layers together by a model of type olmo2"));
}

// Each by its own reason: what ranks with slices would make of it is not what one process makes.
TEST_F(TensorRuns, WhatWouldBeOfSlicesAloneIsRefused) {
  const auto refused_of = [&](const test::Overrides& more) {
    test::Overrides all{{"model", test::golden("train/dpo").string()}, {"tokenizer", "bytes"},
                        {"parallel.tensor", "2"}, {"trainer.precision", "bf16"}};
    all.insert(all.end(), more.begin(), more.end());
    return fails(2, all, ErrorKind::config);
  };
  for (const auto& [adapter, option] :
       {std::pair{"dropout: 0.1", "adapter.dropout"}, {"dora: true", "adapter.dora"}, {"init: pissa", "adapter.init"},
        {"modules_to_save: [lm_head]", "adapter.modules_to_save"},
        {"trainable_token_indices: [e]", "adapter.trainable_token_indices"},
        {"targets: [q_proj, embed_tokens]", "adapter.targets: model.embed_tokens"}})
    EXPECT_THAT(refused_of({{"adapter", fmt::format("{{type: lora, rank: 4, {}}}", adapter)}}),
                testing::HasSubstr(std::string(option) + ": not with parallel.tensor"));
  run(1, "routed", {{"model", test::kRouted}});
  EXPECT_THAT(refused_of({{"model", in("routed").string()},
                          {"adapter", "{type: lora, rank: 4, targets: [down_proj]}"}}),
              testing::AllOf(testing::HasSubstr(".experts."), testing::HasSubstr(": not with parallel.tensor")));
  EXPECT_THAT(refused_of({{"adapter", "{type: lora, rank: 4}"}, {"model.quantization", "nf4"}}),
              testing::HasSubstr("model.quantization: not with parallel.tensor"));
  EXPECT_THAT(refused_of({{"trainer.fp8", "tensorwise"}}),
              testing::HasSubstr("trainer.fp8: not with parallel.tensor"));
  EXPECT_THAT(refused_of({{"trainer.qat.weight_dtype", "int4"}}),
              testing::HasSubstr("trainer.qat: not with parallel.tensor"));
}

}  // namespace
}  // namespace hone
