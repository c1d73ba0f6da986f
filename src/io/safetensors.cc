// Opened files and sets of shards; the rules of the header are in safetensors_header.cc.
#include "hone/safetensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/env.h"
#include "base/strings.h"
#include "io/file_name.h"
#include "io/json.h"
#include "io/safetensors_header.h"

namespace hone {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

}  // namespace

struct Safetensors::State {
  explicit State(const std::filesystem::path& path)
      : file(path, ErrorKind::checkpoint), header(io::read_safetensors_header(file)) {}
  std::shared_ptr<const std::byte> map() {
    std::shared_ptr<const std::byte> there = mapped.lock();
    if (!there) mapped = there = file.map();
    return there;
  }
  InFile file;
  io::SafetensorsHeader header;
  std::weak_ptr<const std::byte> mapped;  // once for all that use it at the same time
};

Safetensors::Safetensors(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
Safetensors::~Safetensors() = default;
Safetensors::Safetensors(Safetensors&&) noexcept = default;
const std::filesystem::path& Safetensors::path() const { return state_->file.path(); }
const std::vector<TensorInfo>& Safetensors::tensors() const { return state_->header.tensors; }
const std::map<std::string, std::string>& Safetensors::metadata() const { return state_->header.metadata; }

const TensorInfo* Safetensors::find(const std::string& name) const {
  const auto& [tensors, by_name, metadata, data_begin] = state_->header;
  const auto found =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [&](std::uint32_t i, const std::string& wanted) { return tensors[i].name < wanted; });
  return found != by_name.end() && tensors[*found].name == name ? &tensors[*found] : nullptr;
}

void Safetensors::read(const TensorInfo& tensor, std::span<std::byte> into, std::uint64_t offset) const {
  HONE_ASSERT(offset <= tensor.bytes() && into.size() <= tensor.bytes() - offset);
  during("reading tensor " + hone::quoted(tensor.name),
         [&] { state_->file.read(state_->header.data_begin + tensor.begin + offset, into); });
}

std::shared_ptr<const std::byte> Safetensors::map(const TensorInfo& tensor) const {
  const std::shared_ptr<const std::byte> all = state_->map();
  return {all, all.get() + state_->header.data_begin + tensor.begin};
}

namespace {

// The index's map of tensor -> shard, with every shard a plain name.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const json index = io::read_json_file(path, io::kIndexJson);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw Error(ErrorKind::checkpoint, path.string() + ": no object \"weight_map\"");
  std::map<std::string, std::string> map;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string() || !io::is_plain_name(shard.get<std::string>()))
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: weight_map of {}: got {}, expected the plain name of a file in the same folder",
                              path.string(), hone::quoted(tensor),
                              shard.is_string() ? hone::quoted(shard.get<std::string>()) : shard.type_name()));
    map[tensor] = shard.get<std::string>();
  }
  return map;
}

[[noreturn]] void throw_nothing_there(const fs::path& where, bool folder) {
  if (!folder) throw Error(ErrorKind::checkpoint, where.string() + ": no such file or folder");
  Error error(ErrorKind::checkpoint, where.string() + ": no model.safetensors and no model.safetensors.index.json");
  std::error_code ignored;
  for (const char* old : {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt"})
    if (fs::exists(where / old, ignored))
      throw std::move(error).hint(std::string(old) + " is a pickle, which can run code; convert it to safetensors");
  throw error;
}

}  // namespace

SafetensorsSet::SafetensorsSet(const std::filesystem::path& where) {
  std::error_code ignored;  // what cannot be looked at is reported when it is opened
  const bool folder = fs::is_directory(where, ignored);
  const auto exists = [&](const fs::path& file) { return fs::exists(fs::symlink_status(file, ignored)); };
  const fs::path index = where / "model.safetensors.index.json", single = folder ? where / "model.safetensors" : where;
  if (!exists(single)) {  // else an index beside it is not read, as in transformers
    if (!folder || !exists(index)) throw_nothing_there(where, folder);
    open_shards(where, index);
    return;
  }
  files_.push_back(std::make_unique<Safetensors>(single));
  for (const TensorInfo& tensor : files_[0]->tensors()) places_[tensor.name] = {files_[0].get(), &tensor};
}

// Index and shards must say the same, in both directions; so a tensor can be in one shard only.
void SafetensorsSet::open_shards(const std::filesystem::path& folder, const std::filesystem::path& index) {
  const auto map = read_index(index);
  const std::string index_name = index.filename().string();
  std::map<std::string, std::vector<std::string>> by_shard;
  for (const auto& [tensor, shard] : map) by_shard[shard].push_back(tensor);
  for (const auto& [shard, names] : by_shard) {
    const std::string path = (folder / shard).string();
    if (std::error_code ignored; !fs::exists(fs::symlink_status(folder / shard, ignored)))
      throw Error(ErrorKind::checkpoint, fmt::format("{}: missing; it holds {}", path, list_names(names)));
    files_.push_back(std::make_unique<Safetensors>(folder / shard));
    for (const TensorInfo& tensor : files_.back()->tensors()) {
      const auto listed = map.find(tensor.name);
      if (listed == map.end() || listed->second != shard)
        throw Error(ErrorKind::checkpoint,
                    fmt::format("{}: holds {}, which {} {}", path, hone::quoted(tensor.name), index_name,
                                listed == map.end() ? "does not list" : "says is in " + hone::quoted(listed->second)));
      places_[tensor.name] = {files_.back().get(), &tensor};
    }
    for (const std::string& name : names)
      if (!files_.back()->find(name))
        throw Error(ErrorKind::checkpoint,
                    fmt::format("{}: has no {}, which {} says it holds", path, hone::quoted(name), index_name));
  }
}

}  // namespace hone
