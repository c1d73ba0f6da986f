// Values are compared as they are stored; of two types, in one that holds both; of weights in few bits, in fp32.
#include "hub/tied_head.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "hub/packed/find_packed.h"
#include "nn/lora_targets.h"
#include "tensor/dtype.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

constexpr std::int64_t kNumbers = 1 << 20;  // that are compared at a time

// Under its name or, of a body alone, without the prefix; nullptr: in no file.
using Found = const std::pair<const std::string, SafetensorsSet::Place>*;
Found find(std::string name, const Model& model, const Places& tensors) {
  auto found = tensors.find(name);
  const std::string prefix = model.base_prefix();
  if (found == tensors.end() && !prefix.empty() && name.starts_with(prefix))
    found = tensors.find(name.substr(prefix.size()));
  return found == tensors.end() ? nullptr : &*found;
}

at::Tensor read_some(const SafetensorsSet::Place& place, at::ScalarType type, std::int64_t first, std::int64_t count) {
  at::Tensor made = at::empty({count}, type);
  place.file->read(*place.tensor, host::mutable_bytes(made),
                   static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(made.element_size()));
  return made;
}

std::int64_t count_of(const SafetensorsSet::Place& place) {
  std::int64_t count = 1;
  for (const std::int64_t size : place.tensor->shape) count *= size;
  return count;
}

// Of a weight in few bits, which is no tensor of a file (packed.h), what it stands for. Undefined: it is neither.
at::Tensor read_wide(const SafetensorsSet::Place& place) {
  if (const auto type = from_safetensors_name(place.tensor->dtype)) return read_some(place, *type, 0, count_of(place));
  const std::filesystem::path folder = place.file->path().parent_path();
  const SafetensorsSet files(folder.empty() ? "." : folder);
  for (const auto& weight : find_packed(files.tensors(), folder).weights)
    if (weight->whole().tensor->name == place.tensor->name) return weight->read(at::kFloat).flatten();
  return {};
}

// The same bits are equal even where they are no numbers: that is told of elsewhere.
bool is_equal(const at::Tensor& a, const at::Tensor& b) {
  const std::span<const std::byte> x = host::bytes(a), y = host::bytes(b);
  if (a.scalar_type() == b.scalar_type() && std::memcmp(x.data(), y.data(), x.size()) == 0) return true;
  const at::ScalarType both = at::promote_types(a.scalar_type(), b.scalar_type());
  return at::equal(a.to(both), b.to(both));
}

bool have_equal_values(const SafetensorsSet::Place& a, const SafetensorsSet::Place& b) {
  const auto type_a = from_safetensors_name(a.tensor->dtype), type_b = from_safetensors_name(b.tensor->dtype);
  if (a.tensor->shape != b.tensor->shape) return false;
  if (!type_a || !type_b) {
    const at::Tensor wide_a = read_wide(a), wide_b = read_wide(b);
    return wide_a.defined() && wide_b.defined() && is_equal(wide_a, wide_b);
  }
  const std::int64_t count = count_of(a);
  for (std::int64_t first = 0; first < count; first += kNumbers) {
    const std::int64_t some = std::min(kNumbers, count - first);
    if (!is_equal(read_some(a, *type_a, first, some), read_some(b, *type_b, first, some))) return false;
  }
  return true;
}

// What is there once more, under the head's own name.
void check_equal(const std::string& again, const std::string& weight, const Model& model, const Places& tensors) {
  const Found head = find(again, model, tensors), own = find(weight, model, tensors);
  if (!head || !own || have_equal_values(head->second, own->second)) return;
  Error error(
      ErrorKind::checkpoint,
      fmt::format("{}: {}: differs from {}, to which config.json ties the model's head; expected the same values",
                  head->second.file->path().string(), again, own->first));
  throw model.masked_lm()
      ? std::move(error).hint("hone has no head for masked tokens with a matrix or a bias of its own")
      : std::move(error).hint(
            "\"tie_word_embeddings\": false in config.json makes it the model's head, as it is in transformers");
}

}  // namespace

bool has_tensor(const std::string& config_file, const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(config_file).parent_path();
  try {
    return SafetensorsSet(folder.empty() ? "." : folder).tensors().contains(name);
  } catch (const Error&) {
    return false;  // whoever reads weights says what is wrong with them
  }
}

bool has_other_head(const std::string& config_file) {
  const std::filesystem::path folder = std::filesystem::path(config_file).parent_path();
  try {
    const SafetensorsSet files(folder.empty() ? "." : folder);
    const Places& tensors = files.tensors();
    const auto first_of = [&](std::initializer_list<const char*> names) {
      for (const char* name : names)
        if (const auto found = tensors.find(name); found != tensors.end()) return found;
      return tensors.end();
    };
    const auto head = first_of({kHead, "language_model.lm_head.weight"});
    const auto table =
        first_of({"model.language_model.embed_tokens.weight", "language_model.model.embed_tokens.weight"});
    if (head == tensors.end()) return false;
    return table == tensors.end() || !have_equal_values(head->second, table->second);
  } catch (const Error&) {
    return false;  // whoever reads weights says what is wrong with them
  }
}

void check_tied_head(const Model& model, const Places& tensors) {
  std::string table;
  model.each_weight([&](const std::string& name, const Weight& weight) {
    if (nn::is_tied_table(model, weight)) table = name;
  });
  if (table.empty()) return;
  if (!model.masked_lm()) return check_equal(kHead, table, model, tensors);
  const MaskHeadNames names = model.masked_lm()->mask_head_names();
  check_equal(names.decoder + ".weight", table, model, tensors);
  check_equal(names.decoder + ".bias", names.bias, model, tensors);
}

}  // namespace hone::hub
