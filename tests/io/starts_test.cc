// Many processes that start in one run folder at once: one owns it, and a killed owner keeps nobody out.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "harness/scale.h"
#include "io/faulty_env.h"
#include "io/run_folder.h"

namespace hone::io {
namespace {

// What the processes of one round count together.
struct Shared {
  std::atomic<int> ready, owners, locked, others, ended;
};

class Starts : public test::WithFastFolder {
 protected:
  Starts() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    shared_ = static_cast<Shared*>(memory);
  }
  ~Starts() override { munmap(shared_, sizeof(Shared)); }

  // All of them wait for each other, start, and who owns the folder keeps it until all have tried.
  void start(int processes, const std::filesystem::path& path) {
    shared_->ready = shared_->owners = shared_->locked = shared_->others = shared_->ended = 0;
    for (int i = 0; i < processes; ++i)
      if (fork() == 0) {
        log::set_level(log::Level::silent);
        for (++shared_->ready; shared_->ready < processes;) usleep(100);
        try {
          const RunFolder run(Env::process(), path);
          ++shared_->owners;
          for (++shared_->ended; shared_->ended < processes;) usleep(500);
          ::kill(::getpid(), SIGKILL);  // an owner's last moment may be anything
        } catch (const Error& error) {
          ++(error.kind() == ErrorKind::locked ? shared_->locked : shared_->others);
          ++shared_->ended;
        }
        ::_exit(0);
      }
    while (wait(nullptr) > 0) {
    }
    EXPECT_EQ(shared_->owners, 1);
    EXPECT_EQ(shared_->others, 0);
    EXPECT_EQ(shared_->locked, processes - 1);
  }
  Shared* shared_;
};

// The pairs start where nothing is, and where a killed owner was.
TEST_F(Starts, OfAPairHaveOneOwner) {
  const int rounds = test::scaled(150, 1000);
  for (int round = 0; round < rounds && !HasFailure(); ++round)
    start(2, folder_ / ("run-" + std::to_string(round / 2)));
  std::printf("%d pairs\n", rounds);
}

TEST_F(Starts, OfManyAtOnceHaveOneOwner) {
  const int processes = test::scaled(100, 1000);
  start(processes, folder_ / "many");
  std::printf("%d at once\n", processes);
}

}  // namespace
}  // namespace hone::io
