// hone inspect recipe: a recipe as it is meant, each option with where it was given; or what parts two of them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/inspect.h"
#include "cli/recipe.h"
#include "config/documents.h"
#include "hone/config_read.h"
#include "io/runs_within.h"

namespace hone::cli {
namespace {

using config::Node;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

using Leaves = std::map<std::string, const Node*>;

void add_leaves(const Node& node, const std::string& path, Leaves& leaves) {
  const auto below = [&](const std::string& part) { return path.empty() ? part : path + "." + part; };
  if (node.entries().empty() && node.items().empty()) leaves[path] = &node;
  for (const auto& [key, entry] : node.entries()) add_leaves(entry, below(key), leaves);
  for (std::size_t i = 0; i < node.items().size(); ++i) add_leaves(node.items()[i], below(std::to_string(i)), leaves);
}

Leaves leaves_of(const Node& node) {
  Leaves leaves;
  add_leaves(node, "", leaves);
  return leaves;
}

ordered_json value_of(const Node& node) {
  if (node.is_null()) return nullptr;
  if (node.is_map()) return ordered_json::object();
  if (node.kind() == Node::Kind::list) return ordered_json::array();
  ordered_json value = node.quoted() ? ordered_json() : ordered_json::parse(node.text(), nullptr, false);
  return node.quoted() || value.is_discarded() || value.is_structured() ? ordered_json(node.text()) : value;
}

// As a recipe has it; nothing: not there.
std::string text_of(const Node* node) {
  if (!node) return "(not there)";
  const std::string yaml = config::to_yaml(*node);
  return yaml.substr(0, yaml.find('\n'));
}

// A recipe, and how it was written.
struct Given {
  Recipe recipe;
  Node written;  // every option, with its default
  Node merged;   // what was given, with places
};

// The recipe of a run or of a checkpoint is a record: neither flags nor the environment lie over it.
Given read_given(const std::string& where, const Invocation& call, const RecipeFlags& flags) {
  std::error_code ignored;
  Given given;
  const bool folder = fs::is_directory(where, ignored);
  if (folder) {
    if (!call.overrides.empty() || !flags.set.empty())
      throw Error(ErrorKind::usage, where + ": a recipe that was run; --set and --a.b.c=value are for recipe files");
    const fs::path file = fs::exists(fs::path(where) / "state" / "config.yaml", ignored)
                              ? fs::path(where) / "state" / "config.yaml"
                              : fs::path(where) / "config.yaml";
    if (!fs::exists(file, ignored))
      throw io::naming_runs_within(
          Error(ErrorKind::checkpoint,
                where + ": neither a run nor a checkpoint; expected config.yaml or state/config.yaml in it"),
          where);
    given.merged = merge_layers({.file = file.string(), .set = {}, .environment = {}, .flags = {}});
  } else {
    given.merged = merge_layers(recipe_layers(call, flags.set, where));
  }
  given.recipe = read_recipe(given.merged, flags.unknown);
  // Twice: what is chosen by default within what was chosen has its options, too.
  given.written = write_recipe(read_recipe(write_recipe(given.recipe)));
  config::Values<Recipe>::expand(given.merged);
  return given;
}

// A value may stand for its section: `schedule: linear` gives schedule.type.
std::string place_of(const Leaves& given, const std::string& path, const Node& value) {
  auto found = given.find(path);
  if (found == given.end()) {
    found = given.find(path.substr(0, path.rfind('.')));
    if (found == given.end() || text_of(found->second) != text_of(&value)) return "default";
  }
  const std::string text = found->second->mark().text();
  return text.empty() ? "given" : text;
}

InspectedRecipe show(const Given& given) {
  InspectedRecipe result;
  const Leaves merged = leaves_of(given.merged);
  ordered_json rows = ordered_json::array(), lines = ordered_json::array();
  for (const auto& [path, node] : leaves_of(given.written)) {
    const std::string place = place_of(merged, path, *node);
    rows.push_back({{"option", path}, {"value", value_of(*node)}, {"from", place}});
    lines.push_back({{"option", path}, {"value", text_of(node)}, {"from", place}});
  }
  result.report = {{"options", rows}};
  result.text = plain_text({{"options", lines}});
  return result;
}

InspectedRecipe compare(const Given& a, const Given& b) {
  InspectedRecipe result;
  const Leaves before = leaves_of(a.written), after = leaves_of(b.written);
  ordered_json rows = ordered_json::array(), lines = ordered_json::array();
  const auto at = [](const Leaves& leaves, const std::string& path) {
    const auto found = leaves.find(path);
    return found == leaves.end() ? nullptr : found->second;
  };
  for (const config::Change& change : config::diff(a.written, b.written)) {
    const Node *was = at(before, change.path), *is = at(after, change.path);
    const auto rule = on_resume(is ? b.recipe : a.recipe, change.path).value_or(OnResume::refuse);
    const std::string at_resume(config::name_of(rule));
    rows.push_back({{"option", change.path},
                    {"a", was ? value_of(*was) : ordered_json()},
                    {"b", is ? value_of(*is) : ordered_json()},
                    {"at_a_resume", at_resume}});
    lines.push_back({{"option", change.path}, {"a", text_of(was)}, {"b", text_of(is)}, {"at a resume", at_resume}});
  }
  result.report = {{"differences", rows}};
  result.text = plain_text({{"differences", lines}});
  return result;
}

}  // namespace

InspectedRecipe inspect_recipe(const std::vector<std::string>& where, const Invocation& call,
                               const RecipeFlags& flags) {
  if (where.size() != 1 && where.size() != 2)
    throw Error(ErrorKind::usage,
                "inspect recipe: got " + std::to_string(where.size()) + " paths, expected 1, or 2 to compare");
  if (where.size() == 2 && (!call.overrides.empty() || !flags.set.empty()))
    throw Error(ErrorKind::usage, "inspect recipe: --set and --a.b.c=value are for one recipe, not for two");
  const Given a = read_given(where[0], call, flags);
  return where.size() == 1 ? show(a) : compare(a, read_given(where[1], call, flags));
}

}  // namespace hone::cli
