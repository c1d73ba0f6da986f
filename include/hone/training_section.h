// The recipe's section `trainer`: how long, in what steps, and what is written on the way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "hone/gpu_options.h"
#include "hone/precision.h"
#include "hone/qat_section.h"
#include "hone/save_section.h"

namespace hone {

// What else is logged of a number that every step has, besides its mean over the steps since the last line, which has
// the number's own name (mean_nopostfix).
enum class LogAs { mean_nopostfix, mean, single, max, std };
template <>
inline constexpr auto config::enum_names<LogAs> =
    std::to_array<std::pair<LogAs, std::string_view>>({{LogAs::mean_nopostfix, "mean_nopostfix"},
                                                       {LogAs::mean, "mean"},
                                                       {LogAs::single, "single"},
                                                       {LogAs::max, "max"},
                                                       {LogAs::std, "std"}});

// Rows of a micro-batch: a number, or as many as fit into memory, which the start of a run decides.
struct MicroBatchRows {
  std::int64_t rows = 8;
  bool automatic = false;
  MicroBatchRows(std::int64_t rows = 8) : rows(rows) {}  // NOLINT: a number is one
  operator std::int64_t() const { return rows; }         // NOLINT: and one is a number
};
template <>
struct config::Values<MicroBatchRows> : config::ScalarValues<MicroBatchRows> {
  static void read(const Node& node, MicroBatchRows& value, const At& at) {
    value.automatic = node.kind() == Node::Kind::scalar && node.text() == "auto";
    if (!value.automatic) Values<std::int64_t>::read(node, value.rows, at);
  }
  static Node write(const MicroBatchRows& value) {
    return value.automatic ? detail::write_scalar(std::string("auto")) : Values<std::int64_t>::write(value.rows);
  }
  static std::string type() { return "integer or auto"; }
};

// Updates whose gradients are far longer than those before them.
struct SpikeSection {
  double sigma = 0;
  std::int64_t window = 100;
  static constexpr std::string_view kShorthand = "sigma";
  static constexpr auto fields() {
    using C = SpikeSection;
    return std::tuple{
        field("sigma", &C::sigma,
              "An update is skipped, said and counted when its gradients' norm lies so many standard "
              "deviations above the mean of those before it; 0 = never.",
              at_least(0)),
        field("window", &C::window,
              "Of how many updates mean and deviation are taken; until there are so many none is skipped.",
              {.low = 2, .high = 1 << 20})};
  }
  HONE_API void validate(Problems& problems) const;
};

// By what the loss of a run in fp16 is multiplied.
struct LossScaleSection {
  double start = 65536;
  std::int64_t grow_every = 2000;
  static constexpr std::string_view kShorthand = "start";
  static constexpr auto fields() {
    using C = LossScaleSection;
    return std::tuple{
        field("start", &C::start,
              "At first. Where gradients become too large for fp16, the update is left out and the factor halved.",
              {.low = 1, .high = 1ll << 40}),
        field("grow_every", &C::grow_every, "After so many updates without that it is doubled.", at_least(1))};
  }
};

// An average of the weights, which is evaluated and saved as the model in their place.
struct EmaSection {
  double decay = 0;
  bool warmup = true;
  static constexpr std::string_view kShorthand = "decay";
  static constexpr auto fields() {
    using C = EmaSection;
    return std::tuple{field("decay", &C::decay, "How much of the average stays in an update, as 0.999; 0 = no average.",
                            {.low = 0, .high = 1}),
                      field("warmup", &C::warmup,
                            "Let early updates count for more, so that the average forgets where it began: in the "
                            "update t at most (1 + t) / (10 + t) stays.")};
  }
  HONE_API void validate(Problems& problems) const;
};

// Some steps at the beginning whose batch is another one.
struct BatchStage {
  std::int64_t steps = 0;
  std::optional<std::int64_t> accumulate = {}, batch_size = {};
  std::int64_t increment = 0;
  static constexpr auto fields() {
    using C = BatchStage;
    return std::tuple{
        field("steps", &C::steps, "How many steps it is so.", at_least(1)),
        field("accumulate", &C::accumulate, "Micro-batches per step meanwhile; default trainer.accumulate.",
              {.low = 1, .high = 1 << 16}),
        field("batch_size", &C::batch_size, "Rows in a micro-batch meanwhile; default trainer.batch_size.",
              {.low = 1, .high = 1 << 20}),
        field("increment", &C::increment,
              "accumulate grows by this, as often as it takes and at even intervals, to that of the next stage or, "
              "from the last, of the run; 0 = not.",
              at_least(0))};
  }
};

// How often one evaluation set is measured, where it is not as all are.
struct EvalTimes {
  std::optional<std::int64_t> every, max_batches;
  static constexpr std::string_view kShorthand = "every";
  static constexpr auto fields() {
    using C = EvalTimes;
    return std::tuple{
        field("every", &C::every, "Steps between evaluations of this set; 0 = only at the end.", at_least(0)),
        field("max_batches", &C::max_batches, "Batches of it that an evaluation sees at most.", at_least(1))};
  }
};

struct TrainerSection {
  MicroBatchRows batch_size;
  std::int64_t accumulate = 1;
  std::optional<std::int64_t> step_rows;
  std::string memory_limit;
  std::vector<BatchStage> batch_warmup;
  std::optional<std::int64_t> steps;
  std::optional<double> epochs;
  std::optional<std::int64_t> tokens;
  std::string time_limit;
  double max_grad_norm = 1.0, max_grad_value = 0, neftune_noise_alpha = 0;
  SpikeSection skip_spikes;
  std::int64_t skip_not_finite = 0;
  EmaSection ema;
  Precision precision = Precision::automatic;
  LossScaleSection loss_scale;
  Float8 fp8 = Float8::off;
  QatSection qat;
  std::string device = "auto";
  MatmulPrecision matmul_precision = MatmulPrecision::highest;
  Determinism deterministic = Determinism::strict;
  Graphs cuda_graphs = Graphs::automatic;
  std::int64_t eval_every = 0, eval_every_epochs = 0;
  bool eval_at_start = false;
  std::int64_t eval_delay = 0;
  std::optional<std::int64_t> eval_batch_size, max_eval_batches;
  std::map<std::string, EvalTimes> eval_sets;
  std::uint64_t eval_seed = 0;
  std::int64_t log_every = 10;
  std::optional<std::int64_t> report_every;
  std::vector<LogAs> log_modes{LogAs::mean_nopostfix};
  SaveSection save;
  bool checkpoint_blocks = false;
  std::int64_t rows_per_step() const { return step_rows.value_or(batch_size * accumulate); }
  static constexpr auto fields() {
    using C = TrainerSection;
    return std::tuple{
        field("batch_size", &C::batch_size,
              "Rows in a micro-batch; more use memory and the machine better. auto: the most of trainer.step_rows that "
              "memory holds, decided when the run starts.",
              {.low = 1, .high = 1 << 20}),
        field("accumulate", &C::accumulate,
              "Micro-batches per step; a step of 8 x 1 rows is the same as one of 1 x 8, but for routers' balancing "
              "losses, dropout and noise, which are of micro-batches.",
              {.low = 1, .high = 1 << 16}),
        field(
            "batch_warmup", &C::batch_warmup,
            "Stages of the first steps, one after another, whose batches are smaller (or other) than those of the rest "
            "of the run."),
        field("step_rows", &C::step_rows,
              "Rows of a step in all, instead of accumulate, which follows from it and batch_size.",
              {.low = 1, .high = 1ll << 36}),
        field("memory_limit", &C::memory_limit,
              "Memory that batch_size: auto may fill, of all ranks on a machine together, as 12GB; default: nine "
              "tenths of what is free when the run starts.",
              OnResume::free),
        field("steps", &C::steps, "Updates in all.", at_least(1), OnResume::record),
        field("epochs", &C::epochs, "Instead of steps: how often all rows are seen; default 1.", at_least(0),
              OnResume::record),
        field("tokens", &C::tokens,
              "Instead of steps: tokens to train on, in whole steps of as many as the data have on average.",
              at_least(1), OnResume::record),
        field("time_limit", &C::time_limit,
              "Time after which this process saves and ends with exit code 75, as 2h30m or 45min; the same command "
              "goes on. Default: none.",
              OnResume::free),
        field("max_grad_norm", &C::max_grad_norm, "Longer gradients are scaled down to this norm; 0 = never.",
              at_least(0), OnResume::record),
        field("max_grad_value", &C::max_grad_value,
              "Elements of gradients beyond this, after they are scaled down to max_grad_norm, are cut off; 0 = never.",
              at_least(0), OnResume::record),
        field("neftune_noise_alpha", &C::neftune_noise_alpha,
              "Noise on embedded tokens in training, as 5 (NEFTune, arXiv:2310.05914): even numbers of at most alpha / "
              "sqrt(the document's tokens x the model's width); 0 = none.",
              {.low = 0, .high = 1000}, OnResume::record),
        field("skip_spikes", &C::skip_spikes, "Leave out updates whose gradients are far too long.", OnResume::record),
        field("skip_not_finite", &C::skip_not_finite,
              "So many updates of a run, in all its processes, may be left out for a loss or gradient that is NaN or "
              "infinite, each said and counted; one more stops the run. 0 = the first does.",
              at_least(0), OnResume::record),
        field("ema", &C::ema, "Evaluate and save an exponential moving average of the weights."),
        field("precision", &C::precision,
              "Type of weights and activations in a step; auto = bf16 where the machine computes it fast, else fp32."),
        field("loss_scale", &C::loss_scale,
              "Of a run in fp16: the factor of its loss, without which small gradients would become 0.",
              OnResume::record),
        field("fp8", &C::fp8,
              "Products of a bf16 run's linear layers in fp8, forward and back: tensorwise, one scale a matrix, fast; "
              "rowwise, one a row, more exact. For GPUs of capability 8.9 and later; head and experts stay in bf16."),
        field("qat", &C::qat, "Training of a model that is to be quantized, with what will be left of it."),
        field("device", &C::device,
              "What computes: cpu, cuda or cuda:1 of a hone that was built with it; auto = the GPU where there is one.",
              OnResume::record),
        field("matmul_precision", &C::matmul_precision,
              "Products in fp32 on a GPU: highest, or high, which rounds their factors to TF32 and is several times as "
              "fast."),
        field("deterministic", &C::deterministic,
              "On a GPU: strict, the same run gives the same bits; or fast, gradients of attention are summed in the "
              "order in which they come, and the last bits differ.",
              OnResume::record),
        field("cuda_graphs", &C::cuda_graphs,
              "On a GPU: whether it remembers the work of a micro-batch as a graph, which then takes hardly any of the "
              "host's time; padding is then computed, too. auto: where model and micro-batch are small.",
              OnResume::record),
        field("eval_every", &C::eval_every, "Steps between evaluations; 0 = only at the end.", at_least(0),
              OnResume::record),
        field("eval_every_epochs", &C::eval_every_epochs, "Epochs between evaluations, besides eval_every; 0 = none.",
              at_least(0), OnResume::record),
        field("eval_at_start", &C::eval_at_start, "Evaluate before the first step as well: what fails, fails early.",
              OnResume::record),
        field("eval_delay", &C::eval_delay,
              "Steps before which nothing is evaluated, but for eval_at_start and at the end.", at_least(0),
              OnResume::record),
        field("eval_batch_size", &C::eval_batch_size, "Rows in a batch of an evaluation; default batch_size.",
              at_least(1), OnResume::free),
        field("max_eval_batches", &C::max_eval_batches,
              "Batches of each set that an evaluation sees at most; default: all.", at_least(1), OnResume::record),
        field("eval_sets", &C::eval_sets, "By the name of an evaluation set: how often that one is measured.",
              OnResume::record),
        field("eval_seed", &C::eval_seed,
              "Decides what is drawn in evaluations, by a collator or as answers, the same in each.", OnResume::record),
        field("log_every", &C::log_every, "Steps between lines of metrics.jsonl.", at_least(1), OnResume::free),
        field("report_every", &C::report_every,
              "Steps between the lines that trackers get, each over its own steps; default: log_every.", at_least(1),
              OnResume::free),
        field(
            "log_modes", &C::log_modes,
            "What a line says of a training metric over its steps. mean_nopostfix, under the metric's name, is always "
            "there (grad_norm's is the last step's); besides: loss_mean, loss_single (the last step's), loss_max, "
            "loss_std (over steps).",
            OnResume::free),
        field("save", &C::save, "When to save checkpoints.", OnResume::free),
        field("checkpoint_blocks", &C::checkpoint_blocks,
              "Gradient checkpointing: a third more time, far less memory; the same numbers.", OnResume::free)};
  }
  HONE_API void validate(Problems& problems) const;
};

}  // namespace hone
