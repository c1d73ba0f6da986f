// Reading and checking recipes.
#include "hone/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "base/program_words.h"
#include "base/strings.h"
#include "config/duration.h"
#include "config/home.h"
#include "config/patterns.h"
#include "config/tree.h"
#include "hone/registry.h"
#include "hub/fresh.h"
#include "io/file_name.h"
#include "train/contradictions.h"
#include "train/layers.h"
#include "train/lost_evaluations.h"

namespace hone {
void ModelSection::validate(Problems& problems) const {
  problems.require(!path.empty() || !config.empty(), "path",
                   "missing: a model folder, or `type:` and sizes for a fresh model");
  const auto step = hone::parse_int(load.checkpoint);
  problems.require(load.checkpoint == "latest" || load.checkpoint == "best" || (step && *step >= 0), "load.checkpoint",
                   "got " + hone::quoted(load.checkpoint) + ", expected latest, best or a step");
  const LoadSection standard;
  problems.require(!path.empty() || (load.checkpoint == standard.checkpoint && load.optimizer == standard.optimizer &&
                                     load.strict == standard.strict),
                   "load", "needs model.path: a fresh model is not loaded");
  problems.require(!path.empty() || !texts_only, "texts_only", "needs model.path: a fresh model says what it is of");
  problems.require(!config.contains("config"), "config",
                   "no key of its own: the keys of a fresh model's config.json stand beside `type`");
  problems.require(!path.empty() || config.empty() || config.contains("type") || config.contains("model_type"), "type",
                   "missing: the architecture of a fresh model, such as llama");
  std::vector<std::string> patterns;
  for (std::size_t i = 0; i < trainable.size(); ++i) {
    const std::string option = fmt::format("trainable.{}", i);
    const TrainableWeights& entry = trainable[i];
    patterns.push_back(entry.match);
    problems.require(!entry.match.empty(), option + ".match", "missing: a regular expression of names");
    problems.require(!entry.until || *entry.until > entry.from, option + ".until",
                     fmt::format("got {}, expected more than from {}", entry.until.value_or(0), entry.from));
  }
  config::check_patterns(patterns, "trainable", problems);
  config::check_patterns(quantization.skip, "quantization.skip", problems);
  for (const auto& [key, type] : {std::pair{"load_in_4bit", "nf4"}, {"load_in_8bit", "int8"}})
    problems.require(!config.contains(key), key, fmt::format("is model.quantization: {} here", type));
  for (const char* key : {"type", "model_type"}) {
    const auto given = config.find(key);
    problems.require(path.empty() || given == config.end(), key, "not together with path, whose config.json says it");
    if (given == config.end() || registries().models.find(given->second.node.text())) continue;
    const std::vector<std::string> known = registries().models.names();
    const std::string close = hone::config::nearest(given->second.node.text(), known);
    problems.add(key,
                 fmt::format("got {}, expected one of {}{}", hone::config::detail::inline_text(given->second.node),
                             fmt::join(known, ", "), words_of_plugins(close)),
                 close, given->second.node.mark());
  }
}

void ParallelSection::validate(Problems& problems) const {
  problems.require(fsdp != 0, "fsdp", "got 0, expected a number of ranks, or -1 for all");
  problems.require(context != 0, "context", "got 0, expected a number of ranks, or -1 for all");
  problems.require(tensor != 0, "tensor", "got 0, expected a number of ranks, or -1 for all");
  problems.require(tensor == 1 || context == 1, "tensor",
                   "not together with context: its ranks have stretches of the tokens already");
}

void AdapterSection::validate(Problems& problems) const {
  problems.require(type.empty() || type == "lora", "type", "got " + hone::quoted(type) + ", expected lora");
  const LoraConfig standard;
  const auto is_set = [&](const auto& member) { return this->*member != standard.*member; };
  const bool shape = is_set(&LoraConfig::rank) || is_set(&LoraConfig::alpha) || is_set(&LoraConfig::rslora) ||
                     is_set(&LoraConfig::dora) || is_set(&LoraConfig::init) || is_set(&LoraConfig::targets) ||
                     is_set(&LoraConfig::exclude) || is_set(&LoraConfig::modules_to_save) ||
                     is_set(&LoraConfig::trainable_token_indices) || is_set(&LoraConfig::rank_pattern) ||
                     is_set(&LoraConfig::alpha_pattern);
  const bool any = shape || is_set(&LoraConfig::dropout) || is_set(&LoraConfig::loraplus_lr_ratio) ||
                   is_set(&LoraConfig::loraplus_lr_embedding) || !path.empty();
  problems.require(!type.empty() || !any, "type", "missing: lora");
  problems.require(path.empty() || !shape, "path",
                   "the adapter there says its rank, alpha and targets; leave them out");
  LoraConfig::validate(problems);
}

// Each section looks after itself, so that what is missing in several of them is told at once.
void DataSection::validate(Problems& problems) const {
  problems.require(!train.empty(), "train", "missing: no file to train on");
  for (const auto& [name, files] : eval.files) problems.require(!files.empty(), "eval." + name, "no file");
}

void EmaSection::validate(Problems& problems) const {
  problems.require(decay < 1, "decay", "got 1, expected less");
  problems.require(decay > 0 || warmup, "warmup", "needs trainer.ema.decay: without it there is no average");
}

void SpikeSection::validate(Problems& problems) const {
  problems.require(sigma > 0 || window == SpikeSection().window, "window",
                   "needs trainer.skip_spikes.sigma: without it no update is skipped");
}

void TrainerSection::validate(Problems& problems) const {
  problems.require(!step_rows || accumulate == 1, "step_rows", "not together with trainer.accumulate");
  problems.require(
      !step_rows || batch_size.automatic || *step_rows % batch_size == 0, "step_rows",
      fmt::format("got {}, expected a multiple of trainer.batch_size {}", step_rows.value_or(0), batch_size.rows));
  problems.require(!batch_size.automatic || step_rows, "step_rows",
                   "missing: with batch_size auto it says how many rows a step has, whatever memory holds");
  problems.require(!step_rows || batch_warmup.empty(), "step_rows", "not together with trainer.batch_warmup");
  problems.require(batch_size.automatic || memory_limit.empty(), "memory_limit", "needs trainer.batch_size auto");
  problems.require(memory_limit.empty() || hone::parse_size(memory_limit), "memory_limit",
                   "got " + hone::quoted(memory_limit) + ", expected a size such as 12GB or 500MB");
  problems.require(!steps || !epochs, "epochs", "not together with trainer.steps");
  problems.require(!tokens || (!steps && !epochs), "tokens", "not together with trainer.steps or trainer.epochs");
  problems.require(time_limit.empty() || config::seconds_of(time_limit), "time_limit",
                   "got " + hone::quoted(time_limit) + ", expected a time such as 2h30m, 45min or 90s");
  problems.require(!epochs || *epochs > 0, "epochs", "got 0, expected more");
}

void RunSection::validate(Problems& problems) const {
  problems.require(folder.empty() != name.empty(), "folder",
                   folder.empty() ? "missing: where the run lives; or run.name" : "not together with run.name");
  problems.require(name.empty() || io::is_plain_name(name), "name",
                   "got " + hone::quoted(name) + ", expected a name without a path: it makes runs/<name>/run_1");
}

void Recipe::validate(Problems& problems) const {
  problems.require(!model.path.empty() || !tokenizer.empty(), "tokenizer",
                   "missing: a fresh model needs one, such as bytes; none is enough for rows of input_ids");
  problems.require(adapter.type.empty() || !model.path.empty(), "adapter.type",
                   "needs model.path: an adapter beside fresh weights has nothing to go with");
  problems.require(adapter.type.empty() || model.trainable.empty(), "model.trainable",
                   "not together with adapter; adapter.modules_to_save are trained whole");
  problems.require(adapter.type.empty() || trainer.save.dtype == SaveDtype::source, "trainer.save.dtype",
                   "not with adapter, whose weights are saved as exactly as they are trained");
  problems.require(adapter.type.empty() || model.path.empty() || model.config.empty(), "model",
                   "keys of config.json are not changed beside an adapter, whose files have no place for them");
  const QuantType held = model.quantization.type;
  problems.require(!adapter.type.empty() || held == QuantType::stored || held == QuantType::none, "model.quantization",
                   "needs an adapter (adapter: {type: lora}): all that is trained is kept in full");
  problems.require(adapter.type.empty() || !model.load.optimizer, "model.load.optimizer",
                   "not with adapter: the optimizer is the adapter's");
  training::find_contradictions(*this, problems);
}

namespace {

void tell(const Problems& problems) {
  for (const std::string& note : problems.notes()) log::warning("{}", note);
  const std::vector<std::string>& keys = problems.passed_over();
  if (!keys.empty())
    log::warning("{} of the recipe passed over\n  {}", counted(std::ssize(keys), "key"), join(keys, "\n  "));
}

}  // namespace

namespace {

// Who writes data.eval.0.path means a list, which there is none of.
void find_numbered_sets(const config::Node& node, Problems& problems) {
  const config::Node* const data = node.find("data");
  for (const char* section : {"eval", "test"}) {
    const config::Node* const sets = data ? data->find(section) : nullptr;
    if (!sets) continue;
    for (const auto& [name, set] : sets->entries())
      if (parse_uint(name))
        problems.add(fmt::format("data.{}.{}", section, name),
                     fmt::format("a number; expected the name of a set, as in data.{}.news", section), "", set.mark());
  }
}

// What building it would say, so that it is told with the rest. Of some keys ModelSection says more.
void find_problems_of_fresh_model(const ModelSection& model, Problems& problems) {
  if (!model.path.empty()) return;
  config::Node node = config::Node::map();
  for (const auto& [key, value] : model.config)
    if (key != "config" && key != "load_in_4bit" && key != "load_in_8bit") node.at_or_add(key) = value.node;
  const Problems::Scope scope(problems, "model.");
  hub::find_problems(node, problems);
}

}  // namespace

Recipe read_recipe(const config::Node& given, UnknownKeys unknown) {
  config::Node node = given;
  Problems problems;
  if (unknown == UnknownKeys::pass_over) problems.pass_over_unknown();
  Recipe recipe;
  registries();  // fills the catalogues that Choice reads from
  training::write_out(node);
  find_numbered_sets(node, problems);
  config::read(node, recipe, problems);
  if (!problems.empty()) find_problems_of_fresh_model(recipe.model, problems);
  problems.raise();
  tell(problems);
  return recipe;
}

config::Node merge_layers(const RecipeLayers& layers) {
  registries();
  Problems problems;
  config::Node root = layers.file.empty() ? config::Node::map() : config::read_file(layers.file);
  training::write_out(root);
  config::rename<Recipe>(root, nullptr, problems);
  training::LostEvaluations evaluations(root);
  for (const std::string& file : layers.set) {
    training::put_over(root, config::read_file(file), problems);
    evaluations.meet(root);
  }
  training::put_over(root, layers.environment, "environment", problems);
  evaluations.meet(root);
  training::put_over(root, layers.flags, "", problems);
  evaluations.meet(root);
  evaluations.drop(root, problems);
  config::resolve(root, problems,
                  [&](const std::string& path) { return config::current_path<Recipe>(path, &root, problems); });
  config::expand_home(root, problems);
  problems.raise();
  tell(problems);
  return root;
}

Recipe read_recipe(const RecipeLayers& layers) { return read_recipe(merge_layers(layers), layers.unknown); }

Recipe read_recipe(const std::string& path, const RecipeOverrides& overrides) {
  RecipeLayers layers;
  layers.file = path;
  layers.flags = overrides;
  return read_recipe(layers);
}

config::Node write_recipe(const Recipe& recipe) { return config::write(recipe); }

std::string training::recipe_file(const Recipe& recipe) {
  config::Node node = write_recipe(recipe);
  config::escape_references(node);
  return config::to_yaml(node);
}

std::optional<OnResume> on_resume(const Recipe& recipe, const std::string& option) {
  return config::on_resume(recipe, option);
}

}  // namespace hone
