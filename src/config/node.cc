// Nodes: making, finding, merging, assigning by path, interpolating and comparing.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "config/tree.h"
#include "hone/config_read.h"

namespace hone::config {

Node Node::scalar(std::string text, bool quoted, Mark mark) {
  Node node;
  node.kind_ = Kind::scalar;
  node.text_ = std::move(text);
  node.quoted_ = quoted;
  node.mark_ = std::move(mark);
  return node;
}

Node Node::list(std::vector<Node> items, Mark mark) {
  Node node;
  node.kind_ = Kind::list;
  node.items_ = std::move(items);
  node.mark_ = std::move(mark);
  return node;
}

Node Node::map(std::vector<Entry> entries, Mark mark) {
  Node node;
  node.kind_ = Kind::map;
  node.entries_ = std::move(entries);
  node.mark_ = std::move(mark);
  return node;
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, entry] : entries_)
    if (name == key) return &entry;
  return nullptr;
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

Node& Node::at_or_add(const std::string& key) {
  if (kind_ == Kind::null) kind_ = Kind::map;
  HONE_ASSERT(kind_ == Kind::map);
  if (Node* found = find(key)) return *found;
  return entries_.emplace_back(key, Node()).second;
}

void overlay(Node& base, const Node& over) {
  if (!base.is_map() || !over.is_map()) {
    base = over;
    return;
  }
  for (const auto& [key, entry] : over.entries()) overlay(base.at_or_add(key), entry);
}

namespace {

// The node at one step of a path, made if a map lacks it; null: the path leads nowhere.
Node* step_into(Node& at, const std::string& part) {
  if (at.kind() == Node::Kind::list) {
    const auto index = parse_uint(part);
    if (!index || *index > at.items().size() || *index > 100000) return nullptr;
    if (*index == at.items().size()) at.items().emplace_back();
    return &at.items()[*index];
  }
  // `type: adamw` may be written as a plain name: going below it keeps the name.
  if (at.kind() == Node::Kind::scalar) at = Node::map({{"type", at}}, at.mark());
  return &at.at_or_add(part);
}

void leaves(const Node& node, const std::string& path, std::map<std::string, std::string>& out) {
  if (node.is_map() && !node.entries().empty()) {
    for (const auto& [key, entry] : node.entries()) leaves(entry, path.empty() ? key : path + "." + key, out);
  } else if (node.kind() == Node::Kind::list && !node.items().empty()) {
    for (std::size_t i = 0; i < node.items().size(); ++i) leaves(node.items()[i], path + "." + std::to_string(i), out);
  } else {
    out[path] = detail::inline_text(node);
  }
}

// As one value that was given at once.
void mark_all(Node& node, const Mark& mark) {
  node.set_mark(mark);
  for (auto& [key, entry] : node.entries()) mark_all(entry, mark);
  for (Node& item : node.items()) mark_all(item, mark);
}

// "1e-3" and "0.001" are the same value.
bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto x = parse_double(a), y = parse_double(b);
  return x && y && *x == *y;
}

}  // namespace

void assign(Node& root, const std::string& path, const std::string& value, const Mark& mark, Problems& problems) {
  Node* at = &root;
  for (const std::string& part : split(path, '.')) {
    if (part.empty() || !(at = step_into(*at, part))) {
      problems.add(path, "no such place", "", mark);
      return;
    }
    if (at->is_null() && at->mark().file.empty()) at->set_mark(mark);  // a section that is only there for this value
  }
  // In YAML nothing at all is null, too, and "-" a list; here they are the texts that they look like.
  const bool text = value.empty() || value == "-";
  Node parsed = text ? Node::scalar(value) : parse_yaml(value, mark.file, problems);
  if (parsed.is_null() && value != "null" && value != "~") parsed = Node::scalar(value);
  // In YAML lines of a text without quotes become one.
  const bool plain = parsed.kind() == Node::Kind::scalar && !parsed.quoted();
  if (plain && trim(value).find('\n') != std::string::npos) parsed = Node::scalar(value, true);
  mark_all(parsed, mark);
  *at = std::move(parsed);
}

std::size_t values_in(const Node& node) {
  std::size_t n = 1;
  for (const auto& [key, entry] : node.entries()) n += values_in(entry);
  for (const Node& item : node.items()) n += values_in(item);
  return n;
}

std::vector<Change> diff(const Node& before, const Node& after) {
  std::map<std::string, std::string> old_leaves, new_leaves;
  leaves(before, "", old_leaves);
  leaves(after, "", new_leaves);
  std::set<std::string> paths;
  for (const auto& [path, text] : old_leaves) paths.insert(path);
  for (const auto& [path, text] : new_leaves) paths.insert(path);
  // An empty map gives way to what comes into it: that is what is told.
  const auto gives_way = [](const std::map<std::string, std::string>& leaves, const std::string& path,
                            const std::map<std::string, std::string>& others) {
    const auto leaf = leaves.find(path);
    const auto below = others.lower_bound(path + ".");
    return leaf != leaves.end() && leaf->second == "{}" && below != others.end() &&
           below->first.starts_with(path + ".");
  };
  std::vector<Change> changes;
  for (const std::string& path : paths) {
    if (gives_way(old_leaves, path, new_leaves) || gives_way(new_leaves, path, old_leaves)) continue;
    const auto was = old_leaves.find(path), is = new_leaves.find(path);
    const std::string a = was == old_leaves.end() ? "" : was->second, b = is == new_leaves.end() ? "" : is->second;
    if (!same_value(a, b)) changes.push_back({path, a, b});  // an empty text is as good as none
  }
  return changes;
}

}  // namespace hone::config
