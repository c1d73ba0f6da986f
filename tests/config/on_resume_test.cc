// What a change of an option means when a run is resumed: a field says so, or the section that it is in.
#include <gtest/gtest.h>

#include "config/documents.h"
#include "config/support.h"

namespace hone::config {
namespace {

struct Shapes {
  static constexpr std::string_view kInterface = "test_shapes";
};

struct Circle {
  double radius = 1, colour = 0;
  Inner inner;
  static constexpr auto fields() {
    using C = Circle;
    return std::tuple{field("radius", &C::radius, "Radius.", at_least(0), OnResume::record),
                      field("colour", &C::colour, "Colour."), field("inner", &C::inner, "Inner.", OnResume::free)};
  }
};

class OneShape final : public Catalogue {
 public:
  std::vector<std::string> names() const override { return {"circle"}; }
  std::shared_ptr<AnyOptions> options(const std::string& name) const override {
    return name == "circle" ? std::make_shared<OptionsOf<Circle>>() : nullptr;
  }
};

struct Plan {
  std::int64_t plain = 1;
  Inner inner;
  std::vector<Item> items;
  std::optional<Inner> maybe;
  Choice<Shapes> shape{"circle", nullptr};
  std::vector<Choice<Shapes>> shapes;
  std::map<std::string, Item> rest;
  static constexpr std::string_view kRest = "rest";
  static constexpr auto fields() {
    using C = Plan;
    return std::tuple{field("plain", &C::plain, "Plain."),
                      field("inner", &C::inner, "Inner.", OnResume::record),
                      field("items", &C::items, "Items.", OnResume::free),
                      field("maybe", &C::maybe, "Maybe.", OnResume::free),
                      field("shape", &C::shape, "Shape."),
                      field("shapes", &C::shapes, "Shapes.", OnResume::free),
                      field("rest", &C::rest, "Rest.", OnResume::record)};
  }
};

class OnResumeTest : public ::testing::Test {
 protected:
  OnResumeTest() {
    set_catalogue(Shapes::kInterface, &catalogue_);
    Problems problems;
    read(parse_yaml("{shapes: [circle]}", "p.yaml", problems), plan_, problems);
    problems.raise();
  }
  ~OnResumeTest() override { set_catalogue(Shapes::kInterface, nullptr); }
  std::optional<OnResume> rule(const std::string& path) const { return on_resume(plan_, path); }
  OneShape catalogue_;
  Plan plan_;
};

constexpr auto kFree = OnResume::free, kRecord = OnResume::record, kRefuse = OnResume::refuse;

TEST_F(OnResumeTest, IsOfTheFieldOrOfTheSectionThatItIsIn) {
  EXPECT_EQ(rule("plain"), kRefuse);
  EXPECT_EQ(on_resume(plan_, "plain", kFree), kFree);
  EXPECT_EQ(rule("inner"), kRecord);
  EXPECT_EQ(rule("inner.steps"), kRecord);
  EXPECT_EQ(rule("items"), kFree);
  EXPECT_EQ(rule("items.3.path"), kFree);
  EXPECT_EQ(rule("maybe.share"), kFree);
  EXPECT_EQ(rule("any_name.path"), kRecord);
}

TEST_F(OnResumeTest, OptionsOfAChoiceMaySayTheirOwn) {
  EXPECT_EQ(rule("shape.type"), kRefuse);
  EXPECT_EQ(rule("shape.colour"), kRefuse);
  EXPECT_EQ(rule("shape.radius"), kRecord);
  EXPECT_EQ(rule("shape.inner.on"), kFree);
  EXPECT_EQ(rule("shapes.0.colour"), kFree);
  EXPECT_EQ(rule("shapes.0.radius"), kRecord);
  EXPECT_EQ(rule("shapes.1.radius"), kFree);  // there is none to ask
  EXPECT_EQ(rule("shape.of_another_type"), kRefuse);
}

TEST_F(OnResumeTest, IsNothingForWhatIsNoOption) {
  for (const char* path : {"", "plain.x", "inner.stps", "items.0.pth", "maybe.x", "any_name.x"})
    EXPECT_EQ(rule(path), *path ? std::nullopt : std::optional(kRefuse)) << path;
}

TEST_F(OnResumeTest, IsShownInTheReferenceAndTheSchema) {
  const std::string page = reference_page("Plan", describe(Plan{}), kRefuse);
  EXPECT_NE(page.find("| `plain` | `1` | integer | Plain. | refuse |\n"), std::string::npos) << page;
  EXPECT_NE(page.find("| `inner.steps` | `100` | integer, at least 1 | Steps. | record |\n"), std::string::npos)
      << page;
  EXPECT_NE(page.find("| `colour` | `0` | number | Colour. | refuse |\n"), std::string::npos) << page;
  EXPECT_NE(page.find("| `inner.on` | `false` | boolean | On. | free |\n"), std::string::npos) << page;
  EXPECT_NE(page.find("| `<name>.path` |  | string | A file. | record |\n"), std::string::npos) << page;
  EXPECT_EQ(reference_page("Plan", describe(Plan{})).find("refuse"), std::string::npos);
  const Node schema = json_schema("plan", describe(Plan{}), kRefuse);
  const Node& properties = *schema.find("properties");
  const auto shown = [](const Node& option) { return option.find("x-on-resume")->text(); };
  EXPECT_EQ(shown(*properties.find("plain")), "refuse");
  EXPECT_EQ(shown(*properties.find("items")), "free");
  EXPECT_EQ(shown(*properties.find("inner")->find("properties")->find("steps")), "record");
  const Node& circle = *properties.find("shape")->find("anyOf")->items()[0].find("properties");
  EXPECT_EQ(shown(*circle.find("radius")), "record");
  EXPECT_EQ(shown(*circle.find("colour")), "refuse");
  EXPECT_EQ(properties.find("inner")->find("x-on-resume"), nullptr);
  EXPECT_EQ(properties.find("inner")->find("additionalProperties")->text(), "false");
  EXPECT_EQ(schema.find("additionalProperties"), nullptr);  // <name>.path
}

}  // namespace
}  // namespace hone::config
