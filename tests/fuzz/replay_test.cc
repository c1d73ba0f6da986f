// Every fuzz target on its seeds, and on seeds that are damaged in some thousand ways.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "fuzz/fuzz.h"
#include "harness/cpu_time.h"
#include "harness/files.h"

namespace hone::fuzz {
namespace {

namespace fs = std::filesystem;

class Replay : public testing::TestWithParam<std::string> {
 protected:
  std::vector<fs::path> seeds() const {
    std::vector<fs::path> all;
    const fs::path folder = fs::path(HONE_SOURCE_DIR) / "tests/fuzz" / GetParam();
    if (fs::is_directory(folder))
      for (const auto& entry : fs::directory_iterator(folder)) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }
  void check(const std::string& input, const std::string& what) const {
    SCOPED_TRACE(what);
    EXPECT_LT(test::cpu_seconds_of([&] { EXPECT_NO_THROW(run(targets().at(GetParam()), input)); }), 5);
  }
};

// As a fuzzer does it: flips a bit, cuts, repeats, or puts in a byte that means something.
std::string damaged(std::string text, std::mt19937& random) {
  for (unsigned n = 1 + random() % 4; n-- > 0;) {
    const std::size_t at = text.empty() ? 0 : random() % text.size(), length = random() % 20;
    switch (random() % 5) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(at, 1, "\"\\\n\r\t,:{}[]&*!-0\0\xff"[random() % 18]);
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

TEST_P(Replay, AnswersEverySeed) {
  ASSERT_FALSE(seeds().empty()) << "tests/fuzz/" << GetParam() << " holds no seeds";
  check("", "nothing");
  for (const fs::path& seed : seeds()) check(test::content_of(seed), seed.string());
}

TEST_P(Replay, AnswersDamagedSeeds) {
  std::mt19937 random(1);
  for (const fs::path& seed : seeds()) {
    const std::string good = test::content_of(seed);
    for (int i = 0; i < 150 && !HasFailure(); ++i)
      check(damaged(good, random), seed.string() + ", damage " + std::to_string(i));
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, target] : targets()) all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, testing::ValuesIn(names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hone::fuzz
