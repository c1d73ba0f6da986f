// One training step.
#include "train/stepper.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/sections.h"
#include "hone/random.h"
#include "hone/registry.h"
#include "tensor/host.h"
#include "train/ranks.h"

namespace hone::training {
namespace {

bool nothing_in(const Sums& sums) {
  return std::all_of(sums.begin(), sums.end(), [](const auto& sum) { return sum.second == 0; });
}

}  // namespace

Stepper::Stepper(const Recipe& recipe, Model& model, const Loader::Options& loader,
                 std::shared_ptr<const TrainingData> data, std::int64_t steps, World world)
    : recipe_(recipe),
      model_(model),
      steps_(steps),
      world_(std::move(world)),
      objective_(make_objective(recipe)),
      resources_(objective_->needs(), recipe, model, world_),
      numbers_(recipe, *objective_, resources_, world_),
      optimizer_(registries().optimizers.make(recipe.optimizer)),
      updater_(model, *optimizer_, recipe.trainer.precision, world_, is_sharded(recipe, world_)),
      loader_(std::move(data), loader) {}

void Stepper::begin(const DocumentNumbers::Data& data) {
  numbers_.make_first(data);
  if (objective_->needs().numbers_first.empty()) resources_.load_all();
}

StepReport Stepper::step(TrainState& state) {
  StepContext context{model_, world_, resources_, state.step, state.updates, recipe_.run.seed};
  StepReport report;
  report.skipped = true;
  Group given = next_group();
  complete(given);
  for (const Group& group : objective_->prepare(std::move(given), context)) {
    const StepReport one = update(group, state);
    report.add(one);
    report.skipped &= one.skipped;
    state.updates += one.skipped ? 0 : 1;
  }
  state.step += 1;
  state.data_position = loader_.position();
  state.tokens += report.tokens;
  state.window.add(report);
  return report;
}

// As often as the rank that has most.
void Stepper::complete(Group& group) const {
  std::size_t most = group.size();
  if (resources_.is_shared_out())
    for (const std::string& one : world_.gather(std::to_string(group.size())))
      most = std::max<std::size_t>(most, std::stoul(one));
  for (std::size_t i = 0; i < most; ++i) numbers_.add_to(i < group.size() ? &group[i] : nullptr);
}

StepReport Stepper::update(const Group& group, const TrainState& state) {
  StepReport report;
  std::vector<bool> learns;  // which micro-batches have something to learn from
  std::size_t passes = 0;    // of the rank that has most
  const Sums total = amounts(group, learns, passes, report);
  report.learning_rate = optimizer_->learning_rate(state.step, steps_);
  report.skipped = total.empty();
  if (report.skipped) return report;
  const Random seeds(recipe_.run.seed, fmt::format("pass/{}", state.updates));
  std::vector<Passed> passed(group.size());
  const std::int64_t waits = host::waits();
  for (std::size_t i = 0; i < passes; ++i)
    if (i < group.size() && learns[i])
      passed[i] = backward(group[i], total, seeds.bits(number_of(i)));
    else
      updater_.idle_pass();
  report.host_waits = host::waits() - waits;
  report.micro_batches = std::count(learns.begin(), learns.end(), true);
  const std::vector<double> losses = read(passed, total, report);
  report.total(world_);
  updater_.add_over_ranks();
  report.grad_norm = updater_.gradient_norm();
  if (before_update) before_update({group, losses, report});
  updater_.update(state.updates + 1, report.learning_rate, report.grad_norm, recipe_.trainer.max_grad_norm);
  update_buffers(passed);
  return report;
}

// What terms may be divided by, of all ranks' micro-batches that have something to learn from; empty: none has.
Sums Stepper::amounts(const Group& group, std::vector<bool>& learns, std::size_t& passes, StepReport& report) const {
  const std::string amount = "amount ", tokens = "tokens", supervised = "supervised", most = "passes";
  Sums told{{tokens, 0}, {supervised, 0}, {most, static_cast<double>(group.size())}};
  for (const Batch& batch : group) {
    Sums own = objective_->sums(batch);
    told[tokens] += static_cast<double>(batch.tokens);
    told[supervised] += static_cast<double>(batch.supervised);
    learns.push_back(!nothing_in(own));
    if (!learns.back()) continue;
    add(own, amounts_of(batch));
    for (const auto& [name, value] : own) told[amount + name] += value;
  }
  Sums all, total;
  for (const Sums& one : world_.gather(told)) {
    add(all, one);
    passes = std::max(passes, static_cast<std::size_t>(one.at(most)));
  }
  report.tokens = static_cast<std::int64_t>(all.at(tokens));
  report.supervised = static_cast<std::int64_t>(all.at(supervised));
  for (const auto& [name, value] : all)
    if (name.starts_with(amount)) total[name.substr(amount.size())] = value;
  return total;
}

// The losses of the micro-batches, 0 of those that were passed over; one wait for all numbers.
std::vector<double> Stepper::read(const std::vector<Passed>& passed, const Sums& step_sums, StepReport& report) {
  std::vector<Tensor> scalars;
  for (const Passed& one : passed) {
    if (one.loss.defined()) scalars.push_back(one.loss);
    for (const LossTerm& term : one.terms.terms) scalars.push_back(term.sum);
    for (const MeasuredMean& mean : one.terms.means) scalars.insert(scalars.end(), {mean.sum, mean.weight});
  }
  const std::vector<double> numbers = host::numbers(scalars);
  std::span<const double> left = numbers;
  std::vector<double> losses;
  for (const Passed& one : passed) {
    losses.push_back(one.loss.defined() ? left[0] : 0);
    if (!one.loss.defined()) continue;
    const std::size_t terms = one.terms.terms.size(), means = 2 * one.terms.means.size();
    report.add(one.terms, left.subspan(1, terms), left.subspan(1 + terms, means), step_sums);
    left = left.subspan(1 + terms + means);
  }
  return losses;
}

Stepper::Passed Stepper::backward(const Batch& batch, const Sums& step_sums, std::uint64_t seed) {
  Pass pass(batch);
  pass.training = true;
  pass.seed = seed;
  pass.checkpoint_blocks = recipe_.trainer.checkpoint_blocks;
  const Output output = model_.forward(batch, pass);
  LossTerms result = objective_->loss(model_, output, batch, pass);
  std::move(pass.aux.begin(), pass.aux.end(), std::back_inserter(result.terms));
  result.metrics.merge(pass.metrics);
  Tensor loss;
  for (const LossTerm& term : result.terms) {
    const auto amount = step_sums.find(term.per);
    if (amount == step_sums.end())
      throw Error(ErrorKind::bug,
                  fmt::format("objective {}: the term {} is divided by \"{}\", which sums() does not count",
                              recipe_.objective.type, term.name, term.per));
    const Tensor mean = term.sum / amount->second;  // the only division there is
    loss = loss.defined() ? loss + mean : mean;
  }
  loss.backward();
  updater_.end_pass();
  for (LossTerm& term : result.terms) term.sum = term.sum.detach();
  return {loss.detach(), std::move(result), std::move(pass.observed)};
}

// In the order of the model's weights, which is the same on every rank.
void Stepper::update_buffers(const std::vector<Passed>& passed) {
  std::map<const Weight*, Tensor> observed;
  for (const Passed& one : passed)
    for (const auto& [buffer, seen] : one.observed) {
      Tensor& sum = observed[buffer];
      sum = sum.defined() ? sum + seen : seen;
    }
  Sums told;  // which of them anybody has seen
  model_.each_weight([&](const std::string& name, Weight& weight) {
    if (observed.contains(&weight)) told[name] = 1;
  });
  const Sums seen = world_.total(std::move(told));
  model_.each_weight([&](const std::string& name, Weight& weight) {
    if (!seen.contains(name)) return;
    const auto found = observed.find(&weight);
    const Tensor& like = weight.use();
    weight.update_buffer(world_.total(found == observed.end() ? at::zeros_like(like) : found->second));
  });
}

Group Stepper::next_group() {
  const sections::Timed section(sections::Section::data);
  Group group;
  const std::vector<HostBatch> all = loader_.next();
  for (auto i = static_cast<std::size_t>(world_.rank()); i < all.size(); i += static_cast<std::size_t>(world_.size()))
    group.push_back(to_batch(all[i]));
  return group;
}

}  // namespace hone::training
