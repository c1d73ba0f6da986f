// Reading safetensors: what the reference accepts and refuses, hostile headers, shards and their index.
#include "hone/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "base/strings.h"
#include "harness/errors.h"
#include "harness/files.h"
#include "io/json.h"
#include "io/safetensors_header.h"

namespace hone {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string file_with(const std::string& header, std::size_t data_bytes = 0) {
  std::string text(8, '\0');
  for (int i = 0; i < 8; ++i) text[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text + header + std::string(data_bytes, '\1');
}

std::string entry(const std::string& name, const std::string& shape, std::uint64_t begin, std::uint64_t end,
                  const std::string& dtype = "F32") {
  return json(name).dump() + R"(:{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string from_base64(const std::string& text) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(kDigits.find(c));
    if ((count += 6) < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return out;
}

class SafetensorsTest : public test::WithFolder {
 protected:
  Safetensors open(const std::string& content) { return Safetensors(folder_.write("x.safetensors", content)); }
};

TEST_F(SafetensorsTest, ReadsWhatTheReferenceWrote) {
  const Safetensors file(test::golden("io/dtypes.safetensors"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.tensors().size(), 15u);
  const TensorInfo* bf16 = file.find("t.BF16");
  ASSERT_NE(bf16, nullptr);
  EXPECT_EQ(bf16->dtype, "BF16");
  EXPECT_EQ(bf16->shape, (std::vector<std::int64_t>{2, 3}));
  std::vector<std::uint16_t> values(6);
  file.read(*bf16, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, (std::vector<std::uint16_t>{0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0}));
  file.read(*bf16, std::as_writable_bytes(std::span(values)).first(4), 6);
  EXPECT_EQ(values, (std::vector<std::uint16_t>{0x4040, 0x4080, 0x4000, 0x4040, 0x4080, 0x40a0}));
  const TensorInfo* scalar = file.find("scalar");
  ASSERT_NE(scalar, nullptr);
  EXPECT_TRUE(scalar->shape.empty());
  float value = 0;
  file.read(*scalar, std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_EQ(value, 3.5f);
  EXPECT_EQ(file.find("empty")->bytes(), 0u);
  EXPECT_NE(file.find("name with \"quotes\" and \u00fc"), nullptr);
  EXPECT_EQ(file.find("none"), nullptr);
}

// Where hone is stricter than the reference, on purpose (docs/formats.md).
bool stricter(const std::string& name) {
  for (const char* known : {"duplicate tensor", "duplicate metadata key", "empty name", "NUL in a name",
                            "control character in a name", "long name", "rank 65", "zero times the largest"})
    if (name == known) return true;
  return false;
}

TEST_F(SafetensorsTest, JudgesAsTheReferenceDoes) {
  const json golden = io::read_json_file(test::golden("io/reference.json"));
  ASSERT_GT(golden["cases"].size(), 60u);
  for (const json& one : golden["cases"]) {
    const std::string name = one["name"].get<std::string>();
    const bool expected = one["accepted"].get<bool>() && !stricter(name);
    try {
      open(from_base64(one["file"].get<std::string>()));
      EXPECT_TRUE(expected) << name << ": accepted";
    } catch (const Error& error) {
      EXPECT_FALSE(expected) << name << ": " << error.what();
      EXPECT_EQ(error.kind(), ErrorKind::checkpoint);
      EXPECT_THAT(error.what(), testing::HasSubstr("x.safetensors")) << name;
    }
  }
}

TEST_F(SafetensorsTest, SaysWhatIsWrong) {
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[2]", 0, 8) + "," + entry("y", "[2]", 4, 12) + "}", 12)),
                    checkpoint, "tensor \"y\": begins at byte 4 of the data, expected 8: tensors overlap");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[2]", 4, 12) + "}", 12)), checkpoint, "leave a hole");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[2]", 0, 8) + "}", 7)), checkpoint,
                    "need 8 bytes, the file has 7: it was cut off");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[2]", 0, 8) + "}", 9)), checkpoint, "there is more behind them");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[3]", 0, 8) + "}", 8)), checkpoint,
                    "do not hold the 12 bytes of its shape");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[-1]", 0, 8) + "}", 8)), checkpoint,
                    "got the number -1, expected whole numbers");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[2]", 0, 8, "F33") + "}", 8)), checkpoint,
                    "unknown dtype \"F33\"");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[2]", 0, 8) + "," + entry("x", "[0]", 8, 8) + "}", 8)), checkpoint,
                    "\"x\" is given twice");
  EXPECT_HONE_ERROR(open(file_with("{\"x\":{\"dtype\":\"F32\",\"dtype\"")), checkpoint, "\"dtype\" is given twice");
  EXPECT_HONE_ERROR(open(file_with("{\"x\"")), checkpoint, "its header is not JSON at byte");
  EXPECT_HONE_ERROR(open(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)), checkpoint,
                    "its header claims 9223372036854775807 bytes, expected 2 to 100000000");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("x", "[2]", 0, 8) + "}", 8).substr(0, 20)), checkpoint,
                    "its header claims 54 bytes, 12 are there: it was cut off");
  EXPECT_HONE_ERROR(open(file_with("{" + entry("\x1b[2J", "[2]", 0, 8) + "}", 8)), checkpoint,
                    "\"\\x1b[2J\": its name holds control characters");
}

