// Header first, then the tensors in one pass; the hashes for the manifest are made of the same bytes on their way out.
#include "io/safetensors_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/strings.h"
#include "io/safetensors_header.h"

namespace hone::io {
namespace {

using nlohmann::json;

// Larger elements first, otherwise as given: every tensor then begins at a multiple of its element size.
std::vector<TensorSpec> in_layout_order(std::vector<TensorSpec> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return dtype_bytes(a.dtype) > dtype_bytes(b.dtype);
  });
  return tensors;
}

std::string header_text(const std::vector<TensorSpec>& layout, const std::vector<std::uint64_t>& sizes,
                        const TensorMetadata& metadata) {
  std::vector<std::string> entries;
  std::set<std::string_view> names;
  if (!metadata.empty()) entries.push_back("\"__metadata__\":" + json(metadata).dump());
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const TensorSpec& tensor = layout[i];
    if (const auto problem = name_problem(tensor.name); problem || !names.insert(tensor.name).second)
      throw Error(ErrorKind::checkpoint, fmt::format("cannot write the tensor {}: {}", hone::quoted(tensor.name),
                                                     problem.value_or("another one has this name")));
    entries.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", json(tensor.name).dump(),
                                  tensor.dtype, json(tensor.shape).dump(), at, at + sizes[i]));
    at += sizes[i];
  }
  std::string text = "{" + join(entries, ",") + "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::string little_endian(std::uint64_t value) {
  std::string bytes(8, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

struct Shard {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::uint64_t bytes = 0;
};

// As transformers divides them: in order, a new shard where the next tensor would not fit; one that is larger than a
// shard gets its own, and the current one goes on after it.
std::vector<Shard> make_shards(const ModelSave& save) {
  std::vector<Shard> shards;
  Shard current;
  for (const TensorSpec& tensor : save.tensors) {
    const std::uint64_t bytes = tensor_bytes(tensor);
    if (bytes > save.max_shard_bytes) {
      shards.push_back({"", {tensor}, bytes});
      continue;
    }
    if (current.bytes + bytes > save.max_shard_bytes) shards.push_back(std::exchange(current, {}));
    current.tensors.push_back(tensor);
    current.bytes += bytes;
  }
  if (!current.tensors.empty() || shards.empty()) shards.push_back(std::move(current));
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1 ? save.stem + ".safetensors"
                                        : fmt::format("{}-{:05}-of-{:05}.safetensors", save.stem, i + 1, shards.size());
  return shards;
}

std::int64_t elements(const TensorSpec& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  return count;
}

std::string index_text(const std::vector<Shard>& shards) {
  std::uint64_t total = 0;
  std::int64_t parameters = 0;
  std::map<std::string, std::string> map;
  for (const Shard& shard : shards) {
    total += shard.bytes;
    for (const TensorSpec& tensor : shard.tensors) {
      parameters += elements(tensor);
      if (!map.emplace(tensor.name, shard.name).second)
        throw Error(ErrorKind::checkpoint, "cannot write the tensor " + hone::quoted(tensor.name) + " twice");
    }
  }
  const json index = {{"metadata", {{"total_parameters", parameters}, {"total_size", total}}}, {"weight_map", map}};
  return index.dump(2) + "\n";
}

}  // namespace

std::uint64_t tensor_bytes(const TensorSpec& spec) {
  if (const auto bytes = checked_bytes(spec.dtype, spec.shape)) return *bytes;
  throw Error(ErrorKind::checkpoint, fmt::format("cannot write the tensor {}: dtype {} with shape [{}] has no size",
                                                 hone::quoted(spec.name), spec.dtype, fmt::join(spec.shape, ", ")));
}

SafetensorsWriter::SafetensorsWriter(const Folder& folder, const std::string& name, std::vector<TensorSpec> tensors,
                                     const TensorMetadata& metadata)
    : layout_(in_layout_order(std::move(tensors))), file_(folder.create(name)) {
  for (const TensorSpec& tensor : layout_) {
    sizes_.push_back(tensor_bytes(tensor));
    entry_.tensors.push_back({tensor.name, sizes_.back(), {}});
  }
  const std::string header = header_text(layout_, sizes_, metadata), start = little_endian(header.size()) + header;
  file_.write(start);
  whole_.update(start);
  entry_.name = name;
  entry_.header = start.size();
  while (current_ < sizes_.size() && sizes_[current_] == 0) ++current_;
}

