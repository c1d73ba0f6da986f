// Reading what config.json says of weights in few bits.
#include "hub/packed/quantization_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "base/strings.h"
#include "tensor/dtype.h"

namespace hone::hub {
namespace {

using config::Node;
using Method = PackedConfig::Method;

constexpr std::int64_t kDefaultBlock = 128, kDefaultGroup = 128, kLargestSide = std::int64_t{1} << 31;
// Of all expressions of a folder, which are followed for each of its weights.
constexpr std::size_t kMostStepsOfAll = 5000;

// A section, whose wrong values are problems at their paths.
class Section {
 public:
  Section(const Node& node, std::string path, Problems& problems)
      : node_(node), path_(std::move(path)), problems_(problems) {}
  const Node* find(const char* key) const {
    const Node* value = node_.is_map() ? node_.find(key) : nullptr;
    return value && !value->is_null() ? value : nullptr;
  }
  bool has(const char* key) const { return node_.is_map() && node_.find(key); }
  std::string text(const char* key, const std::string& otherwise) const {
    const Node* value = find(key);
    if (value && value->kind() != Node::Kind::scalar) refuse(key, "expected a text");
    return value && value->kind() == Node::Kind::scalar ? lower(value->text()) : otherwise;
  }
  bool flag(const char* key, bool otherwise) const {
    const Node* value = find(key);
    if (!value) return otherwise;
    const bool scalar = value->kind() == Node::Kind::scalar && !value->quoted(),
               yes = scalar && value->text() == "true";
    if (!yes && !(scalar && value->text() == "false")) refuse(key, "expected true or false");
    return yes;
  }
  // None: nothing is said, or it is refused.
  std::optional<std::int64_t> number(const char* key) const {
    const Node* value = find(key);
    if (!value) return std::nullopt;
    const auto read = value->kind() == Node::Kind::scalar ? parse_int(value->text()) : std::nullopt;
    if (read && *read >= -1 && *read <= kLargestSide) return read;
    refuse(key, "expected a whole number, from -1 to 2^31");
    return std::nullopt;
  }
  std::int64_t number(const char* key, std::int64_t otherwise) const { return number(key).value_or(otherwise); }
  // Of one of [rows, columns], both at least 1.
  std::optional<std::pair<std::int64_t, std::int64_t>> block(const char* key) const {
    const Node* value = find(key);
    if (!value) return std::nullopt;
    std::vector<std::int64_t> sizes;
    if (value->kind() == Node::Kind::list)
      for (const Node& item : value->items())
        sizes.push_back(item.kind() == Node::Kind::scalar ? parse_int(item.text()).value_or(0) : 0);
    const auto fits = [](std::int64_t size) { return size >= 1 && size <= kLargestSide; };
    if (sizes.size() != 2 || !fits(sizes[0]) || !fits(sizes[1])) {
      refuse(key, "expected [rows, columns], both at least 1");
      return std::nullopt;
    }
    return std::pair(sizes[0], sizes[1]);
  }
  // expected: what hone reads.
  void expect(const char* key, const std::string& got, const std::vector<std::string>& expected) const {
    if (std::find(expected.begin(), expected.end(), got) == expected.end())
      refuse(key, fmt::format("got {}, expected {}", got, fmt::join(expected, " or ")));
  }
  void refuse(const char* key, const std::string& fact) const {
    const Node* value = find(key);
    problems_.add(path_ + "." + key, fact, "", value ? value->mark() : node_.mark());
  }
  // A section within this one; none: nothing is said, or it is refused.
  std::optional<Section> below(const char* key) const {
    const Node* value = find(key);
    if (!value) return std::nullopt;
    if (value->is_map()) return Section(*value, path_ + "." + key, problems_);
    refuse(key, "expected a section");
    return std::nullopt;
  }
  const std::vector<Node::Entry>& entries() const { return node_.entries(); }

