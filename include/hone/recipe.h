// The recipe of a run: every option of `hone train`, declared once. `hone docs` and --help print this file's words.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/adapter.h"
#include "hone/callback.h"
#include "hone/config_read.h"
#include "hone/data_section.h"
#include "hone/evaluation.h"
#include "hone/objective.h"
#include "hone/optimizer.h"
#include "hone/quantization.h"
#include "hone/tracker.h"
#include "hone/training_section.h"

namespace hone {

// What is taken from the folder at model.path.
struct LoadSection {
  std::string checkpoint = "latest";
  bool optimizer = false, strict = true;
  static constexpr std::string_view kShorthand = "checkpoint";
  static constexpr auto fields() {
    using C = LoadSection;
    return std::tuple{
        field("checkpoint", &C::checkpoint, "Of a run folder: latest, best, or the step of a checkpoint."),
        field("optimizer", &C::optimizer,
              "Start from the optimizer's state of that checkpoint as well, and not from weights alone; steps are "
              "counted from 0."),
        field("strict", &C::strict,
              "false: weights that the folder lacks start afresh, and those that the model lacks are passed over; both "
              "are told. Shapes must agree either way.")};
  }
};

// Weights that are trained, all the time or some of it.
struct TrainableWeights {
  std::string match;
  std::int64_t from = 0;
  std::optional<std::int64_t> until;
  static constexpr std::string_view kShorthand = "match";
  static constexpr auto fields() {
    using C = TrainableWeights;
    return std::tuple{
        field("match", &C::match, "Regular expression that a weight's name is searched for."),
        field("from", &C::from, "They stay as they are for so many steps of the run, and are trained from then on.",
              at_least(0)),
        field("until", &C::until,
              "They stay as they are again from when the run has made so many steps; default: never.", at_least(1))};
  }
};

struct ModelSection {
  std::string path;
  LoadSection load;
  std::vector<TrainableWeights> trainable;
  Quantization quantization;
  bool texts_only = false;
  std::map<std::string, config::Open> config;
  static constexpr std::string_view kShorthand = "path", kRest = "config";
  static constexpr auto fields() {
    using C = ModelSection;
    return std::tuple{
        field("path", &C::path,
              "Folder of a Hugging Face model, a run folder (its newest whole checkpoint), or org/name in the local HF "
              "cache."),
        field("load", &C::load, "Which checkpoint of a run, and what of it."),
        field(
            "trainable", &C::trainable,
            "Regular expressions: only weights whose name one of them matches anywhere are trained, as lm_head or "
            "layers\\.1[0-9]\\.; the others are frozen, need no optimizer state, and are kept and saved in bf16 in a "
            "bf16 "
            "run. Default: all are trained. `{match: layers, from: 100, until: 500}` trains them for some steps only."),
        field("quantization", &C::quantization,
              "Weights in fewer bits beside an adapter (QLoRA)."),
        field("texts_only", &C::texts_only,
              "Of a model of texts and pictures its texts' half alone, where that is a model of its own, as of Gemma "
              "3: nothing else is loaded, and checkpoints are of that type."),
        field("config", &C::config,
              "For a fresh model instead of path: `type: llama` and the keys of Hugging Face's config.json. Beside "
              "path: keys of its config.json that are to be others, as `rope_theta: 500000`.")};
  }
  HONE_API void validate(Problems& problems) const;
};

// How a model is spread over ranks (hone launch, torchrun, ...).
struct ParallelSection {
  std::int64_t fsdp = 1, context = 1, tensor = 1;
  static constexpr auto fields() {
    using C = ParallelSection;
    return std::tuple{
        field("fsdp", &C::fsdp,
              "Ranks that share out weights, masters, moments and gradients, each keeping a part of every "
              "block (fully sharded); -1: all of them; 1: each has all.",
              at_least(-1), OnResume::free),
        field("context", &C::context,
              "Ranks that compute a micro-batch together, each a stretch of its tokens and, where these see each "
              "other, all tokens of some heads: long rows take so many times less memory; -1: all of them; 1: each "
              "rank has micro-batches of its own.",
              at_least(-1), OnResume::free),
        field("tensor", &C::tensor,
              "Ranks that compute each layer of a micro-batch together, each with a slice of the weights of attention, "
              "MLPs, experts and vocabulary, and a stretch of the tokens between layers (tensor parallel); -1: all of "
              "them; 1: each rank computes whole layers.",
              at_least(-1), OnResume::free)};
  }
  HONE_API void validate(Problems& problems) const;
};

struct RunSection {
  std::string folder, name;
  std::uint64_t seed = 1;
  static constexpr std::string_view kShorthand = "folder";
  static constexpr auto fields() {
    using C = RunSection;
    return std::tuple{
        field("folder", &C::folder, "Folder of the run; the same recipe again resumes it.", OnResume::free),
        field("name", &C::name, "Instead of folder: makes runs/<name>/run_1, run_2, ..., a new one each time.",
              OnResume::free),
        field("seed", &C::seed, "Decides fresh weights, the order of rows and what is held out.")};
  }
  HONE_API void validate(Problems& problems) const;
};

// What is learnt beside the model's weights, which stay as they are. type "": nothing, the weights are trained.
struct AdapterSection : LoraConfig {
  using Base = LoraConfig;
  std::string type, path;
  static constexpr std::string_view kShorthand = "type";
  static constexpr auto fields() {
    using C = AdapterSection;
    return std::tuple_cat(
        Base::fields(),
        std::tuple{field("type", &C::type,
                         "lora: low-rank factors beside the weights (arXiv:2106.09685); default: none, the weights "
                         "themselves are trained.",
                         OnResume::fixed),
                   field("path", &C::path,
                         "Folder of an adapter, of PEFT or of a run, to go on from instead of a fresh one; it says its "
                         "rank, alpha and targets.")});
  }
  HONE_API void validate(Problems& problems) const;
};

struct Recipe {
  ModelSection model;
  AdapterSection adapter;
  std::string tokenizer;
  DataSection data;
  config::Choice<Objective> objective{"causal_lm", nullptr};
  std::vector<config::Choice<Evaluation>> metrics;
  config::Choice<Optimizer> optimizer{"adamw", nullptr};
  TrainerSection trainer;
  ParallelSection parallel;
  std::vector<config::Choice<Callback>> callbacks;
  std::vector<config::Choice<Tracker>> trackers;
  RunSection run;
  static constexpr auto fields() {
    using C = Recipe;
    return std::tuple{
        field("model", &C::model, "What is trained."),
        field("adapter", &C::adapter, "What is trained beside the model's weights, instead of them."),
        field("tokenizer", &C::tokenizer,
              "`bytes`, a tokenizer.json, a folder that holds one, or `none`; default: the model's own."),
        field("data", &C::data, "What it is trained on."),
        field("objective", &C::objective, "Kind of training."),
        field("metrics", &C::metrics, "What is measured on evaluation sets besides what the objective measures.",
              OnResume::record),
        field("optimizer", &C::optimizer, "How weights are updated."),
        field("trainer", &C::trainer, "How long, in what steps, and what is written on the way."),
        field("parallel", &C::parallel, "How the model is spread over several processes.", OnResume::free),
        field("callbacks", &C::callbacks, "Hooks into the run.", OnResume::record),
        field("trackers", &C::trackers, "Where numbers go besides metrics.jsonl and the terminal.", OnResume::free),
        field("run", &C::run, "Where the run lives.")};
  }
  HONE_API void validate(Problems& problems) const;
};

// {"a.b.c", "value"}, the value as YAML has it.
using RecipeOverrides = std::vector<std::pair<std::string, std::string>>;

// Keys that no option has: an error, or a warning that lists them. On the command line and in the environment they are
// an error always.
enum class UnknownKeys { refuse, pass_over };

// What a recipe is put together from; each layer lies over those before it, whichever name of a renamed option it uses.
struct RecipeLayers {
  std::string file;              // YAML or JSON; "" = none
  std::vector<std::string> set;  // further files
  RecipeOverrides environment, flags;
  UnknownKeys unknown = UnknownKeys::refuse;  // of the files
};

// The way of every recipe, of a command, a library or a resumed run:
//   layers -> one node     what a later layer excludes gives way; ${a.b} is replaced, ??? refused
//   node -> Recipe         every option read and checked; Error(config) with all problems and where each was written
//   Recipe -> a run's      checked once more, as it may have been changed in between, and what only the start of a run
//                          decides is filled in (precision, folder): src/train/complete.h, by train() and its kin
// config.yaml of a run is the last of these, as write_recipe() gives it, and enters as a node when the run is resumed.
HONE_API Recipe read_recipe(const RecipeLayers& layers);
HONE_API Recipe read_recipe(const std::string& path, const RecipeOverrides& overrides = {});  // a file and flags
HONE_API Recipe read_recipe(const config::Node& node, UnknownKeys unknown = UnknownKeys::refuse);  // nothing to replace
HONE_API config::Node merge_layers(const RecipeLayers& layers);  // the first step alone; each value knows its place
HONE_API config::Node write_recipe(const Recipe& recipe);        // every option; read again it is the same recipe

// What a change of an option ("trainer.save.every") means when the run of this recipe is resumed: as its field() says,
// or the section that it is in; refuse where nothing does. Nothing: no such option.
HONE_API std::optional<OnResume> on_resume(const Recipe& recipe, const std::string& option);

}  // namespace hone
