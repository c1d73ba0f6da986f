// What a run does to its checkpoints, to be broken at every operation, and what must hold after whatever happened.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/threads.h"
#include "io/checkpoints.h"
#include "io/faulty_env.h"
#include "io/metrics_file.h"
#include "io/run_folder.h"
#include "io/safetensors_writer.h"

namespace hone::test {

using Say = std::function<void(std::int64_t)>;

// Says each step once it is committed.
struct Scenario {
  std::string name;
  std::vector<std::int64_t> before;  // steps saved without a fault
  std::function<void(const Folder& checkpoints, const Say&)> work;
  std::int64_t last;  // newest step afterwards
};

// As several ranks write: a file that has its whole length, parts of it by two writers in turn.
inline void save_together(const Folder& checkpoints, std::int64_t step) {
  const auto save = io::Checkpoints(checkpoints).start_save(step, {.run_id = "test", .replace = true, .fence = {}});
  save->add_file("config.json", "{}\n");
  const io::SafetensorsPlan plan("model.safetensors", {{"a", "F32", {8, 4}}, {"b", "F32", {6}}}, {});
  io::make_safetensors(save->folder(), plan);
  std::vector<io::WrittenChunk> chunks;
  {
    io::SafetensorsWriter first(save->folder(), plan), second(save->folder(), plan);
    for (std::size_t tensor = 0; tensor < 2; ++tensor) {
      const io::TensorSpec& spec = plan.layout()[tensor];
      const std::vector<std::byte> bytes = toy_bytes(spec, step);
      const std::size_t half = bytes.size() / 2;
      first.write(tensor, 0, std::span(bytes).first(half));
      second.write(tensor, half, std::span(bytes).subspan(half));
    }
    for (io::SafetensorsWriter* writer : {&first, &second})
      for (const io::WrittenChunk& chunk : writer->finish()) chunks.push_back(chunk);
  }
  for (const io::WrittenChunk& chunk : chunks) io::check_written(save->folder(), plan, chunk);
  save->note(io::manifest_entry("model.safetensors", plan, chunks));
  io::Manifest manifest;
  manifest.step = step;
  manifest.world = 2;
  save->commit(manifest);
}

// A run from its start to its end, in the folder that holds `checkpoints`: lock, notes, recipe, numbers, links.
inline void run_in(const Folder& checkpoints, const Say& say, int size) {
  io::RunFolder run(checkpoints.env(), checkpoints.path().parent_path());
  run.write_config("steps: 20\n");
  const auto newest = run.checkpoints().newest();
  io::MetricsFile metrics(run.folder());
  metrics.keep_up_to(newest ? newest->step : 0);
  for (std::int64_t step = newest ? newest->step + 10 : 10; step <= 20; step += 10) {
    metrics.append({{"step", step}});
    save_toy(run.checkpoints().folder(), step, true, size);
    say(step);
    run.note_checkpoint();
    run.link("latest", io::step_name(step));
    run.checkpoints().retain(1);
  }
}

// size: shards of each checkpoint.
inline std::vector<Scenario> scenarios(int size = 2) {
  // Replacing, as training saves: after a kill between commit and the next step it may come to the same step again.
  const auto save = [size](std::int64_t step) {
    return [=](const Folder& folder, const Say& say) {
      io::Checkpoints(folder).clean();
      save_toy(folder, step, true, size);
      say(step);
    };
  };
  // One after the other, each with what a save brings with it.
  const auto saves = [size](std::vector<std::int64_t> steps, std::int64_t keep) {
    return [=](const Folder& folder, const Say& say) {
      io::Checkpoints(folder).clean();
      for (const std::int64_t step : steps) {
        save_toy(folder, step, true, size);
        say(step);
        io::Checkpoints(folder).retain(keep);
      }
    };
  };
  return {{"the first save", {}, save(10), 10},
          {"a second save", {10}, save(20), 20},
          {"the same step again", {10, 20}, save(20), 20},
          {"the same only step again", {10}, save(10), 10},
          {"a save with retention", {10, 20, 30}, saves({40}, 1), 40},
          {"a save and the link",
           {10},
           [save](const Folder& folder, const Say& say) {
             save(20)(folder, say);
             folder.replace_link("latest", io::step_name(20));
           },
           20},
          {"three saves", {}, saves({10, 20, 30}, 2), 30},
          {"a save beside training",
           {10},
           [size](const Folder& folder, const Say& say) {
             io::Checkpoints(folder).clean();
             Worker worker("save", [&] { save_toy(folder, 20, true, size); });
             worker.join();
             say(20);
             io::Checkpoints(folder).retain(1);
           },
           20},
          {"a save by two",
           {10},
           [](const Folder& folder, const Say& say) {
             io::Checkpoints(folder).clean();
             save_together(folder, 20);
             say(20);
           },
           20},
          {"a whole run", {}, [size](const Folder& folder, const Say& say) { run_in(folder, say, size); }, 20},
          {"the rest of a run", {10}, [size](const Folder& folder, const Say& say) { run_in(folder, say, size); }, 20}};
}

// Where scenarios are played, one after the other.
class ScenarioFolder {
 public:
  explicit ScenarioFolder(std::filesystem::path root) : root_(std::move(root)) {}

