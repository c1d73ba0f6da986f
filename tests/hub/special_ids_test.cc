// The ids of special tokens in a model's files, against what transformers' Trainer makes of them
// (tools/golden/golden_ids.py), and merged models.
#include "hub/special_ids.h"

#include <gmock/gmock.h>

#include "hub/folders.h"

namespace hone::test {
namespace {

using nlohmann::json;

// Nothing but ids.
class Ids final : public Tokenizer {
 public:
  explicit Ids(const json& ids) {
    const auto take = [&](const char* key, std::optional<std::int32_t>& id) {
      if (!ids.at(key).is_null()) id = ids.at(key).get<std::int32_t>();
    };
    take("eos_token_id", eos_id), take("bos_token_id", bos_id), take("pad_token_id", pad_id);
  }
  Encoding encode(std::string_view, bool) const override { return {}; }
  std::string decode(const std::vector<std::int32_t>&, bool) const override { return ""; }
  std::int64_t vocab_size() const override { return 12; }
  std::optional<std::int32_t> id_of(std::string_view) const override { return {}; }
  std::optional<std::string> token_of(std::int32_t) const override { return {}; }
  bool is_special(std::int32_t) const override { return false; }
};

config::Node node_of(const json& value) {
  Problems problems;
  return config::parse_json(value.dump(), "a test", problems);
}
json json_of(const config::Node& node) { return json::parse(config::to_json(node)); }

TEST(SpecialIds, AreAlignedAsTransformersTrainerDoes) {
  const json cases = json::parse(read_text(std::string(HONE_SOURCE_DIR) + "/tests/golden/train/special_ids.json"));
  ASSERT_GT(cases.size(), 50u);
  for (const json& one : cases) {
    SCOPED_TRACE(one.dump());
    config::Node hf_config = node_of(one["config"]);
    // Without the file, generation_config.json is made of config.json.
    config::Node generation = node_of(one["generation_config"].is_null() ? one["config"] : one["generation_config"]);
    const json before = json_of(generation);
    const auto changes = hub::align_ids(hf_config, generation, Ids(one["tokenizer"]));
    json wanted = one["after"]["config"];
    wanted.erase("pad_token_id");
    if (one["config"].contains("pad_token_id")) wanted["pad_token_id"] = one["config"]["pad_token_id"];
    EXPECT_EQ(json_of(hf_config), wanted) << "but for the padding: its row is learnt when training goes on";
    EXPECT_EQ(json_of(generation), one["after"]["generation_config"]);
    EXPECT_EQ(changes.empty(), json_of(hf_config) == one["config"] && json_of(generation) == before);
  }
}

TEST(SpecialIds, SayWhatChanged) {
  config::Node hf_config = node_of({{"eos_token_id", 2}, {"vocab_size", 300}}), generation = hf_config;
  const Ids bytes({{"eos_token_id", 257}, {"bos_token_id", nullptr}, {"pad_token_id", 258}});
  EXPECT_THAT(hub::align_ids(hf_config, generation, bytes),
              testing::ElementsAre("eos_token_id 257 (was 2)", "pad_token_id 258 (was none)"));
  EXPECT_TRUE(hub::align_ids(hf_config, generation, bytes).empty());
  config::Node small = node_of({{"vocab_size", 257}}), none = node_of(json::object());
  EXPECT_TRUE(hub::align_ids(small, none, bytes).empty()) << "ids for which the model has no row";
}

class SpecialIdFiles : public Folders {};

TEST_F(SpecialIdFiles, AFileThatNeedsNoChangeStaysAsItIs) {
  const auto model = small_model();
  const Ids same({{"eos_token_id", 2}, {"bos_token_id", nullptr}, {"pad_token_id", nullptr}});
  const Ids other({{"eos_token_id", 5}, {"bos_token_id", nullptr}, {"pad_token_id", nullptr}});
  write_text(root_ / "generation_config.json", R"({"top_k": 7,  "eos_token_id": 2})");
  const auto text = [&](const Tokenizer& tokenizer, std::size_t file) {
    return hub::model_files(*model, root_, &tokenizer, {.align_ids = true}).texts[file].second;
  };
  EXPECT_EQ(text(same, 1), R"({"top_k": 7,  "eos_token_id": 2})");
  EXPECT_EQ(json::parse(text(other, 0))["eos_token_id"], 5);
  EXPECT_EQ(json::parse(text(other, 1)), json({{"top_k", 7}, {"eos_token_id", {5, 2}}}));
  EXPECT_THAT(hub::aligned_ids(*model, root_, other), testing::ElementsAre("eos_token_id 5 (was 2)"));
  const auto plain = hub::model_files(*model, root_, &other).texts;
  EXPECT_EQ(json::parse(plain[0].second)["eos_token_id"], 2) << "only what is trained is aligned";
}

}  // namespace
}  // namespace hone::test
