// From what a command throws to an exit code.
#include "cli/program.h"

#include <gtest/gtest.h>

#include "hone/config_read.h"
#include "hone/registry.h"

namespace hone::cli {
namespace {

class ThrowsANumber final : public Command {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit ThrowsANumber(const Config&) {}
  Usage usage() const override { return {}; }
  int run(const Invocation&) override { throw 42; }
};

TEST(Program, EndsInOrderWhateverIsThrown) {
  registries().commands.add<ThrowsANumber>("throws-a-number", "What no program should throw.");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_program({"throws-a-number"}), static_cast<int>(ErrorKind::bug));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: unexpected: what was thrown is no std::exception; it may come from a plug-in, which should throw "
            "hone::Error\n");
}

}  // namespace
}  // namespace hone::cli
