// hone bench: how long a training step takes, where the time goes, and how far that is from what the machine can do.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/strings.h"
#include "base/temporary.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/recipe.h"
#include "hone/command.h"
#include "hone/hub.h"
#include "hone/random.h"
#include "hone/registry.h"
#include "ops/kernels.h"
#include "tensor/threads.h"
#include "train/bench.h"
#include "train/ceilings.h"

namespace hone::cli {
namespace {

using training::BenchReport;
using training::Ceilings;

double total(const std::array<double, sections::kNames.size()>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// How much of all exchanges was hidden behind work.
double overlap(const BenchReport& report) {
  const double all = report.exchange_seconds_per_step.value_or(0);
  return all <= 0 ? 0 : std::clamp(1 - report.exposed_seconds_per_step / all, 0.0, 1.0);
}

std::string ranks_text(const BenchReport& report) {
  const std::string sent = human_size(static_cast<std::uint64_t>(report.bytes_sent_per_step));
  if (!report.exchange_seconds_per_step)
    return fmt::format("{}; each sends {} a step, and waits {:.3g} s of it for others", report.ranks, sent,
                       report.exposed_seconds_per_step);
  return fmt::format("{}; each sends {} a step; exchanges take {:.3g} s of it, {:.3g} s of which is waiting: {:.0f} % "
                     "overlap with work",
                     report.ranks, sent, *report.exchange_seconds_per_step, report.exposed_seconds_per_step,
                     100 * overlap(report));
}

std::string_view precision_name(Precision precision) {
  for (const auto& [value, name] : config::enum_names<Precision>)
    if (value == precision) return name;
  return "";
}

nlohmann::ordered_json to_json(const BenchReport& report, const Ceilings& ceilings) {
  const auto steps = static_cast<double>(report.steps);
  const double flop = total(report.totals.flop) / steps;
  nlohmann::ordered_json split, flops, bytes, waited,
      json = {{"parameters", report.parameters},
              {"precision", precision_name(report.precision)},
              {"device", report.device},
              {"kernels", ops::name(ops::level())},
              {"fp32_products", ops::name(ops::fp32_products())},
              {"threads", at::get_num_threads()},
              {"ranks", report.ranks},
              {"tokens_per_step", report.tokens_per_step},
              {"supervised_per_step", report.supervised_per_step},
              {"load_seconds", report.load_seconds},
              {"first_step_seconds", report.first_step_seconds},
              {"steps", report.steps},
              {"step_seconds", report.step_seconds},
              {"best_step_seconds", report.best_step_seconds},
              {"tokens_per_second", static_cast<double>(report.tokens_per_step) / report.step_seconds},
              {"flop_per_step", flop},
              {"flops", flop / report.step_seconds},
              {"product_ceiling_flops", ceilings.products},
              {"memory_ceiling_bytes_per_second", ceilings.memory},
              {"host_waits_per_micro_batch", report.host_waits_per_micro_batch},
              {"share_of_ceiling", flop / report.step_seconds / ceilings.products},
              {"peak_memory_bytes", report.peak_memory_bytes}};
  for (std::size_t i = 0; i < sections::kNames.size(); ++i) {
    const std::string name(sections::kNames[i]);
    split[name] = report.totals.seconds[i] / steps, waited[name] = report.totals.waited[i] / steps;
    if (report.totals.flop[i] > 0) flops[name] = report.totals.flop[i] / report.totals.seconds[i];
    if (report.totals.bytes[i] > 0) bytes[name] = report.totals.bytes[i] / report.totals.seconds[i];
  }
  if (report.ranks > 1) {
    json["bytes_sent_per_step"] = report.bytes_sent_per_step;
    json["exposed_seconds_per_step"] = report.exposed_seconds_per_step;
    if (report.exchange_seconds_per_step) json["exchange_seconds_per_step"] = *report.exchange_seconds_per_step;
    if (report.exchange_seconds_per_step) json["overlap"] = overlap(report);
  }
  json["seconds_by_op"] = split;
  json["flops_by_op"] = flops, json["bytes_per_second_by_op"] = bytes, json["seconds_waited_by_op"] = waited;
  return json;
}

// An op's rate, and what share that is of the ceiling: of numbers where it multiplies, else of bytes.
void print_ops(const BenchReport& report, const Ceilings& ceilings) {
  const sections::Totals& totals = report.totals;
  const auto steps = static_cast<double>(report.steps);
  std::cout << fmt::format("{:<24} {:>10} {:>7} {:>9} {:>7} {:>10} {:>9}\n", "op", "s / step", "share", "GFLOP/s",
                           "GB/s", "of ceiling", "s waited");
  for (std::size_t i = 0; i < sections::kNames.size(); ++i) {
    const double seconds = totals.seconds[i], flops = totals.flop[i] / seconds, bytes = totals.bytes[i] / seconds;
    const auto giga = [](double rate) { return rate > 0 ? fmt::format("{:.0f}", rate / 1e9) : std::string(); };
    const double share = flops > 0 ? flops / ceilings.products : bytes / ceilings.memory;
    std::cout << fmt::format("{:<24} {:>10.4f} {:>5.1f} % {:>9} {:>7} {:>10} {:>9.4f}\n", sections::kNames[i],
                             seconds / steps, 100 * seconds / total(totals.seconds), giga(flops), giga(bytes),
                             share > 0 ? fmt::format("{:.0f} %", 100 * share) : "", totals.waited[i] / steps);
  }
}

std::string describe_kernels() {
  const bool library = ops::use_kernels() && ops::fp32_products() == ops::Fp32Products::libtorch;
  return fmt::format(", kernels {}{}", ops::name(ops::level()), library ? ", fp32 products by LibTorch" : "");
}

void print(const BenchReport& report, const Ceilings& ceilings) {
  const auto steps = static_cast<double>(report.steps);
  const double all = total(report.totals.seconds), flop = total(report.totals.flop) / steps;
  const bool host = report.device == "cpu";
  std::cout << fmt::format("model            {} parameters, {}{}\n",
                           human_count(static_cast<double>(report.parameters)), precision_name(report.precision),
                           host ? describe_kernels() : "");
  std::cout << "processor        " << (host ? describe_threads() : report.device) << '\n';
  if (report.ranks > 1) std::cout << "ranks            " << ranks_text(report) << '\n';
  std::cout << fmt::format("step             {:.4g} s median of {}, {:.4g} s best; {} tokens, {} supervised\n",
                           report.step_seconds, report.steps, report.best_step_seconds, report.tokens_per_step,
                           report.supervised_per_step);
  std::cout << fmt::format("rate             {:.0f} tokens/s, {:.1f} GFLOP/s\n",
                           static_cast<double>(report.tokens_per_step) / report.step_seconds,
                           flop / report.step_seconds / 1e9);
  std::cout << fmt::format("ceiling          {:.1f} GFLOP/s of matrix products, of which the step reaches {:.1f} %\n",
                           ceilings.products / 1e9, 100 * flop / report.step_seconds / ceilings.products);
  std::cout << fmt::format("memory           {:.1f} GB/s read and written by a large copy\n",
                           ceilings.memory / 1e9);
  std::cout << fmt::format("threads          wait {:.3g} s of a step for one another, {:.1f} %\n",
                           total(report.totals.waited) / steps, 100 * total(report.totals.waited) / all);
  std::cout << fmt::format("host waits       {:.4g} in a micro-batch, for what a device makes\n",
                           report.host_waits_per_micro_batch);
  std::cout << fmt::format("start            {:.2f} s to load, first step done after {:.2f} s\n", report.load_seconds,
                           report.first_step_seconds);
  std::cout << fmt::format("peak memory      {}\n\n", human_size(static_cast<std::uint64_t>(report.peak_memory_bytes)));
  print_ops(report, ceilings);
}

class Bench final : public Command {
 public:
  struct Config {
    std::vector<std::string> set;
    std::int64_t steps = 5, warmup = 2, length = 512, batch_size = 8;
    bool allow_unknown = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("set", &C::set, "Another recipe file on top of the first one; may be given several times."),
          field("steps", &C::steps, "Measured steps.", at_least(1)),
          field("warmup", &C::warmup, "Steps before them.", at_least(0)),
          field("length", &C::length, "Model folder only: tokens in a row of random tokens.", at_least(2)),
          field("batch_size", &C::batch_size, "Model folder only: rows in a step.", at_least(1)),
          field("allow_unknown", &C::allow_unknown,
                "Keys of recipe files that no option has are passed over with a warning that lists them.")};
    }
  };
  explicit Bench(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"RECIPE|MODEL [--a.b.c=value ...]",
            {"hone bench recipe.yaml", "hone bench my-model --batch-size 4 --length 1024",
             "hone bench recipe.yaml --trainer.precision=fp32 --json"},
            1,
            1,
            true,
            {},
            recipe_switches(),
            /*together=*/true};
  }

