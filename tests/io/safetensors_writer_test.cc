// Writing safetensors: the reference's bytes, its shards, hashes of what was written, hostile requests.
#include "io/safetensors_writer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "harness/errors.h"
#include "io/faulty_env.h"
#include "io/json.h"

namespace hone::io {
namespace {

namespace fs = std::filesystem;

class Writer : public test::WithFastFolder {
 protected:
  Folder open() { return Env::process().open_folder(folder_.path()); }
};

TEST_F(Writer, GivesTheBytesOfTheReference) {
  const Safetensors golden(test::golden("io/dtypes.safetensors"));
  std::vector<TensorSpec> specs;
  for (const TensorInfo& tensor : golden.tensors()) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  std::vector<std::byte> bytes;
  save_safetensors(open(), "x.safetensors", specs, golden.metadata(),
                   [&](const TensorSpec& spec) -> std::span<const std::byte> {
                     bytes.resize(tensor_bytes(spec));
                     golden.read(*golden.find(spec.name), bytes);
                     return bytes;
                   });
  EXPECT_EQ(test::content_of(folder_ / "x.safetensors"), test::content_of(golden.path()));
}

TEST_F(Writer, AlignsEveryTensorAndKeepsTheOrderWithin) {
  const std::vector<TensorSpec> specs{
      {"a", "BF16", {3}}, {"b", "F32", {1}}, {"c", "U8", {3}}, {"d", "F32", {2}}, {"e", "I64", {1}}};
  save_safetensors(open(), "x.safetensors", specs, {}, [&](const TensorSpec& spec) {
    static std::vector<std::byte> bytes;
    return std::span<const std::byte>(bytes = test::toy_bytes(spec, 1));
  });
  const Safetensors file(folder_ / "x.safetensors");
  std::string order;
  for (const TensorInfo& tensor : file.tensors()) {
    order += tensor.name;
    EXPECT_EQ(tensor.begin % dtype_bytes(tensor.dtype), 0u) << tensor.name;
    std::vector<std::byte> bytes(tensor.bytes());
    file.read(tensor, bytes);
    EXPECT_EQ(bytes, test::toy_bytes({tensor.name, tensor.dtype, tensor.shape}, 1));
  }
  EXPECT_EQ(order, "ebdac");
  EXPECT_TRUE(file.metadata().empty());
  EXPECT_EQ(test::content_of(folder_ / "x.safetensors")[8], '{');
}

TEST_F(Writer, ANamedFileAppearsWholeOrStaysAsItWas) {
  const std::vector<TensorSpec> specs{{"a", "F32", {300}}};
  std::vector<std::byte> bytes;
  const auto bytes_of = [&](const TensorSpec& spec) {
    return std::span<const std::byte>(bytes = test::toy_bytes(spec, 1));
  };
  const fs::path path = folder_ / "out/x.safetensors";
  const std::vector<TensorSpec> before{{"b", "F32", {3}}};
  replace_safetensors(Env::process(), path, before, {}, bytes_of, ErrorKind::data);
  const std::string old = test::content_of(path);
  for (int at = 1; at < 40; ++at) {
    test::FaultyEnv env(test::FaultyEnv::Fault::fail, at, ENOSPC);
    try {
      replace_safetensors(env, path, specs, {}, bytes_of, ErrorKind::data);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      // Only the last step, which makes the rename durable, comes after it.
      if (env.what().find("sync_folder") == std::string::npos) {
        EXPECT_EQ(test::content_of(path), old) << env.what();
      }
    }
    EXPECT_EQ(Env::process().open_folder(folder_ / "out").list(), (std::vector<std::string>{"x.safetensors"}));
  }
  EXPECT_EQ(Safetensors(path).tensors().size(), 1u);
  EXPECT_HONE_ERROR(replace_safetensors(Env::process(), folder_ / "out/", specs, {}, bytes_of, ErrorKind::data), data,
                    "a folder, expected the name of a file");
  EXPECT_HONE_ERROR(replace_safetensors(Env::process(), folder_ / "out", specs, {}, bytes_of, ErrorKind::data), data,
                    "a folder, expected the name of a file");
}

TEST_F(Writer, HashesWhatItWroteHoweverItCame) {
  const std::vector<TensorSpec> specs{
      {"big", "U8", {static_cast<std::int64_t>(kHashChunk * 2 + 5)}}, {"none", "U8", {0}}, {"small", "U8", {3}}};
  std::string data(kHashChunk * 2 + 8, 'x');
  for (std::size_t i = 0; i < data.size(); i += 1000) data[i] = static_cast<char>(i / 1000);
  SafetensorsWriter writer(open(), "x.safetensors", specs, {});
  std::mt19937 random(2);
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t size = std::min<std::size_t>(data.size() - at, random() % 3'000'000);
    writer.write(std::as_bytes(std::span(data).subspan(at, size)));
    at += size;
  }
  const ManifestFile entry = writer.finish();
  const std::string file = test::content_of(folder_ / "x.safetensors");
  EXPECT_EQ(entry.hash, hash64(file));
  EXPECT_EQ(entry.size, file.size());
  ASSERT_EQ(entry.tensors.size(), 3u);
  ASSERT_EQ(entry.tensors[0].chunks.size(), 3u);
  EXPECT_EQ(entry.tensors[0].chunks[1], hash64(std::string_view(data).substr(kHashChunk, kHashChunk)));
  EXPECT_EQ(entry.tensors[0].chunks[2], hash64(std::string_view(data).substr(kHashChunk * 2, 5)));
  EXPECT_TRUE(entry.tensors[1].chunks.empty());
  EXPECT_EQ(entry.tensors[2].chunks.at(0), hash64(std::string_view(data).substr(kHashChunk * 2 + 5)));
}

TEST_F(Writer, DividesIntoShardsAsTransformersDoes) {
  const auto golden = read_json_file(test::golden("io/reference.json"));
  for (const auto& one : golden["sharded"]) {
    const test::TempFolder folder;
    ModelSave save;
    save.max_shard_bytes = 100;
    for (std::size_t i = 0; i < one["sizes"].size(); ++i)
      save.tensors.push_back({fmt::format("{:02}", i), "U8", {one["sizes"][i].get<std::int64_t>()}});
    std::vector<std::byte> bytes;
    const auto entries = save_model(
        Env::process().open_folder(folder.path()), save,
        [&](const TensorSpec& spec) -> std::span<const std::byte> { return bytes = test::toy_bytes(spec, 3); });
    for (const auto& [name, tensors] : one["files"].items()) {
      const Safetensors file(folder / name);
      EXPECT_EQ(file.tensors().size(), tensors.size()) << one["sizes"] << name;
      for (const auto& tensor : tensors)
        EXPECT_NE(file.find(tensor.get<std::string>()), nullptr) << one["sizes"] << name << tensor;
    }
    const bool sharded = one["files"].size() > 1;
    EXPECT_EQ(entries.size(), one["files"].size() + sharded);
    EXPECT_EQ(SafetensorsSet(folder.path()).tensors().size(), one["sizes"].size());
    if (!sharded) continue;
    const auto index = read_json_file(folder / "model.safetensors.index.json");
    std::int64_t total = 0;
    for (const auto& size : one["sizes"]) total += size.get<std::int64_t>();
    EXPECT_EQ(index["metadata"]["total_size"], total);
    EXPECT_EQ(index["metadata"]["total_parameters"], total);
  }
}

TEST_F(Writer, RefusesWhatTheReaderWould) {
  const auto none = [](const TensorSpec&) { return std::span<const std::byte>(); };
  EXPECT_HONE_ERROR(save_safetensors(open(), "a", {{"x", "F33", {0}}}, {}, none), checkpoint, "dtype F33");
  EXPECT_HONE_ERROR(save_safetensors(open(), "b", {{"x", "F32", {-1}}}, {}, none), checkpoint, "has no size");
  EXPECT_HONE_ERROR(save_safetensors(open(), "c", {{"x", "F32", {INT64_MAX, 4}}}, {}, none), checkpoint, "has no size");
  EXPECT_HONE_ERROR(save_safetensors(open(), "d", {{"x", "F32", {0}}, {"x", "F32", {0}}}, {}, none), checkpoint,
                    "another one has this name");
  EXPECT_HONE_ERROR(save_safetensors(open(), "e", {{"a\nb", "F32", {0}}}, {}, none), checkpoint, "control characters");
  save_safetensors(open(), "f", {}, {}, none);
  EXPECT_HONE_ERROR(save_safetensors(open(), "f", {}, {}, none), checkpoint, "File exists");
  EXPECT_TRUE(Safetensors(folder_ / "f").tensors().empty());
}

}  // namespace
}  // namespace hone::io
