// Nothing is moved, replaced or removed before it is proved to be hone's; what people put beside it survives.
#include "io/ownership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/strings.h"
#include "harness/errors.h"
#include "io/faulty_env.h"
#include "io/folder_commit.h"
#include "io/run_folder.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Ownership : public test::WithFastFolder {
 protected:
  Ownership() {
    log::set_sink([this](log::Level, std::string_view text) { said_ += std::string(text) + "\n"; });
  }
  ~Ownership() override { log::set_sink({}); }
  // A folder as `hone tokenizer train` makes it.
  void make(const std::string& name, const std::string& content, bool replace = false) {
    FolderCommit commit = commit_to(folder_ / name, replace);
    commit.add_file("tokenizer.json", content);
    commit.add_file("templates/a.jinja", "a");
    commit.commit({});
  }
  std::string content(const std::string& name) { return test::content_of(folder_ / name); }
  std::vector<std::string> names() { return Env::process().open_folder(folder_.path()).list(); }
  std::string why(const std::string& name) { return why_not_ours(Env::process().open_folder(folder_.path()), name); }
  std::string said_;
};

TEST_F(Ownership, AFolderIsOursWhenItsManifestListsAllOfIt) {
  make("m", "1");
  EXPECT_EQ(why("m"), "");
  folder_.write("m/templates/notes", "mine");
  EXPECT_EQ(why("m"), "hone did not write \"templates/notes\"");
  fs::remove(folder_ / "m/templates/notes");
  fs::create_directory(folder_ / "m/.git");
  EXPECT_EQ(why("m"), "hone did not write \".git\"");
  fs::remove(folder_ / "m/.git");
  folder_.write("m/MANIFEST.json", "{}");
  EXPECT_THAT(why("m"), testing::HasSubstr("manifest version"));
  folder_.write("other/file", "x");
  EXPECT_EQ(why("other"), "hone did not make it, as there is no MANIFEST.json in it");
  folder_.write("file", "x");
  EXPECT_EQ(why("file"), "it is no folder");
}

TEST_F(Ownership, AReplacedFolderIsMovedAsideNeverDeleted) {
  make("m", "1");
  EXPECT_HONE_ERROR(make("m", "2"), checkpoint, "--replace moves it to m.old-1");
  make("m", "2", true);
  make("m/", "3", true);
  EXPECT_EQ(content("m/tokenizer.json") + content("m.old-1/tokenizer.json") + content("m.old-2/tokenizer.json"), "312");
  EXPECT_THAT(said_, testing::HasSubstr("m: the folder that was there is now m.old-1"));
}

TEST_F(Ownership, AFolderWithForeignFilesIsNotReplaced) {
  folder_.write("home/letters.txt", "precious");
  EXPECT_HONE_ERROR(make("home", "x", true), checkpoint, "no MANIFEST.json in it");
  make("m", "1");
  folder_.write("m/notes.txt", "precious");
  EXPECT_HONE_ERROR(make("m", "x", true), checkpoint, "hone did not write \"notes.txt\"");
  folder_.write("file", "precious");
  EXPECT_HONE_ERROR(make("file", "x", true), checkpoint, "no folder");
  EXPECT_EQ(content("home/letters.txt") + content("m/notes.txt") + content("file"), "preciouspreciousprecious");
  EXPECT_EQ(names(), (std::vector<std::string>{"file", "home", "m"}));
}

TEST_F(Ownership, TheCurrentFolderOrOneAboveItIsNotReplaced) {
  make("m", "1");
  const fs::path old = fs::current_path();
  fs::current_path(folder_ / "m");
  std::vector<std::string> errors;
  for (const char* name : {".", "./", "../m", "../m/.", ""}) errors.push_back(error_of([&] { commit_to(name, true); }));
  fs::current_path(folder_ / "m/templates");
  errors.push_back(error_of([] { commit_to("..", true); }));
  fs::current_path(old);
  errors.push_back(error_of([] { commit_to("/", true); }));
  EXPECT_THAT(errors[4], testing::HasSubstr("no folder given"));
  EXPECT_THAT(errors[6], testing::HasSubstr("the root of the file system"));
  for (const int i : {0, 1, 2, 3, 5})
    EXPECT_THAT(errors[i], testing::HasSubstr("it is the current folder, or one above it"));
  EXPECT_EQ(names(), (std::vector<std::string>{"m"}));
}

