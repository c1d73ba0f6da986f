// A pass that is remembered reads its batch, the ends of its documents and the step's amounts where the first one of
// its kind had them: those of a further micro-batch are copied there.
#include "train/recorded_passes.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/sections.h"
#include "hone/gradient_sum.h"
#include "nn/plan.h"
#include "ops/make_recording.h"
#include "ops/sequences.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "train/make_objective.h"
#include "train/resources.h"

namespace hone::training {
namespace {

// Parameters times tokens of a micro-batch, of experts those that a token has. Six times as many operations take a GPU
// of today about as long as the host takes to ask for them one by one: 5 to 10 ms; of a model with experts, whose
// layers have several times as many parts, four times as many (docs/performance.md).
constexpr double kSmall = 5e11, kSmallRouted = 4 * kSmall;
// Padding that is computed at most, as a share of all tokens: 1 / kLeastPadding.
constexpr std::int64_t kLeastPadding = 8;
constexpr std::size_t kMostRemembered = 8;
constexpr int kMostWaits = 3;

// Room for so many documents and more, by at most a quarter: attention does a little for each that is not there.
std::size_t room_for(std::size_t count) {
  std::size_t unit = 1;
  while (count > 8 * unit) unit *= 2;
  return (count + unit - 1) / unit * unit;
}

std::array<const Tensor*, 5> tensors_of(const Batch& batch) {
  return {&batch.ids_BT, &batch.labels_BT, &batch.weight_BT, &batch.segments_BT, &batch.positions_BT};
}

// Nothing: the host would have to say more of the batch than where its tokens end.
std::optional<ops::Sequences> sequences_of(const Batch& batch, bool takes_padding) {
  if (batch.docs.empty() || !batch.extra.empty() || !batch.positions_BT.defined()) return std::nullopt;
  const bool shares = std::any_of(batch.docs.begin(), batch.docs.end(), [](const Doc& doc) { return doc.shared > 0; });
  if (shares) return std::nullopt;
  const std::int64_t all = batch.rows() * batch.length();
  ops::Sequences made = ops::sequences_of(nn::spans_in_rows(batch), all);
  std::int64_t padding = 0;
  for (const ops::Span& span : made.between) padding += span.end - span.begin;
  if (padding > 0 && (!takes_padding || padding * kLeastPadding > all)) return std::nullopt;
  return made;
}

Tensor ends_there(ops::Sequences sequences, std::size_t room, at::Device device) {
  sequences.ends.resize(room + 1, sequences.ends.back());
  return devices::sent(host::tensor_of(sequences.ends, {static_cast<std::int64_t>(room) + 1}), device);
}

// All numbers of a pass, fp64, one behind another; and a Passed of them.
std::vector<Tensor> numbers_of(const Passed& passed) {
  std::vector<Tensor> all{passed.loss};
  for (const LossTerm& term : passed.terms.terms) all.push_back(term.sum);
  for (const MeasuredMean& mean : passed.terms.means) all.insert(all.end(), {mean.sum, mean.weight});
  return all;
}
Tensor together(const Passed& passed) {
  std::vector<Tensor> wide;
  for (const Tensor& x : numbers_of(passed)) wide.push_back(x.detach().reshape({}).to(at::kDouble));
  return at::stack(wide);
}
Passed of_numbers(Passed like, const Tensor& numbers) {
  std::int64_t at = 0;
  like.loss = numbers.select(0, at++);
  for (LossTerm& term : like.terms.terms) term.sum = numbers.select(0, at++);
  for (MeasuredMean& mean : like.terms.means) {
    mean.sum = numbers.select(0, at++);
    mean.weight = numbers.select(0, at++);
  }
  return like;
}

}  // namespace

struct RecordedPasses::Key {
  struct Place {
    const void *value = nullptr, *sum = nullptr;
    GradientSum::State state = GradientSum::State::empty;
    bool operator==(const Place&) const = default;
  };
  std::vector<std::int64_t> sizes;  // rows, their length, room for documents
  std::vector<bool> tensors;        // which of them the batch has
  std::vector<std::string> amounts;
  std::vector<Place> weights;
  bool operator==(const Key&) const = default;
};

struct RecordedPasses::Remembered {
  Key key;
  std::unique_ptr<ops::Recording> recording = {};  // null: it is not yet
  // Where it reads, and what it leaves.
  Batch batch = {};
  Amounts amounts = {};
  Tensor ends = {}, numbers = {};
  std::unique_ptr<Pass> pass = {};  // has what was made for it
  Passed like = {};
  std::vector<GradientSum::State> states = {};
};

RecordedPasses::RecordedPasses(Model& model, std::unique_ptr<ops::Recording> memory, bool always)
    : model_(model), memory_(std::move(memory)), always_(always) {
  model_.each_with_adapters([&](const std::string&, Weight& weight) { weights_.push_back(&weight); });
}

RecordedPasses::~RecordedPasses() = default;

RecordedPasses::Key RecordedPasses::key_of(const Batch& batch, const Amounts& amounts, std::size_t room) const {
  Key key{{batch.rows(), batch.length(), static_cast<std::int64_t>(room)}, {}, {}, {}};
  for (const Tensor* x : tensors_of(batch)) key.tensors.push_back(x->defined());
  for (const auto& [name, amount] : amounts.sums)
    key.amounts.push_back(amount == 0 ? name + " of none" : name);  // a term of none is left out
  for (const Weight* weight : weights_) {
    const GradientSum* const sum = weight->gradient_sum();
    const void* const value = weight->use().storage().data();
    key.weights.push_back(sum ? Key::Place{value, sum->sum.storage().data(), sum->state} : Key::Place{value});
  }
  return key;
}

std::unique_ptr<Pass> RecordedPasses::pass_of(const Batch& batch, const Tensor& ends, std::uint64_t seed) const {
  auto pass = std::make_unique<Pass>(batch);
  pass->seed = seed;
  pass->set_plan(std::make_unique<nn::Plan>(
      batch, ops::Documents(nn::spans_in_rows(batch), ops::Documents::Ends{ends, batch.length()})));
  return pass;
}

Passed RecordedPasses::make(const Batch& batch, const Amounts& amounts, std::uint64_t seed, const Work& work) {
  const std::optional<ops::Sequences> sequences = sequences_of(batch, model_.shares_prefixes());
  if (!sequences) {
    Pass pass(batch);
    pass.seed = seed;
    return work(batch, pass, amounts);
  }
  const std::size_t room = room_for(sequences->ends.size() - 1);
  const Tensor ends = ends_there(*sequences, room, model_.device());
  if (sections::running()) {  // which measures ops one by one
    const std::unique_ptr<Pass> pass = pass_of(batch, ends, seed);
    return work(batch, *pass, amounts);
  }
  const Key key = key_of(batch, amounts, room);
  const auto found =
      std::find_if(remembered_.begin(), remembered_.end(), [&](const auto& one) { return one->key == key; });
  if (found == remembered_.end()) return try_out(batch, amounts, seed, work, key, ends);
  if (!(*found)->recording) record(**found, batch, amounts, work);
  if (memory_) return again(**found, batch, amounts, ends);
  remembered_.clear();
  return try_out(batch, amounts, seed, work, key, ends);
}

// Op by op. It can be remembered if the host neither waited nor gave what only this micro-batch has.
Passed RecordedPasses::try_out(const Batch& batch, const Amounts& amounts, std::uint64_t seed, const Work& work,
                               const Key& key, const Tensor& ends) {
  const std::int64_t waits = host::waits(), sends = devices::sends();
  const std::unique_ptr<Pass> pass = pass_of(batch, ends, seed);
  Passed passed = work(batch, *pass, amounts);
  const bool sent = devices::sends() != sends;
  if (!memory_ || remembered_.size() == kMostRemembered) return passed;
  const bool waited = host::waits() != waits;  // another thread may have, which reads for a checkpoint
  waited_ = waited ? waited_ + 1 : 0;
  if (waited_ == kMostWaits)
    give_up("the host has to wait for the device in them");
  else if (pass->seed.was_taken())
    give_up("its dropout or noise draws other numbers in each of them");
  else if (!pass->plan().is_lasting())
    give_up("the host cuts its work by documents, as attention in fp32 does");
  else if (sent)
    give_up("the host sends something in them");
  else if (!passed.observed.empty() || !passed.terms.metrics.empty())
    give_up("the host counts something in them");
  else if (!waited)
    remembered_.push_back(std::make_unique<Remembered>(Remembered{key}));
  return passed;
}

void RecordedPasses::record(Remembered& one, const Batch& batch, const Amounts& amounts, const Work& work) {
  const auto copy = [](const Tensor& x) { return x.defined() ? x.clone() : x; };
  one.batch = {copy(batch.ids_BT), copy(batch.labels_BT), copy(batch.weight_BT), copy(batch.segments_BT),
               copy(batch.positions_BT), batch.docs, {}, batch.tokens, batch.supervised};
  one.amounts = {amounts.sums, copy(amounts.there)};
  one.ends = at::empty({one.key.sizes.back() + 1}, batch.ids_BT.options().dtype(at::kInt));
  one.pass = pass_of(one.batch, one.ends, 0);
  std::unique_ptr<ops::Recording> recording = memory_->beside();
  std::vector<GradientSum::State> before;
  for (const Weight* weight : weights_)
    before.push_back(weight->gradient_sum() ? weight->gradient_sum()->state : GradientSum::State::empty);
  try {
    recording->record([&] {
      one.like = work(one.batch, *one.pass, one.amounts);
      one.numbers = together(one.like);
    });
    one.recording = std::move(recording);
  } catch (const c10::Error& error) {
    give_up(error.what_without_backtrace(), /*expected=*/false);
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {  // nothing was computed yet
    GradientSum* const sum = weights_[i]->gradient_sum();
    one.states.push_back(sum ? std::exchange(sum->state, before[i]) : before[i]);
    weights_[i]->clear_grad();
  }
  if (one.recording && remembered_.size() == 1)
    log::info("micro-batches are given to the device as graphs from now on");
}

Passed RecordedPasses::again(Remembered& one, const Batch& batch, const Amounts& amounts, const Tensor& ends) {
  const auto from = tensors_of(batch), to = tensors_of(one.batch);
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i]->defined()) to[i]->copy_(*from[i]);
  one.ends.copy_(ends);
  one.amounts.there.copy_(amounts.there);
  one.recording->replay();
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if (GradientSum* const sum = weights_[i]->gradient_sum()) sum->state = one.states[i];
  return of_numbers(one.like, one.numbers.clone());
}

