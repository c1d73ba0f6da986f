// The recipe's section `trainer.save`: when checkpoints are written, which of them stay, and what is in them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "hone/config_read.h"

namespace hone {

enum class SaveDtype { source, run, fp32, bf16 };
template <>
inline constexpr auto config::enum_names<SaveDtype> = std::to_array<std::pair<SaveDtype, std::string_view>>(
    {{SaveDtype::source, "source"}, {SaveDtype::run, "run"}, {SaveDtype::fp32, "fp32"}, {SaveDtype::bf16, "bf16"}});

struct SaveSection {
  std::int64_t every = 500;
  double every_minutes = 0;
  std::int64_t keep = 3, keep_best = 1;
  std::string best_by;
  bool after_evaluation = false;
  SaveDtype dtype = SaveDtype::source;
  bool optimizer = true, asynchronous = false;
  double grace_seconds = 25;
  static constexpr std::string_view kShorthand = "every";
  static constexpr auto fields() {
    using C = SaveSection;
    return std::tuple{
        field("every", &C::every, "Steps between checkpoints; 0 = only by time and at the end.", at_least(0)),
        field("every_minutes", &C::every_minutes, "Minutes between checkpoints; 0 = only by steps and at the end.",
              at_least(0)),
        field("keep", &C::keep, "How many checkpoints stay, besides the best ones; 0 = all of them.", at_least(0)),
        field("keep_best", &C::keep_best, "How many of the best checkpoints stay, however old they are.", at_least(1)),
        field("best_by", &C::best_by,
              "The evaluations' metric that says which is best, as eval_<set>_loss; default: the first set's loss."),
        field("after_evaluation", &C::after_evaluation,
              "Save after each evaluation as well, so that the best model of all is among the checkpoints."),
        field("dtype", &C::dtype,
              "Type of the weights in checkpoints: source = as the model came (a fresh one: as run), run = as the run "
              "computes, fp32 or bf16; the run itself goes on from its exact weights either way."),
        field("optimizer", &C::optimizer,
              "false: checkpoints are models alone, a third of the size or less, and no run can go on from them; only "
              "the one of an interruption is whole."),
        field("asynchronous", &C::asynchronous,
              "Write checkpoints while training goes on, from a copy in memory that is taken between two steps; one at "
              "a time."),
        field("grace_seconds", &C::grace_seconds,
              "Warn when a save takes so long that it may not fit between SIGTERM and SIGKILL.", at_least(0))};
  }
};

}  // namespace hone
