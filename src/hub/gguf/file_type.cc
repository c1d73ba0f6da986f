// The rules of llama.cpp's converter and of llama-quantize, for files that are made without an importance matrix.
#include "hub/gguf/file_type.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace hone::gguf {
namespace {

using io::GgufTensor;
using io::GgufType;
using Mix = FileType::Mix;

constexpr std::array kFileTypes = std::to_array<FileType>({{"F32", 0, GgufType::f32, Mix::none},
                                                           {"F16", 1, GgufType::f16, Mix::none},
                                                           {"BF16", 32, GgufType::bf16, Mix::none},
                                                           {"Q8_0", 7, GgufType::q8_0, Mix::none},
                                                           {"Q6_K", 18, GgufType::q6_k, Mix::none},
                                                           {"Q5_K_M", 17, GgufType::q5_k, Mix::medium},
                                                           {"Q5_K_S", 16, GgufType::q5_k, Mix::small},
                                                           {"Q5_1", 9, GgufType::q5_1, Mix::none},
                                                           {"Q5_0", 8, GgufType::q5_0, Mix::none},
                                                           {"Q4_K_M", 15, GgufType::q4_k, Mix::medium},
                                                           {"Q4_K_S", 14, GgufType::q4_k, Mix::small},
                                                           {"Q4_1", 3, GgufType::q4_1, Mix::none},
                                                           {"Q4_0", 2, GgufType::q4_0, Mix::none},
                                                           {"Q3_K_L", 13, GgufType::q3_k, Mix::large},
                                                           {"Q3_K_M", 12, GgufType::q3_k, Mix::medium},
                                                           {"Q3_K_S", 11, GgufType::q3_k, Mix::small},
                                                           {"Q2_K", 10, GgufType::q2_k, Mix::medium}});

bool has(const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; }

// ggml's count of dimensions: those of one entry at the outside are none.
std::size_t dimensions(const GgufTensor& tensor) {
  std::size_t outside = 0;
  while (outside + 1 < tensor.shape.size() && tensor.shape[outside] == 1) ++outside;
  return tensor.shape.size() - outside;
}

// Small ones that everything depends on.
constexpr std::array<std::string_view, 6> kInFull = {"ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight",
                                                     "position_embd.weight", "token_types.weight",
                                                     "ssm_conv1d.weight",    "shortconv.conv.weight"};

// As the converter: matrices are of the file's type.
GgufType converted(const GgufTensor& tensor, GgufType type) {
  if (tensor.shape.size() <= 1 || tensor.name.ends_with("_norm.weight") || !tensor.name.ends_with(".weight"))
    return GgufType::f32;
  for (const std::string_view part : kInFull)
    if (tensor.name == part || tensor.name.ends_with("." + std::string(part))) return GgufType::f32;
  return tensor.shape.back() % io::block_values(type) == 0 ? type : GgufType::f16;
}

bool is_quantized(const GgufTensor& tensor) {
  if (dimensions(tensor) < 2 || !tensor.name.ends_with("weight") || has(tensor.name, "_norm.weight")) return false;
  for (const char* part : {"ffn_gate_inp.weight", "per_layer_model_proj", "position_embd.weight", "token_types.weight",
                           "ssm_conv1d", "shortconv.conv.weight"})
    if (has(tensor.name, part)) return false;
  return true;
}

// The type of a smaller block for rows that do not hold whole ones.
GgufType that_fits(GgufType type, std::int64_t row) {
  if (row % io::block_values(type) == 0) return type;
  switch (type) {
    case GgufType::q2_k:
    case GgufType::q3_k:
      type = GgufType::q4_0;
      break;
    case GgufType::q4_k:
      type = GgufType::q5_0;
      break;
    case GgufType::q5_k:
      type = GgufType::q5_1;
      break;
    case GgufType::q6_k:
      type = GgufType::q8_0;
      break;
    default:
      break;
  }
  return row % io::block_values(type) == 0 ? type : GgufType::f16;
}

// A mixture, tensor by tensor; what it gives to some depends on how many of their kind came before.
class Mixture {
 public:
  Mixture(const std::vector<GgufTensor>& tensors, const FileType& file, const TypeFacts& facts)
      : file_(file), facts_(facts) {
    for (const GgufTensor& tensor : tensors) {
      values_ += is_value(tensor.name);
      tied_ &= tensor.name != "output.weight";
    }
  }

