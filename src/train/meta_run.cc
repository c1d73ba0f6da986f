// A run on the meta device.
#include "train/meta_run.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/strings.h"
#include "data/labels.h"
#include "hone/hub.h"
#include "hone/objective.h"
#include "hone/questions.h"
#include "hone/registry.h"
#include "hub/memory.h"
#include "hub/save.h"
#include "nn/context.h"
#include "nn/kv_cache.h"
#include "nn/unpacking.h"
#include "nn/weight_groups.h"
#include "ops/meta/stands_for.h"
#include "ops/quantized.h"
#include "tensor/meta_memory.h"
#include "train/checkpoint.h"
#include "train/context.h"
#include "train/drawn_texts.h"
#include "train/evaluate.h"
#include "train/follower.h"
#include "train/make_objective.h"
#include "train/make_optimizer.h"
#include "train/meta_twin.h"
#include "train/passed.h"
#include "train/placement.h"
#include "train/resources.h"
#include "train/stream_records.h"
#include "train/updater.h"

namespace hone::training {
namespace {

// What a process takes besides its tensors once it trains: code that it has not run before, threads, rooms of kernels,
// the loader's rows.
constexpr std::uint64_t kOnceItTrains = 28 << 20;
constexpr std::int64_t kMicroBatchesLookedAt = 64;

std::uint64_t bytes_of(const Tensor& x) { return x.defined() ? x.nbytes() : 0; }

// The models that an objective asks for by role.
class MetaResources final : public Resources {
 public:
  MetaResources(const Recipe& recipe, const Inputs& inputs, const Model& trained, const Needs& needs)
      : trained_(trained), roles_(needs.models) {
    for (const auto& [role, where] : roles_) {
      if (is_below(where) || made_.contains(where)) continue;
      std::unique_ptr<Model> base = where.empty() ? nullptr : described_by(find_model_folder(where));
      made_[where] = meta_twin(base ? *base : *inputs.model, "", recipe.trainer.precision);
      made_[where]->each_weight([](const std::string&, Weight& weight) {
        if (!weight.is_buffer()) weight.set_trainable(false);
      });
    }
  }
  RoleModel model(const std::string& role) const override {
    const std::string& where = roles_.at(role);
    if (is_below(where)) return {trained_, ""};
    return {*made_.at(where)};
  }

 private:
  static std::unique_ptr<Model> described_by(const std::filesystem::path& folder) {
    const std::string file = (folder / "config.json").string();
    return build_model(config::read_file(file), file);
  }
  // The model below its adapter is one at no cost, where the adapter is all that is trained.
  bool is_below(const std::string& where) const {
    bool whole = false;
    trained_.each_weight([&](const std::string&, const Weight& weight) { whole |= weight.trainable(); });
    return where.empty() && trained_.has_adapters() && !whole;
  }
  const Model& trained_;
  std::map<std::string, std::string> roles_;
  std::map<std::string, std::unique_ptr<Model>> made_;
};

class MetaRun {
 public:
  MetaRun(const Recipe& recipe, const Inputs& inputs, MemoryPlan& plan, int slices)
      : recipe_(recipe), inputs_(inputs), plan_(plan), objective_(make_objective(recipe)) {
    const Precision run = recipe.trainer.precision;
    model_ = meta_model(inputs, {has_masters(run) ? Precision::fp32 : run, run}, slices);
    optimizer_ = make_optimizer(recipe);
    updater_ = std::make_unique<Updater>(*model_, *optimizer_, run);
    measure_lasting();
  }

  // What the objective asks of other models once, or in each step.
  void begin(const Batch& batch) {
    const Needs needs = objective_->needs();
    if (needs.models.empty()) return;
    const std::uint64_t before = memory_.in_use();
    resources_ = std::make_unique<MetaResources>(recipe_, inputs_, *model_, needs);
    if (needs.numbers_first.empty()) {
      plan_.other_models = memory_.in_use() - before;
      if (has_masters(recipe_.trainer.precision)) plan_.other_models += bytes_of_followers();
      return;
    }
    const c10::NoGradGuard no_grad;
    numbers_ = objective_->document_numbers(batch, *resources_);
    resources_.reset();
  }

