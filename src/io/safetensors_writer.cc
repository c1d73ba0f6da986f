// Tensors on their way into files.
#include "io/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "hone/safetensors.h"
#include "io/new_file.h"
#include "io/ownership.h"

namespace hone::io {

void make_safetensors(const Folder& folder, const SafetensorsPlan& plan) {
  OutFile file = folder.create(plan.name());
  file.write(plan.head());
  file.truncate(plan.head().size() + plan.tensor_bytes());
  file.sync();
  file.close();
}

SafetensorsWriter::SafetensorsWriter(const Folder& folder, const SafetensorsPlan& plan)
    : plan_(plan), file_(folder.open_to_write(plan.name())) {}

void SafetensorsWriter::end_chunk() {
  if (current_.end > current_.begin) {
    current_.hash = hasher_.digest64();
    chunks_.push_back(current_);
  }
  hasher_.reset();
  current_.begin = current_.end;
}

void SafetensorsWriter::write(std::size_t tensor, std::uint64_t begin, std::span<const std::byte> bytes) {
  HONE_ASSERT(begin + bytes.size() <= plan_.size(tensor));
  if (tensor != current_.tensor || begin != current_.end) {
    end_chunk();
    current_ = {tensor, begin, begin, 0};
  }
  file_.go_on_at(plan_.offset(tensor) + begin);
  file_.write(bytes);
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::uint64_t>(kHashChunk - current_.end % kHashChunk, bytes.size());
    hasher_.update(bytes.first(count));
    current_.end += count;
    if (current_.end % kHashChunk == 0) end_chunk();
    bytes = bytes.subspan(count);
  }
}

std::vector<WrittenChunk> SafetensorsWriter::finish() {
  end_chunk();
  file_.sync();
  file_.close();
  return std::move(chunks_);
}

void check_written(const Folder& folder, const SafetensorsPlan& plan, const WrittenChunk& chunk) {
  const InFile file(folder, plan.name());
  std::vector<std::byte> bytes(chunk.end - chunk.begin);
  file.read(plan.offset(chunk.tensor) + chunk.begin, bytes);
  if (hash64(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())) == chunk.hash) return;
  throw Error(ErrorKind::checkpoint,
              fmt::format("{}: tensor {} does not hold what was written into it by another process",
                          file.path().string(), hone::quoted(plan.layout()[chunk.tensor].name)))
      .hint("several machines cannot write one file together on this file system");
}

ManifestFile manifest_entry(const std::string& name, const SafetensorsPlan& plan, std::vector<WrittenChunk> chunks) {
  std::sort(chunks.begin(), chunks.end(), [](const WrittenChunk& a, const WrittenChunk& b) {
    return std::pair(a.tensor, a.begin) < std::pair(b.tensor, b.begin);
  });
  ManifestFile entry{name, plan.head().size() + plan.tensor_bytes(), hash64(plan.head()), plan.head().size(), {}};
  auto chunk = chunks.begin();
  for (std::size_t i = 0; i < plan.layout().size(); ++i) {
    ManifestTensor tensor{plan.layout()[i].name, plan.size(i), {}};
    std::uint64_t at = 0;
    for (; chunk != chunks.end() && chunk->tensor == i && chunk->begin == at; ++chunk)
      tensor.chunks.push_back({at = chunk->end, chunk->hash});
    if (at != tensor.size)
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: of the tensor {} the bytes from {} on were not written, or twice", name,
                              hone::quoted(tensor.name), at));
    entry.tensors.push_back(std::move(tensor));
  }
  HONE_ASSERT(chunk == chunks.end());
  return entry;
}

ManifestFile save_safetensors(const Folder& folder, const SafetensorsPlan& plan, const TensorBytes& bytes_of) {
  make_safetensors(folder, plan);
  SafetensorsWriter writer(folder, plan);
  for (std::size_t i = 0; i < plan.layout().size(); ++i) {
    const auto bytes = bytes_of(plan.layout()[i]);
    HONE_ASSERT(bytes.size() == plan.size(i));
    writer.write(i, 0, bytes);
  }
  return manifest_entry(plan.name(), plan, writer.finish());
}

// In the metadata of files that may be replaced; models do not have it.
constexpr const char* kMark = "written_by";
constexpr const char* kMarkedBy = "hone, to be replaced";

// Also an empty file, as mktemp makes: nothing is lost.
static bool may_be_replaced(const std::filesystem::path& file, const std::string& holds) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, unknown))) return false;
  if (std::filesystem::file_size(file, unknown) == 0) return true;
  try {
    const Safetensors open(file);
    const auto mark = open.metadata().find(kMark), held = open.metadata().find(kHolds);
    return mark != open.metadata().end() && mark->second == kMarkedBy &&
           (held == open.metadata().end() ? "" : held->second) == holds;
  } catch (const Error&) {
    return false;  // no safetensors file
  }
}

void require_replaceable(const std::filesystem::path& path, ErrorKind kind, const std::string& holds) {
  require_writable(std::filesystem::absolute(path).parent_path(), kind);
  std::error_code unknown;  // then making the folder or the file says why
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, unknown)) || may_be_replaced(path, holds))
    return;
  throw Error(kind,
              path.string() + ": is there already, and is no file that such a command wrote; expected a new name");
}

void replace_safetensors(Env& env, const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                         const TensorMetadata& metadata, const TensorBytes& bytes_of, ErrorKind kind) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  require_file_name(path, kind);
  const auto holds = metadata.find(kHolds);
  require_replaceable(whole, kind, holds == metadata.end() ? "" : holds->second);
  TensorMetadata marked = metadata;
  marked[kMark] = kMarkedBy;
  NewFile file(env, whole, kind);
  save_safetensors(file.folder(), SafetensorsPlan(file.hidden(), tensors, marked), bytes_of);
  file.replace();
}

}  // namespace hone::io
