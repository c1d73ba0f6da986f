// The state of a checkpoint has no part that does not matter: without any of them a run does not go on, or becomes
// another one. So the tests that compare broken runs with unbroken ones would see it missing.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "io/checkpoints.h"
#include "train/hooks_for_tests.h"
#include "train/support.h"

namespace hone {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Files = std::map<std::string, std::string>;  // of a checkpoint, by name

constexpr std::int64_t kStep = 6, kSteps = 10;
constexpr const char* kTrain = "state/train.json";
constexpr const char* kOptimizer = "state/optimizer-00000-of-00001.safetensors";

// What is there for messages and for people, is made anew at each start, or matters where the recipe has changed.
const std::set<std::string> kRecords{"version",   "finished",   "threads", "ranks",         "computed_by",
                                     "changes",   "data_files", "models",  "source_dtypes", "best_by",
                                     "were_best", "measured",   "rows"};

class StateMatters : public ::testing::Test {
 protected:
  StateMatters() {
    test::register_test_callbacks();
    log::set_level(log::Level::silent);
    const std::string news = folder_.write("news.jsonl", test::story_lines(9)).string();
    const std::string data = folder_.write("train.jsonl", test::story_lines(60)).string();
    overrides_ = {{"data.train", "[{path: " + data + ", stream: true}]"},
                  {"data.eval", "{news: " + news + "}"},
                  {"trainer.precision", "bf16"},
                  {"trainer.log_every", "4"},
                  {"trainer.report_every", "5"},
                  {"trainer.eval_every", "3"},
                  {"trainer.save.every", "3"},
                  {"trainer.skip_spikes", "{sigma: 0.5, window: 3}"},
                  {"trainer.ema", "0.9"},
                  {"model.attention_dropout", "0.2"},
                  {"callbacks", "[weight_mean]"}};
    train_in("whole");
    const fs::path checkpoint = folder_ / "whole" / test::step_folder(kStep);
    for (const auto& entry : fs::recursive_directory_iterator(checkpoint))
      if (entry.is_regular_file() && entry.path().filename() != "MANIFEST.json")
        good_[entry.path().lexically_relative(checkpoint).string()] = test::read_text(entry.path());
  }
  ~StateMatters() override { log::set_level(level_); }
  void train_in(const std::string& name) {
    test::Overrides overrides = overrides_;
    overrides.emplace_back("run.folder", (folder_ / name).string());
    TrainOptions options = test::quiet_options();
    log::set_level(log::Level::silent);
    train(test::small_recipe(folder_, overrides), options);
  }
  // The run as it was at kStep, with these files in its checkpoint, and a manifest that finds nothing wrong with them.
  void make_run(const Files& files) const {
    const fs::path run = folder_ / "changed";
    fs::remove_all(run);
    fs::copy(folder_ / "whole", run, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    for (const auto& entry : fs::directory_iterator(folder_ / "whole/checkpoints"))
      if (entry.path().filename() >= fs::path(test::step_folder(kStep)).filename())
        fs::remove_all(run / "checkpoints" / entry.path().filename());
    io::Manifest manifest =
        io::Manifest::read(Env::process().open_folder(folder_ / "whole" / test::step_folder(kStep)));
    const io::Checkpoints checkpoints(Env::process().open_folder(run / "checkpoints"));
    const auto save = checkpoints.start_save(kStep, {});
    for (const auto& [name, content] : files) save->add_file(name, content);
    save->commit(manifest);
  }
  // Whether a run that goes on from such files is the unbroken one.
  bool is_the_same(const Files& files) {
    make_run(files);
    try {
      train_in("changed");
    } catch (const Error&) {
      return false;
    }
    const fs::path a = folder_ / "whole", b = folder_ / "changed", last = test::step_folder(kSteps);
    for (const char* name : {"model.safetensors", kOptimizer, "trainer_state.json", "state/callbacks.safetensors"})
      if (test::read_text(a / last / name) != test::read_text(b / last / name)) return false;
    for (const char* name : {"callbacks", "best", "tokens", "skipped_steps", "updates", "spikes", "window", "report"})
      if (test::read_json(a / last / kTrain)[name] != test::read_json(b / last / kTrain)[name]) return false;
    return test::fixed_metrics_of(a) == test::fixed_metrics_of(b);
  }
  void expect_matters(const std::string& what, const std::string& file, const std::string& content) {
    SCOPED_TRACE(what);
    Files files = good_;
    ASSERT_NE(files.at(file), content) << "nothing was changed";
    files[file] = content;
    EXPECT_FALSE(is_the_same(files)) << what << " of the state changes nothing";
  }
  const log::Level level_ = log::level();
  test::TempFolder folder_;
  test::Overrides overrides_;
  Files good_;
};

// As if it had not been kept; nothing: it holds nothing here.
std::optional<json> without(const json& value) {
  const json empty = value.is_object()    ? json::object()
                     : value.is_array()   ? json::array()
                     : value.is_string()  ? json("")
                     : value.is_boolean() ? json(!value.get<bool>())
                     : value.is_number()  ? json(value == 0 ? 1 : 0)
                                          : json();
  return empty == value ? std::nullopt : std::optional(empty);
}

// The tensors whose names begin so, with zeros, or ones where they are zeros.
std::string zeroed(const std::string& file, const std::string& prefix) {
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  const json head = json::parse(file.substr(8, size));
  std::string changed = file;
  for (const auto& [name, about] : head.items()) {
    if (name == "__metadata__" || !name.starts_with(prefix)) continue;
    const std::size_t begin = about["data_offsets"][0], end = about["data_offsets"][1];
    std::fill(changed.begin() + static_cast<std::ptrdiff_t>(8 + size + begin),
              changed.begin() + static_cast<std::ptrdiff_t>(8 + size + end), '\0');
  }
  return changed;
}

std::set<std::string> kinds_of(const std::string& file) {
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  const json head = json::parse(file.substr(8, size));
  std::set<std::string> kinds;
  for (const auto& [name, about] : head.items())
    if (name != "__metadata__" && about["data_offsets"][0] != about["data_offsets"][1])
      kinds.insert(name.substr(0, name.find('.') + 1));
  return kinds;
}

TEST_F(StateMatters, EachPartOfIt) {
  ASSERT_TRUE(is_the_same(good_));
  const json state = json::parse(good_.at(kTrain));
  std::set<std::string> tried;
  for (const auto& [key, value] : state.items()) {
    const auto empty = without(value);
    if (kRecords.contains(key) || !empty) continue;
    json changed = state;
    changed[key] = *empty;
    expect_matters(key, kTrain, changed.dump());
    tried.insert(key);
  }
  for (const char* key : {"step", "tokens", "skipped_steps", "updates", "spikes", "norms", "window", "report", "best",
                          "callbacks", "data_position", "data_hash", "tokenizer_hash"})
    EXPECT_TRUE(tried.contains(key)) << key << " held nothing, so nothing was tested";
  json log = json::parse(good_.at("trainer_state.json"));
  log["log_history"] = json::array();
  expect_matters("log_history", "trainer_state.json", log.dump());
}

TEST_F(StateMatters, EachKindOfTensor) {
  const std::set<std::string> kinds = kinds_of(good_.at(kOptimizer));
  EXPECT_GE(kinds.size(), 4u);  // two moments, masters, averages
  for (const std::string& kind : kinds) expect_matters(kind, kOptimizer, zeroed(good_.at(kOptimizer), kind));
  const char* callbacks = "state/callbacks.safetensors";
  expect_matters(callbacks, callbacks, zeroed(good_.at(callbacks), ""));
}

}  // namespace
}  // namespace hone
