// Whether a run on a device has given the numbers of one on the host.
#pragma once

#include <gtest/gtest.h>

#include "train/support.h"

namespace hone::test {

// The entropy of experts' shares is the C library's logarithm on the host and LibTorch's on a device.
inline void expect_same_metrics(const std::filesystem::path& host, const std::filesystem::path& device) {
  const std::vector<std::string> ours = fixed_metrics_of(host), theirs = fixed_metrics_of(device);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    auto one = nlohmann::json::parse(ours[i]), other = nlohmann::json::parse(theirs[i]);
    const char* entropy = "router/entropy";
    ASSERT_EQ(one.contains(entropy), other.contains(entropy));
    if (one.contains(entropy)) {
      EXPECT_NEAR(one[entropy].get<double>(), other[entropy].get<double>(), 1e-14);
      one.erase(entropy), other.erase(entropy);
    }
    EXPECT_EQ(one, other);
  }
}

// The log, and the tensors of a step's checkpoint, bit for bit.
inline void expect_same_numbers(const std::filesystem::path& host, const std::filesystem::path& device,
                                std::int64_t step) {
  expect_same_metrics(host, device);
  std::size_t compared = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(host / step_folder(step))) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto other = device / std::filesystem::relative(entry.path(), host);
    EXPECT_TRUE(read_text(entry.path()) == read_text(other)) << entry.path().filename();
    ++compared;
  }
  EXPECT_GE(compared, 2u);  // weights and the optimizer's state
}

}  // namespace hone::test
