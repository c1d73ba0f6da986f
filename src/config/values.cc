// How scalars, names and choices are read from and written to nodes: the parts of config_read.h without templates.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/program_words.h"
#include "base/strings.h"
#include "config/single_entries.h"
#include "hone/config_read.h"

namespace hone::config::detail {
namespace {

std::string shown(const Node& node) {
  switch (node.kind()) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a section";
    case Node::Kind::scalar:
      break;
  }
  return node.quoted() ? "the string " + hone::quoted(node.text()) : escape_for_terminal(node.text());
}

void wrong_type(const Node& node, const std::string& expected, const At& at) {
  const bool is_empty = node.kind() == Node::Kind::scalar && trim(node.text()).empty();
  std::string fact = "got " + (is_empty ? "an empty value" : shown(node)) + ", expected " + expected;
  const std::string low = to_lower(node.text());
  if (expected == "true or false" && (low == "yes" || low == "no" || low == "on" || low == "off"))
    fact += " (yes and no are plain text in hone's YAML)";
  const auto is_number = [](const auto& entry) { return parse_int(entry.first).has_value(); };
  if (expected.starts_with("list of ") && std::any_of(node.entries().begin(), node.entries().end(), is_number))
    fact += " (a number names an entry of a list that a recipe has; without one give the list: [{...}])";
  if (node.is_null()) fact += "; null unsets what may be unset: leave this out, or give its value";
  if (is_empty) fact += "; leave this out, or give its value: a variable of the shell may be empty";
  at.problems.add(at.path, fact, "", node.mark());
}

std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

void check_range(const Node& node, double value, const At& at) {
  const Range& range = at.range;
  if (value >= range.low && value <= range.high) return;
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  const std::string expected = low && high ? fmt::format("{} to {}", number_text(range.low), number_text(range.high))
                               : low       ? "at least " + number_text(range.low)
                                           : "at most " + number_text(range.high);
  at.problems.add(at.path, fmt::format("got {}, expected {}", escape_for_terminal(node.text()), expected), "",
                  node.mark());
}

bool is_number_like(const Node& node) { return node.kind() == Node::Kind::scalar && !node.quoted(); }

std::string without_underscores(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i - 1])) &&
                         std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (text[i] != '_' || !between) out += text[i];
  }
  return !out.empty() && out[0] == '+' ? out.substr(1) : out;
}

template <class T>
bool read_whole(const Node& node, T& value, const At& at, const std::optional<T>& exact) {
  if (exact) {
    value = *exact;
  } else {
    const auto wide = is_number_like(node) ? parse_double(without_underscores(node.text())) : std::nullopt;
    const bool whole = wide && *wide == std::floor(*wide), negative = std::is_unsigned_v<T> && wide && *wide < 0;
    if (!whole || negative || std::abs(*wide) > 9.0e15) {
      wrong_type(node, !whole ? "a whole number" : negative ? "at least 0" : "a whole number of at most 64 bits", at);
      return false;
    }
    value = static_cast<T>(*wide);
  }
  return true;
}

// As YAML writes them.
bool is_true(const std::string& text) { return text == "true" || text == "True" || text == "TRUE"; }
bool is_false(const std::string& text) { return text == "false" || text == "False" || text == "FALSE"; }

}  // namespace

void read_scalar(const Node& node, bool& value, const At& at) {
  if (is_number_like(node) && (is_true(node.text()) || is_false(node.text())))
    value = is_true(node.text());
  else
    wrong_type(node, "true or false", at);
}

void read_scalar(const Node& node, std::int64_t& value, const At& at) {
  std::int64_t read = value;
  const auto exact = is_number_like(node) ? parse_int(without_underscores(node.text())) : std::nullopt;
  if (!read_whole(node, read, at, exact)) return;
  const std::size_t before = at.problems.size();
  check_range(node, static_cast<double>(read), at);
  if (at.problems.size() == before) value = read;
}

