// Runs of a model with memories: what must hold of them, on one rank and on two, alone and with an adapter.
#include "train/together.h"

namespace hone {
namespace {

class XLstmRuns : public test::Together {
 protected:
  static test::Overrides xlstm(const test::Overrides& more = {}) {
    test::Overrides all{{"model", "{type: xlstm, hidden_size: 32, num_hidden_layers: 3, num_heads: 2}"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(XLstmRuns, HowAStepIsCutChangesNothing) {
  run(1, "one", xlstm());
  run(1, "whole", xlstm({{"trainer.batch_size", "8"}, {"trainer.accumulate", "1"}}));
  run(2, "two", xlstm());
  run(2, "shares", xlstm({{"parallel.fsdp", "-1"}}));
  run(1, "checkpointed", xlstm({{"trainer.checkpoint_blocks", "true"}}));
  for (const char* other : {"whole", "two", "shares", "checkpointed"}) expect_close(in("one"), in(other), 1e-10);
}

TEST_F(XLstmRuns, GoOnToTheSameBits) {
  for (const char* precision : {"fp32", "bf16"}) {
    const test::Overrides all = xlstm({{"trainer.precision", precision}, {"data.packing", "best_fit"}});
    const std::string straight = std::string("straight-") + precision, broken = std::string("broken-") + precision;
    run(1, straight, all);
    run(1, broken, all);
    TrainOptions options;
    options.resume = "4";
    run(1, broken, all, options);
    test::expect_equal_runs(in(straight), in(broken), 8);
  }
}

TEST_F(XLstmRuns, AnAdapterLearnsBesideEveryProduct) {
  run(1, "base", xlstm());
  const test::Overrides lora{{"model", "{path: " + (in("base") / test::step_folder(8)).string() + "}"},
                             {"adapter", "{type: lora, rank: 4, targets: [all-linear]}"},
                             {"trainer.precision", "fp32"}};
  run(1, "lora", lora);
  const auto made = test::read_tensors(in("lora") / test::step_folder(8) / "adapter_model.safetensors");
  EXPECT_EQ(made.size(), 3u * 10 * 2);  // blocks, products, matrices
  for (const auto& [name, value] : made) EXPECT_TRUE(value.isfinite().all().item<bool>()) << name;
}

}  // namespace
}  // namespace hone
