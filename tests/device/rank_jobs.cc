// Jobs are recipes in a folder, one after another.
#include "device/rank_jobs.h"

#include <cstdlib>
#include <fstream>

#include "device/pretend_device.h"
#include "device/pretend_exchange.h"
#include "dist/launcher.h"
#include "dist/session.h"
#include "hone/config.h"
#include "ops/backend.h"
#include "train/bench.h"
#include "train/placement.h"

namespace hone::test {
namespace {

constexpr const char* kJobs = "HONE_TEST_JOBS";

void write_file(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

std::vector<std::filesystem::path> recipes_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".yaml") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

// As of one process (train_test.cc).
double waits_of_a_step(const Recipe& recipe, const World& world) {
  const auto waits = [&](std::int64_t steps) {
    const std::int64_t before = pretend_waits();
    training::bench(recipe, {.warmup = 1, .steps = steps, .world = world});
    return pretend_waits() - before;
  };
  const std::int64_t few = waits(3), more = waits(5);
  return static_cast<double>(more - few) / 4;  // each is made twice
}

void do_job(const std::filesystem::path& file, const World& world) {
  const Recipe recipe = read_recipe(file.string());
  const std::string name = file.stem().string();
  training::settle_on_device(recipe, world);  // a first sum is read
  world.among(static_cast<int>(recipe.parallel.context));  // and one of a group, which stays
  if (name.find("waits") != std::string::npos)
    return write_file(fmt::format("{}.{}", file.string(), world.rank()),
                      fmt::format("{}", waits_of_a_step(recipe, world)));
  std::optional<ops::BackendScope> plain;
  if (recipe.trainer.device == "cpu") plain.emplace(ops::reference_backend());
  TrainOptions options = quiet_options();
  options.world = world, options.handle_signals = false;
  if (name.ends_with("-resumed")) options.resume = "4";
  train(recipe, options);
}

// What a rank is started for. By itself there is nothing to do.
TEST(ARank, DoesItsJobs) {
  const char* folder = std::getenv(kJobs);
  if (!folder) GTEST_SKIP() << "other tests start it";
  use_pretend_device();
  use_pretend_exchange();
  const std::unique_ptr<dist::Session> session = dist::Session::join();
  ASSERT_TRUE(session);
  try {
    for (const auto& file : recipes_in(folder)) do_job(file, session->world());
  } catch (const Error& error) {
    write_file(std::filesystem::path(folder) / fmt::format("error.{}", session->world().rank()), error.what());
    std::_Exit(1);
  }
}

}  // namespace

RankJobs::RankJobs() { std::filesystem::create_directories(jobs()); }

void RankJobs::add(const std::string& name, const std::string& device, Overrides overrides) {
  overrides.insert(overrides.begin(), {{"trainer.batch_size", "2"}, {"trainer.accumulate", "4"}});
  overrides.insert(overrides.end(), {{"run.folder", (folder_ / name).string()}, {"trainer.device", device}});
  const std::string file = fmt::format("{:02}-{}{}", count_++, name, done_.insert(name).second ? "" : "-resumed");
  write_file(jobs() / (file + ".yaml"), config::to_yaml(write_recipe(small_recipe(folder_, overrides))));
  file_of_[name] = file;
}

int RankJobs::start(int ranks) {
  dist::LaunchOptions options;
  options.ranks = ranks;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_filter=ARank.DoesItsJobs",
                     "--gtest_brief=1"};
  ::setenv(kJobs, jobs().c_str(), 1);
  const int code = dist::launch(options);
  ::unsetenv(kJobs);
  return code;
}

double RankJobs::waits(const std::string& name, int rank) const {
  return std::stod(read_text(jobs() / fmt::format("{}.yaml.{}", file_of_.at(name), rank)));
}

std::string RankJobs::fails(int ranks, const std::string& device, const Overrides& overrides) {
  std::filesystem::remove_all(jobs());
  std::filesystem::create_directories(jobs());
  add("none", device, overrides);
  EXPECT_NE(start(ranks), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
  std::string all;
  for (int rank = 0; rank < ranks; ++rank) all += read_text(jobs() / fmt::format("error.{}", rank)) + "\n";
  return all;
}

}  // namespace hone::test
