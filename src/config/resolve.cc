// ${a.b} takes the value at a.b, ${a.b:x} that or x, $${ is ${; "???" must have been given.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/strings.h"
#include "config/tree.h"
#include "hone/config_read.h"

namespace hone::config {
namespace {

constexpr int kDepth = 20;                     // references that refer to references
constexpr std::size_t kMaxValues = 1'000'000;  // copied by all references together

const Node* find_path(const Node& root, const std::string& path) {
  const Node* at = &root;
  for (const std::string& part : split(path, '.')) {
    if (at->kind() == Node::Kind::list) {
      const auto index = parse_uint(part);
      at = index && *index < at->items().size() ? &at->items()[*index] : nullptr;
    } else {
      at = at->find(part);
    }
    if (!at) return nullptr;
  }
  return at;
}

// What a default stands for: null, a number, a text.
Node plain_value(const std::string& text, const Mark& mark) {
  if (text == "null" || text == "~") return Node();
  return Node::scalar(text, /*quoted=*/text.empty(), mark);
}

class Resolver {
 public:
  using Current = std::function<std::string(const std::string&)>;
  Resolver(Node& root, Problems& problems, const Current& current)
      : original_(root), problems_(problems), current_(current) {
    walk(root, "", 0);
  }

 private:
  void walk(Node& node, const std::string& path, int depth) {
    if (node.kind() == Node::Kind::scalar) return replace(node, path, depth);
    const std::size_t before = problems_.size();
    const auto done = [&] { return depth > 0 && problems_.size() != before; };  // one problem is enough of a reference
    for (auto& [key, entry] : node.entries())
      if (!done()) walk(entry, path.empty() ? key : path + "." + key, depth);
    for (std::size_t i = 0; i < node.items().size() && !done(); ++i)
      walk(node.items()[i], path + "." + std::to_string(i), depth);
  }

  void replace(Node& node, const std::string& path, int depth) {
    if (node.text() == "???") return problems_.add(path, "missing; the recipe marks it as mandatory", "", node.mark());
    std::size_t begin = node.text().find("${");
    if (begin == std::string::npos) return;
    if (depth >= kDepth) return problems_.add(path, "refers to itself: " + node.text(), "", node.mark());
    std::string text = node.text();
    while ((begin = text.find("${", begin)) != std::string::npos) {
      if (begin > 0 && text[begin - 1] == '$') {
        text.erase(begin - 1, 1);
        begin += 1;
        continue;
      }
      const std::size_t end = text.find('}', begin);
      if (end == std::string::npos) return problems_.add(path, "\"${\" without \"}\"", "", node.mark());
      const std::string inside = text.substr(begin + 2, end - begin - 2), name = inside.substr(0, inside.find(':'));
      const Node* found = find_path(original_, current_ ? current_(name) : name);
      const bool has_default = name.size() < inside.size();
      const Node otherwise = has_default ? plain_value(inside.substr(name.size() + 1), node.mark()) : Node();
      if (!found && has_default) found = &otherwise;
      if (!found)
        return problems_.add(path, fmt::format("${{{}}}: no such option in the recipe; $$ writes a $", name), "",
                             node.mark());
      if ((copied_ += values_in(*found)) > kMaxValues)
        return problems_.add(path, "references copy more than a million values", "", node.mark());
      Node value = *found;
      const std::size_t before = problems_.size();
      walk(value, path, depth + 1);
      if (problems_.size() != before) return;
      if (begin == 0 && end + 1 == text.size()) {
        node = value;
        return;
      }
      if (value.kind() != Node::Kind::scalar)
        return problems_.add(path, fmt::format("${{{}}} is no plain value and cannot stand inside text", name), "",
                             node.mark());
      text.replace(begin, end + 1 - begin, value.text());
      begin += value.text().size();
      if (text.size() > 1'000'000) return problems_.add(path, "grows beyond 1 MB", "", node.mark());
    }
    node = Node::scalar(text, node.quoted(), node.mark());
  }

  const Node original_;
  std::size_t copied_ = 0;
  Problems& problems_;
  const Current& current_;
};

}  // namespace

void escape_references(Node& node) {
  for (auto& [key, entry] : node.entries()) escape_references(entry);
  for (Node& item : node.items()) escape_references(item);
  if (node.kind() == Node::Kind::scalar && node.text().find("${") != std::string::npos)
    node = Node::scalar(replace_all(node.text(), "${", "$${"), node.quoted(), node.mark());
}

void resolve(Node& root, Problems& problems, const std::function<std::string(const std::string&)>& current) {
  Resolver(root, problems, current);
}

}  // namespace hone::config
