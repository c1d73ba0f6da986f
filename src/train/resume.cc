// Choosing the checkpoint and comparing recipes.
#include "train/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "io/metrics_file.h"
#include "train/step_plan.h"

namespace hone::training {
namespace {

constexpr std::uint64_t kMaxMetrics = std::uint64_t{1} << 34;

std::string text_of(const config::Change& change) {
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("(not set)") : value; };
  return fmt::format("{}: {} -> {}", change.path, shown(change.before), shown(change.after));
}

// The recipe of a checkpoint.
struct Saved {
  config::Node node;             // as this program would write it: options that were added since have their defaults
  std::optional<Recipe> recipe;  // nothing: an option it names is no longer there, and the node is as it was written
};

Saved read_saved(const std::string& yaml, const std::string& where) {
  Problems problems;
  const config::Node node = config::parse_yaml(yaml, where, problems);
  problems.raise(where, ErrorKind::checkpoint);
  try {
    Recipe recipe;
    Problems unread;
    config::read(node, recipe, unread);
    unread.raise();
    return {write_recipe(recipe), std::move(recipe)};
  } catch (const Error&) {
    return {node, std::nullopt};
  }
}

// As the recipe says that has the option: another optimizer's may be unknown to this one's.
OnResume rule_of(const config::Change& change, const Saved& saved, const Recipe& recipe) {
  const bool gone = change.after.empty() && saved.recipe;
  if (change.path == "trainer.precision" && (change.before == "fp64") != (change.after == "fp64"))
    return OnResume::fixed;  // masters and moments have another type
  return on_resume(gone ? *saved.recipe : recipe, change.path).value_or(OnResume::refuse);
}

// Files that grow with the run: metrics, samples, tests and the like, of which what is newer is cut off.
void copy_lines(const Folder& run, const Folder& aside) {
  for (const std::string& name : run.list()) {
    std::error_code ignored;
    const bool grows = name.ends_with(".jsonl") || name.ends_with(".csv");
    if (!grows || !std::filesystem::is_regular_file(run.path() / name, ignored)) continue;
    if (const auto content = run.maybe_read_file(name, kMaxMetrics)) aside.write_file(name, *content);
  }
}

}  // namespace

void set_newer_aside(io::RunFolder& run, std::int64_t step) {
  const Folder& parent = run.folder();
  std::optional<Folder> aside;
  std::string name;
  for (const io::Checkpoint& checkpoint : run.checkpoints().scan(io::Verify::sizes)) {
    if (checkpoint.step <= step) continue;
    if (!aside) {
      int k = 0;
      while (parent.exists(name = fmt::format("superseded-{}", k))) ++k;
      aside = parent.make_folder(name);
      parent.sync();
      copy_lines(parent, *aside);
    }
    run.checkpoints().folder().rename(checkpoint.name, *aside, checkpoint.name);
    log::warning("{}: newer than step {}, moved to {}/{}", checkpoint.name, step, parent.path().string(), name);
  }
  if (!aside) return;
  io::MetricsFile(parent, io::kTestFile).keep_up_to(step);  // the other files are cut by those who write them
  aside->sync(), run.checkpoints().folder().sync();
}

namespace {

// Below an option that is a choice there is what any of those has that can be chosen.
bool is_known_to_choices(const std::string& option) {
  for (const config::OptionInfo& row : config::describe(Recipe())) {
    const config::Catalogue* catalogue = row.catalogue.empty() ? nullptr : config::find_catalogue(row.catalogue);
    if (!catalogue || !option.starts_with(row.path + ".")) continue;
    const std::string rest = option.substr(row.path.size() + 1);
    if (rest == "type" || std::isdigit(static_cast<unsigned char>(rest[0]))) return true;  // a list's place
    const std::vector<std::string> names = catalogue->names();
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return catalogue->options(name)->on_resume(rest, OnResume::refuse).has_value();
    });
  }
  return true;
}

}  // namespace

void check_overrides(const Recipe& recipe, const TrainOptions& options) {
  for (const std::string& key : options.override_keys)
    if (key != "all" && (!on_resume(recipe, key) || !is_known_to_choices(key)))
      throw Error(ErrorKind::usage, fmt::format("--override {}: no such option", key))
          .hint("hone docs recipe lists them");
}