TEST_F(Ownership, AFolderThatCannotBeMadeIsSaidBeforeTheWork) {
  fs::create_directory(folder_ / "locked");
  fs::permissions(folder_.path(), fs::perms::all);
  fs::permissions(folder_ / "locked", fs::perms(0555));
  const uid_t user = ::geteuid();
  if (user == 0 && ::seteuid(65534) != 0) GTEST_SKIP() << "root, who may write everywhere";
  const std::string to_replace = error_of([&] { require_free(folder_ / "locked/a/m", false); });
  const std::string run = error_of([&] { require_writable(folder_ / "locked/run", ErrorKind::checkpoint); });
  ASSERT_EQ(::seteuid(user), 0);
  fs::permissions(folder_ / "locked", fs::perms::owner_all);
  EXPECT_THAT(to_replace, testing::HasSubstr("locked/a: cannot be written: Permission denied"));
  EXPECT_THAT(run, testing::HasSubstr("locked/run: cannot be written: Permission denied"));
}

TEST_F(Ownership, NoFolderIsMadeAmongTheCheckpointsOfARunOrInPlaceOfOne) {
  make("run/checkpoints/step-00000004", "1");
  make("checkpoints/m", "1");
  folder_.write("run/run.json", "{}");
  for (const char* name : {"run/checkpoints/step-00000004", "run/checkpoints/step-00000005"})
    EXPECT_THAT(error_of([&] { commit_to(folder_ / name, true); }), testing::HasSubstr("among the checkpoints of"));
  EXPECT_EQ(content("run/checkpoints/step-00000004/tokenizer.json"), "1");
  make("checkpoints/m", "2", true);
  EXPECT_EQ(content("checkpoints/m/tokenizer.json"), "2");
}

TEST_F(Ownership, OfALinkedFolderTheFolderIsMovedAndTheLinkStays) {
  make("disk/m", "1");
  fs::create_directory_symlink(folder_ / "disk/m", folder_ / "m");
  make("m", "2", true);
  EXPECT_EQ(content("m/tokenizer.json") + content("disk/m/tokenizer.json") + content("disk/m.old-1/tokenizer.json"),
            "221");
  EXPECT_TRUE(fs::is_symlink(folder_ / "m"));
}

TEST_F(Ownership, AFolderInTheMakingIsNotTakenForAnAbandonedOne) {
  FolderCommit first = commit_to(folder_ / "m", false);
  first.add_file("a", "1");
  folder_.write(".tmp-m-0123456789ab/a", "abandoned");
  folder_.write(".tmp-m-notes/a", "mine");
  folder_.write(".tmp-n-0123456789ab/a", "another's");
  FolderCommit second = commit_to(folder_ / "m", false);
  EXPECT_FALSE(fs::exists(folder_ / ".tmp-m-0123456789ab"));
  EXPECT_EQ(content(".tmp-m-notes/a") + content(".tmp-n-0123456789ab/a"), "mineanother's");
  first.commit({});
  EXPECT_EQ(content("m/a"), "1");
}

TEST_F(Ownership, APlaceThatCannotBeWrittenIsSaid) {
  folder_.write("file", "x");
  EXPECT_HONE_ERROR(commit_to(folder_ / "file/m", false), checkpoint, "Not a directory");
}

// --------------------------------------------------------------------------------------------- checkpoints

class OwnCheckpoints : public Ownership {
 protected:
  Folder open() { return Env::process().make_folders(folder_ / "c"); }
};

TEST_F(OwnCheckpoints, ACheckpointWithNotesIsNeverRemoved) {
  for (const std::int64_t step : {10, 20, 30}) test::save_toy(open(), step);
  folder_.write("c/step-00000010/notes.txt", "precious");
  Checkpoints checkpoints(open());
  EXPECT_EQ(checkpoints.retain(1), (std::vector<std::int64_t>{20}));
  EXPECT_EQ(content("c/step-00000010/notes.txt"), "precious");
  EXPECT_THAT(said_,
              testing::HasSubstr("step-00000010: stays, beyond trainer.save.keep: hone did not write \"notes.txt\""));
  said_.clear();
  EXPECT_TRUE(checkpoints.retain(1).empty());
  EXPECT_EQ(said_, "");
  EXPECT_TRUE(checkpoints.at(10).whole());
}

