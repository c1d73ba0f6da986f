// What is pruned is what torch.nn.utils.prune prunes.
#include <gtest/gtest.h>

#include "callbacks/pruning_masks.h"
#include "train/support.h"

namespace hone {
namespace {

using callbacks::PruneBy;
using callbacks::PruneScope;

TEST(PruningMasks, EqualTorchs) {
  const auto golden = test::read_tensors(test::golden("train/pruning.safetensors"));
  const std::map<std::string, at::Tensor> weights{{"a", golden.at("a")}, {"b", golden.at("b")}};
  const std::vector<std::tuple<std::string, PruneBy, PruneScope>> kinds{
      {"element", PruneBy::element, PruneScope::weight},
      {"row", PruneBy::row, PruneScope::weight},
      {"column", PruneBy::column, PruneScope::weight},
      {"global", PruneBy::element, PruneScope::global}};
  for (const auto& [kind, by, scope] : kinds)
    for (const char* share : {"0.25", "0.6"}) {
      const auto masks = callbacks::make_masks(weights, {.by = by, .scope = scope}, std::stod(share));
      for (const char* name : {"a", "b"})
        EXPECT_TRUE(at::equal(masks.at(name), golden.at(kind + "." + share + "." + name)))
            << kind << " " << share << " " << name;
    }
}

TEST(PruningMasks, APatternKeepsTheLargestOfEachGroup) {
  const at::Tensor weight = at::tensor({1.0f, -4.0f, 3.0f, 2.0f, 0.0f, 0.0f, 0.0f, 0.0f}).reshape({1, 8});
  const auto stays = [&](double share) {
    const at::Tensor mask = callbacks::make_masks(
        {{"w", weight}}, {.by = PruneBy::pattern, .pattern = callbacks::PrunePattern{2, 4}}, share)["w"];
    std::string bits;
    for (int i = 0; i < 8; ++i) bits += mask[0][i].item<bool>() ? '1' : '0';
    return bits;
  };
  EXPECT_EQ(stays(0.24), "11111111");
  EXPECT_EQ(stays(0.25), "01110111");
  EXPECT_EQ(stays(0.5), "01100011");  // of equal ones the first go
  EXPECT_EQ(stays(0.9), "01100011");
}

TEST(PruningMasks, StackedWeightsArePrunedByTheirOwnRows) {
  at::Tensor weight = at::ones({2, 4, 6});
  weight[1].select(0, 2).zero_();
  const at::Tensor mask = callbacks::make_masks({{"w", weight}}, {.by = PruneBy::row}, 1.0 / 8)["w"];
  EXPECT_EQ(mask.logical_not().sum().item<std::int64_t>(), 6);
  EXPECT_FALSE(mask[1][2].any().item<bool>());
}

}  // namespace
}  // namespace hone
