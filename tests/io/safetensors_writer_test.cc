// Writing safetensors: the reference's bytes, its shards, hashes of what was written, hostile requests.
#include "io/safetensors_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>

#include "harness/errors.h"
#include "hone/safetensors.h"
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
  save_safetensors(open(), SafetensorsPlan("x.safetensors", specs, golden.metadata()),
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
  save_safetensors(open(), SafetensorsPlan("x.safetensors", specs, {}), [&](const TensorSpec& spec) {
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
  std::string data(kHashChunk * 2 + 5, 'x');
  for (std::size_t i = 0; i < data.size(); i += 1000) data[i] = static_cast<char>(i / 1000);
  const SafetensorsPlan plan("x.safetensors", specs, {});
  make_safetensors(open(), plan);
  SafetensorsWriter writer(open(), plan);
  std::mt19937 random(2);
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t size = std::min<std::size_t>(data.size() - at, random() % 3'000'000);
    writer.write(0, at, std::as_bytes(std::span(data).subspan(at, size)));
    at += size;
  }
  writer.write(2, 0, std::as_bytes(std::span("abc").first<3>()));
  const ManifestFile entry = manifest_entry("x.safetensors", plan, writer.finish());
  EXPECT_EQ(entry.hash, hash64(plan.head()));
  EXPECT_EQ(test::content_of(folder_ / "x.safetensors"), plan.head() + data + "abc");
  EXPECT_EQ(entry.size, plan.head().size() + data.size() + 3);
  ASSERT_EQ(entry.tensors.size(), 3u);
  ASSERT_EQ(entry.tensors[0].chunks.size(), 3u);
  EXPECT_EQ(entry.tensors[0].chunks[1].end, kHashChunk * 2);
  EXPECT_EQ(entry.tensors[0].chunks[1].hash, hash64(std::string_view(data).substr(kHashChunk, kHashChunk)));
  EXPECT_EQ(entry.tensors[0].chunks[2].hash, hash64(std::string_view(data).substr(kHashChunk * 2)));
  EXPECT_TRUE(entry.tensors[1].chunks.empty());
  EXPECT_EQ(entry.tensors[2].chunks.at(0).hash, hash64("abc"));
}

WrittenChunk last_of(const std::vector<WrittenChunk>& chunks) {
  return *std::max_element(chunks.begin(), chunks.end(), [](const WrittenChunk& a, const WrittenChunk& b) {
    return std::pair(a.tensor, a.begin) < std::pair(b.tensor, b.begin);
  });
}

// What several processes write at the same time, each its share, is what one writes; what one of them leaves out is
// seen.
TEST_F(Writer, SeveralWriteTheSameFileAsOne) {
  const std::vector<TensorSpec> specs{
      {"a", "F32", {3, 5}}, {"b", "F32", {20'000}}, {"c", "U8", {0}}, {"d", "BF16", {9'001}}};
  const auto bytes_of = [](const TensorSpec& spec) {
    static std::vector<std::byte> bytes;
    return std::span<const std::byte>(bytes = test::toy_bytes(spec, 1));
  };
  const ManifestFile alone = save_safetensors(open(), SafetensorsPlan("one", specs), bytes_of);
  for (const int ranks : {1, 2, 3, 7, 40}) {
    const SafetensorsPlan plan("several" + std::to_string(ranks), specs);
    make_safetensors(open(), plan);
    std::vector<WrittenChunk> chunks;
    std::uint64_t least = plan.tensor_bytes(), most = 0;
    for (int rank = ranks; rank-- > 0;) {
      SafetensorsWriter writer(open(), plan);
      std::uint64_t sum = 0;
      for (const TensorPart& part : even_share(plan, rank, ranks)) {
        writer.write(part.tensor, part.begin, bytes_of(plan.layout()[part.tensor]).subspan(part.begin, part.size));
        EXPECT_EQ(part.begin % dtype_bytes(plan.layout()[part.tensor].dtype), 0u);
        sum += part.size;
      }
      least = std::min(least, sum), most = std::max(most, sum);
      const std::vector<WrittenChunk> made = writer.finish();
      for (const WrittenChunk& chunk : made) check_written(open(), plan, chunk);
      chunks.insert(chunks.end(), made.begin(), made.end());
    }
    EXPECT_LE(most - least, 8192u) << ranks;
    EXPECT_EQ(test::content_of(folder_ / plan.name()), test::content_of(folder_ / "one"));
    Manifest manifest;
    manifest.files = {manifest_entry(plan.name(), plan, chunks)};
    EXPECT_EQ(manifest.files[0].size, alone.size);
    const Manifest read = Manifest::from_json(manifest.to_json(), "m");
    EXPECT_EQ(read.to_json(), manifest.to_json());
    EXPECT_EQ(verify(open(), read, Verify::full), std::vector<std::string>{}) << ranks;
    std::fstream(folder_ / plan.name(), std::ios::in | std::ios::out).seekp(-3, std::ios::end).put('?');
    EXPECT_HONE_ERROR(check_written(open(), plan, last_of(chunks)), checkpoint,
                      "does not hold what was written into it");
    chunks.erase(chunks.begin() + ranks / 2);
    EXPECT_HONE_ERROR(manifest_entry(plan.name(), plan, chunks), checkpoint, "were not written");
  }
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
    const ModelPlan plan = plan_model(save);
    const Folder open = Env::process().open_folder(folder.path());
    for (const SafetensorsPlan& file : plan.files)
      save_safetensors(open, file, [&](const TensorSpec& spec) -> std::span<const std::byte> {
        return bytes = test::toy_bytes(spec, 3);
      });
    if (!plan.index.empty()) open.write_file(plan.index_name, plan.index);
    for (const auto& [name, tensors] : one["files"].items()) {
      const Safetensors file(folder / name);
      EXPECT_EQ(file.tensors().size(), tensors.size()) << one["sizes"] << name;
      for (const auto& tensor : tensors)
        EXPECT_NE(file.find(tensor.get<std::string>()), nullptr) << one["sizes"] << name << tensor;
    }
    const bool sharded = one["files"].size() > 1;
    EXPECT_EQ(plan.files.size(), one["files"].size());
    EXPECT_EQ(plan.index.empty(), !sharded);
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
  EXPECT_HONE_ERROR(save_safetensors(open(), SafetensorsPlan("a", {{"x", "F33", {0}}}, {}), none), checkpoint,
                    "dtype F33");
  EXPECT_HONE_ERROR(save_safetensors(open(), SafetensorsPlan("b", {{"x", "F32", {-1}}}, {}), none), checkpoint,
                    "has no size");
  EXPECT_HONE_ERROR(save_safetensors(open(), SafetensorsPlan("c", {{"x", "F32", {INT64_MAX, 4}}}, {}), none),
                    checkpoint, "has no size");
  EXPECT_HONE_ERROR(save_safetensors(open(), SafetensorsPlan("d", {{"x", "F32", {0}}, {"x", "F32", {0}}}, {}), none),
                    checkpoint, "another one has this name");
  EXPECT_HONE_ERROR(save_safetensors(open(), SafetensorsPlan("e", {{"a\nb", "F32", {0}}}, {}), none), checkpoint,
                    "control characters");
  save_safetensors(open(), SafetensorsPlan("f", {}, {}), none);
  EXPECT_HONE_ERROR(save_safetensors(open(), SafetensorsPlan("f", {}, {}), none), checkpoint, "File exists");
  EXPECT_TRUE(Safetensors(folder_ / "f").tensors().empty());
}

}  // namespace
}  // namespace hone::io
