// hone plan: what a run will take, before it.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/output.h"
#include "cli/recipe.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "train/plan.h"

namespace hone::cli {
namespace {

using training::MemoryPlan;
using training::RunPlan;
using nlohmann::ordered_json;

std::string_view name_of(Precision precision) {
  for (const auto& [value, name] : config::enum_names<Precision>)
    if (value == precision) return name;
  return "";
}

ordered_json json_of(const MemoryPlan& m) {
  return {{"process", m.process},         {"weights", m.weights},
          {"masters", m.masters},         {"gradients", m.gradients},
          {"optimizer", m.optimizer},     {"average", m.average},
          {"other_models", m.other_models}, {"kept_for_backward", m.kept},
          {"blocks", m.blocks},           {"loss", m.loss},
          {"step", m.backward},           {"evaluation", m.evaluation},
          {"answers", m.answers},
          {"gathered", m.gathered},       {"exchanged", m.exchanged},
          {"checkpoint_copy", m.checkpoint_copy},
          {"batches", m.batches},
          {"gaps", m.gaps},               {"peak", m.peak}};
}

ordered_json json_of(const RunPlan& plan) {
  const auto maybe = [](const auto& value) { return value ? ordered_json(*value) : ordered_json(); };
  const TrainerSection& trainer = plan.recipe.trainer;
  ordered_json json = {{"parameters", plan.parameters},
                       {"trained_parameters", plan.trained},
                       {"precision", name_of(trainer.precision)},
                       {"ranks", plan.ranks},
                       {"shared_out", plan.shared_out},
                       {"batch_size", trainer.batch_size.rows},
                       {"accumulate", trainer.accumulate},
                       {"memory_bytes", json_of(plan.memory)},
                       {"memory_available_bytes", plan.available},
                       {"fits", plan.fits()},
                       {"flops_per_token", plan.flops_per_token},
                       {"flops_per_step", plan.flops_per_step},
                       {"flops", plan.flops},
                       {"steps", plan.steps},
                       {"rows_per_step", plan.rows_per_step},
                       {"data_rows", maybe(plan.data_rows)},
                       {"epochs", maybe(plan.epochs)},
                       {"tokens_per_step", plan.tokens_per_step},
                       {"tokens", plan.tokens}};
  if (plan.time.total > 0)
    json["seconds"] = {{"measured", plan.time.measured}, {"micro_batch", plan.time.micro_batch},
                       {"update", plan.time.update},     {"step", plan.time.step},
                       {"start", plan.time.start},       {"steps", plan.time.steps},
                       {"evaluations", plan.time.evaluations}, {"saves", plan.time.saves},
                       {"total", plan.time.total}};
  json["disk_bytes"] = {{"checkpoint", plan.memory.checkpoint}, {"checkpoints", plan.checkpoints},
                        {"most", plan.disk}, {"free", plan.disk_free}};
  if (!plan.memory.unknown.empty()) json["unknown"] = plan.memory.unknown;
  if (!plan.stream_records.empty()) json["stream_records"] = plan.stream_records;
  if (!plan.batch_size_reason.empty()) json["batch_size_reason"] = plan.batch_size_reason;
  return json;
}

class Lines {
 public:
  void add(const std::string& name, const std::string& text) { std::cout << fmt::format("{:<22} {}\n", name, text); }
  void size(const std::string& name, std::uint64_t bytes, const std::string& note = "") {
    if (bytes > 0) add("  " + name, fmt::format("{:>9}{}{}", human_size(bytes), note.empty() ? "" : "  ", note));
  }
};

std::string count(double value) { return human_count(value); }

void print_memory(const RunPlan& plan, Lines& lines) {
  const MemoryPlan& m = plan.memory;
  lines.add("memory", fmt::format("{} at most{}; {} there", human_size(m.peak), plan.ranks > 1 ? " on each rank" : "",
                                  human_size(plan.available)));
  lines.size("weights", m.weights);
  lines.size("masters", m.masters, "fp32");
  lines.size("gradients", m.gradients);
  lines.size("optimizer", m.optimizer, plan.recipe.optimizer.type);
  lines.size("average", m.average, "trainer.ema");
  lines.size("other models", m.other_models);
  lines.size("a step", m.backward,
             fmt::format("of which {} kept for backward, {} while the loss is made", human_size(m.kept),
                         human_size(m.loss)));
  if (!m.blocks.empty())
    lines.size("  a block keeps", *std::max_element(m.blocks.begin(), m.blocks.end()),
               fmt::format("of {} tokens in {}, times {}", m.tokens, counted(m.rows, "row"),
                           counted(std::ssize(m.blocks), "block")));
  lines.size("an evaluation", m.evaluation);
  lines.size("answers", m.answers, "keys and values");
  lines.size("whole blocks", m.gathered, "parallel.fsdp");
  lines.size("other ranks' sums", m.exchanged, "on their way");
  lines.size("checkpoint's copy", m.checkpoint_copy,
             plan.recipe.trainer.save.asynchronous ? "trainer.save.asynchronous" : "of slices by columns");
  lines.size("batches", m.batches, "of steps that are read ahead");
  lines.size("gaps", m.gaps);
  lines.size("the program", m.process);
}

void print(const RunPlan& plan) {
  Lines lines;
  const TrainerSection& trainer = plan.recipe.trainer;
  lines.add("model", fmt::format("{} parameters, {} trained, {}{}", count(double(plan.parameters)),
                                 count(double(plan.trained)), name_of(trainer.precision),
                                 plan.shared_out ? fmt::format(", shared out among {} ranks", plan.ranks) : ""));
  if (!plan.batch_size_reason.empty()) lines.add("batch", plan.batch_size_reason);
  print_memory(plan, lines);
  lines.add("work", fmt::format("{}FLOP a token, {}FLOP a step, {}FLOP in all", count(plan.flops_per_token),
                                count(plan.flops_per_step), count(plan.flops)));
  lines.add("steps", fmt::format("{} of {} ({} x {}), {} tokens each{}", counted(plan.steps, "step"),
                                 counted(plan.rows_per_step, "row"), trainer.batch_size.rows,
                                 trainer.accumulate, count(plan.tokens_per_step),
                                 plan.epochs ? fmt::format("; {:.3g} epochs of {}", *plan.epochs,
                                                           counted(*plan.data_rows, "row"))
                                             : "; a stream"));
  if (!plan.stream_records.empty()) lines.add("", plan.stream_records);
  if (plan.time.total > 0)
    lines.add("time", fmt::format("{}{}: {} a step, {} for evaluations, {} for saves",
                                  plan.time.measured ? "" : "roughly ", human_duration(plan.time.total),
                                  human_duration(plan.time.step), human_duration(plan.time.evaluations),
                                  human_duration(plan.time.saves)));
  lines.add("disk", fmt::format("{} for {} of {}; {} free", human_size(plan.disk),
                                counted(plan.checkpoints, "checkpoint"), human_size(plan.memory.checkpoint),
                                human_size(plan.disk_free)));
  if (!plan.memory.unknown.empty())
    lines.add("warning", "memory of steps is not known: " + plan.memory.unknown);
  if (!plan.fits())
    lines.add("warning", fmt::format("{} of memory are there: the run will not fit",
                                     human_size(plan.available)));
  if (plan.disk > plan.disk_free) lines.add("warning", "the checkpoints will not fit on the disk");
}

class Plan final : public Command {
 public:
  struct Config {
    std::vector<std::string> set;
    std::int64_t ranks = 1, steps = 3;
    bool measure = true;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("set", &C::set, "Another recipe file on top of the first one; may be given several times."),
          field("ranks", &C::ranks, "Processes that the run will have, as hone launch -n starts them.", at_least(1)),
          field("measure", &C::measure, "Run a few micro-batches to foretell the time; false: only count."),
          field("steps", &C::steps, "How many of them.", {.low = 1, .high = 1000})};
    }
  };
  explicit Plan(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"RECIPE [--a.b.c=value ...]",
            {"hone plan recipe.yaml", "hone plan recipe.yaml --trainer.batch_size=32 --trainer.checkpoint_blocks",
             "hone plan recipe.yaml --ranks 8 --parallel.fsdp=-1 --no-measure"},
            0,
            1,
            true,
            config::Values<Recipe>::names(),
            recipe_switches()};
  }

  int run(const Invocation& call) override {
    const Recipe recipe = whole_recipe(call, flags_.set);
    const RunPlan plan =
        training::plan_run(recipe, {static_cast<int>(flags_.ranks), flags_.measure, flags_.steps});
    call.json ? write_json(json_of(plan)) : print(plan);
    return 0;
  }

 private:
  Config flags_;
};

}  // namespace

void register_plan(Registries& hone) {
  hone.commands.add<Plan>("plan", "Say what a run will take: memory, work, time, disk.");
}

}  // namespace hone::cli