void read_scalar(const Node& node, std::uint64_t& value, const At& at) {
  std::uint64_t read = value;
  const auto exact = is_number_like(node) ? parse_uint(without_underscores(node.text())) : std::nullopt;
  if (!read_whole(node, read, at, exact)) return;
  const std::size_t before = at.problems.size();
  check_range(node, static_cast<double>(read), at);
  if (at.problems.size() == before) value = read;
}

void read_scalar(const Node& node, double& value, const At& at) {
  const auto read = is_number_like(node) ? parse_double(without_underscores(node.text())) : std::nullopt;
  if (!read) {
    const std::string text = to_lower(node.text());
    const bool is_no_number = text.ends_with("nan") || text.ends_with("inf");  // also YAML's .nan and -.inf
    return wrong_type(node, is_no_number ? "a finite number" : "a number", at);
  }
  const std::size_t before = at.problems.size();
  check_range(node, *read, at);
  if (at.problems.size() == before) value = *read;
}

void read_scalar(const Node& node, std::string& value, const At& at) {
  if (node.kind() == Node::Kind::scalar)
    value = node.text();
  else
    wrong_type(node, "text", at);
}

std::optional<std::size_t> read_name(const Node& node, const std::vector<std::string>& names, const At& at) {
  if (node.kind() == Node::Kind::scalar)
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == node.text()) return i;
  at.problems.add(at.path, "got " + shown(node) + ", expected one of " + join(names, ", "),
                  node.kind() == Node::Kind::scalar ? nearest(node.text(), names) : "", node.mark());
  return std::nullopt;
}

Node write_scalar(bool value) { return Node::scalar(value ? "true" : "false"); }
Node write_scalar(std::int64_t value) { return Node::scalar(std::to_string(value)); }
Node write_scalar(std::uint64_t value) { return Node::scalar(std::to_string(value)); }
Node write_scalar(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return Node::scalar(std::string(text, end));
}
Node write_scalar(const std::string& value) { return Node::scalar(value, /*quoted=*/true); }

void require_given(const std::string& value, const At& at) {
  if (value == "???") at.problems.add(at.path, "missing; it has no default");
}

bool expect(const Node& node, Node::Kind kind, const std::string& type, const At& at) {
  if (node.is_null() || node.kind() == kind) return true;
  wrong_type(node, kind == Node::Kind::map ? (type == "section" ? "a section" : type) : type, at);
  return false;
}

void take_old_name(Node& node, std::string_view name, std::string_view formerly, const At& at) {
  if (formerly.empty()) return;
  const auto old = std::find_if(node.entries().begin(), node.entries().end(),
                                [&](const auto& entry) { return entry.first == formerly; });
  if (old == node.entries().end()) return;
  const std::string path = at.below(formerly).path, now = at.below(name).path;
  if (node.find(name)) {
    at.problems.add(path, "is called " + now + " now, which is given as well", "", old->second.mark());
    node.entries().erase(old);
    return;
  }
  at.problems.note(path, "is called " + now + " now", old->second.mark());
  old->first = name;
}

void rename_choice(std::string_view interface_name, Node& node, const Node* base, const std::string& otherwise,
                   const At& at) {
  const auto type_in = [](const Node* from) -> const Node* {
    const Node* type = from && from->is_map() ? from->find("type") : from;
    return type && type->kind() == Node::Kind::scalar ? type : nullptr;
  };
  if (!node.is_map()) return;
  const Node *own = type_in(&node), *below = type_in(base);
  const std::string type = own ? own->text() : below ? below->text() : otherwise;
  const Catalogue* catalogue = find_catalogue(interface_name);
  const auto options = catalogue && !type.empty() ? catalogue->options(type) : nullptr;
  if (options) options->rename(node, base, at.problems, at.path);
}

Node way_to(const std::string& path, const Mark& mark) {
  Node way;
  way.set_mark(mark);
  const std::vector<std::string> parts = split(path, '.');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) way = Node::map({{*part, way}}, mark);
  return way;
}