  int run(const Invocation& call) override {
    const TemporaryFolder scratch;
    const World world = join_ranks();
    const bool folder = std::filesystem::is_directory(call.positionals[0]);
    for (const auto& [flag, value] : call.flags)
      if (!folder && (flag == "length" || flag == "batch_size"))
        throw Error(ErrorKind::usage,
                    "--" + replace_all(flag, "_", "-") + ": only with a model's folder; a recipe says it itself")
            .hint("--data.max_length and --trainer.batch_size are options of recipes");
    const Invocation with_recipe =
        folder ? Invocation{{shared_recipe_for(call.positionals[0], scratch, world)}, call.overrides} : call;
    const Recipe recipe = whole_recipe(
        with_recipe, flags_.set, "", "", flags_.allow_unknown ? UnknownKeys::pass_over : UnknownKeys::refuse);
    const BenchReport report = training::bench(recipe, {flags_.warmup, flags_.steps, world});
    world.wait();  // rank 0's files are read no more, and all ranks measure at once, as in a step
    const Ceilings ceilings = training::ceilings(report.precision, at::Device(report.device));
    if (!world.is_first()) return 0;
    call.json ? write_json(to_json(report, ceilings)) : print(report, ceilings);
    return 0;
  }

 private:
  // Rank 0's.
  std::string shared_recipe_for(const std::string& given, const TemporaryFolder& scratch, const World& world) const {
    if (flags_.batch_size % world.size() != 0)
      throw Error(ErrorKind::usage, fmt::format("--batch-size: the {} rows of a step cannot be shared evenly among {} "
                                                "ranks",
                                                flags_.batch_size, world.size()));
    return world.from_first(world.is_first() ? write_recipe_for(given, scratch, world.size()) : "");
  }

