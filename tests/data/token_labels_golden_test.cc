// Labels on tokens against transformers' run_ner.py and TRL's PRMTrainer (tools/golden/golden_word_labels.py).
#include "data/token_labels.h"

#include <gtest/gtest.h>

#include <fstream>

#include "data/tagged.h"
#include "support.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

const std::filesystem::path kGoldens = "tests/golden/data/token_labels";

json cases() {
  std::ifstream file(kGoldens / "cases.json");
  return json::parse(file);
}

// Names or numbers; null and -100: none.
json labels_of(const TaggedTokens& tokens) {
  json labels = json::array();
  for (const std::int32_t label : tokens.labels)
    labels.push_back(label == -100 ? json() : json(tokens.tags.names.at(static_cast<std::size_t>(label))));
  return labels;
}

class TokenLabelsOf : public testing::TestWithParam<std::string> {
 protected:
  const json all_ = cases();
  const json& mine_ = all_.at("cases").at(GetParam());
  const std::shared_ptr<const Tokenizer> tokenizer_ = load_tokenizer((kGoldens / GetParam()).string());
  const std::string path_ = "cases.json";
  const Place place_{path_, 1};
};

TEST_P(TokenLabelsOf, WordsAreThoseOfRunNer) {
  for (const json& one : mine_.at("words")) {
    TokenLabelling how{*tokenizer_, {.all = one.at("all")}};
    if (!one.at("max_length").is_null()) how.most = one.at("max_length");
    const json& sentence = all_.at("sentences").at(one.at("sentence").get<std::size_t>());
    const TaggedRecord record = read_tagged(sentence, {.words = "tokens", .tags = "tags"}, place_);
    const TaggedTokens tokens = from_tagged(record, how, place_);
    EXPECT_EQ(json(tokens.ids), one.at("ids")) << one;
    EXPECT_EQ(labels_of(tokens), one.at("labels")) << one;
  }
}

TEST_P(TokenLabelsOf, StepsAreThoseOfPrmTrainer) {
  for (const json& one : mine_.at("steps")) {
    const json& how = one.at("how");
    TokenLabelling labelling{*tokenizer_, {.step_separator = how.value("step_separator", "\n")}};
    if (how.contains("max_completion_length"))
      labelling.labels.max_completion_length = how.at("max_completion_length").get<std::int64_t>();
    labelling.labels.last_step_only = how.value("train_on_last_step_only", false);
    labelling.most = how.value("max_length", std::size_t{0});
    const json& steps = all_.at("steps").at(one.at("steps").get<std::size_t>());
    const StepsRecord record =
        read_steps(steps, {.prompt = "prompt", .tags = "labels", .steps = "completions"}, place_);
    // TRL would lay the label of a step without tokens beside the tokens, and all behind it, too.
    const bool is_nothing = tokenizer_->encode(labelling.labels.step_separator, false).ids.empty();
    if (is_nothing && std::find(record.steps.begin(), record.steps.end(), "") != record.steps.end()) {
      EXPECT_THROW(from_steps(record, labelling, place_), Error);
      continue;
    }
    const TaggedTokens tokens = from_steps(record, labelling, place_);
    EXPECT_EQ(json(tokens.ids), one.at("ids")) << how;
    json expected = one.at("labels");
    for (json& label : expected) label = label == -100 ? json() : json(label == 1 ? "true" : "false");
    EXPECT_EQ(labels_of(tokens), expected) << how;
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, TokenLabelsOf, testing::Values("wordpiece", "bytelevel", "metaspace"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hone::data
