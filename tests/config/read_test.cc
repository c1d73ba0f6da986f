// Typed reading: every kind of option, every kind of mistake, all at once and with its line.
#include <gtest/gtest.h>

#include "config/support.h"
#include "hone/random.h"

namespace hone::config {
namespace {

using Lines = std::vector<std::string>;

TEST(Read, FillsEveryKindOfOption) {
  Everything e;
  EXPECT_EQ(
      read_yaml("name: 'a b'\nshape: square\ninner: {steps: 1_000, rate: 1e-2, share: 0.5, on: true}\n"
                "items: [{path: a, weight: 2}, b]\nwords: one\nnumbers: {x: 1e6, y: -3}\nseed: 18446744073709551615\n",
                e),
      Lines{});
  EXPECT_EQ(e.name, "a b");
  EXPECT_EQ(e.shape, Shape::square);
  EXPECT_EQ(e.inner.steps, 1000);
  EXPECT_EQ(e.inner.rate, 0.01);
  EXPECT_EQ(e.inner.share, 0.5);
  EXPECT_TRUE(e.inner.on);
  ASSERT_EQ(e.items.size(), 2u);
  EXPECT_EQ(e.items[0].weight, 2);
  EXPECT_EQ(e.items[1].path, "b");
  EXPECT_EQ(e.words, Lines{"one"});
  EXPECT_EQ(e.numbers.at("x"), 1000000);
  EXPECT_EQ(e.numbers.at("y"), -3);
  EXPECT_EQ(e.seed, UINT64_MAX);
}

struct Wider : Inner {
  using Base = Inner;
  std::string colour = "red";
  static constexpr auto fields() {
    return std::tuple_cat(Inner::fields(), std::tuple{field("colour", &Wider::colour, "Colour.")});
  }
};

TEST(Read, AStructMayExtendAnother) {
  Problems problems;
  Wider wider;
  read(parse_yaml("{steps: 7, colour: blue}", "a.yaml", problems), wider, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(wider.steps, 7);
  EXPECT_EQ(wider.colour, "blue");
  EXPECT_EQ(describe(Wider{}).size(), 5u);
  read(parse_yaml("{steps: 0, colours: blue, share: 2}", "a.yaml", problems), wider, problems);
  EXPECT_EQ(problems.size(), 2u);
}

TEST(Read, ReportsAllProblemsTogetherWithTheirLines) {
  Everything e;
  EXPECT_EQ(
      read_yaml("nam: x\nshape: rond\ninner:\n  steps: 0\n  rate: fast\n  on: yes\nitems: [{weight: -1}]\nseed: "
                "-1\nwords: {a: b}\n",
                e),
      (Lines{"r.yaml:2: shape: got rond, expected one of round, square; did you mean round?",
             "r.yaml:4: inner.steps: got 0, expected at least 1", "r.yaml:5: inner.rate: got fast, expected a number",
             "r.yaml:6: inner.on: got yes, expected true or false (yes and no are plain text in hone's YAML)",
             "r.yaml:7: items.0.weight: got -1, expected at least 0",
             "r.yaml:9: words: got a section, expected list of string",
             "r.yaml:8: seed: got -1, expected at least 0", "r.yaml:1: nam: no such option; did you mean name?"}));
}

TEST(Read, SaysHowAListBeginsThatANumberWasToReachInto) {
  Everything e;
  EXPECT_EQ(read_yaml("items: {0: {weight: 1}}", e),
            (Lines{"r.yaml:1: items: got a section, expected list of section (a number names an entry of a list that a "
                   "recipe has; without one give the list: [{...}])"}));
}

TEST(Read, KeepsTheDefaultWhereAValueDoesNotFit) {
  Everything e;
  read_yaml("inner: {steps: -5, rate: 7}", e);
  EXPECT_EQ(e.inner.steps, 100);
  EXPECT_EQ(e.inner.rate, 1e-3);
}

TEST(Read, RunsValidateBelowItsPathAndKnowsTheLine) {
  Everything e;
  EXPECT_EQ(read_yaml("inner:\n  share: 2", e), Lines{"r.yaml:2: inner.share: must be below 1"});
}

struct Checked {
  std::string plain;
  std::vector<Item> items;
  Inner inner;
  static constexpr std::string_view kShorthand = "plain";
  static constexpr auto fields() {
    using C = Checked;
    return std::tuple{field("plain", &C::plain, "Text."), field("items", &C::items, "Items."),
                      field("inner", &C::inner, "Inner.")};
  }
  void validate(Problems& problems) const {
    problems.add("items.1.weight", "no");
    problems.add("inner.rate", "not given, and its section is");
    problems.add("plain", "not given at all");
    problems.add("", "of it all");
    const Problems::Scope below(problems, "inner.");
    problems.add("steps", "by a scope without a node");
  }
};

// A value that is not there has the line of the section that it would be in.
TEST(Read, ProblemsOfValidateHaveTheLineOfWhatTheyName) {
  Checked checked;
  EXPECT_EQ(read_yaml("items:\n- a\n- path: b\n  weight: 2\ninner:\n  steps: 3", checked),
            (Lines{"r.yaml:4: items.1.weight: no", "r.yaml:6: inner.rate: not given, and its section is",
                   "r.yaml:1: plain: not given at all", "r.yaml:1: of it all",
                   "r.yaml:6: inner.steps: by a scope without a node"}));
  Problems problems;
  Node node = Node::map();
  assign(node, "items", "[a, b]", {"--items", 0}, problems);
  assign(node, "inner.steps", "3", {"--inner.steps", 0}, problems);
  read(node, checked, problems);
  EXPECT_EQ(problems.lines(),
            (Lines{"--items: items.1.weight: no", "--inner.steps: inner.rate: not given, and its section is",
                   "plain: not given at all", ": of it all", "--inner.steps: by a scope without a node"}));
}

TEST(Read, ProblemsOfNothingHaveItsLine) {
  Everything e;
  const std::string hint = "; null unsets what may be unset: leave this out, or give its value";
  const Lines expected{"r.yaml:2: name: got nothing, expected text" + hint,
                       "r.yaml:3: seed: got nothing, expected a whole number" + hint};
  EXPECT_EQ(read_yaml("shape: round\nname:\nseed: null\n", e), expected);
  Problems problems;
  read(parse_json("{\"shape\": \"round\",\n\"name\": null,\n\"seed\": null}", "r.yaml", problems), e, problems);
  EXPECT_EQ(problems.lines(), expected);
}

struct Named {
  std::string path;
  std::map<std::string, std::vector<Item>> files;
  static constexpr std::string_view kRest = "files";
  static constexpr auto fields() {
    return std::tuple{field("path", &Named::path, "Path."), field("files", &Named::files, "Files.")};
  }
};

// The field that takes other keys has no key of its own: one of its name is as any other.
TEST(Read, TheNameOfTheRestIsAKeyLikeAnyOther) {
  Named named;
  EXPECT_EQ(read_yaml("{path: p, files: a, news: [b, c]}", named), Lines{});
  ASSERT_EQ(named.files.size(), 2u);
  EXPECT_EQ(named.files.at("files")[0].path, "a");
  EXPECT_EQ(named.files.at("news")[1].path, "c");
  EXPECT_EQ(to_yaml(write(named)), "path: p\nfiles:\n  - path: a\n    weight: 1\nnews:\n  - path: b\n    weight: 1\n"
                                   "  - path: c\n    weight: 1\n");
  Node node = Node::map({{"files", Node::scalar("a")}});
  Values<Named>::expand(node);
  EXPECT_EQ(detail::inline_text(node), "{files: [{path: a}]}");
  std::string paths;
  for (const OptionInfo& row : describe(Named{})) paths += row.path + ": " + row.type + "\n";
  EXPECT_EQ(paths, "path: string\n<name>: list of section\n<name>[].path: string\n<name>[].weight: number\n");
}

TEST(Read, TakesAQuotedNumberForText) {
  Everything e;
  EXPECT_EQ(read_yaml("inner: {steps: '5'}", e),
            Lines{"r.yaml:1: inner.steps: got the string \"5\", expected a whole number"});
}

TEST(Write, RoundTripsThroughYamlForRandomValues) {
  const Random random(7, "round trip");
  const Lines words = {"",      "true",    "yes", "null", "1e5",  " a ", "x: y", "- z", "#c",
                       "\"q\"", "a\nb\tc", "ü🙂", "${x",  "0x10", "~",   "@",    "'"};
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    Everything e, back;
    const auto pick = [&](std::uint64_t k) { return words[random.below(words.size(), trial * 16 + k)]; };
    e.name = pick(0);
    e.words = {pick(1), pick(2)};
    e.items = {{pick(3), random.uniform(trial)}, {pick(4), 0.1 * double(trial)}};
    e.numbers = {{pick(5), -5}, {"k" + pick(6), 12345678901234}};
    e.inner.share = random.uniform(trial + 1000);
    e.seed = random.bits(trial);
    const std::string text = to_yaml(write(e));
    ASSERT_EQ(read_yaml(text, back), Lines{}) << text;
    ASSERT_EQ(to_yaml(write(back)), text);
    Problems problems;
    ASSERT_TRUE(diff(parse_json(to_json(write(e)), "j", problems), parse_yaml(text, "y", problems)).empty()) << text;
    ASSERT_TRUE(problems.empty());
  }
}

struct Optional {
  std::optional<std::int64_t> full = 5, empty;
  Open open{Node::scalar("7")};
  Inner inner{.share = 0.5};
  static constexpr auto fields() {
    using C = Optional;
    return std::tuple{field("full", &C::full, "Full."), field("empty", &C::empty, "Empty."),
                      field("open", &C::open, "Open."), field("inner", &C::inner, "Inner.")};
  }
};

// What is empty is left out where that is the default, and written where it is not.
TEST(Write, WhatIsEmptyIsReadBackEmpty) {
  EXPECT_EQ(detail::inline_text(write(Optional{})),
            "{full: 5, open: 7, inner: {steps: 100, rate: 0.001, share: 0.5, on: false}}");
  Optional value{.full = {}, .empty = {}, .open = {}, .inner = {.share = {}}}, back;
  const std::string text = to_yaml(write(value));
  EXPECT_EQ(text, "full: null\nopen: null\ninner:\n  steps: 100\n  rate: 0.001\n  share: null\n  \"on\": false\n");
  EXPECT_EQ(read_yaml(text, back), Lines{});
  EXPECT_FALSE(back.full);
  EXPECT_TRUE(back.open.node.is_null());
  EXPECT_FALSE(back.inner.share);
}

TEST(Describe, ListsEveryOptionOnce) {
  std::vector<std::string> paths;
  for (const OptionInfo& row : describe(Everything{})) paths.push_back(row.path);
  EXPECT_EQ(paths, (Lines{"name", "shape", "inner", "inner.steps", "inner.rate", "inner.share", "inner.on", "items",
                          "items[].path", "items[].weight", "words", "numbers", "seed"}));
}

}  // namespace
}  // namespace hone::config
