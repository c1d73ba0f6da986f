// Names of weights that a file could not hold are found when the model is built.
#include "hub/weight_names.h"

#include <gmock/gmock.h>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "hub/folders.h"

namespace hone::test {
namespace {

using testing::HasSubstr;

struct Leaf final : Module {
  explicit Leaf(std::string name = "weight") { parameter(std::move(name), {2}); }
};
// Children with these names, each with the weight of that name.
struct Tree final : Module {
  explicit Tree(const std::vector<std::pair<std::string, std::string>>& names) {
    for (const auto& [own, weight] : names) child<Leaf>(own, weight);
  }
};

std::string problem_of(const std::vector<std::pair<std::string, std::string>>& names) {
  const Tree tree(names);
  return error_of([&] { hub::check_weight_names(tree); }, ErrorKind::bug);
}

TEST(WeightNames, AreDifferentWhoeverDeclaresThem) {
  EXPECT_EQ(problem_of({{"a", "weight"}, {"b", "weight"}, {"", "weight"}}), "no error");
  const std::pair<std::string, std::string> nested{"a", "weight"}, dotted{"", "a.weight"};
  for (const auto& [one, other] : {std::pair(nested, nested), std::pair(dotted, nested), std::pair(dotted, dotted)})
    EXPECT_THAT(problem_of({one, other}), HasSubstr("the model's weight \"a.weight\": two weights of this name"));
}

TEST(WeightNames, AreThoseThatAFileCanHold) {
  EXPECT_THAT(problem_of({{"a", ""}}), HasSubstr("weight \"a.\": a part of its name is empty"));
  EXPECT_THAT(problem_of({{"", ""}}), HasSubstr("weight \"\": a part of its name is empty"));
  EXPECT_THAT(problem_of({{"a.", "weight"}}), HasSubstr("a part of its name is empty"));
  EXPECT_THAT(problem_of({{"a", "b\nc"}}), HasSubstr("control characters"));
  EXPECT_THAT(problem_of({{"a", "b\xff"}}), HasSubstr("not UTF-8"));
  EXPECT_EQ(problem_of({{"model.layers.0", "größe/x"}}), "no error");
}

struct TwinsConfig {
  std::string model_type = "twins";
  static constexpr auto fields() { return std::tuple{field("model_type", &TwinsConfig::model_type, "")}; }
};

class Twins final : public Model {
 public:
  explicit Twins(const TwinsConfig&) {}
  Tensor embed(const Batch&, Pass&) const override { return {}; }
  std::vector<const Block*> blocks() const override { return {}; }
  Tensor finish(const Tensor& x, Pass&) const override { return x; }
  std::int64_t vocab_size() const override { return 1; }
  std::int64_t max_positions() const override { return 1; }
  config::Node hf_config() const override { return {}; }

 private:
  Weight &one_ = parameter("scale", {2}), &other_ = parameter("scale", {2});
};

TEST(WeightNames, AreLookedAtWhenAModelIsBuilt) {
  registries().models.add<Twins, TwinsConfig>("twins", "For tests.");
  config::Node config = config::Node::map();
  config.at_or_add("model_type") = config::Node::scalar("twins");
  EXPECT_THAT(error_of([&] { build_model(config, "config.json"); }, ErrorKind::bug),
              HasSubstr("the model's weight \"scale\": two weights of this name; expected another for each"));
}

}  // namespace
}  // namespace hone::test
