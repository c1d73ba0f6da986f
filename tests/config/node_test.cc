// YAML and JSON as nodes, overrides, interpolation, differences, hostile input.
#include <gtest/gtest.h>

#include "config/support.h"
#include "config/tree.h"
#include "harness/cpu_time.h"

namespace hone::config {
namespace {

using Lines = std::vector<std::string>;

Node yaml(const std::string& text) {
  Problems problems;
  Node node = parse_yaml(text, "f", problems);
  EXPECT_EQ(problems.lines(), Lines{});
  return node;
}
Lines yaml_problems(const std::string& text) {
  Problems problems;
  parse_yaml(text, "f", problems);
  return problems.lines();
}
Lines json_problems(const std::string& text) {
  Problems problems;
  parse_json(text, "f", problems);
  return problems.lines();
}

TEST(Yaml, RefusesWhatItCannotMean) {
  EXPECT_EQ(yaml_problems("a: 1\nb: 2\na: 3\n"), Lines{"f:3: \"a\" is given twice"});
  EXPECT_EQ(yaml_problems("a: &x {b: 1}\nc:\n  <<: *x\n"),
            Lines{"f:3: merge keys (<<) are not supported; write the options out"});
  EXPECT_EQ(yaml_problems("a: [1, 2\n").size(), 1u);
  EXPECT_EQ(yaml_problems("a: 1\n---\nb: 2\n").size(), 1u);
  EXPECT_EQ(yaml_problems("a: \xff\n").size(), 1u);
  EXPECT_TRUE(yaml_problems(std::string(200, 'k') + ": 1\n").empty());
  EXPECT_EQ(yaml_problems(std::string(201, 'k') + ": 1\n"), Lines{"f:1: a key of 201 bytes; at most 200"});
}

TEST(Yaml, RefusesHostileDocuments) {
  EXPECT_EQ(yaml_problems(std::string(100000, '[')).size(), 1u);
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) laughs += (k ? ", *a" : "*a") + std::to_string(i - 1);
    laughs += "]\n";
  }
  EXPECT_EQ(yaml_problems(laughs).size(), 1u);
}

TEST(Yaml, AHundredThousandKeysAreReadAtOnce) {  // 35 s when each is compared with all before it
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_LT(test::cpu_seconds_of([&] { EXPECT_EQ(yaml(many).entries().size(), 100000u); }), 10);
}

TEST(Assign, ASectionThatIsThereForOneValueIsWrittenWhereThatIs) {
  Node root = yaml("trainer: {steps: 5}\n");
  Problems problems;
  assign(root, "trainer.sets.nope.every", "3", {"--trainer.sets.nope.every", 0}, problems);
  EXPECT_EQ(root.find("trainer")->find("sets")->find("nope")->mark().text(), "--trainer.sets.nope.every");
  EXPECT_EQ(root.find("trainer")->mark().text(), "f:1");
}

TEST(Yaml, PlainTextIsWrittenSoThatItIsReadBack) {
  for (const char* text :
       {"a: b\n\n   c\n", "\r", "a: [x\n\n y, 5]\n", "a: [[-]]\n", "a: [[-], [x, -.5, 1e-3, -x, x y]]\n"}) {
    const Node node = yaml(text);
    EXPECT_TRUE(diff(node, yaml(to_yaml(node))).empty()) << to_yaml(node);
  }
}

TEST(Yaml, EscapesThatGiveNoUtf8AreRefused) {
  for (const char* text : {"a: 1\nb: \"\\NULL\"", "a: 1\n\"\\_\": 1"}) {
    hone::Problems problems;
    parse_yaml(text, "f", problems);
    ASSERT_EQ(problems.lines().size(), 1u);
    EXPECT_NE(problems.lines()[0].find("f:2: the escapes \\N and \\_ are not supported"), std::string::npos);
  }
}

TEST(Json, SaysWhereAndWhat) {
  EXPECT_EQ(json_problems("{\"a\": 1,\n \"a\": 2}"), Lines{"f:2: not JSON: the key \"a\" is given twice"});
  EXPECT_EQ(json_problems("{\"a\": 01}").size(), 1u);
  EXPECT_EQ(json_problems("{\"a\": \"\\ud800\"}").size(), 1u);
  EXPECT_EQ(json_problems("[1, 2").size(), 1u);
  EXPECT_EQ(json_problems(std::string(100000, '[')).size(), 1u);
  EXPECT_EQ(json_problems("{} {}").size(), 1u);
  EXPECT_TRUE(json_problems("{\"a\": [1, -2.5e3, true, null, \"\\u00e9\\n\"]}").empty());
}

