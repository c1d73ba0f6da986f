// Walks the rows that describe() made; sections and their options arrive depth first.
#include "config/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/strings.h"

namespace hone::config {
namespace {

std::string bound(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

std::string range_text(const Range& range) {
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  if (low && high) return bound(range.low) + " to " + bound(range.high);
  if (low) return "at least " + bound(range.low);
  return high ? "at most " + bound(range.high) : "";
}

std::string type_text(const OptionInfo& row) {
  std::string text = row.choices.empty() ? row.type : "one of " + join(row.choices, ", ");
  if (!range_text(row.range).empty()) text += ", " + range_text(row.range);
  return text;
}

std::string cell(std::string text) { return replace_all(std::move(text), "|", "\\|"); }

void add_rows(const std::vector<OptionInfo>& rows, std::optional<OnResume> on_resume, std::string& page) {
  page += on_resume ? "| option | default | values | meaning | at a resume |\n|---|---|---|---|---|\n"
                    : "| option | default | values | meaning |\n|---|---|---|---|\n";
  for (const OptionInfo& row : rows) {
    page += fmt::format("| `{}` | {} | {} | {} |", row.path,
                        row.default_text.empty() ? "" : "`" + cell(row.default_text) + "`", cell(type_text(row)),
                        cell(row.formerly.empty() ? row.help : row.help + " Formerly `" + row.formerly + "`."));
    const bool section = row.type == "section";
    if (on_resume) page += section ? "  |" : fmt::format(" {} |", name_of(row.on_resume.value_or(*on_resume)));
    page += "\n";
  }
}

void set(Node& at, const std::string& key, const std::string& text) { at.at_or_add(key) = Node::scalar(text, true); }

Node type_schema(const std::string& type) {
  Node node = Node::map();
  if (type.starts_with("list of ")) {
    const Node one = type_schema(type.substr(8));
    Node many = Node::map();
    set(many, "type", "array");
    many.at_or_add("items") = one;
    Node either = Node::map();
    either.at_or_add("anyOf") = Node::list({many, one});
    return either;
  }
  if (type.starts_with("map of ")) {
    set(node, "type", "object");
    node.at_or_add("additionalProperties") = type_schema(type.substr(7));
  } else if (type == "integer" || type == "number" || type == "boolean" || type == "string") {
    set(node, "type", type);
  }
  return node;  // sections, choices and anything: no constraint here
}

Node option_schema(const OptionInfo& row) {
  Node node = type_schema(row.type);
  if (row.catalogue.empty() && !row.choices.empty()) {
    node = Node::map();
    std::vector<Node> names;
    for (const std::string& name : row.choices) names.push_back(Node::scalar(name, true));
    node.at_or_add("enum") = Node::list(std::move(names));
  }
  if (std::isfinite(row.range.low)) node.at_or_add("minimum") = Node::scalar(bound(row.range.low));
  if (std::isfinite(row.range.high)) node.at_or_add("maximum") = Node::scalar(bound(row.range.high));
  return node;
}

// What each choice has for options, and the choices among these: schedules of optimizers, once for all that have them.
// `above`: the catalogues whose choices `rows` are options of; an optimizer that consists of optimizers ends there.
void add_choices(const std::vector<OptionInfo>& rows, const std::string& prefix, std::optional<OnResume> on_resume,
                 std::string& page, std::set<std::string>& done, const std::set<std::string>& above = {}) {
  for (const OptionInfo& row : rows) {
    const Catalogue* catalogue = row.catalogue.empty() ? nullptr : find_catalogue(row.catalogue);
    const std::string path = prefix + row.path;
    if (!catalogue || above.contains(row.catalogue) || !done.insert(path).second) continue;
    std::set<std::string> here = above;
    here.insert(row.catalogue);
    const std::optional<OnResume> below = on_resume ? row.on_resume.value_or(*on_resume) : on_resume;
    for (const std::string& name : catalogue->names()) {
      const auto options = catalogue->options(name)->describe();
      page += fmt::format("\n## `{}: {{type: {}}}`\n\n", path, name);
      options.empty() ? void(page += "No options.\n") : add_rows(options, below, page);
    }
    for (const std::string& name : catalogue->names())
      add_choices(catalogue->options(name)->describe(), path + ".", below, page, done, here);
  }
}

Node schema_of(const std::string& title, const std::vector<OptionInfo>& rows, OnResume on_resume,
               const std::set<std::string>& above);

// A Choice: {type: name, options...}, or the plain name. Within a choice of the same kind, as a schedule in a schedule,
// there are those only that have no such choice themselves.
Node choice_schema(const OptionInfo& row, OnResume on_resume, const std::set<std::string>& above) {
  std::vector<Node> forms, names;
  const Catalogue* catalogue = find_catalogue(row.catalogue);
  std::set<std::string> here = above;
  const bool within = !here.insert(row.catalogue).second;
  for (const std::string& name : row.choices) {
    const std::vector<OptionInfo> rows = catalogue->options(name)->describe();
    const auto is_same = [&](const OptionInfo& option) { return option.catalogue == row.catalogue; };
    if (within && std::any_of(rows.begin(), rows.end(), is_same)) continue;
    Node form = schema_of("", rows, on_resume, here);
    Node type = Node::map();
    type.at_or_add("const") = Node::scalar(name, true);
    form.at_or_add("properties").at_or_add("type") = type;
    forms.push_back(std::move(form));
    names.push_back(Node::scalar(name, true));
  }
  Node plain = Node::map();
  plain.at_or_add("enum") = Node::list(std::move(names));
  forms.push_back(std::move(plain));
  Node node = Node::map();
  node.at_or_add("anyOf") = Node::list(std::move(forms));
  return node;
}

// No other names are in the objects of `at`, which is at `path`, but in those that are open.
void close(Node& at, const std::string& path, const std::set<std::string>& open) {
  Node* properties = at.find("properties");
  if (!properties) return;
  for (auto& [name, property] : properties->entries()) close(property, path.empty() ? name : path + "." + name, open);
  if (!open.contains(path)) at.at_or_add("additionalProperties") = Node::scalar("false");
}

Node schema_of(const std::string& title, const std::vector<OptionInfo>& rows, OnResume on_resume,
               const std::set<std::string>& above) {
  std::set<std::string> open;  // sections with names of the user's
  Node schema = Node::map();
  if (!title.empty()) {
    set(schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
    set(schema, "title", title);
  }
  set(schema, "type", "object");
  schema.at_or_add("properties") = Node::map();
  for (const OptionInfo& row : rows) {
    if (const std::size_t name = row.path.find('<'); name != std::string::npos)
      open.insert(row.path.substr(0, name == 0 ? 0 : name - 1));
    if (row.path.find("[]") != std::string::npos || row.path.find('<') != std::string::npos) continue;
    Node* at = &schema;
    const std::vector<std::string> parts = split(row.path, '.');
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i + 1 == parts.size() && !row.formerly.empty()) {
        Node& old = at->at_or_add("properties").at_or_add(row.formerly);
        old = option_schema(row);
        old.at_or_add("deprecated") = Node::scalar("true");
      }
      at = &at->at_or_add("properties").at_or_add(parts[i]);
    }
    const OnResume rule = row.on_resume.value_or(on_resume);
    const bool list = row.type.starts_with("list");
    *at = row.catalogue.empty() ? option_schema(row) : list ? type_schema(row.type) : choice_schema(row, rule, above);
    set(*at, "description", row.help);
    if (row.type != "section") set(*at, "x-on-resume", std::string(name_of(rule)));
  }
  close(schema, "", open);
  return schema;
}

}  // namespace

std::string_view name_of(OnResume rule) {
  switch (rule) {
    case OnResume::free: return "free";
    case OnResume::record: return "record";
    case OnResume::fixed: return "fixed";
    case OnResume::refuse: break;
  }
  return "refuse";
}

std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = 0;
  for (const std::string& word : split(text, ' ')) {
    const std::size_t length = display_width(word);
    if (column > 0 && column + 1 + length > width) {
      out += "\n" + repeat(" ", indent);
      column = 0;
    } else if (column > 0) {
      out += " ";
      ++column;
    }
    out += word;
    column += length;
  }
  return out;
}

