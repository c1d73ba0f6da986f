// Writes safetensors files in one pass, hashing as it goes; splits a model into shards with an index as transformers
// does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/hash.h"
#include "hone/safetensors.h"
#include "io/manifest.h"

namespace hone::io {

struct TensorSpec {
  std::string name, dtype;  // dtype as in TensorInfo
  std::vector<std::int64_t> shape;
};
std::uint64_t tensor_bytes(const TensorSpec& spec);  // throws Error(checkpoint): unknown dtype, negative size, overflow
using TensorMetadata = std::map<std::string, std::string>;

// One file. layout() is the order to write in: as given, but larger element sizes first so that every tensor is
// aligned.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const Folder& folder, const std::string& name, std::vector<TensorSpec> tensors,
                    const TensorMetadata& metadata = {{"format", "pt"}});
  const std::vector<TensorSpec>& layout() const { return layout_; }
  void write(std::span<const std::byte> bytes);  // the next bytes, split anywhere
  ManifestFile finish();                         // checks that all came, fsyncs, closes

 private:
  void hash_piece(std::span<const std::byte> bytes);
  void end_chunk();
  std::vector<TensorSpec> layout_;
  std::vector<std::uint64_t> sizes_;
  OutFile file_;
  ManifestFile entry_;
  Hasher whole_, chunk_;
  std::size_t current_ = 0;  // tensor being written
  std::uint64_t done_ = 0;   // its bytes so far
};

// Gives the bytes of a tensor; they need to stay valid only until the next call.
using TensorBytes = std::function<std::span<const std::byte>(const TensorSpec&)>;

ManifestFile save_safetensors(const Folder& folder, const std::string& name, const std::vector<TensorSpec>& tensors,
                              const TensorMetadata& metadata, const TensorBytes& bytes_of);

// Throws Error(kind) when a file that a user named is there and was not written by replace_safetensors().
void require_replaceable(const std::filesystem::path& path, ErrorKind kind);
// A file that a user named: it appears whole, or one that is there stays. Throws Error(kind).
void replace_safetensors(Env& env, const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                         const TensorMetadata& metadata, const TensorBytes& bytes_of, ErrorKind kind);

struct ModelSave {
  std::vector<TensorSpec> tensors;
  std::uint64_t max_shard_bytes = 50'000'000'000;  // one larger tensor gets a shard of its own
  TensorMetadata metadata = {{"format", "pt"}};
  std::string stem = "model";
};
// model.safetensors, or model-00001-of-0000n.safetensors … and model.safetensors.index.json. Entries of all files
// written.
std::vector<ManifestFile> save_model(const Folder& folder, const ModelSave& save, const TensorBytes& bytes_of);

}  // namespace hone::io
