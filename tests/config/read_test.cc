// Typed reading: every kind of option, every kind of mistake, all at once and with its line.
#include <gtest/gtest.h>

#include "config/support.h"
#include "hone/random.h"

namespace hone::config {
namespace {

using Lines = std::vector<std::string>;

TEST(Read, FillsEveryKindOfOption) {
  Everything e;
  EXPECT_EQ(read_yaml("name: 'a b'\nshape: square\ninner: {steps: 1_000, rate: 1e-2, share: 0.5, on: true}\n"
                      "items: [{path: a, weight: 2}, b]\nwords: one\nnumbers: {x: 1e6, y: -3}\nseed: 18446744073709551615\n", e),
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
  EXPECT_EQ(read_yaml("nam: x\nshape: rond\ninner:\n  steps: 0\n  rate: fast\n  on: yes\nitems: [{weight: -1}]\nseed: -1\nwords: {a: b}\n", e),
            (Lines{"r.yaml:2: shape: got rond, expected one of round, square; did you mean round?",
                   "r.yaml:4: inner.steps: got 0, expected at least 1",
                   "r.yaml:5: inner.rate: got fast, expected a number",
                   "r.yaml:6: inner.on: got yes, expected true or false (yes and no are plain text in hone's YAML)",
                   "r.yaml:7: items.0.weight: got -1, expected at least 0",
                   "r.yaml:9: words: got a section, expected list of string",
                   "r.yaml:8: seed: got -1, expected a whole number",
                   "r.yaml:1: nam: no such option; did you mean name?"}));
}

TEST(Read, KeepsTheDefaultWhereAValueDoesNotFit) {
  Everything e;
  read_yaml("inner: {steps: -5, rate: 7}", e);
  EXPECT_EQ(e.inner.steps, 100);
  EXPECT_EQ(e.inner.rate, 1e-3);
}

TEST(Read, RunsValidateBelowItsPath) {
  Everything e;
  EXPECT_EQ(read_yaml("inner: {share: 2}", e), Lines{"inner.share: must be below 1"});
}

TEST(Read, TakesAQuotedNumberForText) {
  Everything e;
  EXPECT_EQ(read_yaml("inner: {steps: '5'}", e), Lines{"r.yaml:1: inner.steps: got the string \"5\", expected a whole number"});
}

TEST(Write, RoundTripsThroughYamlForRandomValues) {
  const Random random(7, "round trip");
  const Lines words = {"", "true", "yes", "null", "1e5", " a ", "x: y", "- z", "#c", "\"q\"", "a\nb\tc", "ü🙂", "${x", "0x10", "~", "@", "'"};
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

TEST(Describe, ListsEveryOptionOnce) {
  std::vector<std::string> paths;
  for (const OptionInfo& row : describe(Everything{})) paths.push_back(row.path);
  EXPECT_EQ(paths, (Lines{"name", "shape", "inner", "inner.steps", "inner.rate", "inner.share", "inner.on", "items", "items[].path",
                          "items[].weight", "words", "numbers", "seed"}));
}

}  // namespace
}  // namespace hone::config
