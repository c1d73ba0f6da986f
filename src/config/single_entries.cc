// By the options that are lists of sections, wherever in a tree they are.
#include "config/single_entries.h"

#include <algorithm>
#include <functional>
#include <span>

#include "base/strings.h"

namespace hone::config {
namespace {

bool is_entry(const Node& node) {
  const auto& entries = node.entries();
  return node.is_map() && !entries.empty() &&
         std::none_of(entries.begin(), entries.end(), [](const auto& one) { return parse_uint(one.first); });
}

// As paths with the numbers 0, 1, ... make it where there is no list yet.
bool is_numbered(const Node& node) {
  std::size_t next = 0;
  return node.is_map() && !node.entries().empty() &&
         std::all_of(node.entries().begin(), node.entries().end(),
                     [&](const auto& one) { return one.first == std::to_string(next++); });
}

using IsOption = std::function<bool(const std::string& key)>;

// An entry with a key that no option has is left without a mark: nobody who wrote it knows of its number.
Node list_of(Node entry, const IsOption& is_option) {
  const Mark mark = entry.mark();
  const auto& keys = entry.entries();
  if (!std::all_of(keys.begin(), keys.end(), [&](const auto& one) { return is_option(one.first); }))
    entry.set_mark({});
  return Node::list({std::move(entry)}, mark);
}

void wrap_at(Node& node, std::span<const std::string> path, bool is_layer, const IsOption& is_option) {
  if (path.empty()) {
    if (is_entry(node)) {
      node = list_of(std::move(node), is_option);
    } else if (!is_layer && is_numbered(node)) {
      std::vector<Node> items;
      for (auto& [number, item] : node.entries()) items.push_back(std::move(item));
      node = Node::list(std::move(items), node.mark());
    }
  } else if (!node.is_map()) {
    return;
  } else if (path[0] == "<name>") {
    for (auto& [name, entry] : node.entries()) wrap_at(entry, path.subspan(1), is_layer, is_option);
  } else if (Node* below = node.find(path[0])) {
    wrap_at(*below, path.subspan(1), is_layer, is_option);
  }
}

}  // namespace

void wrap_single_entries(Node& node, const std::vector<OptionInfo>& rows, bool is_layer) {
  for (const OptionInfo& row : rows) {
    const bool has_sections = row.type.starts_with("list of section") || row.type.starts_with("list of choice");
    if (!has_sections || row.path.find("[]") != std::string::npos) continue;
    const std::vector<std::string> path = split(row.path, '.');
    const auto is_option = [&](const std::string& key) {  // a choice has other ones by what it is
      const std::string option = row.path + "[]." + key;
      return row.type.starts_with("list of choice") || std::any_of(rows.begin(), rows.end(), [&](const auto& one) {
        return one.path == option || one.path.starts_with(option + ".");
      });
    };
    wrap_at(node, path, is_layer, is_option);
  }
}

}  // namespace hone::config
