// Files for tests: a temporary folder that is removed afterwards, committed goldens, and the real data of
// HONE_TEST_DATA.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace hone::test {

// An empty folder that lives as long as this object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hone-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  // Writes a file below the folder, making folders on the way; returns its path.
  std::filesystem::path write(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return path;
  }

 private:
  std::filesystem::path path_;
};

// A fixture with a temporary folder of its own: class Manifest : public hone::test::WithFolder {};
class WithFolder : public ::testing::Test {
 protected:
  TempFolder folder_;
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A committed file below tests/golden.
inline std::filesystem::path golden(std::string_view name) {
  return std::filesystem::path(HONE_SOURCE_DIR) / "tests/golden" / name;
}

// A file or folder of the real test data; nothing when HONE_TEST_DATA is not set. See HONE_NEEDS_DATA.
inline std::optional<std::filesystem::path> test_data(std::string_view name) {
  const char* root = std::getenv("HONE_TEST_DATA");
  if (root == nullptr || *root == '\0') return std::nullopt;
  return std::filesystem::path(root) / name;
}

}  // namespace hone::test

// Declares `variable`, the path of real test data, or skips the test: HONE_NEEDS_DATA(model, "models/stories260K");
#define HONE_NEEDS_DATA(variable, name)                                                      \
  const auto maybe_##variable = ::hone::test::test_data(name);                               \
  if (!maybe_##variable) GTEST_SKIP() << "HONE_TEST_DATA is not set; needs " << (name);      \
  const std::filesystem::path& variable = *maybe_##variable;                                 \
  ASSERT_TRUE(std::filesystem::exists(variable)) << variable << " is not in HONE_TEST_DATA"