  void step(const Batch& batch, std::int64_t micro_batches) {
    const std::uint64_t before = memory_.in_use();
    memory_.forget_most();
    for (std::int64_t i = 0; i < micro_batches; ++i) pass(batch, before);
    updater_->gradient_norm();
    updater_->update({.update = 1, .step = 0, .steps = 1}, 1, {recipe_.trainer.max_grad_norm, 0});
    plan_.backward = std::max<std::uint64_t>(plan_.backward, memory_.most() - before);
  }

  void evaluate(const Batch& batch) {
    const c10::NoGradGuard no_grad;
    const std::uint64_t before = memory_.in_use();
    memory_.forget_most();
    const Updater::Evaluated averages(*updater_);
    const Batch whole = completed(batch);
    Pass pass(whole);
    objective_->loss(*model_, model_->forward(whole, pass), whole, pass);
    plan_.evaluation = memory_.most() - before;
  }

  // As much as it takes on disk.
  std::uint64_t checkpoint_bytes() {
    const SaveTypes types(recipe_.trainer.save.dtype, recipe_.trainer.precision, source_types(inputs_.source));
    const hub::ModelFiles files =
        hub::model_files(*model_, inputs_.source, inputs_.tokenizer.get(), {.type = types.most()});
    const std::string none;
    CheckpointParts parts{*model_, &*updater_, files, none, types};
    parts.with_optimizer = recipe_.trainer.save.optimizer;
    if (inputs_.adapter) parts.adapter = hub::AdapterConfig{*inputs_.adapter, recipe_.model.path};
    parts.beside = files_of_beside(*model_, inputs_.tokenizer.get(), types.most());
    return training::checkpoint_bytes(parts) + (parts.with_optimizer ? bytes_of_followers() : 0);
  }

  Model& model() { return *model_; }
  const MetaMemory& memory() const { return memory_; }

 private:
  // Of models that follow this one, in the type that they are mixed in.
  std::uint64_t bytes_of_followers() const {
    const at::ScalarType wide = hub::type_of(Follower::wide(recipe_.trainer.precision));
    std::uint64_t bytes = 0;
    model_->each_weight([&](const std::string&, const Weight& weight) {
      if (!weight.is_buffer()) bytes += static_cast<std::uint64_t>(weight.numel()) * c10::elementSize(wide);
    });
    return bytes * objective_->needs().following.size();
  }
  void measure_lasting() {
    model_->each_with_adapters([&](const std::string&, Weight& weight) {
      plan_.weights += weight.quantized() ? weight.quantized()->bytes() : bytes_of(weight.use());
      if (weight.trainable()) plan_.gradients += bytes_of(weight.gradient_sum()->sum);
    });
    if (has_masters(recipe_.trainer.precision))
      updater_->each_master([&](const Slice& master) { plan_.masters += bytes_of(master.part); });
    updater_->each_state([&](const Slice& state) {
      (state.name.starts_with("ema.") ? plan_.average : plan_.optimizer) += bytes_of(state.part);
    });
  }

  Batch completed(Batch batch) const {
    const c10::NoGradGuard no_grad;
    if (resources_) {
      for (const auto& [name, numbers] : objective_->document_numbers(batch, *resources_)) batch.extra[name] = numbers;
      return batch;
    }
    for (const auto& [name, numbers] : numbers_) {  // found for another batch: one for each of these documents
      std::vector<std::int64_t> shape = numbers.sizes().vec();
      shape[0] = std::ssize(batch.docs);
      batch.extra[name] = at::empty(shape, numbers.options());
    }
    return batch;
  }

  void pass(const Batch& given, std::uint64_t before) {
    const Batch batch = completed(given);
    Pass pass(batch);
    make_training(pass, recipe_.trainer);
    std::vector<std::uint64_t> blocks;
    // Quantized weights that are whole for a moment are not kept.
    const auto in_use = [&] { return memory_.in_use() - nn::held_in_few_bits(*model_).whole_now; };
    std::uint64_t last = in_use();
    pass.wanted = [&](const std::string& name) {  // asked of each block's output, when the block is done
      if (name == fmt::format("layers.{}.output", blocks.size()))
        blocks.push_back(in_use() - std::min<std::uint64_t>(last, in_use())), last = in_use();
      return false;
    };
    const Output output = model_->forward(batch, pass);
    plan_.blocks = blocks;
    const std::uint64_t forward = memory_.in_use();
    plan_.kept = forward - std::min(before, forward);
    LossTerms terms = objective_->loss(*model_, output, batch, pass);
    plan_.loss = std::max<std::uint64_t>(plan_.loss, std::max(memory_.most(), forward) - forward);
    std::move(pass.aux.begin(), pass.aux.end(), std::back_inserter(terms.terms));
    Tensor loss;
    for (const LossTerm& term : terms.terms) loss = loss.defined() ? loss + term.sum / 2 : term.sum / 2;
    if (loss.defined() && loss.requires_grad()) loss.backward();
    updater_->end_pass();
  }

