// What a rank takes of memory that has its share of a model.
#include <gtest/gtest.h>

#include "train/counted.h"
#include "train/together.h"

namespace hone {
namespace {

using test::Counted;

class SharesMemory : public test::Together {
 protected:
  // Bytes of tensors at the fullest moment of a run of a deep model on so few tokens that passes take next to nothing.
  double most(int ranks, const std::string& precision, const std::string& fsdp) {
    Counted& counted = Counted::installed();
    const std::int64_t before = Counted::used;
    counted.restart();
    run(ranks, fmt::format("{}-{}-{}", ranks, precision, fsdp),
        {{"model.hidden_size", "128"}, {"model.intermediate_size", "384"}, {"model.num_hidden_layers", "40"},
         {"data.max_length", "8"}, {"trainer.batch_size", "1"}, {"trainer.accumulate", "2"}, {"trainer.steps", "2"},
         {"trainer.eval_every", "0"}, {"data.eval.held_out", "0"}, {"trainer.precision", precision},
         {"trainer.save.every", "0"}, {"parallel.fsdp", fsdp}});
    return static_cast<double>(Counted::most - before);
  }
};

// Weights, masters, moments and sums are halved; over that a rank has the blocks that it computes with.
TEST_F(SharesMemory, IsLittleMoreThanHalfOnTwoRanks) {
  for (const char* precision : {"bf16", "fp32"}) {
    SCOPED_TRACE(precision);
    const double whole = most(1, precision, "1"), shares = most(2, precision, "-1") / 2,
                 copies = most(2, precision, "1") / 2;
    std::printf("%s: %.3f of one process in shares, %.3f whole\n", precision, shares / whole, copies / whole);
    EXPECT_LE(shares, 0.55 * whole);
    EXPECT_GE(copies, 0.95 * whole);
  }
}

}  // namespace
}  // namespace hone
