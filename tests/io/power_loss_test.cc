// Power loss at every point of a run's saves: what was said to be committed is there, and nothing half is taken for
// whole.
//
// A model of a disk: data that was not synced may be there, missing or torn; what happened to names of a folder since
// it was synced may have reached the disk or not, each rename as one. Each state is built on a real folder and read by
// the real code.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <random>

#include "harness/scale.h"
#include "io/scenarios.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
using Kind = Operation::Kind;

struct Node;
using Names = std::map<std::string, std::shared_ptr<Node>>;

struct Node {
  bool folder = false;
  std::string data, synced;     // of a file; a link's target
  Names names, synced_names;    // of a folder
  std::vector<Names> unsynced;  // what happened to its names since, one after the other; nothing: gone
};

// How an unlucky crash treats what was not synced.
enum class Lost { none, everything, data, torn_data, names, any };
constexpr std::size_t kSector = 512, kPage = 4096;

class Disk {
 public:
  explicit Disk(fs::path root) : root_(std::move(root)), top_(std::make_shared<Node>()) { top_->folder = true; }

  void apply(const Operation& operation, const std::string& data) {
    const fs::path& path = operation.path;
    switch (operation.kind) {
      case Kind::make_folder:
        return add(path, /*folder=*/true);
      case Kind::create:
        return add(path, /*folder=*/false);
      case Kind::lock:
      case Kind::open_append:
        if (!there(path)) add(path, /*folder=*/false);
        return;
      case Kind::link:
        add(path, /*folder=*/false);
        at(path).synced = at(path).data = operation.target;
        return;
      case Kind::write:
        at(path).data.resize(std::max<std::size_t>(at(path).data.size(), operation.at + data.size()));
        at(path).data.replace(operation.at, data.size(), data);
        return;
      case Kind::truncate:
        return at(path).data.resize(operation.at);
      case Kind::sync:
        at(path).synced = at(path).data;
        return;
      case Kind::sync_folder:
        at(path).synced_names = at(path).names;
        return at(path).unsynced.clear();
      case Kind::rename:
      case Kind::replace:
        return change(parent(path), {{operation.target.filename(), parent(path).names.at(path.filename())},
                                     {path.filename(), nullptr}});
      case Kind::remove:
      case Kind::remove_folder:
        return change(parent(path), {{path.filename(), nullptr}});
      default:
        return;
    }
  }
  void build(const fs::path& where, Lost loss, std::mt19937& random) const { build(*top_, where, loss, random); }

 private:
  Node* find(const fs::path& path) const {
    Node* node = top_.get();
    for (const fs::path& part : path.lexically_relative(root_)) {
      if (part == ".") continue;
      const auto next = node->names.find(part);
      if (next == node->names.end()) return nullptr;
      node = next->second.get();
    }
    return node;
  }
  bool there(const fs::path& path) const { return find(path) != nullptr; }
  Node& at(const fs::path& path) {
    Node* node = find(path);
    if (!node) throw std::out_of_range(path.string());
    return *node;
  }
  Node& parent(const fs::path& path) { return at(path.parent_path()); }

  static void put(Names& names, const Names& what) {
    for (const auto& [name, node] : what)
      if (node)
        names[name] = node;
      else
        names.erase(name);
  }
  static void change(Node& folder, Names what) {
    put(folder.names, what);
    folder.unsynced.push_back(std::move(what));
  }
  void add(const fs::path& path, bool folder) {
    const auto made = std::make_shared<Node>();
    made->folder = folder;
    change(parent(path), {{path.filename(), made}});
  }

  static std::string torn(const Node& file, std::mt19937& random) {
    std::string data = file.data;
    for (std::size_t i = 0; i < data.size(); ++i)
      if ((i >= file.synced.size() || data[i] != file.synced[i]) && random() % 3 == 0)
        data[i] = i < file.synced.size() ? file.synced[i] : '\0';
    return data.substr(0, std::max(file.synced.size(), data.size() - random() % (data.size() + 1)));
  }
  // Pages, or sectors, of which each has reached the disk or not, and the length as it was or is.
  static std::string in_pieces(const Node& file, std::size_t piece, std::mt19937& random) {
    std::string data = file.synced;
    data.resize(random() % 2 == 0 ? file.data.size() : std::max(file.synced.size(), file.data.size()));
    for (std::size_t i = 0; i < std::min(data.size(), file.data.size()); i += piece)
      if (random() % 2 == 0) {
        const std::string one = file.data.substr(i, piece);
        data.replace(i, std::min(one.size(), data.size() - i), one, 0, data.size() - i);
      }
    return data;
  }
  static std::string content(const Node& file, Lost loss, std::mt19937& random) {
    if (file.data == file.synced || loss == Lost::none || loss == Lost::names) return file.data;
    if (loss == Lost::torn_data) return torn(file, random);
    if (loss != Lost::any) return file.synced;
    switch (random() % 5) {
      case 0:
        return file.data;
      case 1:
        return file.synced;
      case 2:
        return in_pieces(file, kPage, random);
      case 3:
        return in_pieces(file, kSector, random);
      default:
        return torn(file, random);
    }
  }
  static Names names_of(const Node& folder, Lost loss, std::mt19937& random) {
    if (loss == Lost::names || loss == Lost::everything) return folder.synced_names;
    if (loss != Lost::any) return folder.names;
    Names names = folder.synced_names;
    for (const Names& what : folder.unsynced)
      if (random() % 2 == 0) put(names, what);
    return names;
  }
  static void build(const Node& node, const fs::path& where, Lost loss, std::mt19937& random) {
    if (!node.folder) {
      std::ofstream(where, std::ios::binary) << content(node, loss, random);
      return;
    }
    fs::create_directories(where);
    for (const auto& [name, child] : names_of(node, loss, random)) build(*child, where / name, loss, random);
  }

