// Layout, header, shards and index.
#include "io/safetensors_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/strings.h"
#include "hone/safetensors.h"
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

// `ends`: where each tensor ends.
std::string header_text(const std::vector<TensorSpec>& layout, const std::vector<std::uint64_t>& ends,
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
                                  tensor.dtype, json(tensor.shape).dump(), at, ends[i]));
    at = ends[i];
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

SafetensorsPlan::SafetensorsPlan(std::string name, std::vector<TensorSpec> tensors, const TensorMetadata& metadata)
    : name_(std::move(name)), layout_(in_layout_order(std::move(tensors))) {
  std::uint64_t at = 0;
  for (const TensorSpec& tensor : layout_) ends_.push_back(at += io::tensor_bytes(tensor));
  const std::string header = header_text(layout_, ends_, metadata);
  head_ = little_endian(header.size()) + header;
}

// Cut between pages of the file, which are multiples of every element's size.
std::vector<TensorPart> even_share(const SafetensorsPlan& plan, int rank, int ranks) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t head = plan.head().size(), all = head + plan.tensor_bytes();
  const std::uint64_t first = head / kPage, pages = (all + kPage - 1) / kPage - first;
  const auto cut = [&](int r) {
    const std::uint64_t number = static_cast<unsigned>(r), of = static_cast<unsigned>(ranks);
    const std::uint64_t before = pages / of * number + std::min(pages % of, number);
    return std::clamp((first + before) * kPage, head, all) - head;
  };
  const std::uint64_t low = cut(rank), high = cut(rank + 1);
  std::vector<TensorPart> parts;
  for (std::size_t i = 0; i < plan.layout().size(); ++i) {
    const std::uint64_t begin = plan.offset(i) - head, end = begin + plan.size(i);
    const std::uint64_t from = std::clamp(low, begin, end), to = std::clamp(high, begin, end);
    if (to > from) parts.push_back({i, from - begin, to - from});
  }
  return parts;
}

ModelPlan plan_model(const ModelSave& save) {
  ModelPlan plan;
  const std::vector<Shard> shards = make_shards(save);
  for (const Shard& shard : shards) plan.files.emplace_back(shard.name, shard.tensors, save.metadata);
  if (shards.size() == 1) return plan;
  plan.index_name = save.stem + ".safetensors.index.json";
  plan.index = index_text(shards);
  return plan;
}

}  // namespace hone::io