TEST_F(SafetensorsTest, EveryCutAndEveryFlippedHeaderBitIsSafe) {
  const std::string good = test::content_of(test::golden("io/dtypes.safetensors"));
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_THROW(open(good.substr(0, size)), Error) << size;
  std::uint64_t header = 0;
  std::memcpy(&header, good.data(), 8);
  int refused = 0;
  for (std::size_t bit = 0; bit < (8 + header) * 8; bit += 3) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    try {
      const Safetensors file = open(bad);  // a changed name or letter of metadata is still a file
      for (const TensorInfo& tensor : file.tensors()) {
        std::vector<std::byte> into(tensor.bytes());
        file.read(tensor, into);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(SafetensorsTest, RandomHeadersNeverCrash) {
  std::mt19937 random(7);
  const std::string pieces[] = {"{",
                                "}",
                                "[",
                                "]",
                                ",",
                                ":",
                                "\"x\"",
                                "\"dtype\"",
                                "\"shape\"",
                                "\"data_offsets\"",
                                "\"F32\"",
                                "0",
                                "8",
                                "-1",
                                "1e9",
                                "null",
                                "true",
                                "\"__metadata__\"",
                                " ",
                                "18446744073709551615",
                                entry("y", "[2]", 0, 8)};
  for (int i = 0; i < 20000; ++i) {
    std::string header = "{";
    for (unsigned n = random() % 14; n-- > 0;) header += pieces[random() % std::size(pieces)];
    try {
      open(file_with(header, 8));
    } catch (const Error&) {
    }
  }
}

TEST_F(SafetensorsTest, AHugeHeaderIsReadInLittleMemoryAndTime) {
  std::string header = "{";
  for (int i = 0; i < 100000; ++i) header += (i > 0 ? "," : "") + entry("t" + std::to_string(i), "[0]", 0, 0);
  EXPECT_EQ(open(file_with(header + "}")).tensors().size(), 100000u);
}

TEST_F(SafetensorsTest, TooManyTensorsAreRefused) {
  std::string header = "{";
  for (int i = 0; i <= 1'000'000; ++i)
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_HONE_ERROR(open(file_with(header + "}")), checkpoint, "more than 1000000 tensors");
}

TEST_F(SafetensorsTest, PicklesAreRefusedWithAdvice) {
  EXPECT_HONE_ERROR(open(std::string("\x80\x04\x95\xd4\x00\x00\x00\x00", 8) + std::string(100, '\0')), checkpoint,
                    "a pickle file, which can run code");
  EXPECT_HONE_ERROR(open(std::string("PK\x03\x04") + std::string(100, '\0')), checkpoint,
                    "a pickle file, which can run code");
  EXPECT_HONE_ERROR(open("\x80\x04\x95" + std::string(100, 'x')), checkpoint, "convert it");
}

TEST_F(SafetensorsTest, AFileCutAfterOpeningIsAnError) {
  const Safetensors file = open(file_with("{" + entry("x", "[2]", 0, 8) + "}", 8));
  fs::resize_file(folder_ / "x.safetensors", 60);
  std::byte into[8];
  EXPECT_HONE_ERROR(file.read(file.tensors()[0], into), checkpoint, "it was cut off");
}

TEST_F(SafetensorsTest, SpecialFilesAreRefused) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_HONE_ERROR(Safetensors(folder_ / "fifo"), checkpoint, "not a regular file");
  EXPECT_HONE_ERROR(Safetensors(folder_.path()), checkpoint, "not a regular file");
}

class Shards : public test::WithFolder {
 protected:
  Shards() {
    folder_.write("a.safetensors", file_with("{" + entry("x", "[2]", 0, 8) + "}", 8));
    folder_.write("b.safetensors", file_with("{" + entry("y", "[2]", 0, 8) + "}", 8));
  }
  SafetensorsSet open(const std::string& weight_map) {
    folder_.write("model.safetensors.index.json", R"({"metadata":{"total_size":16},"weight_map":)" + weight_map + "}");
    return SafetensorsSet(folder_.path());
  }
};

TEST_F(Shards, AreReadTogether) {
  const SafetensorsSet set = open(R"({"x":"a.safetensors","y":"b.safetensors"})");
  ASSERT_EQ(set.tensors().size(), 2u);
  EXPECT_EQ(set.tensors().at("y").file->path().filename(), "b.safetensors");
}

// As transformers, whatever the index says: it is what an older save left.
TEST_F(Shards, ASingleFileWinsOverAnIndex) {
  folder_.write("model.safetensors", file_with("{" + entry("z", "[2]", 0, 8) + "}", 8));
  for (const char* index : {R"({"x":"a.safetensors","y":"b.safetensors"})", R"({"x":"gone.safetensors"})"}) {
    const SafetensorsSet set = open(index);
    ASSERT_EQ(set.tensors().size(), 1u);
    EXPECT_EQ(set.tensors().at("z").file->path().filename(), "model.safetensors");
  }
}

TEST_F(Shards, LeafSymlinksAreFollowedAsHubCachesNeed) {
  fs::create_directory(folder_ / "blobs");
  fs::rename(folder_ / "b.safetensors", folder_ / "blobs/123");
  fs::create_symlink("blobs/123", folder_ / "b.safetensors");
  EXPECT_EQ(open(R"({"x":"a.safetensors","y":"b.safetensors"})").tensors().size(), 2u);
}

TEST_F(Shards, NamesThatLeaveTheFolderAreRefused) {
  for (const std::string name :
       {"/etc/passwd", "../b.safetensors", "sub/b.safetensors", "..", ".", "", "b\\u0000.safetensors"})
    EXPECT_HONE_ERROR(open(R"({"x":"a.safetensors","y":")" + name + "\"}"), checkpoint,
                      "expected the plain name of a file");
  EXPECT_HONE_ERROR(open(R"({"x":"a.safetensors","y":7})"), checkpoint, "expected the plain name of a file");
  EXPECT_HONE_ERROR(open("[]"), checkpoint, "no object \"weight_map\"");
}

TEST_F(Shards, AMissingShardIsNamedWithItsTensors) {
  EXPECT_HONE_ERROR(open(R"({"x":"a.safetensors","y":"c.safetensors"})"), checkpoint,
                    "c.safetensors: missing; it holds \"y\"");
}

TEST_F(Shards, IndexAndFilesMustAgree) {
  EXPECT_HONE_ERROR(open(R"({"x":"a.safetensors","y":"a.safetensors"})"), checkpoint, "has no \"y\"");
  EXPECT_HONE_ERROR(open(R"({"x":"a.safetensors","z":"b.safetensors"})"), checkpoint, "holds \"y\"");
  folder_.write("b.safetensors", file_with("{" + entry("x", "[2]", 0, 8) + "," + entry("y", "[2]", 8, 16) + "}", 16));
  EXPECT_HONE_ERROR(open(R"({"x":"a.safetensors","y":"b.safetensors"})"), checkpoint, "holds \"x\", which");
}

TEST_F(Shards, SpecialFilesAsShardsAreRefused) {
  fs::remove(folder_ / "b.safetensors");
  ASSERT_EQ(mkfifo((folder_ / "b.safetensors").c_str(), 0600), 0);
  EXPECT_HONE_ERROR(open(R"({"x":"a.safetensors","y":"b.safetensors"})"), checkpoint, "not a regular file");
}

TEST_F(Shards, AFolderWithoutWeightsSaysSo) {
  const test::TempFolder empty;
  EXPECT_HONE_ERROR(SafetensorsSet(empty.path()), checkpoint,
                    "no model.safetensors and no model.safetensors.index.json");
  empty.write("pytorch_model.bin", "x");
  EXPECT_HONE_ERROR(SafetensorsSet(empty.path()), checkpoint, "is a pickle");
  EXPECT_HONE_ERROR(SafetensorsSet(empty / "none"), checkpoint, "no such file or folder");
}

TEST(Shards2, RealModelOpens) {
  HONE_NEEDS_DATA(model, "models/stories260K");
  EXPECT_GT(SafetensorsSet(model).tensors().size(), 10u);
}

}  // namespace
}  // namespace hone
