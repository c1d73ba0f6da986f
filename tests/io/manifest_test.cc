// Damage of any kind to any file of a checkpoint is found and named.
#include "io/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/hash.h"
#include "harness/errors.h"
#include "io/faulty_env.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class ManifestTest : public test::WithFastFolder {
 protected:
  ManifestTest() {
    test::save_toy(Env::process().make_folders(folder_ / "c"), 10);
    path_ = folder_ / "c/step-00000010";
  }
  std::vector<std::string> problems(Verify mode = Verify::full) {
    return verify(Env::process().open_folder(path_), mode);
  }
  void put(const std::string& name, const std::string& content) {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }
  static constexpr const char* kShard = "model-00001-of-00002.safetensors";
  static constexpr const char* kFiles[] = {"MANIFEST.json",
                                           "config.json",
                                           kShard,
                                           "model-00002-of-00002.safetensors",
                                           "model.safetensors.index.json",
                                           "state/train.json",
                                           "templates/a.jinja",
                                           "state/optimizer-00000-of-00001.safetensors"};
  fs::path path_;
};

TEST_F(ManifestTest, AWholeFolderHasNoProblems) {
  EXPECT_TRUE(problems().empty());
  put("README.md", "a note of the user's");
  EXPECT_TRUE(problems().empty());
}

TEST_F(ManifestTest, SurvivesItsOwnText) {
  const Manifest manifest = Manifest::read(Env::process().open_folder(path_));
  EXPECT_EQ(manifest.step, 10);
  EXPECT_EQ(manifest.files.size(), 7u);
  EXPECT_EQ(Manifest::from_json(manifest.to_json(), "m").to_json(), manifest.to_json());
}

TEST_F(ManifestTest, EveryFlippedBitIsFound) {
  std::mt19937 random(1);
  for (const char* name : kFiles) {
    const std::string good = test::content_of(path_ / name);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      if (good.size() > 600 && random() % 4 != 0) continue;
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      put(name, bad);
      const auto found = problems();
      ASSERT_FALSE(found.empty()) << name << " bit " << bit;
      ASSERT_THAT(found[0], HasSubstr(name));
    }
    put(name, good);
  }
  EXPECT_TRUE(problems().empty());
}

TEST_F(ManifestTest, EveryLengthIsFound) {
  for (const char* name : kFiles) {
    const std::string good = test::content_of(path_ / name);
    for (std::size_t size = 0; size <= good.size() + 3; ++size) {
      if (size == good.size()) continue;
      put(name, size < good.size() ? good.substr(0, size) : good + std::string(size - good.size(), '\n'));
      const auto found = problems(Verify::sizes);
      ASSERT_FALSE(found.empty()) << name << " cut to " << size;
      ASSERT_THAT(found[0], HasSubstr(name));
    }
    put(name, good);
  }
}

TEST_F(ManifestTest, AMissingShardIsNamedWithItsTensors) {
  fs::remove(path_ / kShard);
  EXPECT_THAT(problems(Verify::sizes),
              Contains(AllOf(HasSubstr(kShard), HasSubstr("missing; it held \"layers.0.up\""))));
  fs::create_directory(path_ / kShard);
  EXPECT_THAT(problems(Verify::sizes), Contains(HasSubstr("not a regular file")));
}

TEST_F(ManifestTest, AnUnknownShardIsNamed) {
  put("model.safetensors", "x");
  EXPECT_THAT(problems(Verify::sizes), Contains(HasSubstr("model.safetensors: not in the manifest")));
}

TEST_F(ManifestTest, SwappedFilesAreFound) {
  const std::string a = "state/optimizer-00000-of-00001.safetensors", b = kShard;
  fs::rename(path_ / a, path_ / "x");
  fs::rename(path_ / b, path_ / a);
  fs::rename(path_ / "x", path_ / b);
  EXPECT_GE(problems().size(), 2u);
}

TEST_F(ManifestTest, ADamagedChunkIsNamedWithItsTensor) {
  std::string bytes = test::content_of(path_ / kShard);
  bytes.back() ^= 1;
  put(kShard, bytes);
  EXPECT_THAT(problems(), Contains(HasSubstr("corrupt: tensor \"layers.0.up\" chunk 0")));
}

