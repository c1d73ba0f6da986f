// What cannot be done with a slice of each weight.
#include "train/check_tensor.h"

#include <fmt/format.h>

#include <set>

#include "base/strings.h"
#include "hone/registry.h"
#include "nn/lora_start.h"
#include "train/context.h"
#include "train/make_objective.h"
#include "train/make_optimizer.h"

namespace hone::training {
namespace {

constexpr const char* kInstead =
    "parallel.fsdp: -1 shares the weights out as well, and gathers them block by block; parallel.context beside it "
    "shares out long rows";

void require(bool fits, const std::string& option, const std::string& why, const char* instead = kInstead) {
  if (!fits) throw Error(ErrorKind::config, fmt::format("{}: not with parallel.tensor: {}", option, why)).hint(instead);
}

std::string divisors(int ranks) {
  std::vector<std::string> all;
  for (int number = 1; number <= ranks; ++number)
    if (ranks % number == 0) all.push_back(std::to_string(number));
  return join(all, ", ");
}

void check_number(const Recipe& recipe, int ranks) {
  const std::int64_t tensor = recipe.parallel.tensor, fsdp = recipe.parallel.fsdp;
  if (tensor != -1 && (tensor < 1 || ranks % tensor != 0))
    throw Error(ErrorKind::config,
                fmt::format("parallel.tensor: got {}, expected a number that divides the {} ranks: {}, or -1 for all",
                            tensor, ranks, divisors(ranks)));
  const int groups = ranks / slices_of(recipe, ranks);
  if (fsdp != -1 && fsdp != groups)
    throw Error(ErrorKind::config,
                fmt::format("parallel.fsdp: got {}, expected {} or -1: among the {} of {} ranks each slice is shared "
                            "out",
                            fsdp, groups, counted(groups, "group"), slices_of(recipe, ranks)));
}

void check_optimizer(const Recipe& recipe) {
  const auto optimizer = make_optimizer(recipe);
  const std::string name = "optimizer " + recipe.optimizer.type;
  require(optimizer->is_elementwise(), name, "it needs whole weights, which no rank has",
          "adamw, lion and others that treat elements one by one take slices; with parallel.context each rank has all "
          "weights");
  require(optimizer->curvature_every() == 0, name,
          "the model draws labels by whole rows of logits, which no rank has");
}

void check_rest(const Recipe& recipe) {
  require(recipe.model.trainable.empty(), "model.trainable", "frozen weights are not sliced");
  require(recipe.trainer.fp8 == Float8::off, "trainer.fp8", "slices would be scaled by other numbers");
  require(!recipe.trainer.qat.on(), "trainer.qat", "slices would be rounded by other numbers");
  for (const config::Choice<Evaluation>& one : recipe.metrics)
    require(one.type == "perplexity", "metrics: " + one.type, "it needs whole rows of logits, or writes texts",
            "leave it out: hone eval measures the saved checkpoints in one process");
}

}  // namespace

void check_tensor(const Recipe& recipe, int ranks) {
  if (ranks == 1 || recipe.parallel.tensor == 1) return;
  check_number(recipe, ranks);
  const auto objective = make_objective(recipe);
  require(objective->takes_tensor(), "objective " + recipe.objective.type,
          "causal_lm learns by slices of the vocabulary (but for loss_type: eaft)");
  for (const std::string& evaluation : objective->evaluations())
    require(evaluation == "perplexity", "evaluation " + evaluation, "it needs whole rows of logits, or writes texts");
  check_optimizer(recipe);
  check_rest(recipe);
}

// What a rank makes of its slice is a sum of B's and A's slices alone.
void check_sliced_adapter(const Model& model, const LoraConfig& adapter, const std::vector<std::string>& adapted) {
  require(adapter.dropout == 0, "adapter.dropout", "ranks see other parts of what is dropped");
  require(!adapter.dora, "adapter.dora", "it needs whole weights, which no rank has");
  require(!nn::lora_start(adapter.init).takes_from_weight(), "adapter.init",
          adapter.init + " needs whole weights, which no rank has");
  require(adapter.modules_to_save.empty(), "adapter.modules_to_save", "they are sliced otherwise");
  require(adapter.trainable_token_indices.empty(), "adapter.trainable_token_indices", "the table of words is sliced");
  std::set<const Weight*> in_blocks;
  for (const Block* block : model.blocks())
    block->each_weight([&](const std::string&, const Weight& weight) { in_blocks.insert(&weight); });
  const std::set<std::string> modules(adapted.begin(), adapted.end());
  model.each_weight([&](const std::string& name, const Weight& weight) {
    require(weight.held_as().type == QuantType::none, "model.quantization", "weights in fewer bits are not sliced");
    const std::string module = name.substr(0, name.rfind('.'));
    if (!modules.contains(module)) return;
    const bool expert = module.find(".experts.") != std::string::npos;
    require(in_blocks.contains(&weight) && !expert, "adapter.targets: " + module,
            expert ? "experts have none there" : "tables and heads have none there");
  });
}

}  // namespace hone::training
