// A recipe-like struct that has every kind of option.
#pragma once

#include "hone/config_read.h"

namespace hone::config {

enum class Shape { round, square };
template <>
inline constexpr auto enum_names<Shape> =
    std::to_array<std::pair<Shape, std::string_view>>({{Shape::round, "round"}, {Shape::square, "square"}});

struct Item {
  std::string path;
  double weight = 1;
  static constexpr std::string_view kShorthand = "path";
  static constexpr auto fields() {
    return std::tuple{field("path", &Item::path, "A file."), field("weight", &Item::weight, "A weight.", at_least(0))};
  }
};
struct Inner {
  std::int64_t steps = 100;
  double rate = 1e-3;
  std::optional<double> share;
  bool on = false;
  static constexpr auto fields() {
    return std::tuple{field("steps", &Inner::steps, "Steps.", at_least(1)),
                      field("rate", &Inner::rate, "Rate.", {.low = 0, .high = 1}),
                      field("share", &Inner::share, "Share."), field("on", &Inner::on, "On.")};
  }
  void validate(Problems& problems) const { problems.require(!share || *share < 1, "share", "must be below 1"); }
};
struct Everything {
  std::string name = "x";
  Shape shape = Shape::round;
  Inner inner;
  std::vector<Item> items;
  std::vector<std::string> words;
  std::map<std::string, std::int64_t> numbers;
  std::uint64_t seed = 1;
  static constexpr auto fields() {
    using C = Everything;
    return std::tuple{field("name", &C::name, "Name."),    field("shape", &C::shape, "Shape."),
                      field("inner", &C::inner, "Inner."), field("items", &C::items, "Items."),
                      field("words", &C::words, "Words."), field("numbers", &C::numbers, "Numbers."),
                      field("seed", &C::seed, "Seed.")};
  }
};

// The problems of reading `yaml` into `value`.
template <class T>
std::vector<std::string> read_yaml(const std::string& yaml, T& value) {
  Problems problems;
  const Node node = parse_yaml(yaml, "r.yaml", problems);
  if (problems.empty()) read(node, value, problems);
  return problems.lines();
}

}  // namespace hone::config
