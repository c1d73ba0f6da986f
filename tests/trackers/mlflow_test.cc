// Runs in MLflow's file store: files as MLflow's own, resumes, what is removed, deleted or torn, options.
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/log.h"
#include "base/signals.h"
#include "base/strings.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "hone/registry.h"
#include "hone/tracker.h"
#include "io/checkpoints.h"
#include "trackers/mlflow_names.h"

namespace hone {
namespace {

namespace fs = std::filesystem;
using MlflowFiles = std::map<std::string, std::string>;

struct MlflowBegin {
  std::int64_t step = 0;
  bool resumed = true;
};

constexpr const char* kMlflowRecipe = "model: {path: m}\ntrainer: {steps: 4}\n";

// A run folder `run`, and a store beside it.
std::unique_ptr<Tracker> mlflow(const fs::path& folder, MlflowBegin begin, const std::string& options = "",
                                const std::string& run_folder = "run") {
  const auto& trackers = registries().trackers;
  Problems problems;
  const auto chosen = trackers.options("mlflow");
  const std::string store = (folder / "my runs").string();
  chosen->read(config::parse_yaml("{tracking_uri: '" + store + "', " + options + "}", "test", problems), problems, "");
  problems.raise();
  fs::create_directories(folder / run_folder);
  RunInfo run;
  run.folder = (folder / run_folder).string();
  run.config_yaml = kMlflowRecipe;
  run.start_step = begin.step;
  run.resumed = begin.resumed;
  return trackers.make("mlflow", *chosen, run);
}

std::vector<fs::path> mlflow_runs(const fs::path& folder) {
  std::vector<fs::path> runs;
  for (const auto& experiment : fs::directory_iterator(folder / "my runs"))
    for (const auto& run : fs::directory_iterator(experiment))
      if (run.is_directory()) runs.push_back(run.path());
  std::sort(runs.begin(), runs.end());
  return runs;
}

fs::path mlflow_run(const fs::path& folder) {
  const std::vector<fs::path> runs = mlflow_runs(folder);
  EXPECT_EQ(runs.size(), 1u);
  return runs.at(0);
}

MlflowFiles mlflow_files(const fs::path& folder) {
  MlflowFiles files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = test::content_of(entry.path());
  return files;
}

// "loss": "1 2.5, 2 1.5": step and value of each of its points.
MlflowFiles points_of(const fs::path& run) {
  MlflowFiles points;
  for (const auto& [name, text] : mlflow_files(run / "metrics")) {
    std::string& all = points[name];
    for (const std::string& row : split(text.substr(0, text.find_last_not_of('\n') + 1), '\n')) {
      const std::vector<std::string> fields = split(row, ' ');
      EXPECT_EQ(fields.size(), 3u) << name << ": " << row;
      all += (all.empty() ? "" : ", ") + fields.at(2) + " " + fields.at(1);
    }
  }
  return points;
}

std::string meta_of(const fs::path& run, const std::string& name) {
  return trackers::entry_of(test::content_of(run / "meta.yaml"), name).value_or("");
}

const nlohmann::json& golden_mlflow() {
  static const nlohmann::json all = nlohmann::json::parse(test::content_of(test::golden("trackers/mlflow.json")));
  return all;
}

void say_finished(const fs::path& folder, const std::string& finished) {
  const io::Checkpoints checkpoints(Env::process().make_folders(folder / "run/checkpoints"));
  const auto save = checkpoints.start_save(4, {.run_id = "test", .replace = true, .fence = {}});
  save->add_file("state/train.json", nlohmann::json{{"finished", finished}}.dump());
  io::Manifest manifest;
  manifest.step = 4;
  save->commit(std::move(manifest));
}

class MlflowWords {
 public:
  MlflowWords() {
    log::set_sink([this](log::Level level, std::string_view text) {
      if (level >= log::Level::warning) said_.emplace_back(text);
    });
  }
  ~MlflowWords() { log::set_sink({}); }
  const std::vector<std::string>& said() const { return said_; }