std::string flags_help(const std::vector<OptionInfo>& rows, std::size_t width) {
  std::string out;
  const std::size_t left = width < 70 ? 6 : 30;
  for (const OptionInfo& row : rows) {
    if (row.type == "section") continue;
    std::string flag = (row.path.size() == 1 ? "  -" : "  --") + replace_all(row.path, "_", "-");
    if (row.type != "boolean")
      flag += row.choices.empty() ? " " + to_lower(row.type == "string"               ? "text"
                                                   : row.type.starts_with("list of ") ? row.type.substr(8)
                                                                                      : row.type)
                                  : " NAME";
    std::string help = row.help;
    if (!row.choices.empty()) help += " One of " + join(row.choices, ", ") + ".";
    if (!row.default_text.empty() && row.type != "boolean" && row.default_text != "[]")
      help += " Default: " + row.default_text + ".";
    if (row.type == "boolean" && row.default_text == "true")
      help += " On by default; --no-" + replace_all(row.path, "_", "-") + " turns it off.";
    const std::size_t used = display_width(flag);
    out += flag + (used + 2 <= left ? repeat(" ", left - used) : "\n" + repeat(" ", left));
    out += wrapped(help, std::max<std::size_t>(width > left + 20 ? width - left : 20, 20), left) + "\n";
  }
  return out;
}

std::string reference_page(const std::string& title, const std::vector<OptionInfo>& rows,
                           std::optional<OnResume> on_resume) {
  std::string page = "# " + title + "\n\n";
  if (on_resume)
    page +=
        "What a change means when a run is resumed: *free*, it may change; *record*, it may change and the checkpoint "
        "says so; *refuse*, only with `--override`.\n\n";
  add_rows(rows, on_resume, page);
  std::set<std::string> done;
  add_choices(rows, "", on_resume, page, done);
  return page;
}

Node json_schema(const std::string& title, const std::vector<OptionInfo>& rows, OnResume on_resume) {
  return schema_of(title, rows, on_resume, {});
}

}  // namespace hone::config