TEST_F(OwnCheckpoints, AFolderInTheWayOfASaveIsKept) {
  folder_.write("c/step-00000010/mine.txt", "precious");
  folder_.write("c/step-00000020", "a file");
  for (const std::int64_t step : {10, 20}) test::save_toy(open(), step, true);
  EXPECT_EQ(content("c/step-00000010.old-1/mine.txt") + content("c/step-00000020.old-1"), "preciousa file");
  EXPECT_THAT(said_, testing::HasSubstr("the old one is kept as step-00000010.old-1"));
  EXPECT_EQ(Checkpoints(open()).newest()->step, 20);
}

TEST_F(OwnCheckpoints, ACheckpointWithNotesThatIsSavedAgainIsKept) {
  test::save_toy(open(), 10);
  folder_.write("c/step-00000010/state/notes.txt", "precious");
  test::save_toy(open(), 10, true);
  EXPECT_EQ(content("c/step-00000010.old-1/state/notes.txt"), "precious");
  test::save_toy(open(), 10, true);  // all of it is hone's this time
  EXPECT_EQ(open().list(), (std::vector<std::string>{"step-00000010", "step-00000010.old-1"}));
  EXPECT_EQ(Checkpoints(open()).scan(Verify::sizes).size(), 1u);
}

TEST_F(OwnCheckpoints, HiddenFoldersOfOthersAreNotCleanedAway) {
  test::save_toy(open(), 10);
  const std::vector<std::string> mine{".tmp-notes/a", ".tmp-step-00000010/a", ".tmp-step-10-x/a", ".trash-old/a",
                                      ".old-notes/a", ".old-step-00000010/a", ".tmp-step-00000010-x y/a"};
  for (const std::string& name : mine) folder_.write("c/" + name, "precious");
  folder_.write("c/.tmp-step-00000020-abc", "a file");
  folder_.write("c/.tmp-step-00000020-abd/model.safetensors", "half");
  Checkpoints(open()).clean();
  EXPECT_FALSE(fs::exists(folder_ / "c/.tmp-step-00000020-abd"));
  EXPECT_EQ(content("c/step-00000010.old-1/a"), "precious");  // was .old-step-00000010
  for (const std::string& name : mine) {
    if (name == ".old-step-00000010/a") continue;
    EXPECT_EQ(content("c/" + name), "precious") << name;
  }
  EXPECT_TRUE(fs::exists(folder_ / "c/.tmp-step-00000020-abc"));
}

// ---------------------------------------------------------------------------------------------- run folders

class OwnRun : public Ownership {
 protected:
  Env& env_ = Env::process();
  void run(const std::string& name, bool fresh = false) {
    RunFolder run(env_, folder_ / name, {.fresh = fresh});
    run.write_config("a: 1\n");
  }
};

TEST_F(OwnRun, FilesOfTheNamesThatARunWritesAreNotOverwritten) {
  for (const char* name : {"config.yaml", "metrics.jsonl", "run.json", ".lock"}) {
    const std::string folder = std::string("of-") + name;
    folder_.write(folder + "/" + name, "mine: 1\n");
    for (const bool fresh : {false, true})
      EXPECT_HONE_ERROR(run(folder, fresh), checkpoint, "a run would overwrite " + quoted(name));
    EXPECT_EQ(content(folder + "/" + name), "mine: 1\n");
    EXPECT_EQ(Env::process().open_folder(folder_ / folder).list().size(), 1u) << "something was made there";
  }
}

TEST_F(OwnRun, ARunStartsBesideOtherFiles) {
  folder_.write("a/recipe.yaml", "mine");
  run("a");
  run("a");
  EXPECT_EQ(content("a/recipe.yaml"), "mine");
}

TEST_F(OwnRun, NewMovesARunWholeAndNothingElse) {
  folder_.write("a/recipe.yaml", "mine");
  EXPECT_HONE_ERROR(run("a", true), checkpoint, "no run of hone's, so --new does not move it; it has \"recipe.yaml\"");
  run("a");
  run("a", true);
  EXPECT_EQ(content("a.old-1/recipe.yaml"), "mine");
  EXPECT_FALSE(fs::exists(folder_ / "a/recipe.yaml"));
}

