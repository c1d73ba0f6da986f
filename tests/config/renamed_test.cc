// Options under the names that they had before, and keys that no option has where they may be passed over.
#include <gtest/gtest.h>

#include "config/command_line.h"
#include "config/documents.h"
#include "config/support.h"
#include "harness/errors.h"

namespace hone::config {
namespace {

struct Tools {
  static constexpr std::string_view kInterface = "test_tools";
};
struct Saw {
  std::int64_t teeth = 1;
  static constexpr auto fields() {
    return std::tuple{field("teeth", &Saw::teeth, "Teeth.", at_least(0)).renamed_from("spikes")};
  }
};
class OneTool final : public Catalogue {
 public:
  std::vector<std::string> names() const override { return {"saw"}; }
  std::shared_ptr<AnyOptions> options(const std::string& name) const override {
    return name == "saw" ? std::make_shared<OptionsOf<Saw>>() : nullptr;
  }
};

struct Part {
  std::int64_t width = 1;
  static constexpr std::string_view kShorthand = "width";
  static constexpr auto fields() { return std::tuple{field("width", &Part::width, "Width.").renamed_from("breadth")}; }
};
struct Bench {
  std::int64_t height = 0;
  Part part;
  std::vector<Part> parts;
  std::optional<Part> maybe;
  std::map<std::string, Part> named;
  Choice<Tools> tool{"saw", nullptr};
  std::map<std::string, std::int64_t> others;
  static constexpr std::string_view kRest = "others";
  static constexpr auto fields() {
    using C = Bench;
    return std::tuple{field("others", &C::others, "Others."),
                      field("height", &C::height, "Height.").renamed_from("tallness"),
                      field("part", &C::part, "Part.").renamed_from("piece"),
                      field("parts", &C::parts, "Parts."),
                      field("maybe", &C::maybe, "Maybe."),
                      field("named", &C::named, "Named."),
                      field("tool", &C::tool, "Tool.")};
  }
};

class Renamed : public ::testing::Test {
 protected:
  Renamed() { set_catalogue(Tools::kInterface, &catalogue_); }
  ~Renamed() override { set_catalogue(Tools::kInterface, nullptr); }
  Node parse(const std::string& yaml) { return parse_yaml(yaml, "r.yaml", problems_); }
  OneTool catalogue_;
  Problems problems_;
};

constexpr const char* kOld =
    "{tallness: 7,\n piece: {breadth: 2},\n parts: [{breadth: 3}, 4],\n maybe: {breadth: 5},\n"
    " named: {a: {breadth: 6}},\n tool: {spikes: 8},\n x: 1}";

TEST_F(Renamed, AreReadWherever) {
  Bench bench;
  read(parse(kOld), bench, problems_);
  EXPECT_EQ(problems_.lines(), std::vector<std::string>{});
  EXPECT_EQ(bench.height, 7);
  EXPECT_EQ(bench.part.width, 2);
  EXPECT_EQ(bench.parts[0].width, 3);
  EXPECT_EQ(bench.parts[1].width, 4);
  EXPECT_EQ(bench.maybe->width, 5);
  EXPECT_EQ(bench.named.at("a").width, 6);
  EXPECT_EQ(dynamic_cast<OptionsOf<Saw>&>(*bench.tool.options).value.teeth, 8);
  EXPECT_EQ(bench.others, (std::map<std::string, std::int64_t>{{"x", 1}}));
  const std::vector<std::string> notes{
      "r.yaml:1: tallness: is called height now",           "r.yaml:2: piece: is called part now",
      "r.yaml:2: part.breadth: is called part.width now",   "r.yaml:3: parts.0.breadth: is called parts.0.width now",
      "r.yaml:4: maybe.breadth: is called maybe.width now", "r.yaml:5: named.a.breadth: is called named.a.width now",
      "r.yaml:6: tool.spikes: is called tool.teeth now"};
  EXPECT_EQ(problems_.notes(), notes);
}

TEST_F(Renamed, GetTheirNewNamesInANode) {
  Node node = parse(kOld);
  rename<Bench>(node, nullptr, problems_);
  EXPECT_EQ(problems_.notes().size(), 7u);
  EXPECT_EQ(detail::inline_text(node),
            "{height: 7, part: {width: 2}, parts: [{width: 3}, 4], maybe: {width: 5}, named: {a: {width: 6}}, tool: "
            "{teeth: 8}, x: 1}");
  rename<Bench>(node, nullptr, problems_);
  EXPECT_EQ(problems_.notes().size(), 7u);
}

TEST_F(Renamed, OldAndNewTogetherAreAProblem) {
  Bench bench;
  read(parse("{tallness: 7,\n height: 8,\n tool: {spikes: 1,\n teeth: 1}}"), bench, problems_);
  const std::vector<std::string> lines{"r.yaml:1: tallness: is called height now, which is given as well",
                                       "r.yaml:3: tool.spikes: is called tool.teeth now, which is given as well"};
  EXPECT_EQ(problems_.lines(), lines);
  EXPECT_TRUE(problems_.notes().empty());
}

TEST_F(Renamed, ValuesAreCheckedUnderTheNewName) {
  Bench bench;
  read(parse("{tool: {spikes: -1}}"), bench, problems_);
  EXPECT_EQ(problems_.lines(), std::vector<std::string>{"r.yaml:1: tool.teeth: got -1, expected at least 0"});
}

TEST_F(Renamed, PathsToThemAreKnown) {
  const Node base = parse("{parts: [1, 2], tool: saw}");
  const auto now = [&](const std::string& path) { return current_path<Bench>(path, &base, problems_); };
  EXPECT_EQ(now("tallness"), "height");
  EXPECT_EQ(now("piece.breadth"), "part.width");
  EXPECT_EQ(now("parts.1.breadth"), "parts.1.width");
  EXPECT_EQ(now("named.a.breadth"), "named.a.width");
  EXPECT_EQ(now("tool.spikes"), "tool.teeth");
  const std::size_t before = problems_.notes().size();
  for (const char* path : {"height", "part.width", "no.such.option", "others", "parts.x", ""})
    EXPECT_EQ(now(path), path);
  EXPECT_EQ(problems_.notes().size(), before);
}

// What a choice is may stand in a layer below.
TEST_F(Renamed, TheTypeOfAChoiceIsThatOfTheLayerBelow) {
  const Node base = parse("{tool: saw}");
  Node node = parse("{tool: {spikes: 2}}"), other = node;
  rename<Bench>(node, &base, problems_);
  EXPECT_EQ(detail::inline_text(node), "{tool: {teeth: 2}}");
  const Node hammer = parse("{tool: {type: hammer}}");
  rename<Bench>(other, &hammer, problems_);
  EXPECT_EQ(detail::inline_text(other), "{tool: {spikes: 2}}");
}

TEST_F(Renamed, ReferencesToThemAreFollowed) {
  Node root = parse("{height: 3, x: '${tallness}', tool: {teeth: '${x}'}}");
  resolve(root, problems_, [&](const std::string& path) { return current_path<Bench>(path, &root, problems_); });
  EXPECT_EQ(detail::inline_text(root), "{height: 3, x: 3, tool: {teeth: 3}}");
  EXPECT_TRUE(problems_.empty());
}

TEST_F(Renamed, FlagsAreToo) {
  OptionsOf<Bench> options;
  const CommandLine line = parse_command_line({"--tallness=3", "--part.breadth", "4"}, options);
  EXPECT_EQ(options.value.height, 3);
  EXPECT_EQ(options.value.part.width, 4);
  const std::vector<std::string> notes{"--tallness: is called height now", "--part.breadth: is called part.width now"};
  EXPECT_EQ(line.notes, notes);
  EXPECT_HONE_ERROR(parse_command_line({"--tallness=3", "--height=3"}, options), usage,
                    "--tallness: is called height now, which is given as well");
}

TEST_F(Renamed, AreToldInTheReferenceAndTheSchema) {
  const auto rows = describe(Bench{});
  EXPECT_NE(reference_page("p", rows).find("Height. Formerly `tallness`."), std::string::npos);
  const Node schema = json_schema("s", rows, OnResume::refuse);
  const Node* old = schema.find("properties")->find("tallness");
  ASSERT_TRUE(old);
  EXPECT_EQ(old->find("deprecated")->text(), "true");
  EXPECT_FALSE(schema.find("properties")->find("height")->find("deprecated"));
}

struct Strict {
  std::int64_t steps = 1;
  Part part;
  Choice<Tools> tool{"saw", nullptr};
  static constexpr auto fields() {
    return std::tuple{field("steps", &Strict::steps, "Steps."), field("part", &Strict::part, "Part."),
                      field("tool", &Strict::tool, "Tool.")};
  }
};

TEST_F(Renamed, UnknownKeysArePassedOverOnRequestAlone) {
  Strict strict;
  const Node node = parse("{stps: 4,\n part: {hight: 1, width: 6},\n tool: {x: 1},\n steps: 5}");
  read(node, strict, problems_);
  const std::vector<std::string> lines{"r.yaml:2: part.hight: no such option", "r.yaml:3: tool.x: no such option",
                                       "r.yaml:1: stps: no such option; did you mean steps?"};
  EXPECT_EQ(problems_.lines(), lines);
  Problems lenient;
  lenient.pass_over_unknown();
  read(node, strict, lenient);
  EXPECT_TRUE(lenient.empty());
  EXPECT_EQ(lenient.passed_over(), lines);
  EXPECT_EQ(strict.steps, 5);
  EXPECT_EQ(strict.part.width, 6);
}

TEST_F(Renamed, WhatIsTypedIsNeverPassedOver) {
  Node node = parse("{a: 1}");
  assign(node, "stps", "4", {"--stps", 0}, problems_);
  assign(node, "part.hight", "4", {"environment", 0}, problems_);
  problems_.pass_over_unknown();
  Strict strict;
  read(node, strict, problems_);
  EXPECT_EQ(problems_.lines(), (std::vector<std::string>{"environment: part.hight: no such option",
                                                         "--stps: no such option; did you mean steps?"}));
  EXPECT_EQ(problems_.passed_over(), std::vector<std::string>{"r.yaml:1: a: no such option"});
}

}  // namespace
}  // namespace hone::config
