// hone train: a thin wrapper around hone::train().
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/program_words.h"
#include "base/shell_words.h"
#include "base/strings.h"
#include "cli/checkpoint_place.h"
#include "cli/lost_paths.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/recipe.h"
#include "hone/command.h"
#include "hone/registry.h"
#include "hone/trainer.h"
#include "train/dry_run.h"
#include "io/json.h"
#include "train/checkpoint.h"
#include "train/state.h"

namespace hone::cli {
namespace {

constexpr int kStopped = 75;  // resumable: the same command goes on

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::steps: return "steps";
    case StopReason::callback: return "callback";
    case StopReason::signal: return "signal";
    case StopReason::already_finished: return "already_finished";
    case StopReason::end_of_data: return "end_of_data";
    case StopReason::replayed: return "replayed";
  }
  return "";
}

// Of the last log line; how good a model's own answers are says more than their loss.
bool is_told(const std::string& name) {
  return name.ends_with("loss") || name == "reward" ||
         (name.starts_with("eval_") && name.ends_with("_reward") && !name.ends_with("_mean_reward"));
}

// Of a run that was ended before its steps were made.
std::string how_it_goes_on(const std::string& checkpoint) {
  if (training::has_optimizer(Env::process().open_folder(checkpoint))) return "; --resume latest goes on";
  return fmt::format("; no run goes on from its checkpoint, which was saved without the optimizer's state "
                     "(trainer.save.optimizer: false): model.path={} starts a new one from its weights",
                     shell_word(checkpoint));
}

std::string text_of(const Summary& summary) {
  if (summary.reason == StopReason::already_finished)
    return fmt::format("{}: finished at step {} ({}); nothing to do{}", summary.folder, summary.step,
                       summary.stopped_by.empty() ? "steps" : summary.stopped_by,
                       summary.stopped_by.empty() ? "" : how_it_goes_on(summary.checkpoint));
  if (summary.checkpoint.empty()) return fmt::format("stopped by {} before the first step", summary.stopped_by);
  std::string text =
      fmt::format("{}: step {} of {}, {} tokens in all, took {}", summary.interrupted() ? "stopped" : "done",
                  summary.step, summary.steps, human_count(static_cast<double>(summary.tokens)),
                  human_duration(summary.seconds));
  for (const auto& [name, value] : summary.metrics)
    if (is_told(name)) text += fmt::format(", {} {}", name, four_digits(value));
  if (!summary.stopped_by.empty())
    text += ", stopped by " + (summary.reason == StopReason::end_of_data ? "the " : std::string()) + summary.stopped_by;
  if (summary.failed_saves > 0) text += fmt::format(", {} saves failed", summary.failed_saves);
  if (summary.skipped_steps > 0)
    text += fmt::format(", {} without anything to learn", counted(summary.skipped_steps, "step"));
  if (summary.left_out > 0)
    text += fmt::format(", {} left out for gradients that were not finite or too long",
                        counted(summary.left_out, "update"));
  return text + "; " + summary.checkpoint;
}

// A run's own config.yaml whose run.folder is another place here, as the run was begun in another folder or has been
// moved: what was asked for is surely not a new run.
void refuse_to_begin_elsewhere(const Invocation& call, const Recipe& recipe) {
  namespace fs = std::filesystem;
  const auto is_chosen = [](const auto& option) { return option.first == "run" || option.first == "run.folder"; };
  if (call.positionals.empty() || std::any_of(call.overrides.begin(), call.overrides.end(), is_chosen)) return;
  std::error_code ignored;
  const fs::path file = fs::absolute(call.positionals[0], ignored),
                 own = fs::weakly_canonical(file.parent_path(), ignored),
                 meant = fs::weakly_canonical(fs::absolute(recipe.run.folder, ignored), ignored);
  if (file.filename() != "config.yaml" || own == meant || !fs::exists(own / "run.json", ignored) ||
      fs::exists(meant / "run.json", ignored))
    return;
  throw Error(ErrorKind::usage, fmt::format("{}: the recipe of the run in {}; its run.folder, {}, is {} here, and no "
                                            "run is there",
                                            call.positionals[0], own.string(), recipe.run.folder, meant.string()))
      .hint(fmt::format("--run.folder={} goes on with that run, any other one begins anew", shell_word(own.string())));
}