  fs::path root_;
  std::shared_ptr<Node> top_;
};

class RecordingEnv : public Env {
 public:
  int before(Operation& operation) override {
    // Removing what is not there, and probing, change nothing.
    std::error_code ignored;
    const bool there = fs::exists(fs::symlink_status(operation.path, ignored));
    const bool nothing = (operation.kind == Kind::remove && !there) || operation.kind == Kind::read;
    if (!nothing)
      log.push_back(
          {operation, std::string(reinterpret_cast<const char*>(operation.data.data()), operation.data.size())});
    return 0;
  }
  std::vector<std::pair<Operation, std::string>> log;
};

class PowerLoss : public test::WithFastFolder {
 protected:
  using Said = std::vector<std::pair<std::size_t, std::int64_t>>;  // operations done when a step was said to be safe

  void record(const std::function<void(Env&, const test::Say&)>& work) {
    fs::create_directories(real_);
    env_.log.clear(), committed_.clear();
    work(env_, [this](std::int64_t step) { committed_.emplace_back(env_.log.size(), step); });
  }
  // `checkpoints`: where they are, below the disk's root.
  void expect_survives(const fs::path& checkpoints, int seeds) {
    Disk disk(real_);
    std::mt19937 random(1);
    for (std::size_t done = 0; done <= env_.log.size(); ++done) {
      if (done > 0) disk.apply(env_.log[done - 1].first, env_.log[done - 1].second);
      std::int64_t safe = 0;
      for (const auto& [at, step] : committed_)
        if (at <= done) safe = step;
      std::vector<Lost> losses{Lost::none, Lost::everything, Lost::data, Lost::torn_data, Lost::names};
      losses.insert(losses.end(), static_cast<std::size_t>(seeds), Lost::any);
      for (const Lost loss : losses) {
        SCOPED_TRACE(fmt::format("after operation {} of {}, loss {}", done, env_.log.size(), static_cast<int>(loss)));
        fs::remove_all(rebuilt_);
        disk.build(rebuilt_, loss, random);
        ++states_;
        ASSERT_NO_FATAL_FAILURE(expect_recovers(rebuilt_ / checkpoints, safe));
      }
    }
  }
  static void expect_recovers(const fs::path& path, std::int64_t safe) {
    if (!fs::exists(path)) {
      ASSERT_EQ(safe, 0) << "the folder is gone";
      return;
    }
    const Checkpoints checkpoints(Env::process().open_folder(path));
    checkpoints.clean();
    for (const Checkpoint& one : checkpoints.scan(Verify::full)) ASSERT_TRUE(one.whole()) << one.problems[0];
    const auto newest = checkpoints.newest();
    ASSERT_GE(newest ? newest->step : 0, safe);
  }

  const test::Quiet quiet_;
  const fs::path real_ = folder_ / "real", rebuilt_ = folder_ / "rebuilt";
  RecordingEnv env_;
  Said committed_;
  int states_ = 0;
};

TEST_F(PowerLoss, NothingCommittedIsLostAndNothingHalfIsTaken) {
  record([this](Env& env, const test::Say& said) {
    const Folder folder = env.open_folder(real_);
    for (const std::int64_t step : {10, 20, 30}) {
      test::save_toy(folder, step);
      said(step);
      Checkpoints(folder).retain(2);
    }
    test::save_toy(folder, 30, true);
    said(30);
  });
  expect_survives(".", test::scaled(2, 10));
  std::printf("%d states\n", states_);
  EXPECT_GE(states_, test::scaled(1500, 3500));
}

// From nothing: the folders that a run makes on the way are as durable as what it saves there.
TEST_F(PowerLoss, NothingOfAWholeRunIsLost) {
  record([this](Env& env, const test::Say& said) {
    test::run_in(env.make_folders(real_ / "runs/a/checkpoints"), said, 2);
  });
  expect_survives("runs/a/checkpoints", test::scaled(2, 10));
  std::printf("%d states\n", states_);
  EXPECT_GE(states_, test::scaled(700, 1500));
}

}  // namespace
}  // namespace hone::io