 private:
  static std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  }
  const Node& node_;
  std::string path_;
  Problems& problems_;
};

PackedConfig read_fp8(const Section& section) {
  CodeScheme scheme{.floating = true, .power_scales = true};
  if (!section.has("weight_block_size")) scheme.rows = scheme.columns = kDefaultBlock;
  if (const auto block = section.block("weight_block_size")) scheme.rows = block->first, scheme.columns = block->second;
  section.expect("expert_dtype", section.text("expert_dtype", "fp8"), {"fp8"});
  return {.method = Method::fp8, .schemes = {scheme}};
}

// steps: of the folder's expressions so far.
void read_targets(const Section& group, CodeScheme& scheme, std::size_t& steps) {
  const Node* targets = group.find("targets");
  if (!targets) return;
  if (targets->kind() != Node::Kind::list) return group.refuse("targets", "expected a list of names");
  for (const Node& target : targets->items()) {
    if (target.kind() != Node::Kind::scalar) return group.refuse("targets", "expected a list of names");
    if (!target.text().starts_with("re:")) {
      scheme.targets.push_back(target.text());
      continue;
    }
    try {
      scheme.expressions.emplace_back(std::string_view(target.text()).substr(3));
    } catch (const std::invalid_argument& error) {
      return group.refuse("targets", fmt::format("{} is no expression that hone reads: {}",
                                                 hone::quoted(target.text().substr(0, 80)), error.what()));
    }
    if ((steps += scheme.expressions.back().size()) > kMostStepsOfAll)
      return group.refuse("targets", fmt::format("the expressions have more than {} steps together", kMostStepsOfAll));
  }
}

// What one scale is of.
void read_strategy(const Section& weights, CodeScheme& scheme) {
  const std::optional<std::int64_t> told = weights.number("group_size");
  const bool refused = !told && weights.find("group_size");
  const std::int64_t group = told.value_or(0);
  const std::string strategy = weights.text("strategy", group == 0 ? "tensor" : group < 0 ? "channel" : "group");
  weights.expect("strategy", strategy, {"tensor", "channel", "group", "block"});
  if (strategy == "channel") scheme.rows = 1;
  if (strategy == "group") {
    scheme.rows = 1, scheme.columns = group;
    if (group < 1 && !refused) weights.refuse("group_size", fmt::format("got {}, expected at least 1", group));
  }
  if (strategy != "block") return;
  const auto block = weights.block("block_structure");
  if (!block) return weights.refuse("block_structure", "expected [rows, columns], as strategy is block");
  scheme.rows = block->first, scheme.columns = block->second;
}

CodeScheme read_group(const Section& group, const std::string& format, std::size_t& steps) {
  CodeScheme scheme;
  read_targets(group, scheme, steps);
  const std::string own = group.text("format", format);
  group.expect("format", own,
               {"float-quantized", "int-quantized", "naive-quantized", "pack-quantized", "mxfp8-quantized"});
  if (!group.find("weights")) group.refuse("weights", "missing, without which codes mean nothing");
  const std::optional<Section> found = group.below("weights");
  if (!found) return scheme;
  const Section& weights = *found;
  const std::string type = weights.text("type", "int");
  scheme.in_words = own == "pack-quantized";
  scheme.floating = type == "float";
  scheme.power_scales = own == "mxfp8-quantized";
  scheme.bits = weights.number("num_bits", 8);
  scheme.symmetric = weights.flag("symmetric", true);
  const bool fits = scheme.in_words ? !scheme.floating && (scheme.bits == 4 || scheme.bits == 8) : scheme.bits == 8;
  if (!fits)
    weights.refuse("num_bits", fmt::format("got {} bits of type {} in format {}, expected 8 bits, or whole numbers of "
                                           "4 or 8 bits in pack-quantized",
                                           scheme.bits, type, own));
  read_strategy(weights, scheme);
  return scheme;
}

PackedConfig read_compressed(const Section& section) {
  PackedConfig made{.method = Method::compressed_tensors};
  section.expect("quantization_status", section.text("quantization_status", "compressed"), {"compressed"});
  if (const auto transform = section.below("transform_config"); transform && !transform->entries().empty())
    section.refuse("transform_config", "weights that were rotated are not read");
  if (const auto sparsity = section.below("sparsity_config"))
    sparsity->expect("format", sparsity->text("format", "dense"), {"dense"});
  const std::string format = section.text("format", "dense");
  const std::optional<Section> groups = section.below("config_groups");
  if (!groups || groups->entries().empty()) {
    if (groups || !section.find("config_groups")) section.expect("format", format, {"dense"});
    return made;
  }
  std::size_t steps = 0;
  for (const auto& [name, value] : groups->entries())
    if (const auto group = groups->below(name.c_str()))
      made.schemes.push_back(read_group(*group, format, steps));
    else if (value.is_null())
      groups->refuse(name.c_str(), "expected a section");
  return made;
}

// Codes of rows of inputs, of which so many have one scale for each output.
CodeScheme columns_of(const Section& section) {
  CodeScheme scheme{.in_words = true, .symmetric = false, .rows = 1};
  scheme.bits = section.number("bits", section.number("w_bit", 4));
  for (const char* key : {"sym", "desc_act", "zero_point"}) section.flag(key, false);  // what they say, the tensors say
  const std::int64_t group = section.number("group_size", section.number("q_group_size", kDefaultGroup));
  scheme.columns = std::max<std::int64_t>(group, 0);
  if (group == 0 || group < -1) section.refuse("group_size", fmt::format("got {}, expected at least 1, or -1", group));
  return scheme;
}

PackedConfig read_gptq(const Section& section) {
  const std::string format = section.text("checkpoint_format", section.text("format", "gptq"));
  section.expect(section.has("checkpoint_format") ? "checkpoint_format" : "format", format, {"gptq", "gptq_v2"});
  const CodeScheme scheme = columns_of(section);
  if (scheme.bits != 4 && scheme.bits != 8) section.refuse("bits", fmt::format("got {}, expected 4 or 8", scheme.bits));
  if (const auto dynamic = section.below("dynamic"); dynamic && !dynamic->entries().empty())
    section.refuse("dynamic", "modules with bits of their own are not read");
  return {.method = Method::gptq, .schemes = {scheme}, .zeros_less_one = format == "gptq"};
}

PackedConfig read_awq(const Section& section) {
  section.expect("version", section.text("version", section.text("format", "gemm")), {"gemm"});
  const CodeScheme scheme = columns_of(section);
  if (scheme.bits != 4) section.refuse("bits", fmt::format("got {}, expected 4", scheme.bits));
  return {.method = Method::awq, .schemes = {scheme}};
}

}  // namespace