 private:
  std::vector<std::string> said_;
};

void limit_mlflow_files(rlim_t bytes) {  // a write beyond it fails with EFBIG
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
  setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(MlflowTracker, ARunHasTheFilesThatMlflowWrites) {
  const test::TempFolder folder;
  setenv("LOGNAME", "someone", 1);
  const double infinite = std::numeric_limits<double>::infinity();
  {
    const auto tracker = mlflow(folder.path(), {.resumed = false},
                                "experiment_name: größe, run_name: 'sft: größe', description: a text, tags: {x: ä b}");
    tracker->log(1, {{"loss", 2.5}, {"step", 1}});
    tracker->log(2, {{"loss", 0.1}, {"rewards/margins", -1e300}, {"grad_norm", infinite}});
    tracker->log(2, {{"loss", 7}, {"eval_loss", -std::nan("")}});  // a number has one point at a step
    tracker->log(3, {{"grad_norm", -infinite}});
    say_finished(folder.path(), "steps");
    tracker->finish();
  }
  const fs::path run = mlflow_run(folder.path());
  const std::regex time("\\b1[0-9]{12}\\b");
  MlflowFiles files;
  for (const auto& [name, text] : mlflow_files(run)) {
    std::string masked = replace_all(text, run.parent_path().filename().string(), "EXPERIMENT");
    masked = replace_all(replace_all(masked, run.filename().string(), "RUN"), trackers::file_uri(folder / "my runs"),
                         "ROOT");
    files[name] = std::regex_replace(masked, time, "1700000000250");
  }
  EXPECT_EQ(files["artifacts/config.yaml"], kMlflowRecipe);
  EXPECT_EQ(files["tags/hone.run_folder"], (folder / "run").string());
  EXPECT_EQ(files["tags/hone.version"], HONE_VERSION);
  for (const char* ours : {"artifacts/config.yaml", "tags/hone.run_folder", "tags/hone.version"}) files.erase(ours);
  const auto golden = golden_mlflow().at("run").get<MlflowFiles>();
  const auto entries = [](const std::string& meta) {
    Problems problems;
    MlflowFiles all;
    const config::Node node = config::parse_yaml(meta, "", problems);
    for (const auto& [name, value] : node.entries()) all[name] = config::to_json(value);
    all.erase("deleted_time");  // MLflow's is there until the run ends
    all.erase("run_uuid");      // which older versions of MLflow ask for
    return all;
  };
  EXPECT_EQ(entries(files["meta.yaml"]), entries(golden.at("meta.yaml")));
  files["meta.yaml"] = golden.at("meta.yaml");
  EXPECT_EQ(files, golden);
}

TEST(MlflowTracker, ExperimentsOfMlflowAreFound) {
  for (const auto& one : golden_mlflow().at("experiments")) {
    const std::string meta = one.at(1), name = one.at(0);
    EXPECT_EQ(trackers::entry_of(meta, "name").value_or("(none)"), name) << meta;
    EXPECT_EQ(trackers::entry_of(trackers::with_entry(meta, "name", "other"), "name"), "other") << meta;
    EXPECT_EQ(trackers::entry_of(trackers::with_entry(meta, "workspace", "other"), "name"), name) << meta;
    EXPECT_EQ(trackers::entry_of("name: " + trackers::meta_string(name), "name"), name);
  }
  const test::TempFolder folder;
  folder.write("my runs/17/meta.yaml", "experiment_id: '17'\nlifecycle_stage: active\nname: 'a: b'\n");
  mlflow(folder.path(), {.resumed = false}, "experiment_name: 'a: b'");
  EXPECT_EQ(mlflow_run(folder.path()).parent_path().filename(), "17");
  EXPECT_TRUE(fs::exists(folder / "my runs/0/meta.yaml"));  // MLflow's default
}

TEST(MlflowTracker, RunsOfAnExperimentAreTogether) {
  const test::TempFolder folder;
  for (const char* run : {"one", "two"})
    for (const char* experiment : {"experiment_name: e", ""})
      mlflow(folder.path(), {.resumed = false}, experiment, run);
  std::map<std::string, int> count;
  for (const fs::path& run : mlflow_runs(folder.path())) count[meta_of(run.parent_path(), "name")] += 1;
  EXPECT_EQ(count, (std::map<std::string, int>{{"Default", 2}, {"e", 2}}));
}

TEST(MlflowTracker, AResumedRunGoesOnBehindItsCheckpoint) {
  const test::TempFolder folder;
  {
    const auto tracker = mlflow(folder.path(), {.resumed = false});
    for (int step = 1; step <= 4; ++step) tracker->log(step, {{"loss", step}, {fmt::format("only_{}", step), 1}});
  }
  const fs::path run = mlflow_run(folder.path());
  const std::string start = meta_of(run, "start_time");
  std::ofstream(run / "metrics/loss", std::ios::app) << "17000";             // killed while it was written
  std::ofstream(run / "metrics/of somebody else") << "1700000000250 1 9\n";  // logged by MLflow's client
  const auto tracker = mlflow(folder.path(), {.step = 2});
  tracker->log(2, {{"loss", 9}, {"eval_loss", 5}});  // an evaluation that is made again
  tracker->log(3, {{"loss", 0.5}});
  EXPECT_EQ(points_of(mlflow_run(folder.path())), (MlflowFiles{{"loss", "1 1, 2 2, 3 0.5"},
                                                               {"eval_loss", "2 5"},
                                                               {"only_1", "1 1"},
                                                               {"only_2", "2 1"},
                                                               {"of somebody else", "9 1"}}));
  EXPECT_EQ(meta_of(run, "status"), "1");
  EXPECT_EQ(meta_of(run, "end_time"), "");
  EXPECT_EQ(meta_of(run, "start_time"), start);
}

// The evaluation at the start, of a process that was killed before its first checkpoint.
TEST(MlflowTracker, ARunThatBeginsAnewHasNoPointOfTheOneBefore) {
  const test::TempFolder folder;
  for (int i = 0; i < 2; ++i) mlflow(folder.path(), {.resumed = false})->log(0, {{"eval_loss", 2.5 + i}});
  EXPECT_EQ(points_of(mlflow_run(folder.path())), (MlflowFiles{{"eval_loss", "0 3.5"}}));
}

TEST(MlflowTracker, ItsStatusIsHowItEnded) {
  const test::TempFolder folder;
  const auto status = [&] { return meta_of(mlflow_run(folder.path()), "status"); };
  {
    const auto tracker = mlflow(folder.path(), {.resumed = false});
    EXPECT_EQ(status(), "1");
    EXPECT_EQ(meta_of(mlflow_run(folder.path()), "end_time"), "");
  }
  EXPECT_EQ(status(), "4");  // an error: finish() is never called
  EXPECT_NE(meta_of(mlflow_run(folder.path()), "end_time"), "");
  {
    const auto tracker = mlflow(folder.path(), {.step = 2});
    say_finished(folder.path(), "");
    tracker->finish();
  }
  EXPECT_EQ(status(), "5");  // stopped: the same command goes on
  for (const char* why : {"steps", "early_stopping"}) {
    const auto tracker = mlflow(folder.path(), {.step = 2});
    EXPECT_EQ(status(), "1");
    say_finished(folder.path(), why);
    tracker->finish();
    EXPECT_EQ(status(), "3");
  }
  const StopSignal signals;
  {
    const auto tracker = mlflow(folder.path(), {.step = 2});
    std::raise(SIGTERM);  // and no checkpoint could be saved
  }
  StopSignal::reset();
  EXPECT_EQ(status(), "5");
}

// What people change in MLflow's pages stays.
TEST(MlflowTracker, ARenamedRunKeepsItsName) {
  const test::TempFolder folder;
  mlflow(folder.path(), {.resumed = false}, "run_name: first");
  const fs::path run = mlflow_run(folder.path());
  EXPECT_EQ(meta_of(run, "run_name"), "first");
  std::ofstream(run / "meta.yaml") << trackers::with_entry(test::content_of(run / "meta.yaml"), "run_name",
                                                           "'of some\n\n  lines'");
  std::ofstream(run / "tags/mlflow.runName") << "of some\nlines";
  mlflow(folder.path(), {.step = 2});
  EXPECT_EQ(meta_of(run, "run_name"), "of some\nlines");
  EXPECT_EQ(test::content_of(run / "tags/mlflow.runName"), "of some\nlines");
  mlflow(folder.path(), {.step = 2}, "run_name: second");
  EXPECT_EQ(meta_of(run, "run_name"), "second");
  EXPECT_EQ(test::content_of(run / "tags/mlflow.runName"), "second");
}

TEST(MlflowTracker, ARunThatWasDeletedOrIsElsewhereIsBegunAnew) {
  const test::TempFolder folder;
  mlflow(folder.path(), {.resumed = false})->log(1, {{"loss", 1}});
  const fs::path first = mlflow_run(folder.path());
  std::ofstream(first / "meta.yaml") << trackers::with_entry(test::content_of(first / "meta.yaml"), "lifecycle_stage",
                                                             "deleted");
  const MlflowFiles before = mlflow_files(first);
  mlflow(folder.path(), {.step = 1})->log(2, {{"loss", 2}});
  EXPECT_EQ(mlflow_files(first), before);
  EXPECT_EQ(mlflow_runs(folder.path()).size(), 2u);
  fs::rename(folder / "my runs", folder / "before");
  mlflow(folder.path(), {.step = 1})->log(2, {{"loss", 2}});
  EXPECT_EQ(points_of(mlflow_run(folder.path())), (MlflowFiles{{"loss", "2 2"}}));
}

TEST(MlflowTracker, ADeletedExperimentIsRefused) {
  for (const char* file : {"my runs/.trash/17/meta.yaml", "my runs/17/meta.yaml"}) {
    const test::TempFolder folder;
    folder.write(file, "experiment_id: '17'\nlifecycle_stage: deleted\nname: e\n");
    EXPECT_HONE_ERROR(mlflow(folder.path(), {}, "experiment_name: e"), config, "was deleted in MLflow");
  }
}

TEST(MlflowTracker, NamesAreAsMlflowTakesThem) {
  EXPECT_EQ(trackers::mlflow_name("rewards/margins"), "rewards/margins");
  EXPECT_EQ(trackers::mlflow_name("a(b)%größe"), "a_b__gr__e");
  EXPECT_EQ(trackers::mlflow_name("/a//b/./../c/"), "_/a/_/b/_/__/c/_");
  EXPECT_EQ(trackers::mlflow_name(""), "_");
  EXPECT_EQ(trackers::mlflow_name(std::string(300, 'x')).size(), 250u);
  const test::TempFolder folder;
  const Metrics metrics{{"a", 1}, {"a/b", 2}, {"a(", 3}, {"a)", 4}, {"c/d", 5}};
  mlflow(folder.path(), {.resumed = false})->log(1, metrics);
  mlflow(folder.path(), {.step = 1})->log(2, metrics);
  EXPECT_EQ(points_of(mlflow_run(folder.path())),
            (MlflowFiles{
                {"a", "1 1, 2 1"}, {"a_", "1 3, 2 3"}, {"a__", "1 4, 2 4"}, {"a_b", "1 2, 2 2"}, {"c/d", "1 5, 2 5"}}));
}

TEST(MlflowTracker, ALongValueIsCutAtACharacter) {
  const auto all = trackers::parameters_of("a: {b: [" + repeat("ß", 4000) + ", [], {}, 1.50], c: null}\n");
  EXPECT_EQ(all.at("a.b.0"), repeat("ß", 3000));
  EXPECT_EQ(all.at("a.b.1") + all.at("a.b.2") + all.at("a.b.3") + all.at("a.c"), "[]{}1.50null");
}

TEST(MlflowTracker, OptionsOfAnAdapterThatThereIsNoneOfAreNoParameters) {
  const std::string rest = "optimizer: {type: adamw, eps: 1}\n";
  EXPECT_EQ(trackers::parameters_of("adapter: {rank: 16, type: '', path: ''}\n" + rest),
            (MlflowFiles{{"adapter.type", ""}, {"optimizer.type", "adamw"}, {"optimizer.eps", "1"}}));
  EXPECT_EQ(trackers::parameters_of("adapter: {rank: 16, type: lora}\n").at("adapter.rank"), "16");
}

// mlflow.json is synced each time: of a first line with a hundred numbers that is felt.
TEST(MlflowTracker, NamesOfALineAreNotedAtOnce) {
  const test::TempFolder folder;
  const auto tracker = mlflow(folder.path(), {.resumed = false});
  const int watch = inotify_init1(IN_NONBLOCK);
  ASSERT_GE(watch, 0);
  ASSERT_GE(inotify_add_watch(watch, (folder / "run").c_str(), IN_MOVED_TO), 0);
  const auto times_noted = [&] {
    alignas(inotify_event) char buffer[65536];
    const ssize_t bytes = read(watch, buffer, sizeof(buffer));
    int count = 0;
    for (ssize_t at = 0; at < bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      count += std::string(event->name) == "mlflow.json";
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
    return count;
  };
  tracker->log(1, {{"a", 1}, {"b", 2}, {"c", 3}, {"step", 1}});
  EXPECT_EQ(times_noted(), 1);
  tracker->log(2, {{"a", 1}, {"b", 2}});
  EXPECT_EQ(times_noted(), 0);
  tracker->log(3, {{"a", 1}, {"d", 2}});
  EXPECT_EQ(times_noted(), 1);
  close(watch);
  EXPECT_EQ(points_of(mlflow_run(folder.path())),
            (MlflowFiles{{"a", "1 1, 2 1, 3 1"}, {"b", "1 2, 2 2"}, {"c", "1 3"}, {"d", "3 2"}}));
}

// A quote is one of YAML's and of messages.
TEST(MlflowTracker, NamesMayHaveQuotes) {
  const test::TempFolder folder;
  for (const std::int64_t step : {1, 2}) {
    const MlflowBegin begin{.step = step - 1, .resumed = step > 1};
    const std::string options = R"(experiment_name: "Ada's", run_name: "it's \"b\"", description: "a 'c'")";
    const auto tracker = mlflow(folder.path(), begin, options, "Ada's run");
    tracker->log(step, {{"f'(x)", 1}});
  }
  const fs::path run = mlflow_run(folder.path());
  EXPECT_EQ(meta_of(run, "run_name"), "it's \"b\"");
  EXPECT_EQ(meta_of(run.parent_path(), "name"), "Ada's");
  EXPECT_EQ(points_of(run), (MlflowFiles{{"f__x_", "1 1, 2 1"}}));
  EXPECT_EQ(test::content_of(run / "tags/mlflow.note.content"), "a 'c'");
}

TEST(MlflowTracker, GoesOnWhenTheDiskHasRoomAgain) {
  const test::TempFolder folder;
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  limit_mlflow_files(5);
  const auto tracker = mlflow(folder.path(), {.resumed = false});
  limit_mlflow_files(RLIM_INFINITY);
  tracker->log(1, {{"loss", 2.5}});
  EXPECT_TRUE(fs::exists(folder / "my runs/0/meta.yaml"));
  const fs::path run = mlflow_run(folder.path());
  limit_mlflow_files(fs::file_size(run / "metrics/loss") + 7);
  tracker->log(2, {{"loss", 1.5}});
  EXPECT_EQ(points_of(run), (MlflowFiles{{"loss", "1 2.5"}}));  // a row in part would hide the run from MLflow
  limit_mlflow_files(RLIM_INFINITY);
  std::signal(SIGXFSZ, before);
  tracker->log(3, {{"loss", 1.25}});
  EXPECT_EQ(points_of(run), (MlflowFiles{{"loss", "1 2.5, 3 1.25"}}));
}

TEST(MlflowTracker, WhatIsRemovedMeanwhileIsBegunAnew) {
  const test::TempFolder folder;
  const auto tracker = mlflow(folder.path(), {.resumed = false});
  tracker->log(1, {{"loss", 1}, {"other", 1}});
  const fs::path run = mlflow_run(folder.path());
  const MlflowWords words;
  fs::remove(run / "metrics/loss");
  tracker->log(2, {{"loss", 2}});
  EXPECT_EQ(points_of(run), (MlflowFiles{{"loss", "2 2"}, {"other", "1 1"}}));
  fs::remove_all(folder / "my runs");
  tracker->log(3, {{"loss", 3}});
  EXPECT_EQ(points_of(mlflow_run(folder.path())), (MlflowFiles{{"loss", "3 3"}}));
  ASSERT_EQ(words.said().size(), 1u);  // one a minute
  EXPECT_THAT(words.said()[0], testing::HasSubstr("removed or cut meanwhile"));
}

TEST(MlflowTracker, AStoreThatCannotBeWrittenIsAWarning) {
  const test::TempFolder folder;
  fs::create_symlink("/nowhere/at/all", folder / "my runs");
  const std::int64_t before = log::warnings();
  const auto tracker = mlflow(folder.path(), {.resumed = false});
  tracker->log(1, {{"loss", 1}});
  EXPECT_GT(log::warnings(), before);
  fs::remove(folder / "my runs");
  tracker->log(2, {{"loss", 2}});
  EXPECT_EQ(points_of(mlflow_run(folder.path())), (MlflowFiles{{"loss", "2 2"}}));
}

TEST(MlflowTracker, NotesThatNobodyCanReadAreBegunAnew) {
  const test::TempFolder folder;
  for (const char* notes :
       {"{", "[]", R"({"runs": [{"experiment": "Default", "run_id": "0", "metrics": {"a": "../b"}}]})"}) {
    mlflow(folder.path(), {.resumed = false});
    const std::string id = mlflow_runs(folder.path()).back().filename();
    const std::string text = replace_all(notes, "\"0\"", "\"" + id + "\"");
    folder.write("run/mlflow.json", text);
    const MlflowWords words;
    mlflow(folder.path(), {.resumed = false});
    ASSERT_EQ(words.said().size(), 1u) << notes;
    EXPECT_THAT(words.said()[0], testing::HasSubstr("a new run is begun in MLflow"));
    fs::remove_all(folder / "my runs");
    fs::remove(folder / "run/mlflow.json");
  }
}

TEST(MlflowTracker, ARunCanBeBelowAnother) {
  const test::TempFolder folder;
  EXPECT_HONE_ERROR(mlflow(folder.path(), {}, "parent_run_id: abc"), config, "no run abc in");
  mlflow(folder.path(), {.resumed = false}, "", "above");
  const std::string parent = mlflow_run(folder.path()).filename();
  mlflow(folder.path(), {.resumed = false}, "parent_run_id: " + parent + ", run_name: below");
  for (const fs::path& run : mlflow_runs(folder.path()))
    EXPECT_EQ(fs::exists(run / "tags/mlflow.parentRunId"), run.filename() != parent);
  for (const fs::path& run : mlflow_runs(folder.path()))
    if (run.filename() != parent) {
      EXPECT_EQ(test::content_of(run / "tags/mlflow.parentRunId"), parent);
    }
}

TEST(MlflowTracker, FoldersAreKnownByTheirUris) {
  using trackers::folder_of_uri;
  EXPECT_EQ(folder_of_uri("mlruns"), "mlruns");
  EXPECT_EQ(folder_of_uri("./a b/mlruns"), "./a b/mlruns");
  EXPECT_EQ(folder_of_uri("file:/a/b"), "/a/b");
  EXPECT_EQ(folder_of_uri("file:///a/gr%C3%B6%20b"), "/a/grö b");
  EXPECT_EQ(folder_of_uri("file://localhost/a"), "/a");
  EXPECT_EQ(folder_of_uri(trackers::file_uri("/a/größe %20")), "/a/größe %20");
  const test::TempFolder folder;
  for (const char* uri : {"", "http://host:5000", "https://host", "sqlite:///mlflow.db", "databricks", "file://host/a",
                          "file:", "file:/a%2"})
    EXPECT_EQ(folder_of_uri(uri), std::nullopt) << uri;
}

TEST(MlflowTracker, WhatMlflowRefusesIsRefused) {
  const test::TempFolder folder;
  for (const auto& [options, words] : MlflowFiles{{"experiment_name: ' '", "expected 1 to 500 bytes"},
                                                  {"run_name: ''", "expected 1 to 250 bytes"},
                                                  {"parent_run_id: ../a", "expected letters, digits, _ and -"},
                                                  {"tags: {a(: b}", "in a tag's name"},
                                                  {"tags: {a: b, a/c/d: e}", "a file and a folder of one name"},
                                                  {"tags: {mlflow.runName: b}", "run_name for mlflow.runName"}})
    EXPECT_HONE_ERROR(mlflow(folder.path(), {}, options), config, words);
  std::ofstream(folder / "my runs") << "a file";
  EXPECT_HONE_ERROR(mlflow(folder.path(), {}), config, "trackers.mlflow.tracking_uri: ");
  Problems problems;
  const auto chosen = registries().trackers.options("mlflow");
  chosen->read(config::parse_yaml("{tracking_uri: 'http://host:5000'}", "test", problems), problems, "");
  EXPECT_HONE_ERROR(problems.raise(), config, "expected a folder or its file: URI");
}

}  // namespace
}  // namespace hone
