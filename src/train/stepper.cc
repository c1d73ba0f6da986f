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
#include "nn/context.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "tensor/micro_batch.h"
#include "train/make_objective.h"
#include "train/make_optimizer.h"
#include "train/ranks.h"
#include "train/spikes.h"

namespace hone::training {
namespace {

constexpr const char* kGroups = "groups";  // of those that prepare() made, as ranks tell each other

// Of each its mean and its root mean square, over all elements that a step has of it; of a scalar its mean.
void add_intermediates(const Pass& pass, LossTerms& into) {
  for (const auto& [name, value] : pass.sown) {
    const Tensor wide = value.to(at::kFloat),
                 count = at::scalar_tensor(static_cast<double>(value.numel()), wide.options());
    into.means.push_back({name, wide.sum(), count});
    if (value.numel() == 1) continue;
    Tensor square = wide.square().mean();
    if (const nn::Context* context = pass.batch.context.get()) {  // of all ranks' tokens
      const Tensor all = context->total(at::stack({wide.square().sum(), count}));
      square = all[0] / all[1];
    }
    into.means.push_back({name + "_rms", at::sqrt(square) * count, count});
  }
}

Amounts amounts_there(Sums sums, at::Device device) {
  std::vector<double> values;
  for (const auto& [name, value] : sums) values.push_back(value);
  return {std::move(sums), devices::sent(host::tensor_of(values, {std::ssize(values)}), device)};
}

// A term that nothing in the whole step says anything of is as one that is not there.
void leave_out_empty(LossTerms& made, const Amounts& amounts) {
  std::erase_if(made.terms, [&](const LossTerm& term) {
    const auto amount = amounts.sums.find(term.per);
    return amount != amounts.sums.end() && amount->second == 0;
  });
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
      context_(recipe, world_),
      objective_(make_objective(recipe)),
      resources_(objective_->needs(), recipe, model_, world_),
      numbers_(recipe, *objective_, resources_, world_),
      recorded_(maybe_record_passes(recipe, model_, world_.size())),
      trained_(recipe.model.trainable, model_, frame.steps),
      sizes_(loader.batch_size, loader.accumulate, loader.warmup),
      longest_(loader.longest),
      data_(data),
      loader_(std::move(data), loader) {
  if (objective_->needs().asks_for_more && (!loader.warmup.empty() || loader.longest))
    throw Error(ErrorKind::config,
                fmt::format("objective {}: asks for further prompts within a step; expected steps that are all alike, "
                            "without trainer.batch_warmup and data.length_warmup",
                            recipe.objective.type));
}

void Stepper::begin(const DocumentNumbers::Data& data) {
  numbers_.make_first(data);
  if (objective_->needs().numbers_first.empty()) resources_.load_all();
}

StepReport Stepper::step(const std::function<StepReport(const Group&)>& otherwise) {
  RunState& state = frame_.run;
  const std::int64_t done = state.step;
  Group group = next_group(/*further=*/false);
  // Whoever makes the step may look at the micro-batches, unless what is learnt is yet to be made of them.
  const bool is_looked_at = otherwise && objective_->needs().answers == 0 && context_of(recipe_, world_.size()) == 1;
  by_pass_ = numbers_.by_pass() && !is_looked_at;
  if (!by_pass_) complete(group);
  choose_trained();
  round_weights(model_, recipe_, done);
  StepReport report = otherwise ? otherwise(group) : make(std::move(group));
  measure_size(done, unread_ ? unread_->work.report : report);
  state.step = done + 1;
  state.data_position = loader_.position();
  state.rows = loader_.rows_before(state.step);
  state.tokens += report.tokens;
  resources_.follow(state.step, updater());
  if (!unread_) tell(report);
  return report;
}

void Stepper::tell(const StepReport& report) {
  RunState& state = frame_.run;
  state.window.add(report);
  if (state.report) state.report->add(report);
}

StepContext Stepper::context(Model& model) const {
  const RunState& state = frame_.run;
  return {model, world_, resources_, state.step, state.updates, recipe_.run.seed, frame_.tokenizer,
          [this](std::int64_t record) { return data_->record_name(record); },
          [this](Pass& pass, std::size_t micro_batch) {
            make_training(pass, recipe_.trainer);
            pass.seed = seeds({})(micro_batch);
          },
          loader_.epoch_at(state.step).value_or(0), recipe_.data.max_length};
}

void Stepper::complete(Batch* batch, Model& model) const {
  StepContext now = context(model);
  now.seed = recipe_.trainer.eval_seed;
  now.as_learnt = {};
  now.record_name = [](std::int64_t record) { return fmt::format("record {} of the evaluation set", record + 1); };
  if (batch)
    *batch = asked("prepare_evaluation", [&] { return objective_->prepare_evaluation(*batch, now); });
  else
    objective_->idle_evaluation(now);
  numbers_.add_to(batch);
}

StepReport Stepper::make(Group given) {
  StepContext context = this->context(model_);
  if (objective_->needs().asks_for_more) context.more = [this] { return next_group(/*further=*/true); };
  if (hooks.tells_answers && hooks.tells_answers(context.step + 1)) context.tell_answers = hooks.answers;
  StepReport report;
  report.skipped = true;
  const Groups groups = asked("prepare", [&] { return objective_->prepare(std::move(given), context); });
  groups_ = groups.size();
  if (groups.empty()) check_groups(world_.gather(Sums{{kGroups, 0}}));  // others may have some
  for (const Group& group : groups) {
    const StepReport one = update(group, groups.size() == 1);
    count(one, report);
    if (!one.left_out()) updated();
  }
  return report;
}

// Each group is an update that all ranks make together: where one had more, the others would be at something else.
void Stepper::check_groups(const std::vector<Sums>& told) const {
  for (std::size_t rank = 1; rank < told.size(); ++rank)
    if (const double first = told[0].at(kGroups), there = told[rank].at(kGroups); first != there)
      throw Error(ErrorKind::bug,
                  fmt::format("objective {}: prepare() gives another number of groups on each rank: rank {} has {}, "
                              "rank 0 has {}; expected as many on all, as each is an update",
                              recipe_.objective.type, rank, there, first));
}

// Into those of the step.
void Stepper::count(const StepReport& update, StepReport& step) {
  step.add(update);
  step.skipped &= update.skipped;
  if (update.skipped) step.why_skipped = update.why_skipped;
  frame_.run.spikes += update.spikes;
  frame_.run.not_finite += update.not_finite;
}

// With how many updates they have had.
void Stepper::choose_trained() { trained_.begin_step(frame_.run, frame_.updater()); }

void Stepper::updated() {
  trained_.count(frame_.run);
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

Batch Stepper::completed(const Batch& batch) const {
  Batch made = batch;
  if (by_pass_) numbers_.add_to(&made);
  return made;
}

StepReport Stepper::update(const Group& given, bool is_the_only_one) {
  Work work;
  Group own;
  for (const Batch& batch : given) {
    own.push_back(context_.own(batch));
    work.passes.numbers.push_back(micro_batch_of(batch));
  }
  const Sums total = amounts(given, own, work.passes, work.report);
  work.report.learning_rate = frame_.learning_rate();
  work.report.skipped = total.empty();
  if (work.report.skipped) {
    if (objective_->needs().records == RecordKind::ranked)
      work.report.why_skipped = "the texts of each of its queries are all worth the same";
    settle();
    return work.report;
  }
  for (const auto& [name, part] : frame_.optimizer().parts())
    work.report.metrics["learning_rate_" + name] = {part->learning_rate(frame_.run.step, frame_.steps), 1,
                                                    LogMode::last};
  work.amounts = amounts_there(total, model_.device());
  for (const Batch& batch : own)  // what was to be counted has been counted on the host
    work.group.push_back(batch.to(model_.device()));
  do make_passes(work);
  while (!settle());  // what they began from was not so
  ask(work, norm_there());
  if (!is_the_only_one || !may_read_late(work)) return decide(work);
  unread_ = Unread{std::move(work), frame_.run.step, frame_.run.tokens};
  frame_.update_unread();
  return unread_->work.report;
}

Stepper::SeedOf Stepper::seeds(const Passes& passes) const {
  return [this, update = frame_.run.updates, passes](std::size_t i) {
    return pass_seed(recipe_.run.seed, update, number_of(i, passes));
  };
}

void Stepper::make_passes(Work& work) {
  const SeedOf seed_of = seeds(work.passes);
  work.passed.assign(work.group.size(), {});
  const std::int64_t waits = host::waits();
  each_pass(work.passes, [&](std::size_t i) {
    work.passed[i] = make_pass(completed(work.group[i]), work.amounts, seed_of(i));
  });
  work.report.host_waits = host::waits() - waits;
  work.report.micro_batches = std::count(work.passes.learns.begin(), work.passes.learns.end(), true);
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

bool Stepper::estimate_curvature(const Group& group, const Passes& passes, const Amounts& amounts, double labels) {
  const std::int64_t every = frame_.optimizer().curvature_every(), update = frame_.run.updates;
  if (every == 0 || update % every != 0) return true;
  const Random seeds(recipe_.run.seed, fmt::format("curvature/{}", update));
  each_pass(passes, [&](std::size_t i) {
    const std::uint64_t number = number_of(i, passes);
    backward_of_drawn(completed(group[i]), amounts, seeds.bits(number), fmt::format("drawn/{}/{}", update, number));
  });
  updater().add_over_ranks();
  const bool finite = std::isfinite(updater().gradient_norm());
  finite ? updater().take_curvature(labels) : updater().leave_out();
  return finite;
}

// What terms may be divided by, of all ranks' micro-batches that have something to learn from; empty: none has. own:
// what this rank computes of the group.
Sums Stepper::amounts(const Group& group, const Group& own, Passes& passes, StepReport& report) const {
  const std::string amount = "amount ", tokens = "tokens", supervised = "supervised", rows = "rows",
                    documents = "documents", squares = "squares", most = "passes";
  Sums told{{tokens, 0}, {supervised, 0}, {rows, 0}, {documents, 0}, {squares, 0}};
  told[most] = static_cast<double>(group.size());
  told[kGroups] = static_cast<double>(groups_);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const Batch& batch = group[i];
    const auto sums_of = [&](const Batch& one) { return asked("sums", [&] { return objective_->sums(one); }); };
    Sums sums = sums_of(batch);
    passes.learns.push_back(!nothing_in(sums));  // the same for all ranks that share it
    if (own[i].context) sums = sums_of(own[i]);
    if (context_.speaks()) {
      told[tokens] += static_cast<double>(batch.tokens);
      told[supervised] += static_cast<double>(batch.supervised);
      told[rows] += static_cast<double>(batch.rows());
      told[documents] += static_cast<double>(batch.docs.size());
      for (const Doc& doc : batch.docs) told[squares] += std::pow(doc.end - doc.begin, 2);
    }
    if (!passes.learns.back()) continue;
    if (context_.speaks()) add(sums, amounts_of(batch));
    for (const auto& [name, value] : sums) told[amount + name] += value;
  }
  Sums all, total;
  const std::vector<Sums> each = world_.gather(told);
  check_groups(each);
  for (const Sums& one : each) {
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

Passed Stepper::make_pass(const Batch& batch, const Amounts& amounts, std::uint64_t seed) {
  if (recorded_ && !hooks.wanted) {
    Passed made = recorded_->make(batch, amounts, seed, [this](const Batch& one, Pass& pass, const Amounts& divisors) {
      return backward(one, pass, divisors);
    });
    frame_.forget_norm();
    return made;
  }
  Pass pass(batch);
  pass.seed = seed;
  return backward(batch, pass, amounts);
}

Output Stepper::forward(const Batch& batch, Pass& pass) const {
  make_training(pass, recipe_.trainer);
  pass.wanted = hooks.wanted;
  return model_.forward(batch, pass);
}

Passed Stepper::backward(const Batch& batch, Pass& pass, const Amounts& amounts) {
  LossTerms result;
  Tensor loss;
  {
    const spans::Span span("forward");
    for (auto one = amounts.sums.begin(); one != amounts.sums.end(); ++one)
      pass.divisors[one->first] = amounts.of_device(one);
    const Output output = forward(batch, pass);
    result = asked("loss", [&] { return objective_->loss(model_, output, batch, pass); });
    std::move(pass.aux.begin(), pass.aux.end(), std::back_inserter(result.terms));
    result.metrics.merge(pass.metrics);
    std::move(pass.means.begin(), pass.means.end(), std::back_inserter(result.means));
    add_intermediates(pass, result);
    leave_out_empty(result, amounts);
    loss = mean(result, amounts);
  }
  const spans::Span span("backward");
  frame_.backward(loss);
  for (LossTerm& term : result.terms) term.sum = term.sum.detach();
  return {loss.detach(), std::move(result), std::move(pass.observed)};
}

void Stepper::backward_of_drawn(const Batch& batch, const Amounts& amounts, std::uint64_t seed,
                                const std::string& stream) {
  Pass pass(batch);
  pass.seed = seed;
  const Output output = forward(batch, pass);
  Batch drawn;
  {
    const c10::NoGradGuard no_grad;
    const Random random(recipe_.run.seed, stream);
    drawn = asked("drawn", [&] { return objective_->drawn(model_, output, batch, pass, random); });
  }
  LossTerms terms = asked("loss", [&] { return objective_->loss(model_, output, drawn, pass); });
  leave_out_empty(terms, amounts);
  frame_.backward(mean(terms, amounts));
}

// A graph scalar: what the terms are of the step's mean.
Tensor Stepper::mean(const LossTerms& terms, const Amounts& amounts) const {
  Tensor loss;
  for (const LossTerm& term : terms.terms) {
    const auto amount = amounts.sums.find(term.per);
    if (amount == amounts.sums.end())
      throw Error(ErrorKind::bug,
                  fmt::format("objective {}: the term {} is divided by \"{}\", which sums() does not count",
                              recipe_.objective.type, term.name, term.per));
    const Tensor there = amounts.of_device(amount).to(term.sum.scalar_type());
    const Tensor mean = term.sum / there;  // the only division there is
    loss = loss.defined() ? loss + mean : mean;
  }
  if (!loss.defined())
    throw Error(ErrorKind::bug,
                fmt::format("objective {}: no term has anything to learn from in a micro-batch in which sums() counts "
                            "something",
                            recipe_.objective.type));
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

Group Stepper::next_group(bool further) {
  const spans::Span span("data");
  const sections::Timed section(sections::Section::data);
  Group group;
  const std::vector<HostBatch> all = further ? loader_.again() : loader_.next();
  for (std::size_t i = context_.taker(); i < all.size(); i += context_.takers()) group.push_back(to_batch(all[i]));
  return group;
}

}  // namespace hone::training
