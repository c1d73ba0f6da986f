// Options declared once: a struct with defaults and fields(); everything that reads, writes or documents it walks it.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hone/error.h"

namespace hone::config {

// Where a value was written: a file with a line, or the command line (line 0).
struct Mark {
  std::string file;
  int line = 0;
  std::string text() const;  // "recipe.yaml:12", "--trainer.steps", or ""
};

class Node;

// Problems of a configuration, collected and shown together.
class HONE_API Problems {
 public:
  // at: where it was written; without it, where the value at `path` stands in the Scope's node, or what it would be in.
  void add(const std::string& path, const std::string& fact, const std::string& suggestion = "", const Mark& at = {});
  // The same for a condition that one field cannot say; used in validate(Problems&).
  void require(bool holds, const std::string& path, const std::string& fact);
  bool empty() const { return lines_.empty(); }
  std::size_t size() const { return lines_.size(); }
  const std::vector<std::string>& lines() const { return lines_; }
  // What is read all the same and is worth a warning: an option under its old name. Not among the problems.
  void note(const std::string& path, const std::string& fact, const Mark& at = {});
  const std::vector<std::string>& notes() const { return notes_; }
  // A key that no option has: a problem; after pass_over_unknown(), where a file or a library has it, one of these.
  void add_unknown(const std::string& path, const std::string& suggestion, const Mark& at);
  void pass_over_unknown() { passes_over_unknown_ = true; }
  const std::vector<std::string>& passed_over() const { return passed_over_; }
  // Throws one Error of the given kind that lists all of them; does nothing when there are none.
  void raise(const std::string& subject = "the configuration", ErrorKind kind = ErrorKind::config) const;
  // While alive, paths given to add() and require() are below `prefix`.
  class Scope;

 private:
  Mark written_at(const std::string& path) const;
  std::string line_of(const std::string& path, const std::string& fact, const std::string& suggestion,
                      const Mark& at) const;
  std::vector<std::string> lines_, notes_, passed_over_;
  bool passes_over_unknown_ = false;
  std::string prefix_;
  const Node* node_ = nullptr;    // what the paths lead into
  std::size_t above_node_ = 0;    // so much of prefix_ leads to the node itself
};
class Problems::Scope {
 public:
  // node: the section at `prefix` as it was written; without one, what is further up is known still.
  Scope(Problems& problems, const std::string& prefix, const Node* node = nullptr)
      : problems_(problems), prefix_(problems.prefix_), node_(problems.node_), above_node_(problems.above_node_) {
    problems_.prefix_ += prefix;
    if (node) problems_.node_ = node, problems_.above_node_ = problems_.prefix_.size();
  }
  ~Scope() { problems_.prefix_ = prefix_, problems_.node_ = node_, problems_.above_node_ = above_node_; }
  Scope(const Scope&) = delete;

 private:
  Problems& problems_;
  const std::string prefix_;
  const Node* const node_;
  const std::size_t above_node_;
};

// A value as written: scalar text, list or map in file order, each with its mark. The common form of YAML, JSON and
// --a.b.c=value; typed structs are read from it and written to it.
class HONE_API Node {
 public:
  enum class Kind { null, scalar, list, map };
  using Entry = std::pair<std::string, Node>;

