// The program's name, for commands that are to be copied.
#include "base/program_words.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(ProgramWords, HaveThePlugInsThatWereLoaded) {
  EXPECT_EQ(program_words(), "hone");
  remember_plugins({"build/mine.so", "with blank.so"});
  EXPECT_EQ(program_words(), "hone --plugin build/mine.so --plugin 'with blank.so'");
  remember_plugins({});
  EXPECT_EQ(program_words(), "hone");
}

}  // namespace
}  // namespace hone
