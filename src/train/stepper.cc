// One training step.
#include "train/stepper.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/sections.h"
#include "base/spans.h"
#include "hone/random.h"
#include "hone/registry.h"
#include "tensor/host.h"
#include "train/make_optimizer.h"
#include "train/ranks.h"
#include "train/spikes.h"

namespace hone::training {
namespace {

// Of each its mean and its root mean square, over all elements that a step has of it; of a scalar its mean.
void add_intermediates(const Pass& pass, LossTerms& into) {
  for (const auto& [name, value] : pass.sown) {
    const Tensor wide = value.to(at::kFloat),
                 count = at::scalar_tensor(static_cast<double>(value.numel()), wide.options());
    into.means.push_back({name, wide.sum(), count});
    if (value.numel() > 1) into.means.push_back({name + "_rms", at::sqrt(wide.square().mean()) * count, count});
  }
}

bool nothing_in(const Sums& sums) {
  return std::all_of(sums.begin(), sums.end(), [](const auto& sum) { return sum.second == 0; });
}

}  // namespace

Stepper::Stepper(const Recipe& recipe, Frame& frame, const Loader::Options& loader,
                 std::shared_ptr<const TrainingData> data, World world)
    : recipe_(recipe),
      frame_(frame),
      model_(*frame.model),
      world_(std::move(world)),
      objective_(make_objective(recipe)),
      resources_(objective_->needs(), recipe, model_, world_),
      numbers_(recipe, *objective_, resources_, world_),
      trained_(recipe.model.trainable, model_, frame.steps),
      sizes_(loader.batch_size, loader.accumulate, loader.warmup),
      longest_(loader.longest),
      loader_(std::move(data), loader) {
  if (frame_.optimizer().curvature_every() > 0 && !objective_->draws_labels())
    throw Error(ErrorKind::config,
                fmt::format("optimizer {}: its estimate of the curvature needs labels that the model can draw, which "
                            "objective {} has not",
                            recipe.optimizer.type, recipe.objective.type))
        .hint("take objective causal_lm, or optimizer adamw");
}

void Stepper::begin(const DocumentNumbers::Data& data) {
  numbers_.make_first(data);
  if (objective_->needs().numbers_first.empty()) resources_.load_all();
}

StepReport Stepper::step(const std::function<StepReport(const Group&)>& otherwise) {
  RunState& state = frame_.run;
  const std::int64_t done = state.step;
  Group group = next_group();
  complete(group);
  choose_trained();
  StepReport report = otherwise ? otherwise(group) : make(std::move(group));
  measure_size(done, report);
  state.step = done + 1;
  state.data_position = loader_.position();
  state.tokens += report.tokens;
  state.window.add(report);
  if (state.report) state.report->add(report);
  return report;
}

StepReport Stepper::make(Group given) {
  RunState& state = frame_.run;
  StepContext context{model_, world_, resources_, state.step, state.updates, recipe_.run.seed};
  StepReport report;
  report.skipped = true;
  for (const Group& group : objective_->prepare(std::move(given), context)) {
    const StepReport one = update(group);
    report.add(one);
    report.skipped &= one.skipped;
    state.spikes += one.spikes;
    state.not_finite += one.not_finite;
    if (!one.left_out()) updated();
  }
  return report;
}

// With how many updates they have had.
void Stepper::choose_trained() {
  RunState& state = frame_.run;
  trained_.begin_step(state.step, state.updates, state.trained_updates, frame_.updater());
}

void Stepper::updated() {
  trained_.count(frame_.run.step, frame_.run.trained_updates);
  choose_trained();
}

void Stepper::measure_size(std::int64_t step, StepReport& report) const {
  const auto last = [&](const char* name, std::int64_t value) {
    report.metrics[name] = {static_cast<double>(value), 1, LogMode::last};
  };
  if (!recipe_.trainer.batch_warmup.empty()) last("batch_rows", sizes_.at(step).rows());
  if (!trained_.empty()) last("trained_parameters", trained_.parameters(step));
  if (longest_) last("document_length", longest_(step));
}

// As often as the rank that has most.
void Stepper::complete(Group& group) const {
  std::size_t most = group.size();
  if (resources_.is_shared_out())
    for (const std::string& one : world_.gather(std::to_string(group.size())))
      most = std::max<std::size_t>(most, std::stoul(one));
  for (std::size_t i = 0; i < most; ++i) numbers_.add_to(i < group.size() ? &group[i] : nullptr);
}

StepReport Stepper::update(const Group& given) {
  RunState& state = frame_.run;
  StepReport report;
  Passes passes;
  const Sums total = amounts(given, passes, report);
  report.learning_rate = frame_.learning_rate();
  report.skipped = total.empty();
  if (report.skipped) return report;
  Group group;  // where the model is; what was to be counted has been counted on the host
  for (const Batch& batch : given) group.push_back(batch.to(model_.device()));
  const SeedOf seed_of = [&](std::size_t i) { return pass_seed(recipe_.run.seed, state.updates, number_of(i)); };
  std::vector<Passed> passed(group.size());
  const std::int64_t waits = host::waits();
  each_pass(passes, [&](std::size_t i) { passed[i] = backward(group[i], total, seed_of(i)); });
  report.host_waits = host::waits() - waits;
  report.micro_batches = std::count(passes.learns.begin(), passes.learns.end(), true);
  const std::vector<double> losses = measure(passed, total, report);
  {
    const spans::Span span("ranks");
    report.grad_norm = frame_.gradient_norm();  // first: some of the sums are on their way
    report.total(world_);
    objective_->measure_step(total, report.metrics);
  }
  if (overflows(report)) {
    report.overflows = 1;
    frame_.leave_out();
    return report;
  }
  if (!hooks.before({group, losses, report, [&] { return first_bad(group, passes, seed_of); }})) {
    report.not_finite = 1;
    frame_.leave_out();
    return report;
  }
  for (const auto& [name, part] : frame_.optimizer().parts())
    report.metrics["learning_rate_" + name] = {part->learning_rate(state.step, frame_.steps), 1, LogMode::last};
  report.spikes = is_spike(recipe_.trainer.skip_spikes, report.grad_norm, state.norms) ? 1 : 0;
  if (report.spikes > 0) {
    frame_.leave_out();
    return report;
  }
  const spans::Span span("update");
  if (recipe_.trainer.precision == Precision::fp16) state.loss_scale.grow(recipe_.trainer.loss_scale);
  frame_.update({recipe_.trainer.max_grad_norm, recipe_.trainer.max_grad_value});
  update_buffers(passed);
  hooks.after();
  estimate_curvature(group, passes, total, static_cast<double>(report.supervised));
  return report;
}

void Stepper::each_pass(const Passes& passes, const std::function<void(std::size_t)>& pass) {
  const auto last = std::find(passes.learns.rbegin(), passes.learns.rend(), true);
  for (std::size_t i = 0; i < passes.count; ++i) {
    if (i + 1 == static_cast<std::size_t>(passes.learns.rend() - last)) updater().expect_last_pass();
    if (i < passes.learns.size() && passes.learns[i])
      pass(i);
    else
      updater().idle_pass();
  }
}

void Stepper::estimate_curvature(const Group& group, const Passes& passes, const Sums& step_sums, double labels) {
  const std::int64_t every = frame_.optimizer().curvature_every(), update = frame_.run.updates;
  if (every == 0 || update % every != 0) return;
  const Random seeds(recipe_.run.seed, fmt::format("curvature/{}", update));
  each_pass(passes, [&](std::size_t i) {
    backward_of_drawn(group[i], step_sums, seeds.bits(number_of(i)), fmt::format("drawn/{}/{}", update, number_of(i)));
  });
  updater().add_over_ranks();
  updater().take_curvature(labels);
}

// What terms may be divided by, of all ranks' micro-batches that have something to learn from; empty: none has.
Sums Stepper::amounts(const Group& group, Passes& passes, StepReport& report) const {
  const std::string amount = "amount ", tokens = "tokens", supervised = "supervised", rows = "rows",
                    documents = "documents", squares = "squares", most = "passes";
  Sums told{{tokens, 0}, {supervised, 0}, {rows, 0}, {documents, 0}, {squares, 0}};
  told[most] = static_cast<double>(group.size());
  for (const Batch& batch : group) {
    Sums own = objective_->sums(batch);
    told[tokens] += static_cast<double>(batch.tokens);
    told[supervised] += static_cast<double>(batch.supervised);
    told[rows] += static_cast<double>(batch.rows());
    told[documents] += static_cast<double>(batch.docs.size());
    for (const Doc& doc : batch.docs) told[squares] += std::pow(doc.end - doc.begin, 2);
    passes.learns.push_back(!nothing_in(own));
    if (!passes.learns.back()) continue;
    add(own, amounts_of(batch));
    for (const auto& [name, value] : own) told[amount + name] += value;
  }
  Sums all, total;
  for (const Sums& one : world_.gather(told)) {
    add(all, one);
    passes.count = std::max(passes.count, static_cast<std::size_t>(one.at(most)));
  }
  report.tokens = static_cast<std::int64_t>(all.at(tokens));
  report.supervised = static_cast<std::int64_t>(all.at(supervised));
  report.rows = static_cast<std::int64_t>(all.at(rows));
  report.documents = static_cast<std::int64_t>(all.at(documents));
  report.squares = all.at(squares);
  for (const auto& [name, value] : all)
    if (name.starts_with(amount)) total[name.substr(amount.size())] = value;
  return total;
}

// Of a run in fp16: what is finite in itself became too large by the factor of the loss, which is made smaller.
bool Stepper::overflows(StepReport& report) {
  if (recipe_.trainer.precision != Precision::fp16) return false;
  LossScale& scale = frame_.run.loss_scale;
  report.metrics["loss_scale"] = {scale.factor, 1, LogMode::last};
  return std::isfinite(report.loss()) && !std::isfinite(report.grad_norm) && scale.shrink();
}

Tensor Stepper::norm_there() {
  const TrainerSection& trainer = recipe_.trainer;
  if (trainer.max_grad_value > 0 || trainer.skip_spikes.sigma > 0 || !hooks.only_checks()) return {};
  return frame_.norm_there();
}

// The losses of the micro-batches, 0 of those that were passed over; one wait for all numbers.
std::vector<double> Stepper::measure(const std::vector<Passed>& passed, const Sums& step_sums, StepReport& report) {
  const Tensor norm = norm_there();
  std::vector<Tensor> scalars;
  if (norm.defined()) scalars.push_back(norm);
  for (const Passed& one : passed)
    for (const LossTerm& term : one.terms.terms) scalars.push_back(term.sum);
  const auto checked = static_cast<std::int64_t>(scalars.size());
  for (const Passed& one : passed) {
    if (one.loss.defined()) scalars.push_back(one.loss);
    for (const MeasuredMean& mean : one.terms.means) scalars.insert(scalars.end(), {mean.sum, mean.weight});
  }
  const host::Asked asked(scalars);
  if (norm.defined())
    frame_.update_there(norm, asked.there().narrow(0, 0, checked), recipe_.trainer.max_grad_norm);
  const std::vector<double> numbers = asked.numbers();
  if (norm.defined()) frame_.told_norm(numbers[0]);
  std::span<const double> sums = std::span(numbers).subspan(norm.defined() ? 1 : 0),
                          others = std::span(numbers).subspan(static_cast<std::size_t>(checked));
  std::vector<double> losses;
  for (const Passed& one : passed) {
    losses.push_back(one.loss.defined() ? others[0] : 0);
    if (!one.loss.defined()) continue;
    const std::size_t terms = one.terms.terms.size(), means = 2 * one.terms.means.size();
    report.add(one.terms, sums.first(terms), others.subspan(1, means), step_sums);
    sums = sums.subspan(terms), others = others.subspan(1 + means);
  }
  return losses;
}

Output Stepper::forward(const Batch& batch, Pass& pass, std::uint64_t seed) const {
  pass.training = true;
  pass.seed = seed;
  pass.checkpoint_blocks = recipe_.trainer.checkpoint_blocks;
  pass.float8 = recipe_.trainer.fp8;
  pass.wanted = hooks.wanted;
  return model_.forward(batch, pass);
}

Stepper::Passed Stepper::backward(const Batch& batch, const Sums& step_sums, std::uint64_t seed) {
  Pass pass(batch);
  LossTerms result;
  Tensor loss;
  {
    const spans::Span span("forward");
    const Output output = forward(batch, pass, seed);
    result = objective_->loss(model_, output, batch, pass);
    std::move(pass.aux.begin(), pass.aux.end(), std::back_inserter(result.terms));
    result.metrics.merge(pass.metrics);
    std::move(pass.means.begin(), pass.means.end(), std::back_inserter(result.means));
    add_intermediates(pass, result);
    loss = mean(result, step_sums);
  }
  const spans::Span span("backward");
  frame_.backward(loss);
  for (LossTerm& term : result.terms) term.sum = term.sum.detach();
  return {loss.detach(), std::move(result), std::move(pass.observed)};
}

void Stepper::backward_of_drawn(const Batch& batch, const Sums& step_sums, std::uint64_t seed,
                                const std::string& stream) {
  Pass pass(batch);
  const Output output = forward(batch, pass, seed);
  Batch drawn;
  {
    const c10::NoGradGuard no_grad;
    drawn = objective_->drawn(model_, output, batch, pass, Random(recipe_.run.seed, stream));
  }
  frame_.backward(mean(objective_->loss(model_, output, drawn, pass), step_sums));
}

// A graph scalar: what the terms are of the step's mean.
Tensor Stepper::mean(const LossTerms& terms, const Sums& step_sums) const {
  Tensor loss;
  for (const LossTerm& term : terms.terms) {
    const auto amount = step_sums.find(term.per);
    if (amount == step_sums.end())
      throw Error(ErrorKind::bug,
                  fmt::format("objective {}: the term {} is divided by \"{}\", which sums() does not count",
                              recipe_.objective.type, term.name, term.per));
    const Tensor mean = term.sum / amount->second;  // the only division there is
    loss = loss.defined() ? loss + mean : mean;
  }
  return loss;
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
  const spans::Span span("data");
  const sections::Timed section(sections::Section::data);
  Group group;
  const std::vector<HostBatch> all = loader_.next();
  for (auto i = static_cast<std::size_t>(world_.rank()); i < all.size(); i += static_cast<std::size_t>(world_.size()))
    group.push_back(to_batch(all[i]));
  return group;
}

}  // namespace hone::training
