// Goldens of pictures: files, and what the reference makes of them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "harness/files.h"
#include "hone/safetensors.h"
#include "images/picture.h"

namespace hone::images {

inline std::filesystem::path images_golden(const std::string& name) { return test::golden("images/" + name); }
inline std::string picture_file(const std::string& name) { return test::content_of(images_golden("files/" + name)); }

template <class T>
std::vector<T> values_of(const Safetensors& file, const TensorInfo& tensor) {
  std::vector<T> values(tensor.bytes() / sizeof(T));
  file.read(tensor, std::as_writable_bytes(std::span(values)));
  return values;
}

// Every byte; the worst one is named.
inline void expect_picture(const Picture& got, const std::vector<std::int64_t>& shape,
                           const std::vector<std::uint8_t>& expected) {
  ASSERT_EQ((std::vector<std::int64_t>{got.height(), got.width(), 3}), shape);
  int worst = 0;
  std::size_t at = 0, wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const int away = std::abs(int{got.row(0)[i]} - int{expected[i]});
    wrong += away != 0;
    if (away > worst) worst = away, at = i;
  }
  const auto width = static_cast<std::size_t>(got.width());
  EXPECT_EQ(worst, 0) << wrong << " of " << expected.size() << " bytes; the worst at row " << at / 3 / width
                      << ", column " << at / 3 % width << ", colour " << at % 3 << ": got " << int{got.row(0)[at]}
                      << ", expected " << int{expected[at]};
}

}  // namespace hone::images
