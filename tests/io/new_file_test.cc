// Files that a user named: hidden until they are whole, whatever fails on the way.
#include "io/new_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/errors.h"
#include "io/faulty_env.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;

class NewFiles : public test::WithFastFolder {
 protected:
  static void fill(const NewFile& file, const std::string& text) {
    OutFile out = file.create();
    out.write(text);
    out.sync();
    out.close();
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }
};

TEST_F(NewFiles, AppearWhenTheyAreWholeAndNeverInAnothersPlace) {
  const fs::path path = folder_ / "a";
  NewFile first(Env::process(), path, ErrorKind::data);
  fill(first, "one");
  EXPECT_FALSE(fs::exists(path));
  first.appear();
  EXPECT_EQ(test::content_of(path), "one");
  {
    NewFile second(Env::process(), path, ErrorKind::data);
    fill(second, "two");
    EXPECT_HONE_ERROR(second.appear(), data, "cannot rename to");
    EXPECT_EQ(test::content_of(path), "one");
  }
  EXPECT_EQ(entries(), 1u);
  NewFile third(Env::process(), path, ErrorKind::data);
  fill(third, "three");
  third.replace();
  EXPECT_EQ(test::content_of(path), "three");
}

TEST_F(NewFiles, AreNoOnesOnceTheyAreInPlace) {
  const fs::path path = folder_ / "a";
  for (const bool replaces : {false, true}) {
    {
      NewFile file(Env::process(), path, ErrorKind::data);
      fill(file, "one");
      replaces ? file.replace() : file.appear();
      std::ofstream(file.hidden_path()) << "of another process";
    }
    EXPECT_TRUE(fs::exists(folder_ / ".new-a"));
  }
}

TEST_F(NewFiles, TakeAwayWhatAKilledProcessLeftUnlessTheyGoOnWithIt) {
  std::ofstream(folder_ / ".new-a") << "left";
  {
    NewFile file(Env::process(), folder_ / "a", ErrorKind::data, NewFile::Leftover::stays);
    EXPECT_EQ(test::content_of(file.hidden_path()), "left");
    file.keep();
  }
  EXPECT_EQ(test::content_of(folder_ / ".new-a"), "left");
  NewFile(Env::process(), folder_ / "a", ErrorKind::data);
  EXPECT_EQ(entries(), 0u);
}

// Whichever step fails: the old file or the new one, whole, and nothing beside it.
TEST_F(NewFiles, LeaveNothingBehindWhateverFails) {
  const fs::path path = folder_ / "a";
  int failed = 0;
  for (const int error : {ENOSPC, EACCES})
    for (int at = 1; at < 20; ++at) {
      std::ofstream(path) << "old";
      test::FaultyEnv env(test::FaultyEnv::Fault::fail, at, error);
      try {
        NewFile file(env, path, ErrorKind::data);
        fill(file, "new");
        file.replace();
      } catch (const Error& caught) {
        ++failed;
        EXPECT_EQ(caught.kind(), ErrorKind::data);
        EXPECT_NE(std::string(caught.what()).find(std::strerror(error)), std::string::npos) << caught.what();
      }
      const std::string content = test::content_of(path);
      EXPECT_TRUE(content == "old" || content == "new") << content;
      EXPECT_EQ(entries(), 1u) << env.what();
    }
  EXPECT_GE(failed, 10);
}

TEST_F(NewFiles, HaveTheNameOfAFile) {
  fs::create_directory(folder_ / "b");
  for (const char* name : {"b", "b/"})
    EXPECT_HONE_ERROR(require_file_name(folder_ / name, ErrorKind::data), data, "a folder, expected the name of a");
  require_file_name(folder_ / "c", ErrorKind::data);
}

}  // namespace
}  // namespace hone::io