std::string path_of(const Node& way) {
  std::string path;
  for (const Node* at = &way; !at->entries().empty(); at = &at->entries()[0].second)
    path += (path.empty() ? "" : ".") + at->entries()[0].first;
  return path;
}

void fill_choice(std::string_view interface_name, const std::string& type, std::shared_ptr<AnyOptions>& options) {
  if (type.empty() || options) return;
  if (const Catalogue* catalogue = find_catalogue(interface_name)) options = catalogue->options(type);
}

void read_choice(std::string_view interface_name, const Node& given, std::string& type,
                 std::shared_ptr<AnyOptions>& options, const At& at) {
  Node node = given;
  if (node.kind() == Node::Kind::scalar) wrap(node, "type");
  if (!expect(node, Node::Kind::map, "section", at)) return;
  std::string chosen = type;
  const Node* name = node.find("type");
  if (name) read_scalar(*name, chosen, at.below("type"));
  const Catalogue* catalogue = find_catalogue(interface_name);
  if (chosen.empty()) {
    at.problems.add(at.path + ".type", "missing; expected one of " + join(choice_names(interface_name), ", "), "",
                    node.mark());
    return;
  }
  auto made = chosen == type && options ? options->copy() : catalogue ? catalogue->options(chosen) : nullptr;
  if (!made) {
    const std::vector<std::string> known = choice_names(interface_name);
    const std::string close = nearest(chosen, known);
    const bool lists = std::count(known.begin(), known.end(), trim(chosen.substr(0, chosen.find(',')))) > 0;
    at.problems.add(at.path + ".type",
                    fmt::format("got \"{}\", expected one of {}{}{}", escape_for_terminal(chosen), join(known, ", "),
                                lists ? "; a list is written [a, b]" : "", words_of_plugins(close)),
                    lists ? "" : close, name ? name->mark() : node.mark());
    return;
  }
  std::erase_if(node.entries(), [](const auto& entry) { return entry.first == "type"; });
  wrap_single_entries(node, made->describe());
  made->read(node, at.problems, at.path);
  type = chosen;
  options = made;
}

Node write_choice(const std::string& type, const std::shared_ptr<AnyOptions>& options) {
  if (type.empty()) return {};
  std::vector<Node::Entry> entries = {{"type", Node::scalar(type)}};
  if (options) {
    const Node written = options->write();
    entries.insert(entries.end(), written.entries().begin(), written.entries().end());
  }
  return Node::map(std::move(entries));
}

std::vector<std::string> choice_names(std::string_view interface_name) {
  const Catalogue* catalogue = find_catalogue(interface_name);
  return catalogue ? catalogue->names() : std::vector<std::string>{};
}

void wrap(Node& node, std::string_view key) {
  const Mark mark = node.mark();
  node = Node::map({{std::string(key), node}}, mark);
}

std::string_view take_part(std::string_view& path) {
  const std::size_t end = std::min(path.find('.'), path.size());
  const std::string_view part = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return part;
}

std::size_t index_in(std::string_view part, std::size_t size) {
  const auto index = parse_uint(part);
  return index && *index < size ? static_cast<std::size_t>(*index) : size;
}

bool is_plain(const Node& node) { return node.kind() == Node::Kind::scalar && !node.text().starts_with("${"); }

std::string inline_text(const Node& node) {
  if (node.is_null()) return "null";
  if (node.kind() == Node::Kind::scalar) return node.text();
  std::string out = node.is_map() ? "{" : "[";
  for (const auto& [key, entry] : node.entries()) out += (out.size() > 1 ? ", " : "") + key + ": " + inline_text(entry);
  for (const Node& item : node.items()) out += (out.size() > 1 ? ", " : "") + inline_text(item);
  return out + (node.is_map() ? "}" : "]");
}

}  // namespace hone::config::detail