TEST_F(OwnRun, NewInAFreshFolderInventsNoOldRun) {
  folder_.write("a/cache/tokens-0123.bin", "x");
  folder_.write("a/cache/source-4567.json", "{}");
  folder_.write("a/cache/.new-source-4567.json", "{}");  // killed there
  run("a", true);
  fs::create_directory(folder_ / "b");
  run("b", true);
  folder_.write("c/cache/mine.txt", "x");
  EXPECT_HONE_ERROR(run("c", true), checkpoint, "it has \"cache\"");
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(fs::exists(folder_ / "a/cache/tokens-0123.bin"));
}

TEST_F(OwnRun, ARunMayLiveInTheCurrentFolderButNotBeMovedFromThere) {
  fs::create_directory(folder_ / "here");
  const fs::path old = fs::current_path();
  fs::current_path(folder_ / "here");
  std::string said;
  try {
    for (const char* name : {".", "./", "../here"}) RunFolder(env_, name).write_config("a: 1\n");
    said = error_of([&] { RunFolder(env_, ".", {.fresh = true}); });
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  fs::current_path(old);
  EXPECT_THAT(said, testing::HasSubstr(".: the current folder, or one above it, cannot be moved away"));
  EXPECT_TRUE(fs::exists(folder_ / "here/config.yaml"));
  EXPECT_EQ(names(), (std::vector<std::string>{"here"}));
}

TEST_F(OwnRun, PlacesThatCannotHoldARunAreRefused) {
  folder_.write("file", "x");
  EXPECT_HONE_ERROR(run("file"), checkpoint, "no folder");
  EXPECT_HONE_ERROR(RunFolder(env_, "/"), checkpoint, "the root of the file system");
  EXPECT_HONE_ERROR(RunFolder(env_, ""), checkpoint, "no folder given");
  EXPECT_FALSE(fs::exists("/run.json"));
}

TEST_F(OwnRun, NewBehindALinkMovesTheFolderAndKeepsTheLink) {
  fs::create_directories(folder_ / "disk/a");
  fs::create_directory_symlink(folder_ / "disk/a", folder_ / "a");
  run("a");
  run("a", true);
  EXPECT_TRUE(fs::exists(folder_ / "disk/a.old-1/config.yaml"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "a"));
  EXPECT_TRUE(fs::exists(folder_ / "disk/a/config.yaml"));
}

TEST_F(OwnRun, AnEditedConfigIsKept) {
  run("a");
  folder_.write("a/config.yaml", "a: 1  # my note\n");
  run("a");
  EXPECT_EQ(content("a/config.yaml"), "a: 1\n");
  EXPECT_EQ(content("a/config.yaml.old-1"), "a: 1  # my note\n");
  EXPECT_THAT(said_, testing::HasSubstr("edited by hand"));
  said_.clear();
  run("a");
  RunFolder(env_, folder_ / "a").write_config("a: 2\n");
  EXPECT_EQ(said_, "");
}

TEST_F(OwnRun, LinksForPeopleReplaceOnlyLinksOfHones) {
  RunFolder run(env_, folder_ / "a");
  folder_.write("a/latest/mine.txt", "precious");
  folder_.write("a/best", "precious");
  for (const char* name : {"latest", "best"}) EXPECT_NO_THROW(run.link(name, "step-00000001"));
  EXPECT_EQ(content("a/latest/mine.txt") + content("a/best"), "preciousprecious");
  EXPECT_THAT(said_, testing::HasSubstr("latest: is there already, and no link that hone made; it stays as it is"));
  fs::remove(folder_ / "a/best");
  run.link("best", "step-00000001");
  run.link("best", "step-00000002");
  EXPECT_EQ(fs::read_symlink(folder_ / "a/best"), "checkpoints/step-00000002");
}

TEST_F(OwnRun, ARunRemembersThatItHadCheckpoints) {
  run("a");
  EXPECT_FALSE(RunFolder(env_, folder_ / "a").had_checkpoints());
  RunFolder(env_, folder_ / "a").note_checkpoint();
  EXPECT_TRUE(RunFolder(env_, folder_ / "a").had_checkpoints());
  run("b");
  fs::remove(folder_ / "b/checkpoints");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(RunFolder(env_, folder_ / "b").had_checkpoints());
  run("c");
  fs::create_symlink("checkpoints/step-00000001", folder_ / "c/latest");
  EXPECT_TRUE(RunFolder(env_, folder_ / "c").had_checkpoints());
}

}  // namespace
}  // namespace hone::io
