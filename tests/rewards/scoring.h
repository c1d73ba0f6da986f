// Rewards as a run makes and asks them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/registry.h"
#include "hone/reward.h"

namespace hone::test {

inline std::unique_ptr<Reward> reward(const std::string& type, const std::string& yaml = "{}") {
  Problems problems;
  const auto options = registries().rewards.options(type);
  options->read(config::parse_yaml(yaml, "test", problems), problems, "");
  problems.raise();
  return registries().rewards.make(type, *options);
}

// One model for every role.
struct OneModel final : Resources {
  explicit OneModel(const Model* model = nullptr) : model_(model) {}
  RoleModel model(const std::string&) const override {
    HONE_ASSERT(model_ != nullptr);
    return {*model_};
  }
  const Model* model_;
};

using Scores = std::vector<std::optional<double>>;

inline Scores scores(const Reward& reward, const std::vector<Answer>& answers, std::int64_t longest = 100,
                     const Model* model = nullptr) {
  static const auto tokenizer = load_tokenizer("bytes");
  const OneModel resources(model);
  return reward.score(answers, {.tokenizer = *tokenizer, .resources = resources, .longest = longest, .step = 7});
}

inline Answer answer(const std::string& text, const std::string& reference = "") {
  return {.prompt = "Q", .text = text, .reference = reference, .prompt_ids = {}, .ids = {}, .record = "r.jsonl:1"};
}

inline Answer of_ids(const std::vector<std::int32_t>& ids, const std::string& text = "",
                     const std::string& reference = "") {
  Answer made = answer(text, reference);
  made.ids = ids;
  return made;
}

}  // namespace hone::test
