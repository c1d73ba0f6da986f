// The sampler's distribution against transformers' logits processors (tools/golden/golden_generate.py).
#include "generate/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
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
        // Which of equally likely tokens a top-p border keeps is decided by an unstable sort there: their number
        // counts.
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

// choose() sorts no more of the candidates than it needs: the token is that of the whole sorted list.
TEST(Sampler, ChoosesWhatTheWholeDistributionSays) {
  constexpr std::size_t kVocab = 5000;
  std::vector<float> logits(kVocab);
  for (std::size_t i = 0; i < kVocab; ++i)
    logits[i] = std::sin(static_cast<float>(i * i % 977)) * 3;  // with equal ones
  const auto config_with = [](double temperature, std::int64_t top_k, double top_p, double min_p) {
    GenerateConfig config;
    config.temperature = temperature, config.top_k = top_k, config.top_p = top_p, config.min_p = min_p;
    return config;
  };
  for (const GenerateConfig& config : {config_with(1, 0, 1, 0), config_with(0.3, 50, 1, 0), config_with(2, 700, 0.9, 0),
                                       config_with(1, 0, 0.8, 0.1), config_with(1, 0, 1, 0.3)}) {
    Sampler sampler(config, kVocab);
    std::vector<float> copy = logits;
    std::vector<Candidate> all = sampler.distribution(copy);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      return a.probability != b.probability ? a.probability > b.probability : a.id > b.id;
    }));
    if (all.size() == kVocab)  // then they are gone through by ids
      std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
    for (double uniform = 0; uniform < 1; uniform += 0.0101) {
      double sum = 0;
      std::int32_t expected = all.back().id;
      for (const Candidate& c : all)
        if ((sum += c.probability) > uniform) {
          expected = c.id;
          break;
        }
      copy = logits;
      EXPECT_EQ(sampler.choose(copy, uniform), expected) << config.top_k << " " << config.top_p << " " << uniform;
    }
  }
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

// With equal ones, as in bf16; beyond the highest ones there may be more of them.
TEST(Sampler, ChoosesTheSameAmongTheHighest) {
  constexpr std::size_t kVocab = 500;
  std::vector<float> logits(kVocab);
  for (std::size_t i = 0; i < kVocab; ++i)
    logits[i] = std::round(std::sin(static_cast<float>(i * i % 977)) * 40) / 8;
  std::vector<std::int64_t> ids(kVocab);
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
  std::vector<float> highest;
  for (const std::int64_t id : ids) highest.push_back(logits[id]);
  int chosen = 0, left_open = 0;
  for (const std::int64_t top_k : {1, 3, 20, 60})
    for (const double top_p : {0.5, 1.0})
      for (const double min_p : {0.0, 0.2})
        for (const std::size_t given : {std::size_t{62}, kVocab}) {
          GenerateConfig config;
          config.temperature = 0.7, config.top_k = top_k, config.top_p = top_p, config.min_p = min_p;
          Sampler sampler(config, kVocab), other(config, kVocab);
          ASSERT_EQ(sampler.highest_needed(), top_k);
          for (double uniform = 0; uniform < 1; uniform += 0.05) {
            std::vector<float> copy = logits;
            const std::int32_t expected = sampler.choose(copy, uniform);
            const auto got = other.choose_among(std::span(highest).first(given), std::span(ids).first(given), uniform);
            got ? ++chosen : ++left_open;
            if (got) {
              EXPECT_EQ(*got, expected) << top_k << " " << top_p << " " << min_p << " " << uniform;
            }
            if (given == kVocab) {
              EXPECT_TRUE(got);
            }
          }
        }
  EXPECT_GT(chosen, 500);
  EXPECT_GT(left_open, 0);
}
// Divided by such a temperature logits are infinite, or no numbers: what is meant is its limit.
TEST(Sampler, TakesTheLikeliestAtTemperaturesNextToNothing) {
  const std::vector<float> logits = {-300, 30, 40, 40, 2}, negative = {-9, -3, -1, -1.5, -2};
  const std::vector<float> highest = {40, 40, 30};
  const std::vector<std::int64_t> ids = {3, 2, 1};
  for (const double temperature : {1e-37, 1e-38, 1e-40, 1e-45, 1e-60, 1e-320}) {
    GenerateConfig config;
    config.temperature = temperature;
    config.top_k = 2;
    for (const double uniform : {0.0, 0.5, 0.99}) {
      Sampler sampler(config, 5);
      std::vector<float> copy = logits, below = negative;
      EXPECT_EQ(sampler.choose(copy, uniform), 2) << temperature;
      EXPECT_EQ(sampler.choose(below, uniform), 2) << temperature;
      EXPECT_EQ(sampler.choose_among(highest, ids, uniform), 2) << temperature;
      EXPECT_EQ(sampler.choose_among(std::span(highest).first(2), std::span(ids).first(2), uniform), std::nullopt);
    }
    std::vector<float> copy = logits;
    Sampler sampler(config, 5);
    const std::vector<Candidate> all = sampler.distribution(copy);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].id, 2);
    EXPECT_EQ(all[0].probability, 1);
  }
}

TEST(Sampler, SaysWhenItNeedsAllLogits) {
  GenerateConfig config;
  config.temperature = 1;
  EXPECT_EQ(Sampler(config, 100).highest_needed(), 0);
  config.top_k = 100;
  EXPECT_EQ(Sampler(config, 100).highest_needed(), 0);
  config.top_k = 7;
  EXPECT_EQ(Sampler(config, 100).highest_needed(), 7);
  config.repetition_penalty = 1.1;
  EXPECT_EQ(Sampler(config, 100).highest_needed(), 0);
  config.repetition_penalty = 1, config.temperature = 0;
  EXPECT_EQ(Sampler(config, 100).highest_needed(), 0);
}

}  // namespace
}  // namespace hone::generate
