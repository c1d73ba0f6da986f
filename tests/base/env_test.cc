// Env: short writes, EINTR, symlinks, special files, errors with path and cause.
#include "base/env.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "harness/errors.h"
#include "harness/files.h"

namespace hone {
namespace {

class HookedEnv : public Env {
 public:
  std::function<int(Operation&)> hook = [](Operation&) { return 0; };
  int before(Operation& operation) override { return hook(operation); }
};

class EnvTest : public test::WithFolder {
 protected:
  Folder open() { return env_.open_folder(folder_.path()); }
  HookedEnv env_;
};

TEST_F(EnvTest, ShortWritesAndEintrChangeNothing) {
  int calls = 0;
  env_.hook = [&](Operation& operation) {
    if (++calls % 3 == 0) return EINTR;
    if (operation.kind == Operation::Kind::write)
      operation.data = operation.data.first(std::min<std::size_t>(7, operation.data.size()));
    return 0;
  };
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i);
  open().write_file("a", text);
  EXPECT_EQ(test::content_of(folder_ / "a"), text);
  EXPECT_GT(calls, 400);
}

TEST_F(EnvTest, CreateNeverTouchesWhatIsThere) {
  folder_.write("there", "old");
  EXPECT_HONE_ERROR(open().create("there"), checkpoint, "there: cannot make the file: File exists");
  ASSERT_EQ(symlink((folder_ / "there").c_str(), (folder_ / "link").c_str()), 0);
  EXPECT_HONE_ERROR(open().create("link"), checkpoint, "File exists");
  EXPECT_HONE_ERROR(open().append_to("link"), checkpoint, "cannot open for appending");
  EXPECT_EQ(test::content_of(folder_ / "there"), "old");
}

TEST_F(EnvTest, ReplaceFileReplacesALinkAndNotItsTarget) {
  folder_.write("target", "old");
  ASSERT_EQ(symlink("target", (folder_ / "name").c_str()), 0);
  open().replace_file("name", "new");
  EXPECT_EQ(test::content_of(folder_ / "target"), "old");
  EXPECT_EQ(test::content_of(folder_ / "name"), "new");
}

TEST_F(EnvTest, ReplacePutsOneFileInThePlaceOfAnother) {
  folder_.write("old", "old");
  folder_.write("new", "new");
  open().replace("new", "old");
  EXPECT_EQ(test::content_of(folder_ / "old"), "new");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
  EXPECT_HONE_ERROR(open().replace("new", "old"), checkpoint, "old: cannot put the new file in place: No such file");
}

TEST_F(EnvTest, AFailedReplaceLeavesTheOldFile) {
  folder_.write("name", "old");
  for (const auto kind :
       {Operation::Kind::create, Operation::Kind::write, Operation::Kind::sync, Operation::Kind::replace}) {
    env_.hook = [&](Operation& operation) { return operation.kind == kind ? ENOSPC : 0; };
    EXPECT_HONE_ERROR(open().replace_file("name", "new"), checkpoint, "No space left on device");
    EXPECT_EQ(test::content_of(folder_ / "name"), "old");
    EXPECT_FALSE(std::filesystem::exists(folder_ / ".new-name"));
  }
}

TEST_F(EnvTest, AFailedSyncIsFinalForItsFile) {
  int syncs = 0;
  env_.hook = [&](Operation& operation) { return operation.kind == Operation::Kind::sync && syncs++ == 0 ? EIO : 0; };
  OutFile file = open().create("a");
  file.write("x");
  EXPECT_HONE_ERROR(file.sync(), checkpoint, "a: cannot sync: Input/output error");
  EXPECT_HONE_ERROR(file.sync(), checkpoint, "not used any more");
  EXPECT_HONE_ERROR(file.write("y"), checkpoint, "not used any more");
  EXPECT_EQ(syncs, 1);
}

TEST_F(EnvTest, RenameNeverReplaces) {
  const Folder folder = open();
  folder.make_folder("a");
  folder.make_folder("b");
  EXPECT_HONE_ERROR(folder.rename("a", folder, "b"), checkpoint, "File exists");
  folder.rename("a", folder, "c");
  EXPECT_TRUE(folder.is_folder("c"));
}

TEST_F(EnvTest, RemoveTreeDoesNotFollowLinks) {
  folder_.write("keep/file", "x");
  folder_.write("tree/deep/er/file", "y");
  ASSERT_EQ(symlink("../keep", (folder_ / "tree/link").c_str()), 0);
  open().remove_tree("tree");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tree"));
  EXPECT_EQ(test::content_of(folder_ / "keep/file"), "x");
  EXPECT_NO_THROW(open().remove_tree("tree"));
}

TEST_F(EnvTest, RemoveTreeIsNotDeepOnTheStack) {
  std::filesystem::path deep = folder_ / "tree";
  for (int i = 0; i < 400; ++i) deep /= "d";
  std::filesystem::create_directories(deep);
  open().remove_tree("tree");
  EXPECT_FALSE(open().exists("tree"));
}

TEST_F(EnvTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_HONE_ERROR(InFile(folder_ / "fifo"), checkpoint, "fifo: not a regular file");
  EXPECT_HONE_ERROR(InFile("/dev/zero"), checkpoint, "not a regular file");
  EXPECT_HONE_ERROR(InFile(folder_.path()), checkpoint, "not a regular file");
  EXPECT_HONE_ERROR(open().read_file("fifo"), checkpoint, "not a regular file");
  EXPECT_HONE_ERROR(InFile(folder_ / "none", ErrorKind::data), data, "none: cannot open: No such file or directory");
}

TEST_F(EnvTest, AFileCutWhileItIsReadIsAnError) {
  const InFile file(folder_.write("a", std::string(1000, 'x')));
  std::filesystem::resize_file(folder_ / "a", 10);
  std::byte into[100];
  EXPECT_HONE_ERROR(file.read(0, into), checkpoint, "it was cut off");
}

TEST_F(EnvTest, ReadsAreLimited) {
  folder_.write("a", "12345");
  EXPECT_HONE_ERROR(open().read_file("a", 4), checkpoint, "5 B, expected at most 4 B");
  EXPECT_EQ(open().read_file("a", 5), "12345");
  EXPECT_EQ(open().maybe_read_file("b"), std::nullopt);
}

TEST_F(EnvTest, MakeFoldersMakesParents) {
  env_.make_folders(folder_ / "a/b/c").write_file("x", "1");
  EXPECT_EQ(test::content_of(folder_ / "a/b/c/x"), "1");
  EXPECT_HONE_ERROR(env_.make_folders(folder_ / "a/b/c/x/y"), checkpoint, "Not a directory");
}

TEST_F(EnvTest, FreeBytesOfAFolderThatIsNotThereYet) { EXPECT_GT(env_.free_bytes(folder_ / "not/yet"), 0u); }

TEST_F(EnvTest, AppendGoesOnAndTruncateCuts) {
  folder_.write("log", "one\n");
  OutFile file = open().append_to("log");
  EXPECT_EQ(file.size(), 4u);
  file.write("two\n");
  file.truncate(6);
  file.write("!\n");
  EXPECT_EQ(test::content_of(folder_ / "log"), "one\ntw!\n");
}

TEST_F(EnvTest, LinksAreReplacedInOneStep) {
  const Folder folder = open();
  folder.replace_link("latest", "step-1");
  folder.replace_link("latest", "step-2");
  EXPECT_EQ(std::filesystem::read_symlink(folder_ / "latest"), "step-2");
}

}  // namespace
}  // namespace hone