  const Recipe& recipe_;
  const Inputs& inputs_;
  MemoryPlan& plan_;
  MetaMemory memory_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<MetaResources> resources_;
  std::map<std::string, Tensor> numbers_;
};

// Of a stream's record, which has so many documents at most.
std::vector<Role> roles_of(const Needs& needs, std::int64_t documents) {
  const RecordKind kind = needs.records;
  const bool pairs = kind == RecordKind::preference || kind == RecordKind::judged;  // judged ones may come in pairs
  if (needs.texts_alone) return {Role::query};
  if (!pairs && !data::are_texts(kind)) return {Role::none};
  std::vector<Role> roles{Role::chosen};
  if (kind == RecordKind::embedding) roles.insert(roles.begin(), Role::query);
  roles.resize(static_cast<std::size_t>(std::max<std::int64_t>(2, documents)), Role::rejected);
  return roles;
}

// Of documents of that length: one in each row, or those of a record that has so many. labels: of labelled ones.
HostBatch full_rows(std::int64_t rows, std::int64_t length, const Needs& needs, std::int64_t documents,
                    std::size_t labels) {
  const RecordKind kind = needs.records;
  const bool embedded = kind == RecordKind::embedding, ranked = kind == RecordKind::ranked;
  const std::vector<Role> roles = roles_of(needs, documents);
  HostBatch batch;
  batch.rows = rows, batch.length = length * std::ssize(roles);
  for (std::int32_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const auto begin = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * length);
      batch.docs.push_back({.row = row,
                            .begin = begin,
                            .end = begin + static_cast<std::int32_t>(length),
                            .role = roles[i],
                            .group = roles.size() > 1 || embedded ? row
                                                                  : static_cast<std::int32_t>(batch.docs.size())});
      batch.segments.insert(batch.segments.end(), static_cast<std::size_t>(length), static_cast<std::int64_t>(i) + 1);
      for (std::int64_t t = 0; t < length; ++t) batch.positions.push_back(t);
    }
  const std::size_t count = batch.positions.size();
  batch.ids.resize(count), batch.labels.resize(count), batch.weight.assign(count, 1);
  batch.tokens = batch.supervised = static_cast<std::int64_t>(count);
  if (kind == RecordKind::question)  // each begins and ends at its first token
    for (const Doc& doc : batch.docs)
      batch.labels[static_cast<std::size_t>(doc.row * batch.length + doc.begin)] =
          static_cast<std::int64_t>(AnswerPlace::start_and_end);
  if ((embedded || ranked) && !needs.texts_alone)  // as if each had one
    batch.extra["score"] = {.per = HostColumn::Per::document, .width = 2,
                            .numbers = std::vector<double>(2 * batch.docs.size(), 1)};
  if (needs.texts_alone)
    batch.extra["class"] = {.per = HostColumn::Per::document,
                            .values = std::vector<std::int64_t>(batch.docs.size(), 1)};
  if (kind != RecordKind::labelled) return batch;
  HostColumn& label = batch.extra["label"];
  label.per = HostColumn::Per::document;
  if (needs.problem_type == ProblemType::single_label_classification)
    label.values.resize(batch.docs.size());
  else
    label.width = static_cast<std::int64_t>(labels), label.numbers.resize(batch.docs.size() * labels);
  return batch;
}

// A source and a target in each row, as long as they may be.
HostBatch full_targets(std::int64_t rows, std::int64_t length, const Needs& needs) {
  const auto doc_of = [](Role role, std::int64_t tokens, std::int64_t target) {
    const auto count = static_cast<std::size_t>(tokens);
    return HostDoc{.ids = std::vector<std::int64_t>(count),
                   .targets = std::vector<std::int64_t>(count, target),
                   .role = role,
                   .group = 0};
  };
  const HostRow row{doc_of(Role::source, length, -100),
                    doc_of(Role::target, needs.max_target_length.value_or(length), 0)};
  return pad(std::vector<HostRow>(static_cast<std::size_t>(rows), row), 0);
}

// What prepare() makes at most of prompts: of each its answers, in one row.
HostBatch with_answers(const HostBatch& asked, const Needs& needs, bool evaluation = false) {
  const std::int64_t each = evaluation ? needs.evaluation_answers : needs.answers;
  if (each == 0) return asked;
  std::vector<HostRow> rows(static_cast<std::size_t>(asked.rows));
  for (const Doc& doc : asked.docs) {
    const auto prompt = static_cast<std::size_t>(doc.end - doc.begin);
    HostDoc answer{.ids = std::vector<std::int64_t>(prompt + static_cast<std::size_t>(needs.answer_tokens)),
                   .targets = {}};
    answer.targets.assign(answer.ids.size(), -100);
    std::fill(answer.targets.begin() + static_cast<std::ptrdiff_t>(prompt) - 1, answer.targets.end() - 1, 0);
    HostRow& row = rows[static_cast<std::size_t>(doc.row)];
    answer.role = Role::answer, answer.group = std::ssize(row);
    row.insert(row.end(), static_cast<std::size_t>(each), answer);
  }
  return pad(rows, 0);
}

// A cache doubles where it has to grow.
std::uint64_t answers_bytes(const Model& model, Precision precision, const Needs& needs, const HostBatch& batch) {
  if (needs.answers == 0) return 0;
  std::int64_t longest = 0;
  for (const Doc& doc : batch.docs) longest = std::max<std::int64_t>(longest, doc.end - doc.begin);
  const std::int64_t all = std::ssize(batch.docs), rows = std::min(all, needs.answers_at_once.value_or(all));
  const CacheSpec spec = model.causal_lm()->cache_spec();
  const std::int64_t capacity = needs.keeps_turns ? 3 * longest : 2 * longest;
  return static_cast<std::uint64_t>(nn::cache_bytes(spec, hub::type_of(precision), rows, capacity));
}

// Ranks that share a model out keep one part of so many of what is trained, and have whole blocks for a moment: the
// root's weights, a block's and the next one's, and a block's gradients.
void share_out(MemoryPlan& plan, Model& model, std::uint64_t ranks) {
  std::uint64_t root = 0, block = 0, gradients = 0, trained = 0;
  for (const nn::WeightGroup& group : nn::weight_groups(model)) {
    std::uint64_t weights = 0, sums = 0;
    for (const nn::GroupedWeight& one : group.weights)
      weights += bytes_of(one.weight->use()), sums += bytes_of(one.weight->gradient_sum()->sum);
    if (group.unit == 0) root += weights;
    else block = std::max(block, weights);
    gradients = std::max(gradients, sums), trained += weights;
  }
  plan.weights -= trained - trained / ranks;
  for (std::uint64_t* part : {&plan.masters, &plan.gradients, &plan.optimizer, &plan.average})
    *part /= ranks;
  plan.gathered = root + 2 * block + gradients;
}

// As much of each of them, and what they add up to.
std::uint64_t largest_exchange(Model& model, std::uint64_t ranks) {
  std::uint64_t largest = 0;
  for (const nn::WeightGroup& group : nn::weight_groups(model)) {
    std::uint64_t sums = 0;
    for (const nn::GroupedWeight& one : group.weights) sums += bytes_of(one.weight->gradient_sum()->sum);
    largest = std::max(largest, sums);
  }
  return largest + largest / ranks;
}

// Of a checkpoint what a rank writes of the weights that are sliced by columns, which come to it as rows.
std::uint64_t sliced_copy(const Model& model, std::uint64_t checkpoint, std::uint64_t ranks) {
  double columns = 0, all = 0;
  model.each_weight([&](const std::string&, const Weight& weight) {
    all += static_cast<double>(weight.numel());
    if (weight.tensor_cut().dimension == 1) columns += static_cast<double>(weight.numel());
  });
  return static_cast<std::uint64_t>(static_cast<double>(checkpoint) * columns / all) / ranks;
}

Batch on_meta(const HostBatch& batch) { return to_batch(batch).to(at::kMeta); }

// Of ranks that compute a batch together the one with most tokens; the others send what it sends.
class MetaPeers final : public nn::Peers {
 public:
  explicit MetaPeers(int size) : size_(size) {}
  int rank() const override { return size_ - 1; }
  int size() const override { return size_; }
  Tensor exchange(const Tensor& parts) const override { return parts.clone(); }
  Tensor gather(const Tensor& own) const override {
    std::vector<std::int64_t> sizes = own.sizes().vec();
    sizes.insert(sizes.begin(), size_);
    return own.unsqueeze(0).expand(sizes).contiguous();
  }

