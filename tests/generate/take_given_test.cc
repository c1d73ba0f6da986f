// Options of generation that somebody gave.
#include "generate/take_given.h"

#include <gtest/gtest.h>

#include "hone/config_read.h"

namespace hone::generate {
namespace {

struct Some {
  std::optional<std::int64_t> max_new_tokens, forced_bos_token_id;
  std::optional<double> temperature;
  std::optional<std::string> min_p;  // of another kind than GenerateConfig's
  std::int64_t top_k = 7;            // always there: whoever has it decides
  static constexpr auto fields() {
    using C = Some;
    return std::tuple{config::field("max_new_tokens", &C::max_new_tokens, ""),
                      config::field("forced_bos_token_id", &C::forced_bos_token_id, ""),
                      config::field("temperature", &C::temperature, ""), config::field("min_p", &C::min_p, ""),
                      config::field("top_k", &C::top_k, "")};
  }
};

TEST(TakeGiven, WhatIsNotGivenStaysAsItWas) {
  GenerateConfig config;
  config.max_new_tokens = 3, config.max_length = 5, config.temperature = 0.5;
  take_given(Some{}, config);
  EXPECT_EQ(config.max_new_tokens, 3);
  EXPECT_EQ(config.max_length, 5);
  EXPECT_EQ(config.temperature, 0.5);
  EXPECT_FALSE(config.forced_bos_token_id);
}

TEST(TakeGiven, WhatIsGivenIsTakenByItsName) {
  GenerateConfig config;
  config.max_length = 5;
  take_given(Some{.max_new_tokens = 9, .forced_bos_token_id = 2, .temperature = 0, .min_p = "0.1"}, config);
  EXPECT_EQ(config.max_new_tokens, 9);
  EXPECT_FALSE(config.max_length);
  EXPECT_EQ(config.forced_bos_token_id, 2);
  EXPECT_EQ(config.temperature, 0);
  EXPECT_EQ(config.min_p, 0);
  EXPECT_EQ(config.top_k, 0);
}

}  // namespace
}  // namespace hone::generate