void RecordedPasses::give_up(const std::string& reason, bool expected) {
  memory_.reset();
  const std::string told = "micro-batches are given to the device op by op: " + reason;
  always_ || !expected ? log::warning("trainer.cuda_graphs: {}", told) : log::debug("{}", told);
}

std::string reason_against_graphs(const Recipe& recipe, at::Device device) {
  if (device.is_cpu()) return "they are a GPU's, and this run computes on the CPU";
  if (!ops::maybe_make_recording(device)) return fmt::format("{} remembers no work", device.str());
  if (recipe.trainer.precision == Precision::fp16) return "a run in fp16 has none";
  if (recipe.trainer.qat.on()) return "a run with trainer.qat has none";
  return make_objective(recipe)->is_recordable() ? "" : fmt::format("objective {} has none", recipe.objective.type);
}

std::unique_ptr<RecordedPasses> maybe_record_passes(const Recipe& recipe, Model& model, int ranks) {
  const TrainerSection& trainer = recipe.trainer;
  if (trainer.cuda_graphs == Graphs::never || ranks > 1) return nullptr;
  const bool varies = model.unpacking() || model.pictures();  // pictures are of any number and size
  if (!reason_against_graphs(recipe, model.device()).empty() || varies) return nullptr;
  double parameters = 0;
  bool routed = false;
  model.each_with_adapters([&](const std::string&, const Weight& weight) {
    parameters += weight.share_of_tokens() * static_cast<double>(weight.numel());
    routed = routed || weight.share_of_tokens() < 1;
  });
  const double tokens = static_cast<double>(trainer.batch_size.rows * recipe.data.max_length);
  const bool always = trainer.cuda_graphs == Graphs::always;
  if (!always && parameters * tokens > (routed ? kSmallRouted : kSmall)) return nullptr;
  return std::make_unique<RecordedPasses>(model, ops::maybe_make_recording(model.device()), always);
}

}  // namespace hone::training
