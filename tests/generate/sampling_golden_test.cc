// The sampler's distribution against transformers' logits processors (tools/golden_generate.py).
#include "generate/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "hone/safetensors.h"

namespace hone::generate {
namespace {

template <class T>
std::vector<T> read(const Safetensors& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (!info) throw Error(ErrorKind::bug, "no tensor " + name);
  std::vector<T> values(info->bytes() / sizeof(T));
  file.read(*info, std::as_writable_bytes(std::span(values)));
  return values;
}

GenerateConfig config_of(const nlohmann::json& setting) {
  GenerateConfig config;
  config.temperature = setting.value("temperature", 1.0);
  config.top_k = setting.value("top_k", 0);
  config.top_p = setting.value("top_p", 1.0);
  config.min_p = setting.value("min_p", 0.0);
  config.repetition_penalty = setting.value("repetition_penalty", 1.0);
  return config;
}

TEST(Sampler, DrawsFromTransformersDistribution) {
  const Safetensors golden(HONE_SOURCE_DIR "/tests/golden/generate/filters.safetensors");
  const auto settings = nlohmann::json::parse(golden.metadata().at("golden")).at("settings");
  const auto logits = read<float>(golden, "logits");
  const auto history = read<std::int64_t>(golden, "history");
  const std::size_t rows = 6, vocab = logits.size() / rows;
  ASSERT_GE(settings.size(), 20u);
  for (std::size_t s = 0; s < settings.size(); ++s) {
    const auto expected = read<float>(golden, "probabilities." + std::to_string(s));
    for (std::size_t r = 0; r < rows; ++r) {
      Sampler sampler(config_of(settings[s]), static_cast<std::int64_t>(vocab));
      for (std::size_t i = 0; i < history.size() / rows; ++i)
        sampler.seen(static_cast<std::int32_t>(history[r * history.size() / rows + i]));
      std::vector<float> row(logits.begin() + r * vocab, logits.begin() + (r + 1) * vocab);
      std::vector<double> got(vocab, 0.0);
      for (const Candidate& c : sampler.distribution(row)) got[c.id] = c.probability;
      std::vector<double> want(expected.begin() + r * vocab, expected.begin() + (r + 1) * vocab);
      const auto logit = logits.begin() + r * vocab;
      for (std::size_t v = 0; v < vocab; ++v) {
        // Which of equally likely tokens a top-p border keeps is decided by an unstable sort there: their number counts.
        if (std::count(logit, logit + vocab, logit[v]) > 1) continue;
        EXPECT_EQ(got[v] > 1e-30, want[v] > 1e-30) << settings[s] << " row " << r << " id " << v;
        EXPECT_NEAR(got[v], want[v], 2e-6) << settings[s] << " row " << r << " id " << v;
      }
      std::sort(got.begin(), got.end());
      std::sort(want.begin(), want.end());
      for (std::size_t v = 0; v < vocab; ++v) EXPECT_NEAR(got[v], want[v], 2e-6) << settings[s] << " row " << r;
    }
  }
}

TEST(Sampler, IsGreedyAtTemperatureZeroAndTakesTheLowestOfEqualTokens) {
  Sampler sampler(GenerateConfig{}, 4);
  std::vector<float> logits = {1, 3, 3, 2};
  EXPECT_EQ(sampler.choose(logits, 0.99), 1);
}

TEST(Sampler, ReachesEveryCandidateWithItsShare) {
  GenerateConfig config;
  config.temperature = 1;
  Sampler sampler(config, 3);
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  std::vector<int> count(3);
  for (int i = 0; i < 1000; ++i) {
    std::vector<float> copy = logits;
    ++count[sampler.choose(copy, (i + 0.5) / 1000)];
  }
  EXPECT_EQ(count, (std::vector<int>{500, 300, 200}));
}

}  // namespace
}  // namespace hone::generate
