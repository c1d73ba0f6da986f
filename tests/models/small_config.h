// A small config.json that tests change: the model of it, and what is wrong with it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "hone/config.h"
#include "hone/hub.h"

namespace hone::test {

class SmallConfig {
 public:
  explicit SmallConfig(const std::string& json) : json_(nlohmann::json::parse(json)) {}

  // more: members of a JSON object that stand in place of its own; one that is "absent" goes.
  std::unique_ptr<Model> with(const std::string& more, const HeadRequest& head = {}) const {
    nlohmann::json json = json_;
    const auto others = nlohmann::json::parse("{" + more + "}");
    for (const auto& [key, value] : others.items())
      value == "absent" ? (void)json.erase(key) : (void)(json[key] = value);
    Problems problems;
    return build_model(config::parse_json(json.dump(), "config.json", problems), "config.json", head);
  }
  std::string problem_with(const std::string& more, const HeadRequest& head = {}) const {
    try {
      with(more, head);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      return error.what();
    }
    return "no error";
  }

  // cases: changes, and what each is told to be. alone: it is the only problem of the file.
  template <class Cases>
  void expect_problems(const Cases& cases, bool alone = true) const {
    for (const auto& [more, expected] : cases) {
      const std::string problem = problem_with(more);
      EXPECT_NE(problem.find(expected), std::string::npos) << more << "\n gave: " << problem;
      EXPECT_TRUE(!alone || problem.starts_with("1 problem in config.json\n")) << problem;
    }
  }

 private:
  nlohmann::json json_;
};

}  // namespace hone::test
