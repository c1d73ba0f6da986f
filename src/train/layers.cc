// Only what a layer reaches into is written out as a section: `${model}` elsewhere still means the plain value.
#include "train/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <span>

#include "base/log.h"
#include "base/strings.h"
#include "config/single_entries.h"
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

// A name of a file, and no slip: `eval: false`, `eval: no`.
bool is_file_name(const Node& node) {
  static constexpr std::string_view kSlips[] = {"true", "false", "yes", "no", "on", "off", "null", "none", "~"};
  const bool is_slip = std::find(std::begin(kSlips), std::end(kSlips), to_lower(node.text())) != std::end(kSlips);
  return config::detail::is_plain(node) && (node.quoted() || (!is_slip && !parse_double(node.text())));
}

// `eval: news.jsonl`, `eval: [a.jsonl, b.jsonl]` and `eval: {path: news.jsonl}` of a section whose entries are sets.
// With other names beside it `path` is a set, too: {path: a.jsonl, news: b.jsonl}.
void name_set(Node& root, const char* section) {
  Node* const data = root.find("data");
  Node* const given = data ? data->find(section) : nullptr;
  if (!given) return;
  const std::vector<std::string> names = config::Values<DataFile>::names();
  const auto is_of_source = [&](const auto& entry) {
    return std::find(names.begin(), names.end(), entry.first) != names.end();
  };
  const auto is_of_one = [&](const auto& entry) { return is_of_source(entry) || entry.first == "held_out"; };
  auto& entries = given->entries();
  const Node* const path = given->find("path");
  if (is_file_name(*given) || given->kind() == Node::Kind::list) {
    *given = Node::map({{section, *given}}, given->mark());
  } else if (path && is_file_name(*path) && std::all_of(entries.begin(), entries.end(), is_of_one)) {
    Node source = Node::map({}, given->mark());
    std::copy_if(entries.begin(), entries.end(), std::back_inserter(source.entries()), is_of_source);
    std::erase_if(entries, is_of_source);
    given->at_or_add(section) = std::move(source);
  }
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

// "data.train.path" of a list of one is "data.train.0.path".
std::optional<std::string> with_number(const Node& root, const std::string& path, const config::Mark& mark,
                                       config::Problems& problems) {
  std::vector<std::string> way;
  const Node* at = &root;
  for (const std::string& part : split(path, '.')) {
    if (at && at->kind() == Node::Kind::list && !parse_uint(part)) {
      const std::string list = join(way, ".");
      if (at->items().size() != 1) {
        problems.add(path,
                     fmt::format("{} has {} entries; expected the number of one, as in {}.0.{}", list,
                                 at->items().size(), list, part),
                     "", mark);
        return std::nullopt;
      }
      way.push_back("0");
      at = &at->items()[0];
    }
    way.push_back(part);
    if (!at) continue;
    const auto index = parse_uint(part);
    at = at->kind() != Node::Kind::list           ? at->find(part)
         : index && *index < at->items().size() ? &at->items()[*index]
                                                  : nullptr;
  }
  return join(way, ".");
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

// `optimizer:` with every line below it commented out is null, as if it were meant.
void tell_emptied(const Node& root, const Node& layer) {
  for (const auto& [section, value] : layer.entries()) {
    const Node* const before = root.find(section);
    if (!value.is_null() || !before || before->is_null()) continue;
    log::warning("{}:{}: {}: null, so that nothing is left of what was said of it before; without this line it stays",
                 value.mark().file, value.mark().line, section);
  }
}

}  // namespace

void write_out(Node& root, bool is_layer) {
  name_set(root, "eval");
  name_set(root, "test");
  config::wrap_single_entries(root, config::describe(Recipe()), is_layer);
}

void put_over(Node& root, const Node& given, config::Problems& problems) {
  Node layer = given;
  write_out(layer, /*is_layer=*/true);
  config::rename<Recipe>(layer, &root, problems);
  drop_excluded(root, [&](const Option& option) {
    const Node* section = layer.find(option.section);
    return section && (section->find(option.key) || (option.shorthand && section->kind() == Node::Kind::scalar));
  });
  tell_emptied(root, layer);
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
  const auto mark_of = [&](const std::string& path) {
    return config::Mark{source.empty() ? "--" + path : std::string(source), 0};
  };
  for (const auto& [given, value] : overrides) {
    const config::Mark mark = mark_of(given);
    const std::string path = config::current_path<Recipe>(given, &root, problems, mark);
    if (path != given && is_given(path))
      problems.add(given, "is called " + path + " now, which is given as well", "", mark);
    open_path(root, path);
    const auto place = with_number(root, path, mark, problems);
    if (!place) continue;
    open_path(root, *place);
    config::assign(root, *place, as_yaml(path, value), mark, problems);
    write_out(root);
    config::rename<Recipe>(root, nullptr, problems);  // names within the value
  }
}

}  // namespace hone::training