void SafetensorsWriter::end_chunk() {
  entry_.tensors[current_].chunks.push_back(chunk_.digest64());
  chunk_.reset();
}

// Takes bytes that lie within one tensor and one chunk.
void SafetensorsWriter::hash_piece(std::span<const std::byte> bytes) {
  chunk_.update(bytes);
  whole_.update(bytes);
  done_ += bytes.size();
  if (done_ % kHashChunk == 0 || done_ == sizes_[current_]) end_chunk();
  if (done_ < sizes_[current_]) return;
  done_ = 0;
  do ++current_;
  while (current_ < sizes_.size() && sizes_[current_] == 0);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  while (!bytes.empty()) {
    HONE_ASSERT(current_ < sizes_.size());  // more bytes than the header says
    const std::uint64_t left = std::min(sizes_[current_] - done_, kHashChunk - done_ % kHashChunk);
    const std::size_t count = std::min<std::uint64_t>(left, bytes.size());
    hash_piece(bytes.first(count));
    bytes = bytes.subspan(count);
  }
}

ManifestFile SafetensorsWriter::finish() {
  HONE_ASSERT(current_ == sizes_.size());
  entry_.size = file_.size();
  entry_.hash = whole_.digest64();
  file_.sync();
  file_.close();
  return entry_;
}

ManifestFile save_safetensors(const Folder& folder, const std::string& name, const std::vector<TensorSpec>& tensors,
                              const TensorMetadata& metadata, const TensorBytes& bytes_of) {
  SafetensorsWriter writer(folder, name, tensors, metadata);
  for (const TensorSpec& tensor : writer.layout()) {
    const auto bytes = bytes_of(tensor);
    HONE_ASSERT(bytes.size() == tensor_bytes(tensor));
    writer.write(bytes);
  }
  return writer.finish();
}

// In the metadata of files that may be replaced; models do not have it.
constexpr const char* kMark = "written_by";
constexpr const char* kMarkedBy = "hone, to be replaced";

// Also an empty file, as mktemp makes: nothing is lost.
static bool may_be_replaced(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, unknown))) return false;
  if (std::filesystem::file_size(file, unknown) == 0) return true;
  try {
    const Safetensors open(file);
    const auto mark = open.metadata().find(kMark);
    return mark != open.metadata().end() && mark->second == kMarkedBy;
  } catch (const Error&) {
    return false;  // no safetensors file
  }
}

void require_replaceable(const std::filesystem::path& path, ErrorKind kind) {
  std::error_code unknown;  // then making the folder or the file says why
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, unknown)) || may_be_replaced(path)) return;
  throw Error(kind,
              path.string() + ": is there already, and is no file that such a command wrote; expected a new name");
}

void replace_safetensors(Env& env, const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                         const TensorMetadata& metadata, const TensorBytes& bytes_of, ErrorKind kind) {
  const std::filesystem::path file = std::filesystem::absolute(path).lexically_normal();
  std::error_code unknown;  // then making the folder or the file says why
  if (!file.has_filename() || std::filesystem::is_directory(file, unknown))
    throw Error(kind, path.string() + ": a folder, expected the name of a file");
  require_replaceable(file, kind);
  TensorMetadata marked = metadata;
  marked[kMark] = kMarkedBy;
  const Folder folder = env.make_folders(file.parent_path(), kind);
  const std::string name = file.filename().string(), hidden = ".new-" + name;
  folder.remove(hidden);  // of a process that was killed here
  try {
    save_safetensors(folder, hidden, tensors, marked, bytes_of);
    folder.replace(hidden, name);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(file.parent_path() / hidden, ignored);  // frees the space
    throw;
  }
}

std::vector<ManifestFile> save_model(const Folder& folder, const ModelSave& save, const TensorBytes& bytes_of) {
  std::vector<ManifestFile> entries;
  const std::vector<Shard> shards = make_shards(save);
  for (const Shard& shard : shards)
    entries.push_back(save_safetensors(folder, shard.name, shard.tensors, save.metadata, bytes_of));
  if (shards.size() > 1) {
    const std::string name = save.stem + ".safetensors.index.json", text = index_text(shards);
    folder.write_file(name, text);
    entries.push_back(manifest_entry(name, text));
  }
  return entries;
}

}  // namespace hone::io
