// Options under the names that they had before, and unknown keys, in the layers of a recipe and in runs.
#include <gtest/gtest.h>

#include "hone/registry.h"
#include "train/support.h"

namespace hone {
namespace {

// A collator whose option was renamed.
class Widened final : public Collator {
 public:
  struct Config {
    std::int64_t width = 1;
    static constexpr auto fields() {
      return std::tuple{field("width", &Config::width, "Width.").renamed_from("breadth")};
    }
  };
  Widened(const Config&, const CollatorInfo& info) : pad_id_(info.pad_id) {}
  HostBatch collate(std::vector<HostRow> rows, const Random& random) const override {
    return hone::collate(std::move(rows), nullptr, pad_id_, random);
  }

 private:
  std::int32_t pad_id_;
};

class OldNames : public ::testing::Test {
 protected:
  OldNames() {
    static const bool once = (registries().collators.add<Widened>("widened", "For tests."), true);
    static_cast<void>(once);
    log::set_level(log::Level::warning);
    log::set_sink([this](log::Level level, std::string_view message) {
      if (level == log::Level::warning) warnings_.emplace_back(message);
    });
    test::small_recipe(folder_);
    layers_.file = (folder_ / "recipe.yaml").string();
    add("{data: {collator: {type: widened, breadth: 2}}}");
  }
  ~OldNames() override { log::set_sink({}); }
  void add(const std::string& yaml) {
    layers_.set.push_back(folder_.write(fmt::format("set{}.yaml", layers_.set.size()), yaml).string());
  }
  std::string width() {
    warnings_.clear();
    return write_recipe(read_recipe(layers_)).find("data")->find("collator")->find("width")->text();
  }
  test::TempFolder folder_;
  RecipeLayers layers_;
  std::vector<std::string> warnings_;
};

TEST_F(OldNames, AreReadWithOneWarningThatSaysTheNewOne) {
  EXPECT_EQ(width(), "2");
  EXPECT_EQ(warnings_,
            std::vector<std::string>{layers_.set[0] + ":1: data.collator.breadth: is called data.collator.width now"});
}

// Whichever name a layer uses, it lies over those before it.
TEST_F(OldNames, LayersLieOverEachOther) {
  add("{data: {collator: {width: 3}}}");
  EXPECT_EQ(width(), "3");
  add("{data: {collator: {breadth: 4}}}");
  EXPECT_EQ(width(), "4");
  layers_.environment = {{"data.collator.width", "5"}};
  EXPECT_EQ(width(), "5");
  layers_.flags = {{"data.collator.breadth", "6"}};
  EXPECT_EQ(width(), "6");
  EXPECT_EQ(warnings_.back(), "--data.collator.breadth: is called data.collator.width now");
  layers_.flags = {{"data.collator", "{type: widened, breadth: 7}"}};
  EXPECT_EQ(width(), "7");
  layers_.flags.emplace_back("data.max_length", "${data.collator.breadth}");
  EXPECT_EQ(read_recipe(layers_).data.max_length, 7);
}

TEST_F(OldNames, BothInOneLayerAreAnError) {
  layers_.flags = {{"data.collator.breadth", "1"}, {"data.collator.width", "2"}};
  EXPECT_HONE_ERROR(read_recipe(layers_), config,
                    "--data.collator.breadth: is called data.collator.width now, which is given as well");
  layers_.flags.clear();
  add("{data: {collator: {width: 3, breadth: 3}}}");
  EXPECT_HONE_ERROR(read_recipe(layers_), config,
                    "data.collator.breadth: is called data.collator.width now, which is given as well");
}

TEST_F(OldNames, ARunGoesOnUnderTheNewName) {
  layers_.flags = {{"trainer.steps", "2"}, {"run.folder", (folder_ / "run").string()}};
  const TrainOptions options = test::quiet_options();
  EXPECT_EQ(train(read_recipe(layers_), options).step, 2);
  EXPECT_EQ(test::read_text(folder_ / "run" / "config.yaml").find("breadth"), std::string::npos);
  layers_.set.clear();
  add("{data: {collator: {type: widened, width: 2}}}");
  layers_.flags[0].second = "3";
  const Summary more = train(read_recipe(layers_), options);
  EXPECT_EQ(more.resumed_from, 2);
  EXPECT_EQ(more.step, 3);
}

TEST_F(OldNames, UnknownKeysOfFilesArePassedOverOnRequest) {
  add("{trainer: {stps: 3}, wandb: {project: x}, data: {collator: {hight: 1}}}");
  EXPECT_HONE_ERROR(read_recipe(layers_), config, "3 problems in the configuration");
  layers_.unknown = UnknownKeys::pass_over;
  EXPECT_EQ(width(), "2");
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_TRUE(warnings_[1].starts_with("3 keys of the recipe passed over\n")) << warnings_[1];
  for (const char* part : {":1: trainer.stps: no such option; did you mean trainer.steps?", ":1: wandb: no such option",
                           ":1: data.collator.hight: no such option"})
    EXPECT_NE(warnings_[1].find(part), std::string::npos) << part;
  layers_.flags = {{"trainer.stps", "3"}};
  EXPECT_HONE_ERROR(read_recipe(layers_), config, "--trainer.stps: no such option; did you mean trainer.steps?");
}

TEST_F(OldNames, ANodeIsReadLikeThat) {
  Problems problems;
  config::Node node = write_recipe(test::small_recipe(folder_));
  node.at_or_add("wandb") = config::Node::scalar("x");
  EXPECT_HONE_ERROR(read_recipe(node), config, "wandb: no such option");
  const Recipe recipe = read_recipe(node, UnknownKeys::pass_over);
  EXPECT_EQ(config::to_yaml(write_recipe(recipe)), config::to_yaml(write_recipe(test::small_recipe(folder_))));
  const config::Node json = config::parse_json(config::to_json(write_recipe(recipe)), "r.json", problems);
  EXPECT_EQ(config::to_yaml(write_recipe(read_recipe(json))), config::to_yaml(write_recipe(recipe)));
}

}  // namespace
}  // namespace hone
