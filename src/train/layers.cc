// Only what a layer reaches into is written out as a section: `${model}` elsewhere still means the plain value.
#include "train/layers.h"

#include <algorithm>
#include <functional>
#include <span>

#include "base/strings.h"
#include "hone/config_read.h"

namespace hone::training {
namespace {

using config::Node;

struct Option {
  const char *section, *key;
  bool shorthand = false;  // `section: value` means this one
};
// Those of which validate() says "not together".
constexpr std::pair<Option, Option> kPairs[] = {{{"run", "folder", true}, {"run", "name"}},
                                                {{"trainer", "steps"}, {"trainer", "epochs"}},
                                                {{"trainer", "steps"}, {"trainer", "tokens"}},
                                                {{"trainer", "epochs"}, {"trainer", "tokens"}}};

void erase(Node& root, const Option& option) {
  Node* section = root.find(option.section);
  if (!section) return;
  if (option.shorthand && section->kind() == Node::Kind::scalar) *section = Node::map();
  std::erase_if(section->entries(), [&](const auto& entry) { return entry.first == option.key; });
}

void drop_excluded(Node& root, const std::function<bool(const Option&)>& given) {
  for (const auto& [one, other] : kPairs)
    if (given(one) != given(other)) erase(root, given(one) ? other : one);
}

Node expanded(const Node& root) {
  Node whole = root;
  config::Values<Recipe>::expand(whole);
  return whole;
}

// whole: `at` with every plain value that stands for a section or list written out.
void open(Node& at, const Node& whole) {
  if (at.kind() == Node::Kind::scalar) at = whole;
}

void open_below(Node& at, const Node& whole, const Node& layer) {
  if (!layer.is_map()) return;
  open(at, whole);
  if (!at.is_map()) return;
  for (const auto& [key, below] : layer.entries())
    if (Node* entry = at.find(key)) open_below(*entry, *whole.find(key), below);
}

Node* step(Node& at, const std::string& part) {
  if (at.kind() != Node::Kind::list) return at.find(part);
  const auto index = parse_uint(part);
  return index && *index < at.items().size() ? &at.items()[*index] : nullptr;
}

void open_path(Node& root, const std::string& path) {
  Node whole = expanded(root);
  Node *at = &root, *opened = &whole;
  for (const std::string& part : split(path, '.')) {
    open(*at, *opened);
    at = step(*at, part), opened = step(*opened, part);
    if (!at) return;
  }
}

// "loss.mode" of options that are called so, of whatever a choice can be.
bool is_text_of(const std::vector<config::OptionInfo>& rows, const std::string& path) {
  return std::any_of(rows.begin(), rows.end(), [&](const config::OptionInfo& row) {
    if (row.path == path) return row.type == "string";
    if (row.catalogue.empty() || !path.starts_with(row.path + ".")) return false;
    const config::Catalogue* catalogue = config::find_catalogue(row.catalogue);
    const std::vector<std::string> types = catalogue ? catalogue->names() : std::vector<std::string>();
    return std::any_of(types.begin(), types.end(), [&](const std::string& type) {
      return is_text_of(catalogue->options(type)->describe(), path.substr(row.path.size() + 1));
    });
  });
}

bool is_yaml_text(const std::string& words) {
  config::Problems problems;
  const Node node = config::parse_yaml(words, "", problems);
  return problems.empty() && node.entries().empty() && node.items().empty();
}

// What a text is to say is not always YAML, or a section of it: a chat template begins with "{%". In quotes it is one.
std::string as_yaml(const std::string& path, const std::string& words) {
  if (is_yaml_text(words) || !is_utf8(words) || !is_text_of(config::describe(Recipe()), path)) return words;
  return config::to_json(Node::scalar(words, /*quoted=*/true));
}

}  // namespace

void put_over(Node& root, const Node& given, config::Problems& problems) {
  Node layer = given;
  config::rename<Recipe>(layer, &root, problems);
  drop_excluded(root, [&](const Option& option) {
    const Node* section = layer.find(option.section);
    return section && (section->find(option.key) || (option.shorthand && section->kind() == Node::Kind::scalar));
  });
  open_below(root, expanded(root), layer);
  config::overlay(root, layer);
}

void put_over(Node& root, const RecipeOverrides& overrides, std::string_view source, config::Problems& problems) {
  const auto is_given = [&](const std::string& path) {
    return std::any_of(overrides.begin(), overrides.end(), [&](const auto& entry) { return entry.first == path; });
  };
  drop_excluded(root, [&](const Option& option) {
    const std::string path = std::string(option.section) + "." + option.key;
    return is_given(path) || (option.shorthand && is_given(option.section));
  });
  for (const auto& [given, value] : overrides) {
    const config::Mark mark{source.empty() ? "--" + given : std::string(source), 0};
    const std::string path = config::current_path<Recipe>(given, &root, problems, mark);
    if (path != given && is_given(path))
      problems.add(given, "is called " + path + " now, which is given as well", "", mark);
    open_path(root, path);
    config::assign(root, path, as_yaml(path, value), mark, problems);
    config::rename<Recipe>(root, nullptr, problems);  // names within the value
  }
}

}  // namespace hone::training
