// Flags become one Node, which the options struct then reads like any other configuration.
#include "config/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/strings.h"
#include "config/home.h"
#include "config/other_names.h"
#include "hone/config_read.h"

namespace hone::config {
namespace {

std::string flag_of(const std::string& path) { return "--" + replace_all(path, "_", "-"); }

// "save.grace" of an option "save.grace_seconds" that was called grace; "": it was never called otherwise.
std::string old_path(const OptionInfo& row) {
  if (row.formerly.empty()) return "";
  const std::size_t dot = row.path.rfind('.');
  return (dot == std::string::npos ? "" : row.path.substr(0, dot + 1)) + row.formerly;
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether it is an option's path: "data.train.0.stream" of "data.train[].stream", or "data.train.stream", of a list of
// one; "data.eval.a.0.path" of "data.eval.<name>[].path".
bool is_path_of(const std::string& path, const std::string& option) {
  const auto is_like = [own = split(path, '.')](const std::string& one) {
    const std::vector<std::string> parts = split(one, '.');
    return std::equal(own.begin(), own.end(), parts.begin(), parts.end(),
                      [](const std::string& name, const std::string& part) {
                        return part == "[]" ? parse_int(name).has_value() : part == "<name>" || part == name;
                      });
  };
  return is_like(replace_all(option, "[]", ".[]")) || is_like(replace_all(option, "[]", ""));
}

class Parser {
 public:
  Parser(AnyOptions& options, AnyOptions* common, const Overridable& overrides) : overrides_(overrides) {
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
      else if (word.size() == 2 && word[0] == '-' && find(word.substr(1)))
        flag(arguments);
      else if (word.size() > 1 && word[0] == '-' && !parse_double(word)) problems_.add(word, "no such flag");
      else line_.positionals.push_back(word);
      if (!overrides_.passes_on || line_.positionals.empty()) continue;
      line_.positionals.insert(line_.positionals.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at_) + 1,
                               arguments.end());
      break;
    }
    if (line_.help) return line_;
    if (problems_.empty())
      for (Group& group : groups_) {
        expand_home_of_flags(group.values, problems_);
        group.options.read(group.values, problems_, "");
      }
    problems_.raise("the command line", ErrorKind::usage);
    line_.notes = problems_.notes();
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
    const std::string word = arguments[at_].starts_with("--") ? arguments[at_] : "-" + arguments[at_];  // -n is --n
    const auto equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    std::string path = replace_all(name, "-", "_");
    if (!find(path) && find(path + ".type")) path += ".type";  // a section by the one word that it may be in a file
    const Row* row = find(path);
    const bool negated =
        !row && path.starts_with("no_") && find(path.substr(3)) && find(path.substr(3))->type == "boolean";
    if (negated) return set(path.substr(3), value ? "" : "false", "--" + name);
    if (!row && !is_override(name)) return unknown(name, value.value_or(""));
    if (row && row->type == "boolean") return set(path, value.value_or("true"), "--" + name);
    const bool is_said = at_ + 1 < arguments.size() && (arguments[at_ + 1] == "true" || arguments[at_ + 1] == "false");
    if (!value && !row && !is_said && is_switch(path)) value = "true";
    if (!value) {
      if (at_ + 1 >= arguments.size() || (!row && is_flag(arguments[at_ + 1])))
        return problems_.add("--" + name, "needs a value");
      value = arguments[++at_];
    }
    if (row) set(path, *value, "--" + name);
    else line_.overrides.emplace_back(name, *value);
  }

  static bool is_called(const Row& row, const std::string& path) {
    return row.path == path || (!row.formerly.empty() && old_path(row) == path);
  }

  const Row* find(const std::string& path) const {
    for (const Row& row : rows_)
      if (is_called(row, path)) return &row;
    return nullptr;
  }

  bool is_switch(const std::string& path) const {
    return std::any_of(overrides_.switches.begin(), overrides_.switches.end(),
                       [&](const std::string& option) { return is_path_of(path, option); });
  }

  bool is_override(const std::string& name) const {
    return overrides_.dotted && (name.find('.') != std::string::npos || is_in(overrides_.sections, name));
  }

  // Whether a word that could be the value of the override before it is a flag itself; --a.b=--value gives it all the
  // same.
  bool is_flag(const std::string& word) const {
    if (!word.starts_with("--")) return false;
    const std::string name = word.substr(2, word.find('=') - 2), path = replace_all(name, "-", "_");
    return find(path) || (overrides_.dotted && (is_in(overrides_.sections, name) || is_dotted(name)));
  }
  // a.b, with nothing that a sentence would have.
  static bool is_dotted(const std::string& name) {
    const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
    return name.find('.') != std::string::npos && name.front() != '.' && name.back() != '.' &&
           std::all_of(name.begin(), name.end(), plain);
  }

  // value: that it was given, "": none.
  void unknown(const std::string& name, const std::string& value) {
    if (name == "plugin" || name == "debug")
      return problems_.add("--" + name, fmt::format("stands before the command: hone --{}{} COMMAND", name,
                                                    name == "plugin" ? " FILE" : ""));
    if (const OtherName* other = overrides_.dotted ? other_name(name) : nullptr) {
      const std::string meant = value_for(*other, value);
      return problems_.add("--" + name, "no such flag",
                           fmt::format("--{}{}{}", other->option, meant.empty() ? "" : "=", meant));
    }
    std::vector<std::string> known = {"help"};
    if (overrides_.dotted) known.insert(known.end(), overrides_.sections.begin(), overrides_.sections.end());
    for (const Row& row : rows_) known.push_back(flag_of(row.path).substr(2));
    std::string close = nearest(name, known);
    // What people look for by another name than an edit away.
    if (close.empty() && name == "ids" && find("decode")) close = "decode";
    if (close.empty() && name == "greedy" && find("temperature")) close = "temperature=0";
    const bool is_folder = (name == "out" || name == "output") && find("replace") && find("seed");
    if (is_folder) return problems_.add("--" + name, "no such flag; the folder is given without one");
    problems_.add("--" + name, "no such flag", close.empty() ? "" : "--" + close);
  }

  // For every group that has such an option.
  void set(const std::string& path, const std::string& text, const std::string& flag) {
    line_.flags.emplace_back(path, text);
    for (const Row& row : rows_)
      if (is_called(row, path)) set(row, path, text, flag);
  }

  // path: as it was given; reading knows old names.
  static void set(const Row& row, const std::string& path, const std::string& text, const std::string& flag) {
    Node* at = row.values;
    for (const std::string& part : split(path, '.')) at = &at->at_or_add(part);
    const Node value = Node::scalar(text, row.type.find("string") != std::string::npos, {flag, 0});
    if (!row.type.starts_with("list")) {
      *at = value;
    } else {
      if (at->is_null()) *at = Node::list({}, {flag, 0});
      at->items().push_back(value);
    }
  }

  std::deque<Group> groups_;  // whose addresses stay
  const Overridable& overrides_;
  std::vector<Row> rows_;
  std::size_t at_ = 0;
  CommandLine line_;
  Problems problems_;
};

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments, AnyOptions& options,
                               const Overridable& overrides, AnyOptions* common) {
  return Parser(options, common, overrides).run(arguments);
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
