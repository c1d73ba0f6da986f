// Power loss at every point of a run's saves: what was said to be committed is there, and nothing half is taken for
// whole.
//
// A model of a disk: data that was not synced may be there, missing or torn; names of a folder that was not synced may
// be the old or the new ones. Each state is built on a real folder and read by the real code.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "io/faulty_env.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
using Kind = Operation::Kind;

struct Node {
  bool folder = false;
  std::string data, synced;                                          // of a file; a link's target
  std::map<std::string, std::shared_ptr<Node>> names, synced_names;  // of a folder
};

// How an unlucky crash treats what was not synced.
enum class Loss { none, everything, data, torn_data, names };

class Disk {
 public:
  explicit Disk(fs::path root) : root_(std::move(root)), top_(std::make_shared<Node>()) { top_->folder = true; }

  void apply(const Operation& operation, const std::string& data) {
    const fs::path& path = operation.path;
    const auto add = [&](bool folder) {
      return parent(path).names[path.filename()] = std::make_shared<Node>(Node{folder, {}, {}, {}, {}});
    };
    switch (operation.kind) {
      case Kind::make_folder:
        add(true);
        break;
      case Kind::create:
        add(false);
        break;
      case Kind::link:
        add(false)->synced = operation.target;
        break;
      case Kind::write:
        at(path).data.resize(std::max<std::size_t>(at(path).data.size(), operation.at + data.size()));
        at(path).data.replace(operation.at, data.size(), data);
        break;
      case Kind::truncate:
        at(path).data.resize(operation.at);
        break;
      case Kind::sync:
        at(path).synced = at(path).data;
        break;
      case Kind::sync_folder:
        at(path).synced_names = at(path).names;
        break;
      case Kind::rename:
      case Kind::replace: {
        const auto moved = parent(path).names.extract(path.filename().string());
        parent(operation.target).names[operation.target.filename()] = moved.mapped();
        break;
      }
      case Kind::remove:
      case Kind::remove_folder:
        parent(path).names.erase(path.filename());
        break;
      default:
        break;
    }
  }
  void build(const fs::path& where, Loss loss, std::mt19937& random) const { build(*top_, where, loss, random); }

 private:
  Node& at(const fs::path& path) {
    Node* node = top_.get();
    for (const fs::path& part : path.lexically_relative(root_))
      if (part != ".") node = node->names.at(part).get();
    return *node;
  }
  Node& parent(const fs::path& path) { return at(path.parent_path()); }

  static std::string torn(const Node& file, std::mt19937& random) {
    std::string data = file.data;
    for (std::size_t i = 0; i < data.size(); ++i)
      if ((i >= file.synced.size() || data[i] != file.synced[i]) && random() % 3 == 0)
        data[i] = i < file.synced.size() ? file.synced[i] : '\0';
    return data.substr(0, std::max(file.synced.size(), data.size() - random() % (data.size() + 1)));
  }
  static void build(const Node& node, const fs::path& where, Loss loss, std::mt19937& random) {
    if (!node.folder) {
      const bool lost = loss == Loss::data || loss == Loss::everything;
      const std::string content = loss == Loss::torn_data ? torn(node, random) : lost ? node.synced : node.data;
      std::ofstream(where, std::ios::binary) << content;
      return;
    }
    fs::create_directories(where);
    const bool lost = loss == Loss::names || loss == Loss::everything;
    for (const auto& [name, child] : lost ? node.synced_names : node.names) build(*child, where / name, loss, random);
  }

  fs::path root_;
  std::shared_ptr<Node> top_;
};

class RecordingEnv : public Env {
 public:
  int before(Operation& operation) override {
    // Removing what is not there, and probing, change nothing.
    std::error_code ignored;
    const bool nothing = operation.kind == Kind::remove && !fs::exists(fs::symlink_status(operation.path, ignored));
    if (!nothing)
      log.push_back(
          {operation, std::string(reinterpret_cast<const char*>(operation.data.data()), operation.data.size())});
    return 0;
  }
  std::vector<std::pair<Operation, std::string>> log;
};

class PowerLoss : public test::WithFastFolder {};

TEST_F(PowerLoss, NothingCommittedIsLostAndNothingHalfIsTaken) {
  const test::Quiet quiet;
  RecordingEnv env;
  const fs::path real = folder_ / "real", rebuilt = folder_ / "rebuilt";
  fs::create_directory(real);
  const Folder folder = env.open_folder(real);
  std::vector<std::pair<std::size_t, std::int64_t>> committed;  // operations done when a step was said to be safe
  const auto said = [&](std::int64_t step) { committed.emplace_back(env.log.size(), step); };
  for (const std::int64_t step : {10, 20, 30}) {
    test::save_toy(folder, step);
    said(step);
    Checkpoints(folder).retain(2);
  }
  test::save_toy(folder, 30, true);
  said(30);

  Disk disk(real);
  std::mt19937 random(1);
  int states = 0;
  for (std::size_t done = 0; done <= env.log.size(); ++done) {
    if (done > 0) disk.apply(env.log[done - 1].first, env.log[done - 1].second);
    std::int64_t safe = 0;
    for (const auto& [at, step] : committed)
      if (at <= done) safe = step;
    for (const Loss loss : {Loss::none, Loss::everything, Loss::data, Loss::torn_data, Loss::names}) {
      SCOPED_TRACE(fmt::format("after operation {} of {}, loss {}", done, env.log.size(), static_cast<int>(loss)));
      fs::remove_all(rebuilt);
      disk.build(rebuilt, loss, random);
      const Checkpoints checkpoints(Env::process().open_folder(rebuilt));
      checkpoints.clean();
      for (const Checkpoint& one : checkpoints.scan(Verify::full)) ASSERT_TRUE(one.whole()) << one.problems[0];
      const auto newest = checkpoints.newest();
      ASSERT_GE(newest ? newest->step : 0, safe);
      ++states;
    }
  }
  EXPECT_GT(states, 1000);
}

}  // namespace
}  // namespace hone::io