  // A fresh checkpoints folder with the scenario's steps in it: copies of some that were made once.
  std::filesystem::path prepare(const Scenario& scenario, int size = 2) const {
    namespace fs = std::filesystem;
    std::string name = fmt::format("made-{}", size);
    for (const std::int64_t step : scenario.before) name += fmt::format("-{}", step);
    if (!fs::exists(root_ / name)) {
      const Folder folder = Env::process().make_folders(root_ / name);
      for (const std::int64_t step : scenario.before) save_toy(folder, step, false, size);
    }
    const fs::path path = root_ / "run/checkpoints";
    fs::remove_all(root_ / "run");
    fs::create_directory(root_ / "run");
    fs::copy(root_ / name, path, fs::copy_options::recursive);
    return path;
  }
  static int operations(const Scenario& scenario, const std::filesystem::path& path) {
    FaultyEnv env;
    scenario.work(env.open_folder(path), [](std::int64_t) {});
    return env.count();
  }
  // Everything a restarted run relies on, whatever happened before.
  static void expect_recovers(const Scenario& scenario, const std::filesystem::path& path, std::int64_t acknowledged) {
    const Folder folder = Env::process().open_folder(path);
    const io::Checkpoints checkpoints(folder);
    checkpoints.clean();
    for (const std::string& name : folder.list())
      EXPECT_FALSE(name.starts_with(".tmp-") || name.starts_with(".trash-")) << name;
    for (const io::Checkpoint& one : checkpoints.scan(io::Verify::full))
      EXPECT_TRUE(one.whole()) << one.name << ": " << one.problems[0];
    const auto newest = checkpoints.newest();
    EXPECT_GE(newest ? newest->step : 0, acknowledged);
    scenario.work(folder, [](std::int64_t) {});  // the same command again, without a hand
    EXPECT_EQ(checkpoints.newest()->step, scenario.last);
  }
  static std::int64_t acknowledged(const Scenario& scenario, const std::vector<std::int64_t>& said) {
    std::int64_t newest = scenario.before.empty() ? 0 : scenario.before.back();
    for (const std::int64_t step : said) newest = std::max(newest, step);
    return newest;
  }
  // Kills a process that does the scenario at its operation `at`; false: something is lost.
  bool survives_kill(const Scenario& scenario, int at, int size) const {
    const std::filesystem::path path = prepare(scenario, size);
    std::vector<std::int64_t> said;
    const int ended = in_child(
        [&](const Say& say) {
          FaultyEnv env(FaultyEnv::Fault::kill, at);
          scenario.work(env.open_folder(path), say);
        },
        &said);
    EXPECT_EQ(ended, -SIGKILL);
    expect_recovers(scenario, path, acknowledged(scenario, said));
    return !testing::Test::HasFailure();
  }

 private:
  std::filesystem::path root_;
};

// A test that has scenarios worked off in memory.
class WithScenarios : public WithFastFolder {
 protected:
  Quiet quiet_;
  ScenarioFolder place_{folder_.path()};
};

}  // namespace hone::test
