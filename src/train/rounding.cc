// Rounding in training.
#include "train/rounding.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "nn/fake_quantize.h"
#include "train/make_objective.h"

namespace hone {

void QatSection::validate(Problems& problems) const {
  const QatSection usual;
  const bool others = activation_dtype != Grid::none || group_size != usual.group_size ||
                      fake_quant_after_n_steps != usual.fake_quant_after_n_steps;
  problems.require(on() || !others, "weight_dtype", "missing: int4, int8 or float8");
  problems.require(activation_dtype != Grid::int4, "activation_dtype", "got int4, expected int8 or float8");
  problems.require(weight_dtype != Grid::int8 || activation_dtype != Grid::float8, "activation_dtype",
                   "got float8, expected int8, as weight_dtype is");
  problems.require(weight_dtype != Grid::float8 || activation_dtype != Grid::int8, "activation_dtype",
                   "got int8, expected float8, as weight_dtype is");
  problems.require(weight_dtype != Grid::float8 || group_size == usual.group_size, "group_size",
                   "not with weight_dtype float8, which has a scale for each output");
}

}  // namespace hone

namespace hone::training {

void round_weights(Model& model, const Recipe& recipe, std::int64_t steps_done) {
  const QatSection& qat = recipe.trainer.qat;
  if (qat.on())
    during("choosing what trainer.qat rounds", [&] {
      nn::fake_quantize(model, steps_done < qat.fake_quant_after_n_steps ? FakeQuantized() : qat.grids());
    });
}

void round_weights(Model& model, const Recipe& recipe) {
  round_weights(model, recipe, recipe.trainer.qat.fake_quant_after_n_steps);
}

std::string rounding_line(const Recipe& recipe, Model& model) {
  const QatSection& qat = recipe.trainer.qat;
  const auto name = [](Grid grid) { return config::Values<Grid>::write(grid).text(); };
  std::int64_t count = 0;
  nn::each_linear_weight_in_blocks(model, [&](const std::string&, const Weight&) { ++count; });
  std::string made = fmt::format("weights of {} rounded to {}", counted(count, "linear layer"), name(qat.weight_dtype));
  if (const std::int64_t group = qat.grids().group_size; group > 0) made += fmt::format(" by groups of {}", group);
  if (qat.activation_dtype != Grid::none) made += ", what goes into them to " + name(qat.activation_dtype);
  if (qat.fake_quant_after_n_steps > 0) made += fmt::format(", after step {}", qat.fake_quant_after_n_steps);
  return made;
}

void check_rounding(const Recipe& recipe, Problems& problems) {
  if (!recipe.trainer.qat.on()) return;
  const auto refuse = [&](bool fits, const std::string& fact) { problems.require(fits, "trainer.qat", fact); };
  refuse(recipe.adapter.type.empty(), "not with an adapter, below which the weights stay as they are");
  refuse(recipe.parallel.fsdp == 1, "not with parallel.fsdp: each rank would hold the rounded weights of all blocks");
  refuse(recipe.trainer.fp8 == Float8::off, "not with trainer.fp8, which rounds the same products in another way");
  refuse(make_objective(recipe)->needs().answers == 0,
         fmt::format("not with objective {}, which draws its answers: each token would round all weights anew",
                     recipe.objective.type));
}

}  // namespace hone::training
