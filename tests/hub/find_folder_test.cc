// Where a model is looked for.
#include "hub/folders.h"

#include <gmock/gmock.h>

namespace hone::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FindFolder : public Folders {
 protected:
  FindFolder() { setenv("HF_HUB_CACHE", (root_ / "cache").c_str(), 1); }
  ~FindFolder() override { unsetenv("HF_HUB_CACHE"); }
};

TEST_F(FindFolder, TakesAFolderWithAConfig) {
  write_text(root_ / "m" / "config.json", "{}");
  EXPECT_EQ(find_model_folder((root_ / "m").string()), root_ / "m");
  EXPECT_EQ(find_model_folder((root_ / "m").string() + "/"), root_ / "m");
}
TEST_F(FindFolder, RefusesWhatHoldsNoModel) {
  fs::create_directories(root_ / "empty");
  EXPECT_THAT(error_of([&] { find_model_folder((root_ / "empty").string()); }),
              AllOf(HasSubstr("empty"), HasSubstr("config.json")));
  write_text(root_ / "m" / "model.safetensors", "x");
  EXPECT_THAT(error_of([&] { find_model_folder((root_ / "m/model.safetensors").string()); }),
              HasSubstr("give the folder"));
  EXPECT_THAT(error_of([&] { find_model_folder("no/such/folder"); }), HasSubstr("no such folder"));
  // A recipe goes where its run goes, and is read from elsewhere.
  EXPECT_THAT(error_of([&] { find_model_folder("base"); }),
              HasSubstr("hint: a relative path, looked for from " + fs::current_path().string()));
  EXPECT_THAT(error_of([&] { find_model_folder("/no/such/folder"); }), testing::Not(HasSubstr("relative")));
  EXPECT_THAT(error_of([&] { find_model_folder(""); }, ErrorKind::usage), HasSubstr("no folder"));
}
TEST_F(FindFolder, LooksIntoTheCache) {
  const fs::path repository = root_ / "cache" / "models--org--name";
  write_text(repository / "refs" / "main", "abc123");
  write_text(repository / "snapshots" / "abc123" / "config.json", "{}");
  write_text(repository / "snapshots" / "older" / "config.json", "{}");
  EXPECT_EQ(find_model_folder("org/name"), repository / "snapshots" / "abc123");
}
TEST_F(FindFolder, SaysHowToDownload) {
  EXPECT_THAT(error_of([&] { find_model_folder("org/other"); }), HasSubstr("hf download org/other"));
}
TEST_F(FindFolder, NeverLeavesTheCache) {
  for (const char* name : {"../x", "a/..", "a/b/c", "/a/b", "a/.b"})
    EXPECT_THAT(error_of([&] { find_model_folder(name); }), HasSubstr("no such folder"));
  write_text(root_ / "cache" / "models--org--evil" / "refs" / "main", "../../../m");
  write_text(root_ / "m" / "config.json", "{}");
  EXPECT_THAT(error_of([&] { find_model_folder("org/evil"); }), HasSubstr("hf download"));
}

}  // namespace
}  // namespace hone::test
