// Damage done to a checkpoint that was whole: every byte of it is found and named, and a run falls back and says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <map>
#include <random>

#include "harness/errors.h"
#include "harness/scale.h"
#include "io/faulty_env.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;

class Damage : public test::WithFastFolder {
 protected:
  Damage() {
    log::set_sink([this](log::Level, std::string_view text) { said_ += std::string(text) + "\n"; });
    const Folder all = Env::process().make_folders(folder_ / "c");
    for (const std::int64_t step : {10, 20}) test::save_toy(all, step, false, 4);
    path_ = folder_ / "c/step-00000020";
    for (const auto& entry : fs::recursive_directory_iterator(path_))
      if (entry.is_regular_file())
        good_[entry.path().lexically_relative(path_).string()] = test::content_of(entry.path());
  }
  ~Damage() override { log::set_sink({}); }
  void put(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }
  void mend() const {
    fs::remove_all(path_);
    for (const auto& [name, content] : good_) {
      fs::create_directories((path_ / name).parent_path());
      put(name, content);
    }
  }
  // It is found, named by `part`, and not used.
  void expect_found(const std::string& part) {
    said_.clear();
    const auto found = verify(Env::process().open_folder(path_), Verify::full);
    ASSERT_FALSE(found.empty());
    ASSERT_THAT(found, testing::Contains(testing::HasSubstr(part)));
    const Checkpoints checkpoints(Env::process().open_folder(folder_ / "c"));
    ASSERT_EQ(checkpoints.newest()->step, 10);
    ASSERT_THAT(said_, testing::AllOf(testing::HasSubstr(part), testing::HasSubstr("step-00000020 is not used: "),
                                      testing::HasSubstr("going back to step 10")));
    ASSERT_THROW(checkpoints.newest(/*strict=*/true), Error);
  }
  // The tensor that a byte belongs to; "": none.
  static std::string tensor_at(const ManifestFile* file, std::size_t at) {
    if (!file || at < file->header) return "";
    std::uint64_t end = file->header;
    for (const ManifestTensor& tensor : file->tensors)
      if (at < (end += tensor.size)) return tensor.name;
    return "";
  }

  fs::path path_;
  std::map<std::string, std::string> good_;  // by name
  std::string said_;
};

TEST_F(Damage, OfAnyByteIsFoundAndNamed) {
  const Manifest manifest = Manifest::read(Env::process().open_folder(path_));
  std::mt19937 random(7);
  const int wanted = test::scaled(4000 / test::kSlowness, 20000);
  for (int damaged = 0; damaged < wanted; ++damaged) {
    auto file = good_.begin();
    std::advance(file, random() % good_.size());
    std::string bad = file->second;
    const std::size_t at = random() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ (1 + random() % 255));
    SCOPED_TRACE(fmt::format("{} byte {}", file->first, at));
    put(file->first, bad);
    const std::string tensor = tensor_at(manifest.find(file->first), at);
    expect_found(tensor.empty() ? file->first : fmt::format("{}: corrupt: tensor \"{}\" chunk 0", file->first, tensor));
    put(file->first, file->second);
    if (HasFatalFailure()) return;
  }
  std::printf("%d damaged bytes\n", wanted);
  EXPECT_EQ(Checkpoints(Env::process().open_folder(folder_ / "c")).newest()->step, 20);
}

TEST_F(Damage, OfTheLengthIsFoundAndNamed) {
  std::mt19937 random(8);
  for (const auto& [name, content] : good_)
    for (int i = 0; i < test::scaled(30, 200); ++i) {
      const std::size_t size = random() % (2 * content.size());
      if (size == content.size()) continue;
      std::string other = content.substr(0, size);
      other.resize(size, static_cast<char>(random()));
      put(name, other);
      SCOPED_TRACE(fmt::format("{}: {} bytes instead of {}", name, size, content.size()));
      expect_found(name);
      put(name, content);
      if (HasFatalFailure()) return;
    }
}

TEST_F(Damage, FilesThatAreGoneOrInEachOthersPlaceAreNamed) {
  for (const auto& [name, content] : good_) {
    SCOPED_TRACE(name);
    fs::remove(path_ / name);
    expect_found(name == "MANIFEST.json" ? "MANIFEST.json" : name);
    put(name, content);
    for (const auto& [other, its] : good_) {
      if (content == its || content.size() != its.size()) continue;
      put(name, its), put(other, content);
      expect_found(name);
      put(name, content), put(other, its);
    }
    if (HasFatalFailure()) return;
  }
}

TEST_F(Damage, WhatIsNoRegularFileIsNeverWaitedFor) {
  for (const auto& [name, content] : good_) {
    const fs::path file = path_ / name;
    const std::vector<std::function<void()>> kinds{
        [&] { ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0); }, [&] { fs::create_directory(file); },
        [&] { fs::create_symlink("/dev/zero", file); }, [&] { fs::create_symlink("nowhere", file); },
        [&] { fs::create_symlink("/proc/self/environ", file); }};
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      SCOPED_TRACE(fmt::format("{}, kind {}", name, kind));
      fs::remove(file);
      kinds[kind]();
      expect_found(name);
      mend();
      if (HasFatalFailure()) return;
    }
  }
}

// Times, the clock and links say nothing of which one is newest.
TEST_F(Damage, OfTimesAndLinksChangesNothing) {
  const fs::path all = folder_ / "c";
  const auto now = fs::file_time_type::clock::now();
  for (const int days : {-1, 1, 400}) {
    fs::last_write_time(all / "step-00000010", now + std::chrono::hours(24) * days);
    fs::last_write_time(all / "step-00000020", now - std::chrono::hours(24) * days);
    for (const char* target : {"step-00000010", "step-00000099", ""}) {
      fs::remove(folder_ / "latest");
      if (*target) fs::create_symlink(std::string("c/") + target, folder_ / "latest");
      EXPECT_EQ(Checkpoints(Env::process().open_folder(all)).newest()->step, 20);
    }
  }
  EXPECT_EQ(said_, "");
}

}  // namespace
}  // namespace hone::io