  // A recipe that trains the folder's model on rows of random tokens.
  std::string write_recipe_for(const std::string& given, const TemporaryFolder& scratch, int ranks) const {
    const std::filesystem::path model = find_model_folder(given);
    const std::string file = (model / "config.json").string();
    const std::unique_ptr<Model> built = build_model(config::read_file(file), file);
    const std::int64_t vocab = built->vocab_size();
    const nlohmann::ordered_json recipe = {
        {"model", std::filesystem::absolute(model).string()},
        {"data", {{"train", write_rows(scratch, vocab)}, {"max_length", flags_.length}}},
        {"trainer", {{"batch_size", flags_.batch_size / ranks}, {"accumulate", ranks}}},
        {"run", scratch / "run"}};
    return write(scratch / "recipe.json", recipe.dump());
  }

  std::string write_rows(const TemporaryFolder& scratch, std::int64_t vocab) const {
    const Random random(1, "bench");
    std::string rows;
    const std::int64_t count = flags_.batch_size * (flags_.warmup + flags_.steps);
    for (std::int64_t row = 0; row < count; ++row) {
      std::vector<std::uint64_t> ids;
      for (std::int64_t t = 0; t < flags_.length; ++t) ids.push_back(random.below(vocab, row * flags_.length + t));
      rows += nlohmann::json{{"input_ids", ids}}.dump() + "\n";
    }
    return write(scratch / "rows.jsonl", rows);
  }

  static std::string write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    return path;
  }

  Config flags_;
};

}  // namespace

void register_bench(Registries& hone) {
  hone.commands.add<Bench>("bench", "Measure training steps: time by op, rate, memory.");
}

}  // namespace hone::cli