 private:
  const int size_;
};

Batch own_tokens_on_meta(const HostBatch& host, int context, nn::Sharing sharing) {
  if (context == 1) return on_meta(host);
  return nn::own_tokens(to_batch(host), std::make_shared<const MetaPeers>(context), sharing).to(at::kMeta);
}

// Of a step what a rank has.
std::int64_t own_micro_batches(const Recipe& recipe, int ranks) {
  return std::max<std::int64_t>(1, recipe.trainer.accumulate / takers_of(recipe, ranks));
}

void go_through(MetaRun& run, const Recipe& recipe, const Inputs& inputs, const HostBatch& host, int ranks) {
  const int slices = slices_of(recipe, ranks);
  const nn::Sharing sharing = slices > 1 ? nn::Sharing::weights : nn::Sharing::tokens;
  const Batch batch = own_tokens_on_meta(host, context_of(recipe, ranks), sharing);
  run.begin(batch);
  const std::int64_t own = own_micro_batches(recipe, ranks);
  for (int step = 0; step < 2; ++step) run.step(batch, std::min<std::int64_t>(own, 2));
  if (inputs.evals.empty()) return;
  EvaluateOptions options = evaluate_options(recipe, inputs);
  const Dataset& data = *inputs.evals.front().data;
  const HostBatch asked = evaluation_host_batch(data, 0, options);
  const Needs needs = make_objective(recipe)->needs();
  const HostBatch evaluated = with_drawn_texts(with_answers(asked, needs, true), needs, recipe, asked.rows);
  run.evaluate(own_tokens_on_meta(evaluated, slices, sharing));
}

}  // namespace

