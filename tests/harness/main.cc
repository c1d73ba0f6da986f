// main of every test program: GoogleTest, plus --file=tests/io/json_test.cc, which runs the tests of one source file.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

constexpr int kAllSkipped = 77;  // ctest's SKIP_RETURN_CODE

// The --gtest_filter that names every test whose source file ends with `file`.
std::string filter_of(std::string_view file) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string filter;
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (std::string_view(test.file()).ends_with(file))
        filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (!flag.starts_with("--file=")) continue;
    const std::string filter = filter_of(flag.substr(7));
    if (filter.empty()) {
      std::fprintf(stderr, "%s: holds no test\n", argv[i] + 7);
      return 1;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  const int status = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  const bool all_skipped = all.test_to_run_count() > 0 && all.skipped_test_count() == all.test_to_run_count();
  return status == 0 && all_skipped ? kAllSkipped : status;
}
