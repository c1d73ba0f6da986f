// The header is checked as a whole before a byte of any tensor is looked at; nothing in it sizes an allocation unchecked.
#include "hone/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/env.h"
#include "base/strings.h"
#include "io/json.h"

namespace hone {
namespace {

using nlohmann::json;
constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::size_t kMaxTensors = 1'000'000, kMaxRank = 64, kMaxName = 512;

struct Dtype {
  const char* name;
  std::size_t bytes;
};
constexpr std::array kDtypes = {Dtype{"BOOL", 1},    Dtype{"U8", 1},  Dtype{"I8", 1},  Dtype{"F8_E5M2", 1}, Dtype{"F8_E4M3", 1},
                                Dtype{"F8_E8M0", 1}, Dtype{"I16", 2}, Dtype{"U16", 2}, Dtype{"F16", 2},     Dtype{"BF16", 2},
                                Dtype{"I32", 4},     Dtype{"U32", 4}, Dtype{"F32", 4}, Dtype{"F64", 8},     Dtype{"I64", 8},
                                Dtype{"U64", 8},     Dtype{"C64", 8}};

class Header {
 public:
  Header(const InFile& file) : file_(file) {}

  // Fills tensors (in file order) and metadata; returns where the data begins.
  std::uint64_t read(std::vector<TensorInfo>& tensors, std::map<std::string, std::string>& metadata) const {
    const std::uint64_t length = header_length();
    std::string text(length, '\0');
    file_.read(8, std::as_writable_bytes(std::span(text)));
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos || text[first] != '{') fail("its header is no JSON object");
    const json header = io::parse_json(text, file_.path().string() + ": header", {kMaxHeader, 10, ErrorKind::checkpoint});
    if (header.size() > kMaxTensors + 1) fail(fmt::format("{} tensors, expected at most {}", header.size(), kMaxTensors));
    for (const auto& [name, entry] : header.items())
      name == "__metadata__" ? read_metadata(entry, metadata) : tensors.push_back(read_tensor(name, entry));
    check_tiling(tensors, file_.size() - 8 - length);
    return 8 + length;
  }

 private:
  [[noreturn]] void fail(const std::string& fact) const {
    throw Error(ErrorKind::checkpoint, file_.path().string() + ": not a whole safetensors file: " + fact);
  }
  [[noreturn]] void fail(const std::string& tensor, const std::string& fact) const { fail("tensor " + hone::quoted(tensor) + ": " + fact); }

  std::uint64_t header_length() const {
    if (file_.size() < 8) fail(fmt::format("{} bytes, expected at least 8", file_.size()));
    std::array<unsigned char, 8> bytes;
    file_.read(0, std::as_writable_bytes(std::span(bytes)));
    refuse_pickle(bytes);
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | bytes[static_cast<std::size_t>(i)];
    if (length > kMaxHeader || length > file_.size() - 8 || length < 2)
      fail(fmt::format("its header claims {} bytes, expected 2 to {}", length, std::min(kMaxHeader, file_.size() - 8)));
    return length;
  }

  void refuse_pickle(const std::array<unsigned char, 8>& bytes) const {
    const bool zip = bytes[0] == 'P' && bytes[1] == 'K' && bytes[2] == 3 && bytes[3] == 4;
    const bool pickle = bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 && bytes[7] != 0;
    if (!zip && !pickle) return;
    throw Error(ErrorKind::checkpoint, file_.path().string() + ": a pickle file, which can run code; hone never opens one")
        .hint("convert it: python -c \"import torch, safetensors.torch as s; s.save_file(torch.load('model.bin', "
              "weights_only=True), 'model.safetensors')\"");
  }

  void read_metadata(const json& entry, std::map<std::string, std::string>& metadata) const {
    if (!entry.is_object()) fail("__metadata__ is no object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("__metadata__." + escape_for_terminal(key) + " is no string");
      metadata[key] = value.get<std::string>();
    }
  }

  TensorInfo read_tensor(const std::string& name, const json& entry) const {
    if (name.empty() || name.size() > kMaxName) fail(name, fmt::format("its name has {} bytes, expected 1 to {}", name.size(), kMaxName));
    if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      fail(name, "its name holds control characters");
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
      fail(name, "expected exactly dtype, shape and data_offsets");
    TensorInfo info;
    info.name = name;
    if (!entry["dtype"].is_string() || dtype_bytes(info.dtype = entry["dtype"].get<std::string>()) == 0)
      fail(name, "unknown dtype " + escape_for_terminal(entry["dtype"].dump(-1, ' ', false, json::error_handler_t::replace), 60));
    read_shape(entry["shape"], info);
    const json& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
      fail(name, "data_offsets: expected two whole numbers");
    info.begin = offsets[0].get<std::uint64_t>();
    info.end = offsets[1].get<std::uint64_t>();
    check_size(info);
    return info;
  }

  void read_shape(const json& shape, TensorInfo& info) const {
    if (!shape.is_array() || shape.size() > kMaxRank) fail(info.name, fmt::format("shape: expected a list of at most {} sizes", kMaxRank));
    for (const json& size : shape) {
      if (!size.is_number_unsigned() || size.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
        fail(info.name, "shape: expected sizes of 0 or more");
      info.shape.push_back(size.get<std::int64_t>());
    }
  }

  void check_size(const TensorInfo& info) const {
    std::uint64_t bytes = dtype_bytes(info.dtype);
    for (const std::int64_t size : info.shape)
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) fail(info.name, "its shape overflows 64 bits");
    if (info.begin > info.end || info.end - info.begin != bytes)
      fail(info.name, fmt::format("data_offsets [{}, {}] do not hold the {} bytes of its shape", info.begin, info.end, bytes));
  }

