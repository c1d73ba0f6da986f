// Names of codes and of what belongs to them. M: a module's.
//
//   fp8                 X, X_scale_inv (or, with one scale a weight, X_scale)
//   compressed-tensors  M.weight, M.weight_scale, M.weight_zero_point
//                       M.weight_packed, M.weight_scale, M.weight_shape, M.weight_zero_point, M.weight_g_idx
//   gptq, awq           M.qweight, M.scales, M.qzeros, M.g_idx
#include "hub/packed/find_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hub/packed/scaled_codes.h"
#include "tensor/dtype.h"

namespace hone::hub {
namespace {

using Place = SafetensorsSet::Place;
using Method = PackedConfig::Method;

constexpr std::string_view kScaleInv = "_scale_inv", kScale = "_scale", kWeight = ".weight", kWords = ".weight_packed",
                           kQWeight = ".qweight";
// Of what goes into a product, comes out of it, or is kept of it: what is computed here is in full.
constexpr std::array<std::string_view, 8> kOfActivations = {
    "activation_scale",   ".input_scale", ".input_zero_point", ".output_scale",
    ".output_zero_point", ".q_scale",     ".k_scale",          ".v_scale"};

bool is_float8(const Place& place) { return place.tensor->dtype.starts_with("F8_"); }

bool is_zero(const Place& place) {
  std::vector<std::byte> bytes(place.tensor->bytes());
  place.file->read(*place.tensor, bytes);
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

std::string without(const std::string& name, std::string_view end) { return name.substr(0, name.size() - end.size()); }

class Finder {
 public:
  Finder(const Places& tensors, const PackedConfig& config, PackedWeights& found)
      : tensors_(tensors), config_(config), found_(found) {}

  void find() {
    for (const auto& [name, place] : tensors_) {
      const auto of_activations = [&, &own = name](std::string_view end) { return own.ends_with(end); };
      if (std::any_of(kOfActivations.begin(), kOfActivations.end(), of_activations))
        found_.passed_over.push_back(name);
      else if (config_.method == Method::fp8)
        add_fp8(name, place);
      else if (config_.method == Method::compressed_tensors)
        add_compressed(name, place);
      else if (config_.method != Method::none)
        add_words_of_inputs(name, place);
    }
  }

 private:
  std::optional<Place> find(const std::string& name) const {
    const auto place = tensors_.find(name);
    return place == tensors_.end() ? std::nullopt : std::optional(place->second);
  }
  Place need(const std::string& name, const Place& from) const {
    if (const auto place = find(name)) return *place;
    throw unfit(from, fmt::format("{} is missing, without which it means nothing", name));
  }
  void add(const std::string& name, const char* method, CodeOrder order, const CodeScheme& scheme, CodeParts parts) {
    if (order != CodeOrder::bytes && tensors_.contains(name))
      throw unfit(parts.codes, fmt::format("{} is there twice: by itself, too", name));
    found_.weights.push_back(
        std::make_shared<const ScaledCodes>(name, method, order, scheme, std::move(parts), config_));
  }

  void add_fp8(const std::string& name, const Place& place) {
    const CodeScheme& scheme = config_.schemes.front();
    if (name.ends_with(kScaleInv)) {
      need(without(name, kScaleInv), place);
    } else if (const auto scales = find(name + std::string(kScaleInv))) {
      add(name, "fp8", CodeOrder::bytes, scheme, {.codes = place, .scales = *scales});
    } else if (is_float8(place) && !name.ends_with(kScale)) {
      const auto one = find(name + std::string(kScale));
      if (!one) need(name + std::string(kScaleInv), place);
      add(name, "fp8", CodeOrder::bytes, {.floating = true, .power_scales = true}, {.codes = place, .scales = *one});
    }
  }

  void add_compressed(const std::string& name, const Place& place) {
    const std::string scales = name + std::string(kScale);
    const bool is_code = is_float8(place) || place.tensor->dtype == "I8";
    if (name.ends_with(kWords)) {
      add_words(without(name, kWords), place);
    } else if (name.ends_with(std::string(kWeight) + std::string(kScale))) {
      const std::string weight = without(name, kScale);
      if (!find(without(weight, kWeight) + std::string(kWords))) need(weight, place);
    } else if (name.ends_with(kWeight) && (is_code || find(scales))) {
      const std::string module = without(name, kWeight);
      const CodeScheme& scheme = scheme_of(module, place);
      if (scheme.in_words)
        throw unfit(place,
                    fmt::format("got dtype {}, and config.json says that weights like it are packed, {} bits each",
                                place.tensor->dtype, scheme.bits));
      CodeParts parts{.codes = place, .scales = need(scales, place)};
      add_zeros(module, scheme, parts);
      add(name, "compressed-tensors", CodeOrder::bytes, scheme, std::move(parts));
    }
  }

  void add_words(const std::string& module, const Place& place) {
    const CodeScheme& scheme = scheme_of(module, place);
    if (!scheme.in_words) throw unfit(place, "packed, and config.json says that weights like it are not");
    CodeParts parts{.codes = place, .scales = need(module + ".weight_scale", place)};
    const Place shape = need(module + ".weight_shape", place);
    parts.shape = read_shape(shape);
    parts.others.push_back(shape);
    parts.groups = find(module + ".weight_g_idx");
    add_zeros(module, scheme, parts);
    add(module + std::string(kWeight), "compressed-tensors", CodeOrder::row_words, scheme, std::move(parts));
  }

  // Zeros of symmetric codes are all 0, and written by some versions; words hold them as codes, not as zeros.
  void add_zeros(const std::string& module, const CodeScheme& scheme, CodeParts& parts) const {
    const std::string name = module + ".weight_zero_point";
    if (!scheme.symmetric)
      parts.zeros = need(name, parts.codes);
    else if (const auto there = find(name); there && there->tensor->dtype != "I32" && is_zero(*there))
      parts.others.push_back(*there);
    else
      parts.zeros = there;
  }

  void add_words_of_inputs(const std::string& name, const Place& place) {
    for (const std::string_view part : {".scales", ".qzeros", ".g_idx"})
      if (name.ends_with(part)) need(without(name, part) + std::string(kQWeight), place);
    if (!name.ends_with(kQWeight)) return;
    const bool gptq = config_.method == Method::gptq;
    const std::string module = without(name, kQWeight);
    CodeParts parts{.codes = place, .scales = need(module + ".scales", place)};
    parts.zeros = need(module + ".qzeros", place);
    if (gptq) parts.groups = find(module + ".g_idx");
    add(module + std::string(kWeight), gptq ? "gptq" : "awq", gptq ? CodeOrder::input_words : CodeOrder::awq_words,
        config_.schemes.front(), std::move(parts));
    if (const auto bias = find(module + ".bias"))
      pass_over_bias(*bias, found_.weights.back()->whole().tensor->shape[0]);
  }

  void pass_over_bias(const Place& bias, std::int64_t outputs) {
    const auto type = from_safetensors_name(bias.tensor->dtype);
    const bool fits = type && c10::isFloatingType(*type) && bias.tensor->shape == std::vector<std::int64_t>{outputs};
    if (fits && is_zero(bias)) found_.zero_biases.push_back(bias);
  }

  static std::vector<std::int64_t> read_shape(const Place& place) {
    const auto read = [&](auto number) {
      std::vector<decltype(number)> sizes(place.tensor->bytes() / sizeof number);
      place.file->read(*place.tensor, std::as_writable_bytes(std::span(sizes)));
      return std::vector<std::int64_t>(sizes.begin(), sizes.end());
    };
    if (place.tensor->dtype == "I64") return read(std::int64_t{});
    if (place.tensor->dtype == "I32") return read(std::int32_t{});
    throw unfit(place, fmt::format("got dtype {}, expected I64 or I32", place.tensor->dtype));
  }

  // Names before expressions, and these before classes, of which only linear modules have such weights.
  const CodeScheme& scheme_of(const std::string& module, const Place& place) const {
    if (config_.schemes.empty()) throw unfit(place, "quantized, and config.json has no config_groups that say how");
    if (config_.schemes.size() == 1) return config_.schemes.front();
    const CodeScheme *by_expression = nullptr, *by_class = nullptr;
    for (const CodeScheme& scheme : config_.schemes) {
      for (const std::string& target : scheme.targets) {
        if (target == module) return scheme;
        if (!by_class && target.find('.') == std::string::npos) by_class = &scheme;
      }
      const auto fits = [&](const TargetPattern& expression) { return expression.matches(module); };
      if (!by_expression && std::any_of(scheme.expressions.begin(), scheme.expressions.end(), fits))
        by_expression = &scheme;
    }
    const CodeScheme* const scheme = by_expression ? by_expression : by_class;
    if (!scheme) throw unfit(place, "quantized, and no target of config.json's config_groups is it");
    return *scheme;
  }

  const Places& tensors_;
  const PackedConfig& config_;
  PackedWeights& found_;
};

}  // namespace

void find_codes(const Places& tensors, const PackedConfig& config, PackedWeights& found) {
  if (config.method == Method::none) return;
  Finder(tensors, config, found).find();
}

}  // namespace hone::hub
