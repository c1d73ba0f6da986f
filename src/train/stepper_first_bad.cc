// Looking for the first tensor that is not finite: the step's forward passes once more, then its gradients.
#include "train/stepper.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "nn/finite.h"
#include "ops/finite.h"

namespace hone::training {
namespace {

bool is_bad(const Tensor& tensor) { return tensor.defined() && !ops::all_finite(tensor); }

nlohmann::json told(const BadTensor& bad) {
  return {{"what", bad.what}, {"name", bad.name}, {"micro_batch", bad.micro_batch}, {"rank", bad.rank}};
}

// Of what all ranks have found the one in the earliest micro-batch.
BadTensor earliest(const BadTensor& own, const World& world) {
  BadTensor first;
  for (const std::string& text : world.gather(told(own).dump())) {
    const nlohmann::json one = nlohmann::json::parse(text);
    const BadTensor bad{one.at("what"), one.at("name"), one.at("micro_batch"), one.at("rank")};
    if (!bad.what.empty() && (first.what.empty() || bad.micro_batch < first.micro_batch)) first = bad;
  }
  return first;
}

}  // namespace

std::string BadTensor::text() const {
  if (what.empty()) return "none";
  std::string text = what + " " + name;
  if (micro_batch >= 0) text += fmt::format(", micro-batch {}", micro_batch);
  if (rank >= 0) text += fmt::format(", on rank {}", rank);
  return text;
}

// Values are looked at in the order in which layers hand them out.
BadTensor Stepper::first_bad_value(const Batch& batch, std::uint64_t seed) const {
  Pass pass(batch);
  make_training(pass, recipe_.trainer);
  pass.checkpoint_blocks = false;  // what is between blocks is looked at
  pass.seed = seed;
  std::vector<std::string> order;
  pass.wanted = [&](const std::string& name) { return order.push_back(name), true; };
  const Output output = model_.forward(batch, pass);
  LossTerms terms = objective_->loss(model_, output, batch, pass);  // whatever is bad: ranks may compute it together
  if (Pass again(batch); !frame_.updater().sharded() && is_bad(model_.embed(batch, again)))
    return {"value", "embedding"};
  for (const std::string& name : order)
    if (is_bad(pass.sown.at(name))) return {"value", name};
  if (is_bad(output.hidden_BTD)) return {"value", "hidden"};
  std::move(pass.aux.begin(), pass.aux.end(), std::back_inserter(terms.terms));
  for (const LossTerm& term : terms.terms)
    if (is_bad(term.sum)) return {"loss", term.name};
  return {};
}

BadTensor Stepper::first_bad(const Group& group, const Passes& passes, const SeedOf& seed_of) {
  const c10::NoGradGuard no_grad;
  if (!frame_.updater().sharded())
    if (const std::string weight = nn::first_not_finite(model_); !weight.empty()) return {"weight", weight};
  if (by_pass_)
    for (const auto& [role, folder] : objective_->needs().models)
      if (const std::string weight = nn::first_not_finite(resources_.model(role).model); !weight.empty())
        return {"weight of the " + role, weight};
  BadTensor own;
  for (std::size_t i = 0; i < passes.count; ++i) {  // all of them, as other ranks may wait for this one in each
    if (i >= passes.learns.size() || !passes.learns[i]) {
      frame_.updater().idle_forward();
      continue;
    }
    const BadTensor found = first_bad_value(completed(group[i]), seed_of(i));
    if (!own.what.empty() || found.what.empty()) continue;
    own = found;
    own.micro_batch = static_cast<std::int64_t>(number_of(i, passes));
    own.rank = world_.size() > 1 ? world_.rank() : -1;
  }
  if (const BadTensor first = earliest(own, world_); !first.what.empty()) return first;
  const std::set<std::string> bad = frame_.updater().bad_gradients();
  BadTensor last;
  model_.each_with_adapters([&](const std::string& name, Weight&) {
    if (bad.contains(name)) last = {"gradient", name};
  });
  return last;
}

}  // namespace hone::training
