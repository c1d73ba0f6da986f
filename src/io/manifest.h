// MANIFEST.json: what a checkpoint folder consists of, with hashes; a file that is not in it does not exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"

namespace hone::io {

inline constexpr std::uint64_t kHashChunk = std::uint64_t{16} << 20;  // bytes of a tensor under one hash, at most
inline constexpr const char* kManifestName = "MANIFEST.json";

struct ManifestChunk {
  std::uint64_t end = 0, hash = 0;  // XXH3-64 of what follows the chunk before
};
struct ManifestTensor {
  std::string name;
  std::uint64_t size = 0;
  std::vector<ManifestChunk> chunks;  // of kHashChunk bytes each; where several processes wrote, cut between them too
};
struct ManifestFile {
  std::string name;                     // plain, or "<folder>/<plain>"
  std::uint64_t size = 0, hash = 0;     // XXH3-64 of the file; of tensor files, of what comes before the tensors
  std::uint64_t header = 0;             // tensor files: bytes before the tensors
  std::vector<ManifestTensor> tensors;  // tensor files: in file order
};

struct Manifest {
  static constexpr int kVersion = 2;  // 1: hash is the whole file's, of tensor files too
  int version = kVersion;
  std::int64_t step = 0, world = 1, tokens = 0;
  std::string run_id, config_hash, data_hash, tokenizer_hash;
  bool finite = true;  // false: the weights hold NaN or Inf; such a checkpoint is never chosen by itself
  std::vector<ManifestFile> files;

  const ManifestFile* find(const std::string& name) const;
  std::string to_json() const;  // ends with a hash of the text before it, so damage to the manifest shows as well
  static Manifest from_json(std::string_view text, const std::string& what);  // throws Error(checkpoint)
  static Manifest read(const Folder& folder);
};

enum class Verify { sizes, full };
// Everything that is wrong with the folder's files, each as one sentence that names file, tensor and chunk. Empty:
// whole.
std::vector<std::string> verify(const Folder& folder, const Manifest& manifest, Verify mode);
// The same for a folder on disk, reading its manifest first (what is wrong with that is the one problem then).
std::vector<std::string> verify(const Folder& folder, Verify mode);

// The entry of a plain file with this content.
ManifestFile manifest_entry(const std::string& name, std::string_view content);

}  // namespace hone::io