// In tokens, and patches of pictures.
static std::int64_t work_of(const HostBatch& batch) {
  std::int64_t work = batch.tokens;
  for (const PictureSpan& picture : batch.pictures.spans) work += picture.patches();
  return work;
}

// As a stream's records may have it, before any is read.
static HostBatch with_teacher(HostBatch batch, const Needs& needs) {
  constexpr std::int64_t kUsual = 64;  // tokens of each place
  if (!needs.teacher_log_probs) return batch;
  batch.taught.width = *needs.teacher_log_probs > 0 ? *needs.teacher_log_probs : kUsual;
  batch.taught.ids.resize(batch.ids.size() * static_cast<std::size_t>(batch.taught.width));
  batch.taught.log_probs.resize(batch.taught.ids.size());
  return batch;
}

HostBatch fullest_batch(const Recipe& recipe, const Inputs& inputs, std::int64_t batch_size) {
  const Needs needs = make_objective(recipe)->needs();
  const auto with_drawn = [&](HostBatch batch) {
    return with_drawn_texts(std::move(batch), needs, recipe, recipe.trainer.rows_per_step());
  };
  if (!inputs.train->as_dataset() && needs.records == RecordKind::seq2seq)
    return full_targets(batch_size, recipe.data.max_length, needs);
  if (!inputs.train->as_dataset()) {
    const std::int64_t documents = stream_records(needs, *inputs.train, inputs.evals).most;
    HostBatch full = full_rows(batch_size, recipe.data.max_length, needs, documents, inputs.train->labels().size());
    return with_drawn(with_answers(with_teacher(std::move(full), needs), needs));
  }
  Loader::Options options = loader_options(recipe, inputs);
  options.batch_size = batch_size, options.accumulate = 1;
  Loader loader(inputs.train, options);
  HostBatch fullest;
  const std::int64_t all = (inputs.train->as_dataset()->rows() + batch_size - 1) / batch_size;
  for (std::int64_t i = 0; i < std::min(all, kMicroBatchesLookedAt); ++i)
    for (HostBatch& batch : loader.next())
      if (work_of(batch) > work_of(fullest) || fullest.rows == 0) fullest = std::move(batch);
  return with_drawn(with_answers(fullest, needs));
}