TEST(Assign, ReachesMapsListsAndPlainChoices) {
  Problems problems;
  Node root = yaml("data: {train: [{path: a}]}\noptimizer: sgd\n");
  assign(root, "data.train.0.path", "b", {}, problems);
  assign(root, "data.train.1.path", "c", {}, problems);
  assign(root, "optimizer.learning_rate", "1e-3", {}, problems);
  assign(root, "trainer.steps", "5", {}, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(to_json(root, -1), R"({"data": {"train": [{"path": "b"}, {"path": "c"}]}, "optimizer": {"type": "sgd", "learning_rate": 1e-3}, "trainer": {"steps": 5}})");
  assign(root, "data.train.7.path", "x", {"--data.train.7.path", 0}, problems);
  EXPECT_EQ(problems.lines(), Lines{"--data.train.7.path: no such place"});
}

TEST(Resolve, ReplacesAndReportsReferences) {
  Problems problems;
  Node root = yaml("a: 5\nb: ${a}\nc: x-${a}-${d.e}\nd: {e: y}\nf: ${d}\n");
  resolve(root, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(to_json(root, -1), R"({"a": 5, "b": 5, "c": "x-5-y", "d": {"e": "y"}, "f": {"e": "y"}})");
  Node bad = yaml("a: ${b}\nb: ${a}\nc: ${nope}\nd: '?\?\?'\ne: x${f}\nf: [1]\n");
  resolve(bad, problems);
  EXPECT_EQ(problems.size(), 5u);
}

TEST(Resolve, ASecondDollarLeavesTheText) {
  Problems problems;
  Node root = yaml("a: 5\nb: 'echo $${HOME} ${a}'\nc: '$${a}'\nd: ${b}\n");
  resolve(root, problems);
  EXPECT_TRUE(problems.empty());
  const std::string made = R"({"a": 5, "b": "echo ${HOME} 5", "c": "${a}", "d": "echo ${HOME} 5"})";
  EXPECT_EQ(to_json(root, -1), made);
  escape_references(root);
  resolve(root, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(to_json(root, -1), made);
}

TEST(Resolve, AMapThatRefersToItselfTwiceIsRefusedAtOnce) {  // two to the power of the depth, if both are followed
  Problems problems;
  Node bad = yaml("a: {b: 'x${a}', c: 'x${a}', d: [ 'x${a}', 'x${a}' ]}\n");
  resolve(bad, problems);
  EXPECT_EQ(problems.size(), 4u);
}

TEST(Resolve, LaughsAreRefused) {
  Problems problems;
  std::string text = "a0: x\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "${a" + std::to_string(i - 1) + "}";
    text += "a" + std::to_string(i) + ": [";
    for (int k = 0; k < 10; ++k) text += (k ? ", '" : "'") + before + "'";
    text += "]\n";
  }
  Node laughs = yaml(text);
  resolve(laughs, problems);
  ASSERT_FALSE(problems.empty());
  EXPECT_NE(problems.lines()[0].find("references copy more than a million values"), std::string::npos);
}

Lines changes(const char* before, const char* after) {
  Lines lines;
  for (const Change& c : diff(yaml(before), yaml(after))) lines.push_back(c.path + " " + c.before + " -> " + c.after);
  return lines;
}

TEST(Diff, ListsLeavesThatDiffer) {
  EXPECT_EQ(changes("a: {b: 1, c: 0.001}\nl: [1, 2]\ngone: x\n", "a: {b: 2, c: 1e-3}\nl: [1, 2, 3]\nnew: {x: y}\n"),
            (Lines{"a.b 1 -> 2", "gone x -> ", "l.2  -> 3", "new.x  -> y"}));
}

// As of an option "" that the other recipe's optimizer does not have.
TEST(Diff, AnEmptyTextIsAsGoodAsNone) {
  EXPECT_EQ(changes("o: {mode: '', k: 1}\n", "o: {k: 1}\n"), Lines{});
  EXPECT_EQ(changes("o: {k: 1}\n", "o: {mode: '', k: 2}\n"), (Lines{"o.k 1 -> 2"}));
}

// So that each change has a place that an option has.
TEST(Diff, AnEmptyMapGivesWayToWhatComesIntoIt) {
  EXPECT_EQ(changes("a: {}\n", "a: {b: {c: 1}}\n"), (Lines{"a.b.c  -> 1"}));
  EXPECT_EQ(changes("a: {b: 1}\n", "a: {}\n"), (Lines{"a.b 1 -> "}));
  EXPECT_EQ(changes("a: {}\n", "b: 1\n"), (Lines{"a {} -> ", "b  -> 1"}));
}

TEST(Overlay, MergesMapsAndReplacesTheRest) {
  Node base = yaml("a: {b: 1, c: 2}\nl: [1, 2]\n");
  overlay(base, yaml("a: {c: 3}\nl: [9]\n"));
  EXPECT_EQ(to_json(base, -1), R"({"a": {"b": 1, "c": 3}, "l": [9]})");
}

TEST(Resolve, TakesTheDefaultOfWhatIsNotThere) {
  Problems problems;
  Node root = parse_yaml(
      "name: '${run.name:first}'\nfolder: runs/${run.name:a}-${size:none}\nsize: 3\nnothing: '${no:null}'\n"
      "number: ${no.where:1e-3}\nempty: '${no:}'\nthere: '${size:9}'\n",
      "r.yaml", problems);
  resolve(root, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(root.find("name")->text(), "first");
  EXPECT_EQ(root.find("folder")->text(), "runs/a-3");
  EXPECT_TRUE(root.find("nothing")->is_null());
  EXPECT_EQ(root.find("number")->text(), "1e-3");
  EXPECT_EQ(root.find("empty")->text(), "");
  EXPECT_EQ(root.find("there")->text(), "3");
}

}  // namespace
}  // namespace hone::config
