// As many rows as memory holds.
#include "train/batch_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/memory.h"
#include "base/strings.h"
#include "train/context.h"
#include "train/meta_run.h"
#include "train/placement.h"
#include "train/ranks.h"

namespace hone::training {
namespace {

constexpr double kShareOfFree = 0.9;

// Largest first.
std::vector<std::int64_t> sizes_for(std::int64_t step_rows, int ranks) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t count = 1; count * count <= step_rows; ++count)
    if (step_rows % count == 0) sizes.insert(sizes.end(), {count, step_rows / count});
  std::erase_if(sizes, [&](std::int64_t size) { return step_rows / size % ranks != 0; });
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::uint64_t limit_of(const Recipe& recipe, std::uint64_t process) {
  if (!recipe.trainer.memory_limit.empty()) return *parse_size(recipe.trainer.memory_limit);
  if (const at::Device device = device_of(recipe); !device.is_cpu())
    return static_cast<std::uint64_t>(kShareOfFree * static_cast<double>(memory_there(device)));
  return process + static_cast<std::uint64_t>(kShareOfFree * static_cast<double>(memory_facts().left()));
}

}  // namespace

BatchChoice choose_batch(std::int64_t step_rows, std::int64_t most, int ranks, std::uint64_t limit,
                         const std::function<std::uint64_t(std::int64_t)>& peak) {
  std::vector<std::int64_t> sizes = sizes_for(step_rows, ranks);
  std::erase_if(sizes, [&](std::int64_t size) { return size > most; });
  if (sizes.empty())
    throw Error(ErrorKind::config,
                fmt::format("trainer.step_rows: {} cannot be shared evenly among {} ranks; numbers that fit: {}",
                            counted(step_rows, "row"), ranks, divisors_of(step_rows)));
  std::map<std::int64_t, std::uint64_t> found;
  const auto all = [&](std::int64_t size) {
    if (!found.contains(size)) found[size] = peak(size);
    return found[size];
  };
  // More rows never take less: the first that fits, by halving.
  const auto fits = std::partition_point(sizes.begin(), sizes.end(), [&](auto size) { return all(size) > limit; });
  if (fits == sizes.end())
    throw Error(ErrorKind::config,
                fmt::format("trainer.batch_size: auto: already with {} the run takes {}, and {} are there",
                            counted(sizes.back(), "row"), human_size(all(sizes.back())), human_size(limit)))
        .hint("trainer.checkpoint_blocks, a shorter data.max_length or an adapter take less");
  BatchChoice choice{*fits, step_rows / *fits, ""};
  choice.reason = fmt::format("{} x {}: takes {} of {}", choice.batch_size, choice.accumulate, human_size(all(*fits)),
                              human_size(limit));
  if (fits != sizes.begin())
    choice.reason += fmt::format("; {} rows at once would take {}", *(fits - 1), human_size(all(*(fits - 1))));
  return choice;
}

std::string choose_batch_size(Recipe& recipe, const Inputs& loaded, const World& world, int planned) {
  TrainerSection& trainer = recipe.trainer;
  if (!trainer.batch_size.automatic) return "";
  std::string told, problem;
  if (world.is_first()) {
    const int ranks = planned > 0 ? planned : world.size(), here = planned > 0 ? planned : ranks_here(world);
    const int sharing = ranks_that_share_memory(device_of(recipe), here);
    const std::uint64_t limit = limit_of(recipe, loaded.process);
    const Dataset* data = loaded.train->as_dataset();
    const std::int64_t most = data ? data->epoch_rows() : *trainer.step_rows;
    const auto peak = [&](std::int64_t rows) {
      Recipe one = recipe;
      one.trainer.batch_size = rows, one.trainer.accumulate = *trainer.step_rows / rows;
      return plan_memory(one, loaded, {.ranks = ranks}).peak * static_cast<std::uint64_t>(sharing);
    };
    try {
      const BatchChoice choice = choose_batch(*trainer.step_rows, most, takers_of(recipe, ranks), limit, peak);
      told = nlohmann::json{{"rows", choice.batch_size}, {"reason", choice.reason}}.dump();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::config) throw;
      problem = error.what();
    }
  }
  told = world.from_first(told), problem = world.from_first(problem);
  if (!problem.empty()) throw Error(ErrorKind::config, problem);
  const nlohmann::json heard = nlohmann::json::parse(told);
  trainer.batch_size = heard.at("rows").get<std::int64_t>();
  trainer.accumulate = *trainer.step_rows / trainer.batch_size;
  trainer.step_rows.reset();
  trainer.memory_limit.clear();
  return heard.at("reason").get<std::string>();
}

void take_batch_size(Recipe& recipe, const std::string& saved_yaml, const std::string& where) {
  TrainerSection& trainer = recipe.trainer;
  if (!trainer.batch_size.automatic) return;
  Problems problems;
  const Recipe saved = read_recipe(config::parse_yaml(saved_yaml, where, problems));
  problems.raise(where, ErrorKind::checkpoint);
  const std::int64_t rows = saved.trainer.batch_size * saved.trainer.accumulate;
  if (*trainer.step_rows != rows)
    throw Error(ErrorKind::config, fmt::format("trainer.step_rows: got {}, and the run's steps have {}",
                                               *trainer.step_rows, counted(rows, "row")))
        .hint("--new starts afresh and keeps the old folder beside it");
  trainer.batch_size = saved.trainer.batch_size, trainer.accumulate = saved.trainer.accumulate;
  trainer.step_rows.reset();
  trainer.memory_limit.clear();
}

}  // namespace hone::training