std::optional<io::Checkpoint> choose_checkpoint(io::RunFolder& run, const TrainOptions& options) {
  if (options.resume && *options.resume != "latest") {
    const auto step = parse_int(*options.resume);
    if (!step || *step < 0)
      throw Error(ErrorKind::usage, fmt::format("--resume: got \"{}\", expected a step or latest", *options.resume));
    io::Checkpoint checkpoint = run.checkpoints().at(*step);
    if (!checkpoint.whole())
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: damaged: {}", checkpoint.name, join(checkpoint.problems, "; ")));
    return checkpoint;
  }
  std::optional<io::Checkpoint> newest = run.checkpoints().newest(options.strict_resume);
  if (!newest && run.had_checkpoints())
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: checkpoints of this run have been saved, but there is none in {}", run.path().string(),
                            run.checkpoints().folder().path().string()))
        .hint("put them back; or --new starts again and keeps this folder beside the new one");
  if (!newest && options.resume)
    throw Error(ErrorKind::checkpoint, fmt::format("{}: no checkpoint to resume from", run.path().string()))
        .hint("without --resume the run starts at step 0");
  return newest;
}

std::optional<io::Checkpoint> checkpoint_before(io::RunFolder& run, std::int64_t step) {
  std::optional<io::Checkpoint> newest;
  for (const io::Checkpoint& one : run.checkpoints().scan(io::Verify::full))
    if (one.whole() && one.finite && one.step < step) newest = one;
  return newest;
}

std::int64_t rows_before(const Folder& checkpoint, std::int64_t step) {
  const Saved saved = read_saved(checkpoint.open_folder("state").read_file("config.yaml"), checkpoint.path().string());
  return saved.recipe ? step_sizes(saved.recipe->trainer).rows_before(step) : -1;
}

SavedOptions saved_options(const Folder& checkpoint) {
  const Folder state = checkpoint.open_folder("state");
  SavedOptions options;
  if (!state.exists("config.yaml")) return options;
  const std::string where = (checkpoint.path() / "state/config.yaml").string();
  const Saved saved = read_saved(state.read_file("config.yaml"), where);
  if (const config::Node* optimizer = saved.node.find("optimizer")) options.optimizer = *optimizer;
  const config::Node* model = saved.node.find("model");
  const config::Node* trainable = model ? model->find("trainable") : nullptr;
  if (!trainable || trainable->is_null()) return options;
  Problems problems;
  config::Values<std::vector<TrainableWeights>>::read(*trainable, options.trainable, {problems, "model.trainable"});
  problems.raise(where, ErrorKind::checkpoint);
  return options;
}

ModelSection changed_model(const ModelSection& model, const Folder& checkpoint) {
  const std::string where = (checkpoint.path() / "state/config.yaml").string();
  const Saved saved = read_saved(checkpoint.open_folder("state").read_file("config.yaml"), where);
  ModelSection changed;
  if (!model.path.empty() || !saved.recipe || !saved.recipe->model.path.empty()) return changed;
  const auto text = [](const config::Node& node) { return config::detail::inline_text(node); };
  const std::map<std::string, config::Open>& before = saved.recipe->model.config;
  for (const auto& [key, value] : before)
    if (!model.config.contains(key) || (key == "type" && text(model.config.at(key).node) != text(value.node)))
      throw Error(ErrorKind::config,
                  fmt::format("model.{}: is {} in this run; what such a key says may be changed, but for the type, and "
                              "not left out",
                              key, text(value.node)));
  for (const auto& [key, value] : model.config)
    if (!before.contains(key) || text(before.at(key).node) != text(value.node)) changed.config.emplace(key, value);
  return changed;
}

bool is_overridden(const std::string& option, const std::vector<std::string>& keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return key == "all" || key == option || option.starts_with(key + ".");
  });
}

std::vector<config::Change> check_recipe(const std::string& saved_yaml, const Recipe& recipe,
                                         const TrainOptions& options, const std::string& folder) {
  std::vector<config::Change> recorded;
  std::vector<std::string> lines;
  bool refused = false, only_fixed = true;
  const Saved saved = read_saved(saved_yaml, folder + "/config.yaml");
  for (const config::Change& change : config::diff(saved.node, write_recipe(recipe))) {
    const OnResume rule = rule_of(change, saved, recipe);
    if (rule == OnResume::free) continue;
    const bool fixed = rule == OnResume::fixed;
    const bool allowed = rule == OnResume::record || (!fixed && is_overridden(change.path, options.override_keys));
    lines.push_back(text_of(change) + (allowed ? "" : fixed ? "  (cannot change within a run)" : "  (refused)"));
    refused |= !allowed, only_fixed &= allowed || fixed;
    recorded.push_back(change);
  }
  if (refused)
    throw Error(ErrorKind::config,
                fmt::format("{}: the recipe is not the one this run was made with\n  {}", folder, join(lines, "\n  ")))
        .hint(std::string(only_fixed ? "" : "--override OPTION goes on with the change, ") +
              "--new starts afresh and keeps the old folder beside it");
  for (const std::string& line : lines) log::warning("{}: changed since the checkpoint: {}", folder, line);
  return recorded;
}

}  // namespace hone::training
