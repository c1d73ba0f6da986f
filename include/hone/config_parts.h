// What config_read.h is made of besides its templates: places, scalars, choices, the count of a struct's members.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "hone/config.h"

namespace hone::config {

// Where a value is being read: its dotted path and the range its field declares.
struct At {
  Problems& problems;
  std::string path;
  Range range = {};
  At below(std::string_view name, Range its = {}) const {
    return {problems, path.empty() ? std::string(name) : path + "." + std::string(name), its};
  }
};

namespace detail {

// Counts members: an aggregate of n members takes n initialisers, not n + 1; T::Base, whose fields() come first, is
// one.
struct Anything {
  template <class T>
  operator T() const;  // never defined; const, so that std::optional's own converting constructor wins over it
};
template <class T, std::size_t... i>
consteval bool takes(std::index_sequence<i...>) {
  return requires { T{(void(i), Anything{})...}; };
}
template <class T>
consteval std::size_t initialisers() {
  constexpr std::size_t all = std::tuple_size_v<decltype(T::fields())>;
  if constexpr (requires { typename T::Base; }) return all - std::tuple_size_v<decltype(T::Base::fields())> + 1;
  else return all;
}
template <class T>
consteval bool lists_all_members() {
  constexpr std::size_t count = initialisers<T>();
  return takes<T>(std::make_index_sequence<count>()) && !takes<T>(std::make_index_sequence<count + 1>());
}

// The parts that need no template; src/config/values.cc. Each read_ adds a problem and leaves the value when it does
// not fit.
HONE_API void read_scalar(const Node& node, bool& value, const At& at);
HONE_API void read_scalar(const Node& node, std::int64_t& value, const At& at);
HONE_API void read_scalar(const Node& node, std::uint64_t& value, const At& at);
HONE_API void read_scalar(const Node& node, double& value, const At& at);
HONE_API void read_scalar(const Node& node, std::string& value, const At& at);
HONE_API std::optional<std::size_t> read_name(const Node& node, const std::vector<std::string>& names, const At& at);
HONE_API Node write_scalar(bool value);
HONE_API Node write_scalar(std::int64_t value);
HONE_API Node write_scalar(std::uint64_t value);
HONE_API Node write_scalar(double value);  // shortest text that reads back as the same number
HONE_API Node write_scalar(const std::string& value);
HONE_API void require_given(const std::string& value, const At& at);  // a default of "???" must be replaced
HONE_API bool expect(const Node& node, Node::Kind kind, const std::string& type, const At& at);  // null passes
// What stands under the old name is under the new one from here on; both: a problem.
HONE_API void take_old_name(Node& node, std::string_view name, std::string_view formerly, const At& at);
HONE_API void rename_choice(std::string_view interface_name, Node& node, const Node* base, const std::string& type,
                            const At& at);
HONE_API void report_unknown(const Node& node, const std::vector<std::string>& known, const At& at);
HONE_API void read_choice(std::string_view interface_name, const Node& node, std::string& type,
                          std::shared_ptr<AnyOptions>& options, const At& at);
HONE_API void fill_choice(std::string_view interface_name, const std::string& type,
                          std::shared_ptr<AnyOptions>& options);
HONE_API Node write_choice(const std::string& type, const std::shared_ptr<AnyOptions>& options);
HONE_API std::vector<std::string> choice_names(std::string_view interface_name);
HONE_API void wrap(Node& node, std::string_view key);  // s becomes {key: s}
HONE_API bool is_plain(const Node& node);              // a scalar and no reference ${...}
HONE_API std::string inline_text(const Node& node);    // YAML on one line
HONE_API Node way_to(const std::string& path, const Mark& mark);  // {a: {b: null}} of "a.b"
HONE_API std::string path_of(const Node& way);                    // "a.b" of that
HONE_API std::string_view take_part(std::string_view& path);  // "a" of "a.b.c", of which "b.c" stays
HONE_API std::size_t index_in(std::string_view part, std::size_t size);  // `size`: it is no index below that

}  // namespace detail
}  // namespace hone::config