class Train final : public Command {
 public:
  struct Config {
    std::vector<std::string> set;
    std::optional<std::string> resume;
    std::vector<std::string> override_keys;
    std::string gradients, from, replay;
    bool fresh = false, strict_resume = false, dry_run = false, space_check = true, allow_unknown = false;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("set", &C::set, "Another recipe file on top of the first one; may be given several times."),
          field("from", &C::from,
                "A checkpoint or a run folder instead of a recipe: goes on from there by its own recipe; with another "
                "run.folder in a new run, from a copy."),
          field("resume", &C::resume, "latest, or a step: go on from that checkpoint; an error if it is not there."),
          field("override", &C::override_keys,
                "Option that may differ from the run's own recipe, or all; may be given several times."),
          field("gradients", &C::gradients,
                "Write the gradients of the last step, before clipping, to this safetensors file."),
          field(
              "replay", &C::replay,
              "A nonfinite-step-N.json instead of a recipe: makes that step of its run once more, from the checkpoint "
              "before it, and says again what was not finite; the run stays as it is."),
          field("new", &C::fresh, "Start again: an existing run folder is moved to <folder>.old-k first."),
          field("strict_resume", &C::strict_resume,
                "A damaged newest checkpoint is an error, not a step back to an older one."),
          field("dry_run", &C::dry_run,
                "Say what would be trained on, make the run's next step and one evaluation, and keep nothing of it: no "
                "folder, no cache, no record taken."),
          field("space_check", &C::space_check, "Refuse to start when the checkpoints will not fit on the disk."),
          field("allow_unknown", &C::allow_unknown,
                "Keys of recipe files that no option has are passed over with a warning that lists them.")};
    }
  };
  explicit Train(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"[RECIPE] [--a.b.c=value ...]",
            {"hone train recipe.yaml", "hone train recipe.yaml --trainer.steps=500 --optimizer.learning_rate=1e-4",
             "hone train --from runs/chats --trainer.steps=2000",
             "hone train --replay runs/chats/nonfinite-step-412.json",
             "hone train --model.path=my-model --data.train=chats.jsonl --run.folder=runs/chats"},
            0,
            1,
            true,
            config::Values<Recipe>::names(),
            recipe_switches(),
            /*together=*/true};
  }

  int run(const Invocation& call) override {
    if (!flags_.replay.empty()) return replay(call);
    const std::optional<CheckpointPlace> from = from_place(call);
    const Recipe recipe = whole_recipe(call, flags_.set, from ? from->folder / "state" / "config.yaml" : "",
                                       from && !from->run.empty() ? from->run.string() : "",
                                       flags_.allow_unknown ? UnknownKeys::pass_over : UnknownKeys::refuse);
    refuse_to_begin_elsewhere(call, recipe);
    const World world = join_ranks();
    TrainOptions options;
    options.resume = flags_.resume;
    if (from && !flags_.dry_run) options.resume = goes_on(*from, recipe, world);
    options.fresh = flags_.fresh;
    options.override_keys = flags_.override_keys;
    options.strict_resume = flags_.strict_resume;
    options.gradients = flags_.gradients;
    options.quiet = call.quiet;
    options.check_space = flags_.space_check;
    options.world = world;
    const auto of_recipe = [&](auto&& work) {
      try {
        return work();
      } catch (const Error& error) {
        if (!from) throw;
        throw naming_lost_path(error, recipe, flags_.from);
      }
    };
    if (flags_.dry_run) return of_recipe([&] { return dry_run(recipe, from, options, call.json); });
    const Summary summary = of_recipe([&] { return train(recipe, options); });
    if (!options.world.is_first()) return summary.interrupted() ? kStopped : 0;
    call.json ? write_json(json_of(summary)) : void(std::cout << text_of(summary) << '\n');
    return summary.interrupted() ? kStopped : 0;
  }

 private:
  std::optional<CheckpointPlace> from_place(const Invocation& call) const {
    if (flags_.from.empty()) return std::nullopt;
    if (!call.positionals.empty() || flags_.resume || flags_.fresh)
      throw Error(ErrorKind::usage,
                  "--from: not together with a recipe, --resume or --new; its own recipe is read, and "
                  "options after it lie over that");
    return checkpoint_place(flags_.from, /*verified=*/false);
  }

  // From which step of the recipe's run folder.
  static std::string goes_on(const CheckpointPlace& from, const Recipe& recipe, const World& world) {
    std::error_code ignored;
    const std::filesystem::path run = std::filesystem::weakly_canonical(recipe.run.folder, ignored);
    if (run != from.run) world.first_then_others([&] { return world.is_first() ? (copy_into_run(from, run), 0) : 0; });
    return std::to_string(from.step);
  }

  // By the recipe in the file's folder, which is the run's.
  int replay(const Invocation& call) const {
    if (!call.positionals.empty() || flags_.resume || flags_.fresh || !flags_.from.empty() || flags_.dry_run ||
        !flags_.set.empty() || !flags_.gradients.empty())
      throw Error(ErrorKind::usage,
                  "--replay: not together with a recipe or other flags; the run's own recipe is read");
    const std::filesystem::path file = flags_.replay, folder = file.parent_path().empty() ? "." : file.parent_path();
    const nlohmann::json told = io::read_json_file(file);
    if (!told.is_object() || !told.contains("step") || !told["step"].is_number_unsigned())
      throw Error(ErrorKind::checkpoint, file.string() + ": no step; expected a run's nonfinite-step-N.json");
    if (std::error_code ignored; !std::filesystem::exists(folder / "config.yaml", ignored))
      throw Error(ErrorKind::usage, file.string() + ": lies in no run folder; expected config.yaml beside it")
          .hint("--replay reads the run's own recipe and the checkpoint before the step");
    TrainOptions options;
    options.replay = told["step"].get<std::int64_t>();
    options.override_keys = {"all"};
    options.quiet = call.quiet;
    options.world = join_ranks();
    if (const auto ranks = told.value("ranks", std::int64_t{1}); ranks != options.world.size())
      throw Error(ErrorKind::usage,
                  fmt::format("{}: the step was made by {}, and there {} {} now", file.string(), counted(ranks, "rank"),
                              options.world.size() == 1 ? "is" : "are", options.world.size()))
          .hint(fmt::format("{} launch -n {} train --replay {}", program_words(), ranks, shell_word(file.string())));
    const Summary summary = train(whole_recipe(call, {}, folder / "config.yaml", folder.string()), options);
    if (!options.world.is_first()) return summary.interrupted() ? kStopped : 0;
    if (call.json)
      write_json(json_of(summary));
    else if (summary.interrupted())
      std::cout << "stopped by " << summary.stopped_by << " before the step was made\n";
    else
      std::cout << fmt::format("{}: step {} was made once more, and everything in it is finite\n", summary.folder,
                               summary.step);
    return summary.interrupted() ? kStopped : 0;
  }

  static int dry_run(Recipe recipe, const std::optional<CheckpointPlace>& from, TrainOptions options, bool json) {
    if (!options.gradients.empty())
      throw Error(ErrorKind::usage, "--gradients: not together with --dry-run, which writes nothing");
    if (from && from->run.empty())
      throw Error(ErrorKind::usage, "--dry-run: " + from->folder.string() + " lies in no run folder");
    if (from) recipe.run.folder = from->run.string(), options.resume = std::to_string(from->step);
    const training::DryRun found = training::dry_run(recipe, options);
    if (!options.world.is_first()) return 0;
    if (json) write_json(found.report());
    else for (const std::string& line : found.lines()) std::cout << line << '\n';
    return 0;
  }

  static nlohmann::ordered_json json_of(const Summary& summary) {
    nlohmann::ordered_json json = {{"folder", summary.folder},         {"checkpoint", summary.checkpoint},
                                   {"step", summary.step},             {"steps", summary.steps},
                                   {"tokens", summary.tokens},         {"reason", name_of(summary.reason)},
                                   {"stopped_by", summary.stopped_by}, {"seconds", summary.seconds},
                                   {"prepare_seconds", summary.prepare_seconds},
                                   {"warnings", summary.warnings},     {"failed_saves", summary.failed_saves},
                                   {"skipped_steps", summary.skipped_steps},
                                   {"left_out", summary.left_out},
                                   {"metrics", training::json_of(summary.metrics)}};
    if (summary.resumed_from) json["resumed_from"] = *summary.resumed_from;
    return json;
  }

  Config flags_;
};

}  // namespace

void register_train(Registries& hone) {
  hone.commands.add<Train>("train", "Train a model as a recipe says; again: resume.");
}

}  // namespace hone::cli
