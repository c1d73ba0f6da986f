// Random histories of commits, half saves, damage, pins, best ones and clean-ups: the newest whole one stays, and so
// does what must not go.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <set>

#include "harness/scale.h"
#include "io/faulty_env.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;

class Histories : public test::WithFastFolder {
 protected:
  Histories() : checkpoints_(Env::process().make_folders(folder_ / "c")) {}

  void commit(std::int64_t step, bool finite = true) const {
    const auto save = checkpoints_.start_save(step, {.run_id = "test", .replace = true, .fence = {}});
    save->add_file("config.json", "{}");
    Manifest manifest;
    manifest.step = step;
    manifest.finite = finite;
    save->commit(manifest);
  }
  std::string name(std::int64_t step) const { return "c/" + step_name(step); }
  // What a run does next, or what happens to it.
  void happen(std::int64_t step) {
    switch (random_() % 8) {
      case 0:
        return void(folder_.write("c/.tmp-" + step_name(step) + "-x/config.json", "{}"));  // a save that is killed
      case 1:  // a removal that is killed
        return void(folder_.write("c/.trash-" + step_name(step) + "-0/config.json", "{}"));
      case 2:  // one that is damaged, and found so by its length
        commit(step);
        return fs::resize_file(folder_ / name(step) / "config.json", 1);
      case 3:  // its manifest is gone
        commit(step);
        return void(fs::remove(folder_ / name(step) / "MANIFEST.json"));
      case 4:
        return commit(step, /*finite=*/false);
      case 5:  // a resume: it stays from then on
        if (!whole_.empty()) pinned_.insert(*whole_.rbegin());
        [[fallthrough]];
      default:
        commit(step);
        whole_.insert(step);
        if (random_() % 3 == 0) best_ = step;
        std::set<std::int64_t> stay = pinned_;
        if (best_ > 0) stay.insert(best_);
        for (const std::int64_t gone : checkpoints_.retain(static_cast<std::int64_t>(random_() % 4), stay))
          ASSERT_EQ(whole_.erase(gone), 1u);
    }
  }
  void play() {
    for (const std::string& entry : checkpoints_.folder().list()) fs::remove_all(folder_ / "c" / entry);
    whole_.clear(), pinned_.clear(), best_ = 0;
    for (std::int64_t step = 1; step <= 8; ++step) {
      ASSERT_NO_FATAL_FAILURE(happen(step));
      if (random_() % 3 == 0) checkpoints_.clean();
    }
    if (whole_.empty()) return;
    ASSERT_EQ(checkpoints_.newest()->step, *whole_.rbegin());
    for (const std::int64_t one : pinned_) ASSERT_TRUE(checkpoints_.at(one).whole());
    if (best_ > 0) {
      ASSERT_TRUE(checkpoints_.at(best_).whole());
    }
  }

  const test::Quiet quiet_;
  Checkpoints checkpoints_;
  std::mt19937 random_{5};
  std::set<std::int64_t> whole_, pinned_;
  std::int64_t best_ = 0;  // 0: none
};

TEST_F(Histories, KeepTheNewestWholeOneTheBestAndThePinned) {
  const int histories = test::scaled(1500 / test::kSlowness, 100000);
  for (int history = 0; history < histories; ++history) {
    SCOPED_TRACE(history);
    ASSERT_NO_FATAL_FAILURE(play());
  }
  std::printf("%d histories\n", histories);
}

}  // namespace
}  // namespace hone::io