std::string with_hash(std::string text) {  // a manifest whose own hash is right, whatever it says
  Manifest empty;
  const std::string good = empty.to_json();
  const std::size_t tail = good.size() - good.rfind(",\n \"manifest_hash\"");
  std::string last = good.substr(good.size() - tail);
  last.replace(last.find(": \"") + 3, 16, hex64(hash64(text)));
  return text + last;
}

// A file with one tensor of so many bytes and chunks, cut there.
std::string tensor(int size, int chunks, const std::string& ends) {
  std::string hashes;
  for (int i = 0; i < chunks; ++i) hashes += (i > 0 ? "," : "") + std::string(R"("0123456789abcdef")");
  return fmt::format(R"({{"name":"a","size":{},"xxh3":"0123456789abcdef","header":8,)"
                     R"("tensors":[{{"name":"t","size":{},"chunks":[{}]{}}}]}})",
                     size + 8, size, hashes, ends.empty() ? "" : ",\"ends\":" + ends);
}

// Those that an older hone has written: one hash over a whole tensor file.
TEST_F(ManifestTest, TheFirstVersionIsRead) {
  Manifest manifest = Manifest::read(Env::process().open_folder(path_));
  manifest.version = 1;
  for (ManifestFile& file : manifest.files) file.hash = hash64(test::content_of(path_ / file.name));
  put("MANIFEST.json", manifest.to_json());
  EXPECT_TRUE(problems().empty());
  manifest.files[2].hash ^= 1;
  put("MANIFEST.json", manifest.to_json());
  EXPECT_EQ(problems().size(), 1u);
}

TEST(ManifestText, HostileOnesAreRefused) {
  EXPECT_NO_THROW(Manifest::from_json(Manifest{}.to_json(), "m"));
  const std::string head =
      R"({"version":1,"step":1,"world":1,"tokens":1,"run_id":"","config_hash":"","data_hash":"","tokenizer_hash":"","finite":true,"files":[)";
  EXPECT_NO_THROW(Manifest::from_json(with_hash(head + R"({"name":"a","size":1,"xxh3":"0123456789abcdef"}])"), "m"));
  EXPECT_NO_THROW(Manifest::from_json(with_hash(head + R"({"name":"a/b","size":1,"xxh3":"0123456789abcdef"}])"), "m"));
  EXPECT_NO_THROW(Manifest::from_json(with_hash(head + tensor(9, 1, "") + "]"), "m"));
  EXPECT_NO_THROW(Manifest::from_json(with_hash(head + tensor(9, 2, "[5,9]") + "]"), "m"));
  for (const char* name : {"../a", "/etc/passwd", "../a/b", "state/../a", "", ".", "state/", "state/a/b", "a\\u0000b"})
    EXPECT_HONE_ERROR(
        Manifest::from_json(with_hash(head + R"({"name":")" + name + R"(","size":1,"xxh3":"0123456789abcdef"}])"), "m"),
        checkpoint, "m: not a manifest of hone");
  const std::vector<std::string> hostile{
      R"({"name":"a","size":-1,"xxh3":"0123456789abcdef"})",
      R"({"name":"a","size":1,"xxh3":"zz"})",
      "7",
      R"({"name":"a","size":9,"xxh3":"0123456789abcdef","header":8,"tensors":[{"name":"t","size":18446744073709551615,"chunks":[]}]})",
      tensor(9, 2, ""),
      tensor(9, 1, "[8]"),
      tensor(9, 1, "[9,9]"),
      tensor(9, 2, "[9,9]"),
      tensor(9, 2, "[0,9]"),
      tensor(9, 3, "[5,4,9]"),
      tensor(9, 1, "[-1]"),
      tensor(20 << 20, 1, "[20971520]"),
      tensor(0, 1, "[0]"),
      tensor(9, 1, "9")};
  for (const std::string& file : hostile)
    EXPECT_HONE_ERROR(Manifest::from_json(with_hash(head + file + "]"), "m"), checkpoint, "m: not a manifest of hone");
  EXPECT_HONE_ERROR(Manifest::from_json(R"({"version": 3})", "m"), checkpoint, "manifest version 3, expected 2");
  EXPECT_HONE_ERROR(Manifest::from_json("{}", "m"), checkpoint, "version");
  EXPECT_HONE_ERROR(Manifest::from_json("", "m"), checkpoint, "m");
}

}  // namespace
}  // namespace hone::io