// As the loader holds it; pictures are read when their turn comes.
static std::uint64_t bytes_of(const HostBatch& batch) {
  std::size_t words = batch.ids.size() + batch.labels.size() + batch.segments.size() + batch.positions.size() +
                      batch.taught.ids.size();
  for (const auto& [name, column] : batch.extra) words += column.values.size() + column.numbers.size();
  return sizeof(std::int64_t) * words + sizeof(float) * (batch.weight.size() + batch.taught.log_probs.size());
}

std::string memory_parts(const MemoryPlan& plan) {
  const std::pair<const char*, std::uint64_t> parts[] = {
      {"weights", plan.weights},     {"masters", plan.masters},
      {"gradients", plan.gradients}, {"the optimizer's state", plan.optimizer},
      {"an average", plan.average},  {"other models", plan.other_models},
      {"a step", plan.backward},     {"an evaluation", plan.evaluation},
      {"answers", plan.answers},     {"batches that are read ahead", plan.batches}};
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : parts)
    if (bytes > 0) texts.push_back(fmt::format("{} {}", name, human_size(bytes)));
  return join(texts, ", ");
}

MemoryPlan plan_memory(const Recipe& recipe, const Inputs& inputs, const MetaRunOptions& options) {
  MemoryPlan plan;
  const bool host = device_of(recipe).is_cpu();  // else process and copy lie elsewhere
  const ops::StandsFor device(device_of(recipe));
  plan.process = host ? inputs.process + kOnceItTrains : 0;
  const std::int64_t rows = options.batch_size > 0 ? options.batch_size : recipe.trainer.batch_size.rows;
  const HostBatch batch = fullest_batch(recipe, inputs, rows);
  plan.rows = batch.rows, plan.tokens = batch.tokens;
  // The loader's, the one that it makes, and the step's; of these a device has its own.
  const int held = host ? kStepsReadAhead + 2 : 1;
  plan.batches = bytes_of(batch) * static_cast<std::uint64_t>(held * own_micro_batches(recipe, options.ranks));
  const int slices = slices_of(recipe, options.ranks);
  if (slices > 1) {
    MemoryPlan whole;
    plan.checkpoint = MetaRun(recipe, inputs, whole, 1).checkpoint_bytes();
  }
  MetaRun run(recipe, inputs, plan, slices);
  plan.answers = answers_bytes(run.model(), recipe.trainer.precision, make_objective(recipe)->needs(), batch);
  if (slices == 1) plan.checkpoint = run.checkpoint_bytes();
  try {
    go_through(run, recipe, inputs, batch, options.ranks);
  } catch (const std::exception& error) {  // of a plug-in's op that the meta device does not know, as it seems
    plan.unknown = error.what();
    plan.unknown = plan.unknown.substr(0, plan.unknown.find('\n'));
    // LibTorch's text goes on with what to do in Python.
    if (const auto end = plan.unknown.find(": attempted to run this operator with Meta"); end != std::string::npos)
      plan.unknown = plan.unknown.substr(0, end) + " is an op whose shapes nobody has told";
  }
  const std::uint64_t full = plan.lasting() + plan.fullest();
  plan.gaps = run.memory().reached() - std::min<std::uint64_t>(full, run.memory().reached());
  const auto ranks = static_cast<std::uint64_t>(options.ranks);
  const std::uint64_t sharers = ranks / static_cast<std::uint64_t>(slices);  // of each slice
  if (sharers > 1 && recipe.parallel.fsdp != 1) share_out(plan, run.model(), sharers), plan.gaps = 0;
  if (ranks > 1) plan.exchanged = largest_exchange(run.model(), ranks);
  if (recipe.trainer.save.asynchronous && host) plan.checkpoint_copy = plan.checkpoint;
  if (slices > 1 && !inputs.adapter) plan.checkpoint_copy = sliced_copy(run.model(), plan.checkpoint, ranks);
  plan.peak = plan.process + plan.lasting() + plan.fullest() + plan.gathered +
              plan.exchanged + plan.batches + plan.gaps + plan.checkpoint_copy;
  return plan;
}

}  // namespace hone::training
