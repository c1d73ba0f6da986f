// The parts of config_read.h that need every Values<> specialisation to be known.
#pragma once

namespace hone::config {

namespace detail {
template <class T>
concept Validates = requires(const T& group, Problems& problems) { group.validate(problems); };
}  // namespace detail

template <Group T>
void Values<T>::expand(Node& node) {
  if constexpr (kTakesScalar) {
    if (detail::is_plain(node)) detail::wrap(node, T::kShorthand);
  }
  if (!node.is_map()) return;
  std::apply(
      [&](const auto&... field) {
        ([&] {
          using Member = std::remove_cvref_t<decltype(std::declval<T&>().*field.member)>;
          if (is_rest(field.name)) return expand_others<Member>(node);
          if (Node* below = node.find(field.name)) Values<Member>::expand(*below);
        }(), ...);
      },
      T::fields());
}

template <Group T>
template <class Rest>
void Values<T>::expand_others(Node& node) {
  const std::vector<std::string> own = names();
  for (auto& [key, entry] : node.entries()) {
    if (std::find(own.begin(), own.end(), key) != own.end()) continue;
    Node alone = Node::map({{key, entry}});
    Values<Rest>::expand(alone);
    entry = *alone.find(key);
  }
}

template <Group T>
void Values<T>::take_old_names(Node& node, const At& at) {
  std::apply([&](const auto&... field) { (detail::take_old_name(node, field.name, field.formerly, at), ...); },
             T::fields());
}

// Options under their old names get the new ones. base: what `node` will lie over, which may say what a choice is.
template <Group T>
void Values<T>::rename(Node& node, const Node* base, const At& at) {
  if (!node.is_map()) return;
  const std::vector<std::string> own = names();
  const auto below = [&](const std::string& key) { return base ? base->find(key) : nullptr; };
  take_old_names(node, at);
  const T defaults{};
  each_field(defaults, [&](const auto& field, const auto& value) {
    using Member = std::remove_cvref_t<decltype(value)>;
    if (is_rest(field.name)) {
      for (auto& [key, entry] : node.entries()) {
        if (std::find(own.begin(), own.end(), key) != own.end()) continue;
        Node alone = Node::map({{key, entry}});
        Values<Member>::rename(alone, base, at);
        entry = *alone.find(key);
      }
      return;
    }
    Node* entry = node.find(field.name);
    if (!entry) return;
    const std::string name(field.name);
    if constexpr (requires { Values<Member>::rename(*entry, base, at, value.type); })
      Values<Member>::rename(*entry, below(name), at.below(name), value.type);
    else
      Values<Member>::rename(*entry, below(name), at.below(name));
  });
}

template <Group T>
void Values<T>::read(const Node& given, T& group, const At& at) {
  Node node = given;
  if constexpr (kTakesScalar) {
    if (node.kind() == Node::Kind::scalar) detail::wrap(node, T::kShorthand);
  }
  if (!detail::expect(node, Node::Kind::map, type(), at)) return;
  const std::size_t before = at.problems.size();
  take_old_names(node, at);
  each_field(group, [&](const auto& field, auto& value) {
    using Member = std::remove_cvref_t<decltype(value)>;
    const At below = at.below(field.name, field.range);
    if (is_rest(field.name)) {
      const std::vector<std::string> own = names();
      std::vector<Node::Entry> others;
      for (const auto& [key, entry] : node.entries())
        if (std::find(own.begin(), own.end(), key) == own.end()) others.emplace_back(key, entry);
      if (!others.empty()) Values<Member>::read(Node::map(std::move(others), node.mark()), value, at);
      return;
    }
    if (const Node* entry = node.find(field.name)) Values<Member>::read(*entry, value, below);
    else Values<Member>::absent(value, below);
  });
  if (rest().empty()) detail::report_unknown(node, names(), at);
  if constexpr (detail::Validates<T>) {
    if (at.problems.size() != before) return;  // a value that did not fit would be complained of twice
    const Problems::Scope scope(at.problems, at.path.empty() ? "" : at.path + ".", &node);
    group.validate(at.problems);
  }
}

template <Group T>
Node Values<T>::write(const T& group, const T& defaults) {
  std::vector<Node::Entry> entries;
  each_field(group, [&](const auto& field, const auto& value) {
    using Member = std::remove_cvref_t<decltype(value)>;
    const auto written = [&](const Member& one) {
      if constexpr (Group<Member>) return Values<Member>::write(one, defaults.*field.member);
      else return Values<Member>::write(one);
    };
    Node node = written(value);
    if (is_rest(field.name)) {
      for (auto& entry : node.entries()) entries.push_back(std::move(entry));
    } else if (!node.is_null() || !written(defaults.*field.member).is_null()) {
      entries.emplace_back(std::string(field.name), std::move(node));
    }
  });
  return Node::map(std::move(entries));
}

template <Group T>
void Values<T>::describe(const std::string& path, const T* group, OptionInfo& section, std::vector<OptionInfo>& rows) {
  const T defaults = group ? *group : T{};
  const Resume section_rule = section.on_resume;
  each_field(defaults, [&](const auto& field, const auto& value) {
    using Member = std::remove_cvref_t<decltype(value)>;
    OptionInfo row;
    const std::string name = is_rest(field.name) ? "<name>" : std::string(field.name);
    row.path = path.empty() ? name : path + "." + name;
    row.type = Values<Member>::type();
    row.help = field.help;
    row.range = field.range;
    row.on_resume = field.on_resume ? field.on_resume : section_rule;
    row.formerly = field.formerly;
    std::vector<OptionInfo> below;
    if constexpr (requires { Values<Member>::entry_type(); }) {
      if (is_rest(field.name)) row.type = Values<Member>::entry_type();
    }
    if constexpr (!Group<Member>) {
      const Node written = is_rest(field.name) ? Node() : Values<Member>::write(value);
      row.default_text = written.is_null() ? "" : detail::inline_text(written);
    }
    Values<Member>::describe(is_rest(field.name) ? path : row.path, &value, row, below);
    rows.push_back(std::move(row));
    for (OptionInfo& one : below) rows.push_back(std::move(one));
  });
}

template <Group T>
Resume Values<T>::on_resume(std::string_view path, const T& group, OnResume here) {
  if (path.empty()) return here;
  std::string_view below = path;
  const std::string_view name = detail::take_part(below);
  const std::vector<std::string> own = names();
  const bool other = std::find(own.begin(), own.end(), name) == own.end();
  Resume found;
  each_field(group, [&](const auto& field, const auto& value) {
    using Member = std::remove_cvref_t<decltype(value)>;
    const OnResume rule = field.on_resume.value_or(here);
    if (is_rest(field.name)) found = other ? Values<Member>::on_resume(path, value, rule) : found;
    else if (field.name == name) found = Values<Member>::on_resume(below, value, rule);
  });
  return found;
}

// Reads `node` into `value`; whatever does not fit is added to `problems` and leaves the default.
template <Group T>
void read(const Node& node, T& value, Problems& problems, const std::string& path = "") {
  Values<T>::read(node, value, At{problems, path});
}
template <Group T>
Node write(const T& value) {
  return Values<T>::write(value);
}
// Options of T under their old names get the new ones, with notes; both names are a problem. base: what `node` is to
// lie over, or null.
template <Group T>
void rename(Node& node, const Node* base, Problems& problems, const std::string& path = "") {
  Values<T>::rename(node, base, At{problems, path});
}
// What an option's path is called now: "a.old.c" is "a.new.c". base: as above.
template <Group T>
std::string current_path(const std::string& path, const Node* base, Problems& problems, const Mark& mark = {}) {
  Node way = detail::way_to(path, mark);
  rename<T>(way, base, problems);
  return detail::path_of(way);
}
// What a change of the option at `path` ("trainer.save.every") means when a run is resumed; nothing: no such option.
template <Group T>
Resume on_resume(const T& value, std::string_view path, OnResume otherwise = OnResume::refuse) {
  return Values<T>::on_resume(path, value, otherwise);
}
// One row per option and section, depth first.
template <Group T>
std::vector<OptionInfo> describe(const T& defaults) {
  std::vector<OptionInfo> rows;
  OptionInfo unused;
  Values<T>::describe("", &defaults, unused, rows);
  return rows;
}

template <Group T>
class OptionsOf final : public AnyOptions {
 public:
  T value;
  void read(const Node& node, Problems& problems, const std::string& path) override {
    Values<T>::read(node, value, At{problems, path});
  }
  Node write() const override { return config::write(value); }
  void rename(Node& node, const Node* base, Problems& problems, const std::string& path) const override {
    Values<T>::rename(node, base, At{problems, path});
  }
  std::vector<OptionInfo> describe() const override { return config::describe(value); }
  Resume on_resume(std::string_view path, OnResume otherwise) const override {
    return config::on_resume(value, path, otherwise);
  }
  std::shared_ptr<AnyOptions> copy() const override { return std::make_shared<OptionsOf>(*this); }
};

}  // namespace hone::config
