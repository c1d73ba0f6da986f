// Reads, writes and describes config structs: all of it is derived from their fields(). Included by every plug-in.
#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hone/config_parts.h"

namespace hone::config {

// How one type of option is read, written and described. Specialised below for every type that a field may have.
// on_resume(path, value, here): what a change of the option at `path` below the value means; "": of the value itself,
// whose own rule is `here`. Nothing: there is no such option.
template <class T>
struct Values;
using Resume = std::optional<OnResume>;

// Calls visit(field, value) for the fields of one struct, in order.
template <class T, class Visitor>
void each_field(T& group, Visitor&& visit) {
  using Plain = std::remove_const_t<T>;
  static_assert(std::is_aggregate_v<Plain>, "a config struct has public members and no constructors");
  static_assert(detail::lists_all_members<Plain>(), "a member of this config struct is missing from fields()");
  std::apply([&](const auto&... field) { (visit(field, group.*field.member), ...); }, Plain::fields());
}

// Visits every option, depth first, with its dotted path: visit(path, field, value). Groups are entered, not visited.
template <Group T, class Visitor>
void walk(T& group, Visitor&& visit, const std::string& prefix = "") {
  each_field(group, [&](const auto& field, auto& value) {
    const std::string path = prefix + std::string(field.name);
    if constexpr (Group<decltype(value)>) walk(value, visit, path + ".");
    else visit(path, field, value);
  });
}

// What scalars have in common: nothing below them, and a plain value where a list is expected is a list of one.
template <class T>
struct ScalarValues {
  static constexpr bool kTakesScalar = true;
  static void read(const Node& node, T& value, const At& at) { detail::read_scalar(node, value, at); }
  static void absent(T&, const At&) {}
  static Node write(const T& value) { return detail::write_scalar(value); }
  static void expand(Node&) {}
  static void rename(Node&, const Node*, const At&) {}
  static void describe(const std::string&, const T*, OptionInfo&, std::vector<OptionInfo>&) {}
  static Resume on_resume(std::string_view path, const T&, OnResume here) {
    return path.empty() ? Resume(here) : std::nullopt;
  }
};
template <>
struct Values<bool> : ScalarValues<bool> {
  static std::string type() { return "boolean"; }
};
template <>
struct Values<double> : ScalarValues<double> {
  static std::string type() { return "number"; }
};
template <>
struct Values<std::string> : ScalarValues<std::string> {
  static void absent(std::string& value, const At& at) { detail::require_given(value, at); }
  static std::string type() { return "string"; }
};
template <std::integral T>
struct Values<T> : ScalarValues<T> {
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  static void read(const Node& node, T& value, const At& at) {
    At narrow = at;
    if constexpr (sizeof(T) < sizeof(Wide)) {
      narrow.range.low = std::max(at.range.low, double(std::numeric_limits<T>::min()));
      narrow.range.high = std::min(at.range.high, double(std::numeric_limits<T>::max()));
    }
    Wide wide = value;
    detail::read_scalar(node, wide, narrow);
    value = static_cast<T>(wide);
  }
  static Node write(T value) { return detail::write_scalar(static_cast<Wide>(value)); }
  static std::string type() { return "integer"; }
};
template <class E>
  requires std::is_enum_v<E>
struct Values<E> : ScalarValues<E> {
  static std::vector<std::string> names() {
    static_assert(!std::same_as<decltype(enum_names<E>), const int>, "specialise config::enum_names for this enum");
    std::vector<std::string> all;
    for (const auto& [value, name] : enum_names<E>) all.emplace_back(name);
    return all;
  }
  static void read(const Node& node, E& value, const At& at) {
    if (const auto index = detail::read_name(node, names(), at)) value = enum_names<E>[*index].first;
  }
  static Node write(E value) {
    for (const auto& [known, name] : enum_names<E>)
      if (known == value) return detail::write_scalar(std::string(name));
    throw Error(ErrorKind::bug, "an enum value has no entry in enum_names");
  }
  static std::string type() {
    std::string text;
    for (const std::string& name : names()) text += (text.empty() ? "one of " : "|") + name;
    return text;
  }
  static void describe(const std::string&, const E*, OptionInfo& row, std::vector<OptionInfo>&) {
    row.choices = names();
  }
};

template <class T>
struct Values<std::optional<T>> {
  static constexpr bool kTakesScalar = Values<T>::kTakesScalar;
  static void read(const Node& node, std::optional<T>& value, const At& at) {
    if (node.is_null()) value.reset();
    else Values<T>::read(node, value ? *value : value.emplace(), at);
  }
  static void absent(std::optional<T>& value, const At& at) {
    if (value) Values<T>::absent(*value, at);
  }
  static Node write(const std::optional<T>& value) { return value ? Values<T>::write(*value) : Node(); }
  static void expand(Node& node) { Values<T>::expand(node); }
  static void rename(Node& node, const Node* base, const At& at) { Values<T>::rename(node, base, at); }
  static std::string type() { return Values<T>::type(); }
  static void describe(const std::string& path, const std::optional<T>* value, OptionInfo& row,
                       std::vector<OptionInfo>& rows) {
    row.optional = true;
    Values<T>::describe(path, value && *value ? &**value : nullptr, row, rows);
  }
  static Resume on_resume(std::string_view path, const std::optional<T>& value, OnResume here) {
    return Values<T>::on_resume(path, value ? *value : T{}, here);
  }
};

template <class T>
struct Values<std::vector<T>> {
  static constexpr bool kTakesScalar = false;
  static void read(const Node& node, std::vector<T>& value, const At& at) {
    if (Values<T>::kTakesScalar && node.kind() == Node::Kind::scalar)
      return read(Node::list({node}, node.mark()), value, at);
    if (!detail::expect(node, Node::Kind::list, type(), at)) return;
    std::vector<T> items;
    for (const Node& item : node.items()) {
      T one{};  // not a reference into items: vector<bool> has none
      Values<T>::read(item, one, at.below(std::to_string(items.size()), at.range));
      items.push_back(std::move(one));
    }
    value = std::move(items);
  }
  static void absent(std::vector<T>& value, const At& at) {
    if constexpr (!std::same_as<T, bool>)
      for (std::size_t i = 0; i < value.size(); ++i) Values<T>::absent(value[i], at.below(std::to_string(i), at.range));
  }
  static Node write(const std::vector<T>& value) {
    std::vector<Node> items;
    for (const auto& item : value) items.push_back(Values<T>::write(item));
    return Node::list(std::move(items));
  }
  static void expand(Node& node) {
    if (Values<T>::kTakesScalar && detail::is_plain(node)) node = Node::list({node}, node.mark());
    for (Node& item : node.items()) Values<T>::expand(item);
  }
  // Also of a map whose keys are numbers, which is a path into a list.
  static void rename(Node& node, const Node* base, const At& at) {
    for (std::size_t i = 0; i < node.items().size(); ++i)
      Values<T>::rename(node.items()[i], nullptr, at.below(std::to_string(i)));
    for (auto& [key, entry] : node.entries()) {
      const std::size_t index = base ? detail::index_in(key, base->items().size()) : 0;
      Values<T>::rename(entry, base && index < base->items().size() ? &base->items()[index] : nullptr, at.below(key));
    }
  }
  static std::string type() { return "list of " + Values<T>::type(); }
  static void describe(const std::string& path, const std::vector<T>*, OptionInfo& row, std::vector<OptionInfo>& rows) {
    Values<T>::describe(path + "[]", nullptr, row, rows);
  }
  static Resume on_resume(std::string_view path, const std::vector<T>& value, OnResume here) {
    if (path.empty()) return here;
    const std::size_t index = detail::index_in(detail::take_part(path), value.size());
    return Values<T>::on_resume(path, index < value.size() ? T(value[index]) : T{}, here);
  }
};

template <class T>
struct Values<std::map<std::string, T>> {
  static constexpr bool kTakesScalar = false;
  static void read(const Node& node, std::map<std::string, T>& value, const At& at) {
    if (!detail::expect(node, Node::Kind::map, type(), at)) return;
    std::map<std::string, T> entries;
    for (const auto& [key, entry] : node.entries()) Values<T>::read(entry, entries[key], at.below(key, at.range));
    value = std::move(entries);
  }
  static void absent(std::map<std::string, T>& value, const At& at) {
    for (auto& [key, entry] : value) Values<T>::absent(entry, at.below(key, at.range));
  }
  static Node write(const std::map<std::string, T>& value) {
    std::vector<Node::Entry> entries;
    for (const auto& [key, entry] : value) entries.emplace_back(key, Values<T>::write(entry));
    return Node::map(std::move(entries));
  }
  static void expand(Node& node) {
    for (auto& [key, entry] : node.entries()) Values<T>::expand(entry);
  }
  static void rename(Node& node, const Node* base, const At& at) {
    for (auto& [key, entry] : node.entries()) Values<T>::rename(entry, base ? base->find(key) : nullptr, at.below(key));
  }
  static std::string type() { return "map of " + Values<T>::type(); }
  static void describe(const std::string& path, const std::map<std::string, T>*, OptionInfo& row,
                       std::vector<OptionInfo>& rows) {
    Values<T>::describe(path.empty() ? "<name>" : path + ".<name>", nullptr, row, rows);
  }
  static std::string entry_type() { return Values<T>::type(); }
  static Resume on_resume(std::string_view path, const std::map<std::string, T>& value, OnResume here) {
    if (path.empty()) return here;
    const auto entry = value.find(std::string(detail::take_part(path)));
    return Values<T>::on_resume(path, entry == value.end() ? T{} : entry->second, here);
  }
};

template <class Tag>
struct Values<Choice<Tag>> {
  static constexpr bool kTakesScalar = true;
  static void read(const Node& node, Choice<Tag>& value, const At& at) {
    detail::read_choice(Tag::kInterface, node, value.type, value.options, at);
  }
  static void absent(Choice<Tag>& value, const At&) { detail::fill_choice(Tag::kInterface, value.type, value.options); }
  static Node write(const Choice<Tag>& value) { return detail::write_choice(value.type, value.options); }
  static void expand(Node& node) {
    if (detail::is_plain(node)) detail::wrap(node, "type");
  }
  // otherwise: the type where neither says one.
  static void rename(Node& node, const Node* base, const At& at, const std::string& otherwise = "") {
    detail::rename_choice(Tag::kInterface, node, base, otherwise, at);
  }
  static std::string type() { return "choice of " + std::string(Tag::kInterface); }
  static void describe(const std::string&, const Choice<Tag>* value, OptionInfo& row, std::vector<OptionInfo>&) {
    row.catalogue = Tag::kInterface;
    row.choices = detail::choice_names(Tag::kInterface);
    if (value) row.default_text = value->type;
  }
  // An option that this type does not have is another's, and as the choice is.
  static Resume on_resume(std::string_view path, const Choice<Tag>& value, OnResume here) {
    if (path.empty() || path == "type" || !value.options) return here;
    return value.options->on_resume(path, here).value_or(here);
  }
};

template <>
struct Values<Open> {
  static constexpr bool kTakesScalar = true;
  static void read(const Node& node, Open& value, const At&) { value.node = node; }
  static void absent(Open&, const At&) {}
  static Node write(const Open& value) { return value.node; }
  static void expand(Node&) {}
  static void rename(Node&, const Node*, const At&) {}
  static std::string type() { return "anything"; }
  static void describe(const std::string&, const Open*, OptionInfo&, std::vector<OptionInfo>&) {}
  static Resume on_resume(std::string_view, const Open&, OnResume here) { return here; }
};

// A struct of options. `static constexpr std::string_view kShorthand = "path";` lets a plain value stand for {path:
// value}; `kRest = "files"` lets the map field `files` take every key that is no other field; its own name is a key
// like any other.
template <Group T>
struct Values<T> {
  static constexpr bool kTakesScalar = requires { T::kShorthand; };
  static std::string_view rest() {
    if constexpr (requires { T::kRest; }) return T::kRest;
    else return {};
  }
  static bool is_rest(std::string_view name) { return !rest().empty() && name == rest(); }
  static std::vector<std::string> names() {  // of the fields as they are written
    std::vector<std::string> all;
    const auto add = [&](std::string_view name) {
      if (!is_rest(name)) all.emplace_back(name);
    };
    std::apply([&](const auto&... field) { (add(field.name), ...); }, T::fields());
    return all;
  }
  static void read(const Node& node, T& group, const At& at);
  static void absent(T& group, const At& at) { read(Node(), group, at); }
  static Node write(const T& group, const T& defaults = {});  // what is empty in both is left out
  static void expand(Node& node);
  static void rename(Node& node, const Node* base, const At& at);
  static void take_old_names(Node& node, const At& at);
  template <class Rest>
  static void expand_others(Node& node);  // the entries that are no fields, as those of a map field
  static std::string type() { return "section"; }
  static void describe(const std::string& path, const T* group, OptionInfo& row, std::vector<OptionInfo>& rows);
  static Resume on_resume(std::string_view path, const T& group, OnResume here);
};

}  // namespace hone::config

#include "hone/config_read-inl.h"
