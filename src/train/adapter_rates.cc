// The learning rate of tables' factors (LoRA+: Hayou et al., 2024, arXiv:2402.12354, as PEFT has it).
#include "train/adapter_rates.h"

#include <fmt/format.h>

#include <optional>

#include "base/strings.h"
#include "nn/lora.h"

namespace hone::training {
namespace {

// Nothing: it has several, or none.
std::optional<double> rate_of(const Recipe& recipe) {
  const config::Node written = write_recipe(recipe);
  const config::Node* optimizer = written.find("optimizer");
  const config::Node* rate = optimizer && optimizer->is_map() ? optimizer->find("learning_rate") : nullptr;
  return rate && rate->kind() == config::Node::Kind::scalar ? parse_double(rate->text()) : std::nullopt;
}

}  // namespace

void set_table_rates(Model& model, const Recipe& recipe) {
  const std::optional<double>& wanted = recipe.adapter.loraplus_lr_embedding;
  if (!wanted) return;
  const std::optional<double> usual = rate_of(recipe);
  if (!usual || *usual <= 0)
    throw Error(ErrorKind::config, fmt::format("adapter.loraplus_lr_embedding: optimizer {} has no learning_rate above "
                                               "0 beside which it could stand",
                                               recipe.optimizer.type))
        .hint("with optimizer groups the factors of tables can be a group of their own");
  bool any = false;
  each_adapter(model, kDefaultAdapter, [&](const std::string&, Weight& weight, Adapter& adapter) {
    auto* lora = dynamic_cast<nn::Lora*>(&adapter);  // rows that are trained themselves learn as others do, as in PEFT
    if (!lora || weight.use_as() != WeightUse::table) return;
    for (Weight* factor : {&lora->a(), &lora->b()}) factor->set_learning_rate_scale(*wanted / *usual);
    any = true;
  });
  if (!any)
    throw Error(ErrorKind::config, "adapter.loraplus_lr_embedding: no table has an adapter")
        .hint("adapter.targets: [all-linear, embed_tokens] gives it one");
}

}  // namespace hone::training