  Node() = default;
  static Node scalar(std::string text, bool quoted = false, Mark mark = {});
  static Node list(std::vector<Node> items = {}, Mark mark = {});
  static Node map(std::vector<Entry> entries = {}, Mark mark = {});

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_map() const { return kind_ == Kind::map; }
  const std::string& text() const { return text_; }   // scalar only
  bool quoted() const { return quoted_; }             // "5" is a string, 5 may be a number
  const Mark& mark() const { return mark_; }
  void set_mark(Mark mark) { mark_ = std::move(mark); }
  std::vector<Node>& items() { return items_; }
  const std::vector<Node>& items() const { return items_; }
  std::vector<Entry>& entries() { return entries_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const Node* find(std::string_view key) const;       // map entry, or nullptr
  Node* find(std::string_view key);
  Node& at_or_add(const std::string& key);            // makes this a map if it was null

 private:
  Kind kind_ = Kind::null;
  std::string text_;
  bool quoted_ = false;
  std::vector<Node> items_;
  std::vector<Entry> entries_;
  Mark mark_;
};

HONE_API Node parse_yaml(const std::string& text, const std::string& file, Problems& problems);
HONE_API Node parse_json(const std::string& text, const std::string& file, Problems& problems);
HONE_API Node read_file(const std::string& path);                // .yaml, .yml or .json; throws Error(config)
HONE_API std::string to_yaml(const Node& node);
HONE_API std::string to_json(const Node& node, int indent = 2);
// Writes value (YAML syntax) at a dotted path; list elements by number: data.train.0.path.
HONE_API void assign(Node& root, const std::string& path, const std::string& value, const Mark& mark,
                     Problems& problems);
// Puts every entry of `over` on top of `base`: maps merge, everything else replaces.
HONE_API void overlay(Node& base, const Node& over);
// Replaces ${a.b} by the value at a.b (whole scalar: any kind; inside text: its text) and reports what is still "???".
// current: what a.b is called now.
HONE_API void resolve(Node& root, Problems& problems,
                      const std::function<std::string(const std::string&)>& current = {});

struct Change { std::string path, before, after; };  // "" stands for absent
HONE_API std::vector<Change> diff(const Node& before, const Node& after);  // leaves that differ, sorted by path

// The nearest of `known` to `name` if it is near enough to be a typing mistake, else "".
HONE_API std::string nearest(const std::string& name, const std::vector<std::string>& known);

struct Range { double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity(); };
constexpr Range at_least(double low) { return {.low = low}; }

// What a changed option of a recipe means when a run is resumed. free: it changes no number. record: it changes the
// numbers from here on, and is written into the checkpoint. refuse: the run would no longer be one run. fixed: nor does
// --override help, as what the checkpoint holds is made by it.
enum class OnResume { free, record, refuse, fixed };

// One option: its name, where it lives, what it means, what it may be. Nothing else is written anywhere.
template <class Struct, class T>
struct Field {
  std::string_view name;
  T Struct::*member;
  std::string_view help;
  Range range;
  std::optional<OnResume> on_resume;  // also of what is below; nothing: as the section that it is in, at the top refuse
  std::string_view formerly = {};     // what it was called before; read with a warning, beside the new name an error
  constexpr Field renamed_from(std::string_view old) const {
    Field renamed = *this;
    renamed.formerly = old;
    return renamed;
  }
};
template <class S, class T>
constexpr Field<S, T> field(std::string_view name, T S::*member, std::string_view help, Range range = {},
                            std::optional<OnResume> on_resume = {}) {
  return {name, member, help, range, on_resume, {}};
}
template <class S, class T>
constexpr Field<S, T> field(std::string_view name, T S::*member, std::string_view help, OnResume on_resume) {
  return {name, member, help, {}, on_resume, {}};
}

template <class T>
concept Group = requires { std::remove_cvref_t<T>::fields(); };  // a struct of options, nested freely

// The one name table of an enum: specialise it with std::to_array<std::pair<E, std::string_view>>({...}).
template <class E>
inline constexpr int enum_names = 0;

// One row of --help, of the reference page and of the JSON schema.
struct OptionInfo {
  std::string path;
  std::string type;  // "integer", "number", "string", "boolean", "one of a|b", "list of ...", ...
  std::string default_text, help;
  Range range;
  std::vector<std::string> choices;            // of an enum or a Choice
  bool optional = false;                       // may be absent
  std::string catalogue;                       // of a Choice: its interface
  std::optional<OnResume> on_resume;           // nothing: neither it nor a section that it is in says so
  std::string formerly;                        // its old name, as the last part of `path`
};

// Type-erased options of a registry entry (see registry.h); `Choice` holds one.
class HONE_API AnyOptions {
 public:
  virtual ~AnyOptions() = default;
  virtual void read(const Node& node, Problems& problems, const std::string& path) = 0;
  virtual Node write() const = 0;
  virtual void rename(Node& node, const Node* base, Problems& problems, const std::string& path) const = 0;
  virtual std::vector<OptionInfo> describe() const = 0;
  // What a change of the option at `path` means; otherwise: where it does not say so. Nothing: there is no such option.
  virtual std::optional<OnResume> on_resume(std::string_view path, OnResume otherwise) const = 0;
  virtual std::shared_ptr<AnyOptions> copy() const = 0;
};
template <Group T>
class OptionsOf;  // AnyOptions that holds a T as `value`; in hone/config_read.h

// What a registry offers to `Choice`: names and fresh options. Registered by interface tag (see registry.h).
class HONE_API Catalogue {
 public:
  virtual ~Catalogue() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual std::shared_ptr<AnyOptions> options(const std::string& name) const = 0;  // nullptr: unknown name
};
HONE_API const Catalogue* find_catalogue(std::string_view interface_name);
HONE_API void set_catalogue(std::string_view interface_name, const Catalogue* catalogue);

// A section that can be one of several things: `type:` picks a registry entry, the rest is that entry's options.
// Interface names its catalogue by `static constexpr std::string_view kInterface`.
template <class Tag>
struct Choice {
  std::string type;                     // "" = not chosen
  std::shared_ptr<AnyOptions> options;  // of the entry `type`; null exactly when type is ""
};

// A section whose keys belong to somebody else (a model's configuration): kept as written, checked by its owner.
struct Open {
  Node node;
};

}  // namespace hone::config

namespace hone {
using config::at_least;
using config::field;
using config::OnResume;
using config::Problems;
}  // namespace hone