  GgufType of(const GgufTensor& tensor) {
    const std::string& name = tensor.name;
    const bool table = name == "token_embd.weight" || name == "per_layer_token_embd.weight";
    if (name == "output.weight" || (tied_ && table)) {
      if (tensor.shape.back() % io::block_values(file_.type) != 0 || file_.type == GgufType::q8_0)
        return GgufType::q8_0;
      return GgufType::q6_k;
    }
    if (table) return file_.type;
    if (is_value(name)) return of_values();
    if (has(name, "attn_k.weight")) return facts_.experts == 8 ? GgufType::q8_0 : file_.type;
    if (has(name, "attn_q.weight")) return file_.type;
    if (has(name, "attn_output.weight")) return of_outputs();
    if (has(name, "ffn_up") || has(name, "ffn_gate")) return file_.type;
    if (has(name, "ffn_down")) return of_downs(name);
    return file_.type;
  }

 private:
  bool is(GgufType type, Mix mix) const { return file_.type == type && file_.mix == mix; }
  // Of values, or of queries, keys and values together.
  static bool is_value(const std::string& name) {
    return has(name, "attn_qkv.weight") || has(name, "attn_kv_b.weight") || has(name, "attn_v.weight");
  }
  // The first and the last eighth of the layers, and every third between.
  static bool takes_more(std::int64_t layer, std::int64_t layers) {
    return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
  }
  // Llama 2 and 3, and Qwen 2, of 70 billion weights: eight heads share their values.
  bool is_70b() const {
    if (facts_.layers != 80) return false;
    return facts_.arch == "qwen2" || (facts_.arch == "llama" && facts_.heads != facts_.kv_heads);
  }

  GgufType of_values() {
    const std::int64_t layer = values_seen_++;
    GgufType type = file_.type;
    if (type == GgufType::q2_k)
      type = facts_.kv_heads > 0 && facts_.heads / facts_.kv_heads >= 4 ? GgufType::q4_k : GgufType::q3_k;
    else if (is(GgufType::q3_k, Mix::medium)) type = layer < 2 ? GgufType::q5_k : GgufType::q4_k;
    else if (is(GgufType::q3_k, Mix::large)) type = GgufType::q5_k;
    else if (file_.mix == Mix::medium && takes_more(layer, values_)) type = GgufType::q6_k;
    else if (is(GgufType::q4_k, Mix::small) && layer < 4) type = GgufType::q5_k;
    if (is_70b() && (type == GgufType::q3_k || type == GgufType::q4_k)) type = GgufType::q5_k;
    return facts_.experts == 8 ? GgufType::q8_0 : type;
  }

  GgufType of_outputs() const {
    if (facts_.experts == 8) {
      const bool more = file_.type == GgufType::q2_k || file_.type == GgufType::q4_k ||
                        (file_.type == GgufType::q3_k && file_.mix != Mix::large);
      return more ? GgufType::q5_k : file_.type;
    }
    if (file_.type == GgufType::q2_k) return GgufType::q3_k;
    if (is(GgufType::q3_k, Mix::medium)) return GgufType::q4_k;
    return is(GgufType::q3_k, Mix::large) ? GgufType::q5_k : file_.type;
  }

  GgufType of_downs(const std::string& name) {
    std::int64_t layer = downs_seen_++;
    if (facts_.experts > 1) layer = parse_int(name.substr(4, name.find('.', 4) - 4)).value_or(0);  // "blk.<layer>."
    const std::int64_t layers = facts_.layers;
    if (file_.type == GgufType::q2_k) return GgufType::q3_k;
    if (is(GgufType::q3_k, Mix::medium)) return layer < layers / 16 ? GgufType::q5_k : GgufType::q4_k;
    if (is(GgufType::q3_k, Mix::large)) return GgufType::q5_k;
    if (file_.mix == Mix::medium && takes_more(layer, layers)) return GgufType::q6_k;
    return is(GgufType::q4_k, Mix::small) && layer < layers / 8 ? GgufType::q5_k : file_.type;
  }

  const FileType& file_;
  const TypeFacts& facts_;
  std::int64_t values_ = 0, values_seen_ = 0, downs_seen_ = 0;
  bool tied_ = true;
};

}  // namespace

bool FileType::is_mixture() const {
  return io::block_values(type) > 1 && type != GgufType::q8_0;
}

std::vector<std::string> file_type_names() {
  std::vector<std::string> names;
  for (const FileType& type : kFileTypes) names.push_back(to_lower(type.name));
  return names;
}

const FileType* find_file_type(std::string_view name) {
  for (const FileType& type : kFileTypes)
    if (to_lower(type.name) == to_lower(name)) return &type;
  return nullptr;
}

void choose_types(std::vector<GgufTensor>& tensors, const FileType& file, const TypeFacts& facts) {
  Mixture mixture(tensors, file, facts);
  for (GgufTensor& tensor : tensors) {
    if (!file.is_mixture())
      tensor.type = converted(tensor, file.type);
    else if (is_quantized(tensor))
      tensor.type = that_fits(mixture.of(tensor), tensor.shape.back());
    else
      tensor.type = converted(tensor, facts.full);
  }
}

}  // namespace hone::gguf
