// Copies of checkpoints as runs of their own: killed, beside another process, among somebody else's files.
#include "cli/checkpoint_place.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "harness/errors.h"
#include "io/faulty_env.h"
#include "io/manifest.h"
#include "io/run_folder.h"
#include "train/support.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;
using test::FaultyEnv;

class Forks : public test::WithFastFolder {
 protected:
  Forks() { train(test::small_recipe(folder_, {{"trainer.steps", "4"}}), test::quiet_options()); }

  CheckpointPlace place() const { return checkpoint_place((folder_ / "run").string(), /*verified=*/false); }
  // What a copy has of it, and nothing else of a checkpoint.
  void expect_whole(const fs::path& run) const {
    const io::Checkpoints checkpoints(Env::process().open_folder(run / "checkpoints"));
    EXPECT_EQ(checkpoints.folder().list(), std::vector<std::string>{place().folder.filename()}) << run;
    EXPECT_EQ(checkpoints.at(place().step).problems, std::vector<std::string>()) << run;
  }
};

TEST_F(Forks, KilledAnywhereAreMadeByTheSameCommand) {
  const CheckpointPlace from = place();
  int at = 0, ended = -SIGKILL, made = 0;
  while (ended != 0) {
    const fs::path run = folder_ / fmt::format("fork-{}", ++at);
    ended = test::in_child(
        [&](const auto&) {
          FaultyEnv env(FaultyEnv::Fault::kill, at);
          copy_into_run(from, run, env);
        },
        nullptr);
    ASSERT_TRUE(ended == 0 || ended == -SIGKILL) << at;
    if (!fs::exists(run / "checkpoints" / from.folder.filename())) copy_into_run(from, run), ++made;
    expect_whole(run);
    EXPECT_EQ(io::RunFolder(Env::process(), run).checkpoints().newest()->step, from.step);
  }
  EXPECT_GT(made, 50);  // operations before the checkpoint is in place
}

// It begins when the folder has been looked at and is not yet taken.
TEST_F(Forks, LeaveARunThatAnotherProcessBegins) {
  struct Late : Env {
    std::function<void()> other;
    int before(Operation& operation) override {
      if (operation.kind == Operation::Kind::lock && other) std::exchange(other, nullptr)();
      return 0;
    }
  } env;
  const fs::path run = folder_ / "fork";
  std::unique_ptr<io::RunFolder> theirs;
  env.other = [&] {
    theirs = std::make_unique<io::RunFolder>(Env::process(), run);
    theirs->write_config("theirs: 1\n");
  };
  EXPECT_HONE_ERROR(copy_into_run(place(), run, env), locked, "locked by");
  EXPECT_EQ(theirs->config(), "theirs: 1\n");
  theirs->check_owner();
  theirs.reset();
  EXPECT_HONE_ERROR(copy_into_run(place(), run), usage, "there is something already");
  EXPECT_EQ(io::RunFolder(Env::process(), run).config(), "theirs: 1\n");
}

TEST_F(Forks, AreNotMadeAmongOtherFiles) {
  const fs::path mine = folder_.write("fork/mine.txt", "precious");
  EXPECT_HONE_ERROR(copy_into_run(place(), folder_ / "fork"), usage, "there is something already");
  EXPECT_EQ(test::read_text(mine), "precious");
  EXPECT_EQ(Env::process().open_folder(folder_ / "fork").list(), std::vector<std::string>{"mine.txt"});
}

// As those are that were made safe by chmod.
TEST_F(Forks, OfFoldersThatCannotBeWrittenCanBe) {
  const CheckpointPlace from = place();
  fs::permissions(from.folder, fs::perms::owner_read | fs::perms::owner_exec);
  const fs::path run = folder_ / "fork";
  copy_into_run(from, run);
  expect_whole(run);
  EXPECT_NE(fs::status(run / "checkpoints" / from.folder.filename()).permissions() & fs::perms::owner_write,
            fs::perms::none);
  fs::permissions(from.folder, fs::perms::owner_all);
}

}  // namespace
}  // namespace hone::cli
