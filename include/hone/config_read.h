// Reads, writes and describes config structs: everything here is derived from their fields(). Included by every plug-in.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hone/config_values.h"

namespace hone::config {

namespace detail {

// Counts members: an aggregate of n members takes n initialisers and not n + 1.
struct Anything {
  template <class T>
  operator T() const;  // never defined; const, so that std::optional's own converting constructor wins over it
};
template <class T, std::size_t... i>
consteval bool takes(std::index_sequence<i...>) {
  return requires { T{(void(i), Anything{})...}; };
}
template <class T>
consteval bool lists_all_members() {
  constexpr std::size_t count = std::tuple_size_v<decltype(T::fields())>;
  return takes<T>(std::make_index_sequence<count>()) && !takes<T>(std::make_index_sequence<count + 1>());
}

}  // namespace detail

// Calls visit(field, value) for the fields of one struct, in order.
template <class T, class Visitor>
void each_field(T& group, Visitor&& visit) {
  using Plain = std::remove_const_t<T>;
  static_assert(std::is_aggregate_v<Plain>, "a config struct has public members and no constructors or base classes");
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

// A struct of options. `static constexpr std::string_view kShorthand = "path";` lets a plain value stand for {path: value};
// `kRest = "files"` lets the map field `files` take every key that is no field, so that they are written without its name.
template <Group T>
struct Values<T> {
  static constexpr bool kTakesScalar = requires { T::kShorthand; };
  static std::string_view rest() {
    if constexpr (requires { T::kRest; }) return T::kRest;
    else return {};
  }
  static std::vector<std::string> names() {
    std::vector<std::string> all;
    std::apply([&](const auto&... field) { (all.emplace_back(field.name), ...); }, T::fields());
    return all;
  }
  static void read(const Node& node, T& group, const At& at);
  static void absent(T& group, const At& at) { read(Node(), group, at); }
  static Node write(const T& group);
  static void expand(Node& node);
  static std::string type() { return "section"; }
  static void describe(const std::string& path, const T* group, OptionInfo& row, std::vector<OptionInfo>& rows);
};

template <Group T>
void Values<T>::read(const Node& node, T& group, const At& at) {
  if constexpr (kTakesScalar)
    if (node.kind() == Node::Kind::scalar) return read(Node::map({{std::string(T::kShorthand), node}}, node.mark()), group, at);
  if (!detail::expect(node, Node::Kind::map, type(), at)) return;
  const std::size_t before = at.problems.size();
  const auto [named, others] = detail::split(node, names(), rest());
  each_field(group, [&](const auto& field, auto& value) {
    using V = Values<std::remove_cvref_t<decltype(value)>>;
    const bool is_rest = field.name == rest();
    const Node* child = is_rest ? (others.is_null() ? nullptr : &others) : named.find(field.name);
    const At below = is_rest ? At{at.problems, at.path, field.range} : at.below(field.name, field.range);
    if (child) V::read(*child, value, below);
    else V::absent(value, below);
  });
  if (rest().empty()) detail::report_unknown(others, names(), at);
  if constexpr (requires { group.validate(at.problems); })
    if (at.problems.size() == before) {
      const Problems::Scope scope(at.problems, at.path.empty() ? "" : at.path + ".");
      group.validate(at.problems);
    }
}

template <Group T>
Node Values<T>::write(const T& group) {
  const T defaults{};
  Node node = Node::map();
  each_field(group, [&](const auto& field, const auto& value) {
    using V = Values<std::remove_cvref_t<decltype(value)>>;
    Node written = V::write(value);
    // An option without a value is left out, unless it has one by default.
    if (written.is_null() && V::write(defaults.*field.member).is_null()) return;
    if (field.name != rest()) node.entries().emplace_back(field.name, std::move(written));
    else for (auto& entry : written.entries()) node.entries().push_back(std::move(entry));
  });
  return node;
}

template <Group T>
void Values<T>::expand(Node& node) {
  if constexpr (kTakesScalar) detail::wrap(node, T::kShorthand);
  std::apply([&](const auto&... field) {
    const auto one = [&]<class S, class V>(const Field<S, V>& f) {
      if (f.name == rest()) {
        for (auto& [key, entry] : node.entries())
          if (!detail::contains(names(), key)) Values<typename V::mapped_type>::expand(entry);
      } else if (Node* child = node.find(f.name)) Values<V>::expand(*child);
    };
    (one(field), ...);
  }, T::fields());
}