PackedConfig read_quantization(const Node& value, Problems& problems) {
  if (value.is_null()) return {};
  const Section section(value, "quantization_config", problems);
  const std::string name = section.text("quant_method", "");
  if (name == "fp8") return read_fp8(section);
  if (name == "compressed-tensors") return read_compressed(section);
  if (name == "gptq") return read_gptq(section);
  if (name == "awq") return read_awq(section);
  const bool old = name.empty() && (section.has("load_in_4bit") || section.has("load_in_8bit"));
  if (!old && name != "bitsandbytes" && name != "mxfp4")
    problems.add("quantization_config",
                 fmt::format("quantized by {}; expected a model in fp32, bf16 or fp16, which model.quantization makes "
                             "smaller, or one of bitsandbytes, fp8, compressed-tensors, gptq or awq, or in MXFP4",
                             name.empty() ? "an unknown method" : name),
                 "", value.mark());
  return {};
}

std::optional<PackedConfig> folder_quantization(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  std::error_code ignored;  // a file of tensors alone has none beside it
  if (!std::filesystem::exists(file, ignored)) return PackedConfig{};
  const Node config = config::read_file(file.string());
  const Node* texts = config.is_map() ? config.find("text_config") : nullptr;
  const auto said = [&](const char* key) {
    const Node* value = config.is_map() ? config.find(key) : nullptr;
    if ((!value || value->is_null()) && texts && texts->is_map()) value = texts->find(key);
    return value && !value->is_null() ? value : nullptr;
  };
  const Node* value = said("quantization_config");
  if (!value) return std::nullopt;
  Problems problems;
  PackedConfig made = read_quantization(*value, problems);
  problems.raise(file.string());
  for (const char* key : {"torch_dtype", "dtype"})
    if (const Node* type = said(key); type && type->kind() == Node::Kind::scalar)
      if (const auto known = from_hf_name(type->text()); known && c10::isFloatingType(*known))
        made.saved_in = safetensors_name(*known);
  return made;
}

}  // namespace hone::hub
