// Flags become one Node, which the options struct then reads like any other configuration.
#include "config/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/strings.h"
#include "hone/config_read.h"

namespace hone::config {
namespace {

std::string flag_of(const std::string& path) { return "--" + replace_all(path, "_", "-"); }

class Parser {
 public:
  Parser(AnyOptions& options, AnyOptions* common, bool allow_overrides, const std::vector<std::string>& sections)
      : allow_overrides_(allow_overrides), sections_(sections) {
    groups_.push_back({options});
    if (common) groups_.push_back({*common});
    for (Group& group : groups_)
      for (const OptionInfo& row : group.options.describe())
        if (row.type != "section") rows_.push_back({row, &group.values});
  }

  CommandLine run(const std::vector<std::string>& arguments) {
    for (at_ = 0; at_ < arguments.size(); ++at_) {
      const std::string& word = arguments[at_];
      if (word == "--") {
        line_.positionals.insert(line_.positionals.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at_) + 1,
                                 arguments.end());
        break;
      }
      if (word == "--help" || word == "-h") line_.help = true;
      else if (word.size() > 2 && word.starts_with("--")) flag(arguments);
      else if (word.size() > 1 && word[0] == '-' && !parse_double(word)) problems_.add(word, "no such flag");
      else line_.positionals.push_back(word);
    }
    if (line_.help) return line_;
    if (problems_.empty())
      for (Group& group : groups_) group.options.read(group.values, problems_, "");
    problems_.raise("the command line", ErrorKind::usage);
    return line_;
  }

 private:
  // An options struct, and what the flags say for it.
  struct Group {
    AnyOptions& options;
    Node values = Node::map();
  };
  struct Row : OptionInfo {
    Node* values;
  };

  void flag(const std::vector<std::string>& arguments) {
    const std::string& word = arguments[at_];
    const auto equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    const std::string path = replace_all(name, "-", "_");
    const Row* row = find(path);
    const bool negated =
        !row && path.starts_with("no_") && find(path.substr(3)) && find(path.substr(3))->type == "boolean";
    if (negated) return set(path.substr(3), value ? "" : "false", "--" + name);
    if (!row && !is_override(name)) return unknown(name);
    if (row && row->type == "boolean") return set(path, value.value_or("true"), "--" + name);
    if (!value) {
      if (at_ + 1 >= arguments.size()) return problems_.add("--" + name, "needs a value");
      value = arguments[++at_];
    }
    if (row) set(path, *value, "--" + name);
    else line_.overrides.emplace_back(name, *value);
  }

  const Row* find(const std::string& path) const {
    for (const Row& row : rows_)
      if (row.path == path) return &row;
    return nullptr;
  }

  bool is_override(const std::string& name) const {
    return allow_overrides_ && (name.find('.') != std::string::npos ||
                                std::find(sections_.begin(), sections_.end(), name) != sections_.end());
  }

  void unknown(const std::string& name) {
    std::vector<std::string> known = {"help"};
    if (allow_overrides_) known.insert(known.end(), sections_.begin(), sections_.end());
    for (const Row& row : rows_) known.push_back(flag_of(row.path).substr(2));
    std::string close = nearest(name, known);
    // What people look for by another name than an edit away.
    if (close.empty() && name == "ids" && find("decode")) close = "decode";
    problems_.add("--" + name, "no such flag", close.empty() ? "" : "--" + close);
  }

  // For every group that has such an option.
  void set(const std::string& path, const std::string& text, const std::string& flag) {
    for (const Row& row : rows_)
      if (row.path == path) set(row, text, flag);
  }

  static void set(const Row& row, const std::string& text, const std::string& flag) {
    Node* at = row.values;
    for (const std::string& part : split(row.path, '.')) at = &at->at_or_add(part);
    const Node value = Node::scalar(text, row.type.find("string") != std::string::npos, {flag, 0});
    if (!row.type.starts_with("list")) {
      *at = value;
    } else {
      if (at->is_null()) *at = Node::list({}, {flag, 0});
      at->items().push_back(value);
    }
  }

  std::deque<Group> groups_;  // whose addresses stay
  bool allow_overrides_;
  const std::vector<std::string>& sections_;
  std::vector<Row> rows_;
  std::size_t at_ = 0;
  CommandLine line_;
  Problems problems_;
};

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments, AnyOptions& options, bool allow_overrides,
                               const std::vector<std::string>& sections, AnyOptions* common) {
  return Parser(options, common, allow_overrides, sections).run(arguments);
}

std::vector<std::pair<std::string, std::string>> environment_overrides(const char* const* environment) {
  std::vector<std::pair<std::string, std::string>> overrides;
  for (; environment && *environment; ++environment) {
    const std::string entry = *environment;
    const auto equals = entry.find('=');
    if (!entry.starts_with("HONE_") || equals == std::string::npos) continue;
    const std::string name = entry.substr(5, equals - 5);
    if (name.find("__") == std::string::npos) continue;
    overrides.emplace_back(replace_all(to_lower(name), "__", "."), entry.substr(equals + 1));
  }
  std::sort(overrides.begin(), overrides.end());
  return overrides;
}

}  // namespace hone::config