  // Sorted by place, each tensor begins where the one before ended, from the first data byte to the last of the file.
  void check_tiling(std::vector<TensorInfo>& tensors, std::uint64_t data_bytes) const {
    std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t at = 0;
    for (const TensorInfo& info : tensors) {
      if (info.begin != at)
        fail(info.name, fmt::format("begins at byte {} of the data, expected {}: tensors {}", info.begin, at, info.begin < at ? "overlap" : "leave a hole"));
      at = info.end;
    }
    if (at != data_bytes)
      fail(fmt::format("its tensors need {} bytes, the file has {}: {}", at, data_bytes, at > data_bytes ? "it was cut off" : "there is more behind them"));
  }

  const InFile& file_;
};

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

std::size_t dtype_bytes(const std::string& dtype) {
  for (const Dtype& known : kDtypes)
    if (dtype == known.name) return known.bytes;
  return 0;
}

struct Safetensors::State {
  explicit State(const std::filesystem::path& path) : file(path, ErrorKind::checkpoint) {
    data_begin = Header(file).read(tensors, metadata);
    for (std::size_t i = 0; i < tensors.size(); ++i) index.emplace(tensors[i].name, i);
  }
  InFile file;
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  std::map<std::string_view, std::size_t> index;
  std::uint64_t data_begin = 0;
};

Safetensors::Safetensors(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
Safetensors::~Safetensors() = default;
Safetensors::Safetensors(Safetensors&&) noexcept = default;
const std::filesystem::path& Safetensors::path() const { return state_->file.path(); }
const std::vector<TensorInfo>& Safetensors::tensors() const { return state_->tensors; }
const std::map<std::string, std::string>& Safetensors::metadata() const { return state_->metadata; }

const TensorInfo* Safetensors::find(const std::string& name) const {
  const auto found = state_->index.find(name);
  return found == state_->index.end() ? nullptr : &state_->tensors[found->second];
}

void Safetensors::read(const TensorInfo& tensor, std::span<std::byte> into) const {
  HONE_ASSERT(into.size() == tensor.bytes());
  during("reading tensor " + hone::quoted(tensor.name), [&] { state_->file.read(state_->data_begin + tensor.begin, into); });
}

namespace {

// The index's map of tensor -> shard, with every shard a plain name.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const json index = io::read_json_file(path, io::kIndexJson);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw Error(ErrorKind::checkpoint, path.string() + ": no object \"weight_map\"");
  std::map<std::string, std::string> map;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string() || !is_plain_name(shard.get<std::string>()))
      throw Error(ErrorKind::checkpoint, fmt::format("{}: weight_map of {}: expected the plain name of a file in the same folder", path.string(), hone::quoted(tensor)));
    map[tensor] = shard.get<std::string>();
  }
  return map;
}

}  // namespace

SafetensorsSet::SafetensorsSet(const std::filesystem::path& where) {
  namespace fs = std::filesystem;
  const fs::path single = fs::is_directory(where) ? where / "model.safetensors" : where;
  const fs::path index = fs::is_directory(where) ? where / "model.safetensors.index.json" : fs::path();
  if (index.empty() || !fs::exists(index)) {
    if (!fs::exists(single)) {
      Error error(ErrorKind::checkpoint, where.string() + ": no model.safetensors and no model.safetensors.index.json");
      for (const char* old : {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt"})
        if (fs::exists(where / old))
          throw std::move(error).hint(std::string(old) + " is a pickle, which can run code; convert it to safetensors");
      throw error;
    }
    files_.push_back(std::make_unique<Safetensors>(single));
    for (const TensorInfo& tensor : files_[0]->tensors()) places_[tensor.name] = {files_[0].get(), &tensor};
    return;
  }
  const auto map = read_index(index);
  std::map<std::string, std::vector<std::string>> by_shard;
  for (const auto& [tensor, shard] : map) by_shard[shard].push_back(tensor);
  for (const auto& [shard, names] : by_shard) {
    if (!fs::exists(where / shard))
      throw Error(ErrorKind::checkpoint, fmt::format("{}: missing; it holds {}", (where / shard).string(), list_names(names, 5)));
    files_.push_back(std::make_unique<Safetensors>(where / shard));
    for (const TensorInfo& tensor : files_.back()->tensors()) {
      const auto listed = map.find(tensor.name);
      if (listed == map.end() || listed->second != shard)
        throw Error(ErrorKind::checkpoint, fmt::format("{}: holds {}, which {} {}", (where / shard).string(), hone::quoted(tensor.name), index.filename().string(),
                                                       listed == map.end() ? "does not list" : "says is in " + listed->second));
      places_[tensor.name] = {files_.back().get(), &tensor};
    }
    for (const std::string& name : names)
      if (!files_.back()->find(name))
        throw Error(ErrorKind::checkpoint, fmt::format("{}: has no {}, which {} says it holds", (where / shard).string(), hone::quoted(name), index.filename().string()));
  }
}

}  // namespace hone
