// Writes safetensors files, by one process or by several at once, hashing on the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/hash.h"
#include "io/manifest.h"
#include "io/safetensors_plan.h"

namespace hone::io {

// Bytes of a tensor that were written, and their hash.
struct WrittenChunk {
  std::size_t tensor = 0;  // in the layout
  std::uint64_t begin = 0, end = 0, hash = 0;
};

// A new file that holds the plan's head, and has its whole length: network file systems fill pages beyond the end that
// they know of with zeros, over what another machine writes there.
void make_safetensors(const Folder& folder, const SafetensorsPlan& plan);

// Puts tensors, or parts of them, into a file that was made so. Others may write other parts at the same time.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const Folder& folder, const SafetensorsPlan& plan);  // which must outlive it
  // What follows the bytes before goes on with their chunk, up to the next multiple of kHashChunk.
  void write(std::size_t tensor, std::uint64_t begin, std::span<const std::byte> bytes);
  std::vector<WrittenChunk> finish();  // fsyncs, closes

 private:
  void end_chunk();
  const SafetensorsPlan& plan_;
  OutFile file_;
  std::vector<WrittenChunk> chunks_;
  WrittenChunk current_;
  Hasher hasher_;
};

// Throws Error(checkpoint) where the file does not hold what another process says it has written.
void check_written(const Folder& folder, const SafetensorsPlan& plan, const WrittenChunk& chunk);

// Of a file of which all parts are written; Error(checkpoint) unless each byte was written once. `name`: in the
// manifest.
ManifestFile manifest_entry(const std::string& name, const SafetensorsPlan& plan, std::vector<WrittenChunk> chunks);

// Gives the bytes of a tensor; they need to stay valid only until the next call.
using TensorBytes = std::function<std::span<const std::byte>(const TensorSpec&)>;
// The whole of a new file.
ManifestFile save_safetensors(const Folder& folder, const SafetensorsPlan& plan, const TensorBytes& bytes_of);

// Throws Error(kind) when a file that a user named is there, unless replace_safetensors() wrote it to hold the same.
void require_replaceable(const std::filesystem::path& path, ErrorKind kind, const std::string& holds);
// A file that a user named: it appears whole, or one that is there stays. The metadata's kHolds says what it holds.
// Throws Error(kind).
inline constexpr const char* kHolds = "holds";
void replace_safetensors(Env& env, const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                         const TensorMetadata& metadata, const TensorBytes& bytes_of, ErrorKind kind);

}  // namespace hone::io
