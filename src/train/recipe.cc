// Reading and checking recipes, and what each option means for a run that is resumed.
#include "hone/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/strings.h"
#include "hone/registry.h"
#include "io/file_name.h"
#include "train/contradictions.h"
#include "train/layers.h"
#include "train/trainable.h"

namespace hone {
namespace {

struct Rule {
  std::string_view option;  // "a.b", or "a.b.*" for everything below
  OnResume on_resume;
};

// One row per option; tests/train/recipe_test.cc checks that no option is left out. The first row that fits counts.
// free: changes no number. record: changes the numbers from here on, and is written into the checkpoint. refuse: the
// run would no longer be one run.
constexpr Rule kRules[] = {{"model.*", OnResume::refuse},
                           {"tokenizer", OnResume::refuse},
                           {"data.train.*", OnResume::refuse},
                           {"data.eval.held_out", OnResume::refuse},
                           {"data.eval.files.*", OnResume::record},
                           {"data.eval.*", OnResume::record},  // as written: without the word `files`
                           {"data.max_length", OnResume::refuse},
                           {"data.overlong", OnResume::refuse},
                           {"data.packing", OnResume::refuse},
                           {"data.collator.*", OnResume::refuse},
                           {"data.shuffle", OnResume::refuse},
                           {"data.append_eos", OnResume::refuse},
                           {"data.loss", OnResume::refuse},
                           {"data.chat_template", OnResume::refuse},
                           {"data.cache", OnResume::free},
                           {"data.stream_window", OnResume::refuse},
                           {"objective.*", OnResume::refuse},
                           {"optimizer.type", OnResume::refuse},
                           {"optimizer.*", OnResume::record},
                           {"trainer.batch_size", OnResume::refuse},
                           {"trainer.accumulate", OnResume::refuse},
                           {"trainer.steps", OnResume::record},
                           {"trainer.epochs", OnResume::record},
                           {"trainer.max_grad_norm", OnResume::record},
                           {"trainer.precision", OnResume::refuse},
                           {"trainer.eval_every", OnResume::record},
                           {"trainer.eval_batch_size", OnResume::free},
                           {"trainer.log_every", OnResume::free},
                           {"trainer.save.*", OnResume::free},
                           {"trainer.checkpoint_blocks", OnResume::free},
                           {"callbacks.*", OnResume::record},
                           {"trackers.*", OnResume::free},
                           {"run.folder", OnResume::free},
                           {"run.name", OnResume::free},
                           {"run.seed", OnResume::refuse}};

bool fits(std::string_view rule, std::string_view option) {
  if (!rule.ends_with(".*")) return rule == option;
  rule.remove_suffix(2);
  return option.starts_with(rule) && (option.size() == rule.size() || option[rule.size()] == '.');
}

}  // namespace

std::optional<OnResume> on_resume(const std::string& option) {
  for (const Rule& rule : kRules)
    if (fits(rule.option, option)) return rule.on_resume;
  return std::nullopt;
}

void ModelSection::validate(Problems& problems) const {
  problems.require(path.empty() != config.empty(), "path",
                   path.empty() ? "missing: a model folder, or `type:` and sizes for a fresh model"
                                : "not together with keys of a fresh model");
  problems.require(config.empty() || config.contains("type") || config.contains("model_type"), "type",
                   "missing: the architecture of a fresh model, such as llama");
  training::check_patterns(trainable, "trainable", problems);
  for (const char* key : {"type", "model_type"}) {
    const auto given = config.find(key);
    if (given == config.end() || registries().models.find(given->second.node.text())) continue;
    const std::vector<std::string> known = registries().models.names();
    problems.add(key,
                 fmt::format("got {}, expected one of {}", hone::config::detail::inline_text(given->second.node),
                             fmt::join(known, ", ")),
                 hone::config::nearest(given->second.node.text(), known), given->second.node.mark());
  }
}

// Each section looks after itself, so that what is missing in several of them is told at once.
void DataSection::validate(Problems& problems) const {
  problems.require(!train.empty(), "train", "missing: no file to train on");
  for (const auto& [name, files] : eval.files) problems.require(!files.empty(), "eval." + name, "no file");
}

void TrainerSection::validate(Problems& problems) const {
  problems.require(!steps || !epochs, "epochs", "not together with trainer.steps");
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
  training::find_contradictions(*this, problems);
}

Recipe read_recipe(config::Node node) {
  Problems problems;
  Recipe recipe;
  registries();  // fills the catalogues that Choice reads from
  config::Values<Recipe>::read(node, recipe, {problems, ""});
  problems.raise();
  return recipe;
}

Recipe read_recipe(const std::string& path, const std::vector<std::pair<std::string, std::string>>& overrides) {
  Problems problems;
  config::Node node = config::read_file(path);
  training::put_over(node, overrides, "", problems);
  config::resolve(node, problems);
  problems.raise();
  return read_recipe(std::move(node));
}

config::Node write_recipe(const Recipe& recipe) { return config::Values<Recipe>::write(recipe); }

}  // namespace hone
