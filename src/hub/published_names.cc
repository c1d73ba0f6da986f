// Parts of names, and tensors that lie one behind another.
#include "hub/published_names.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "hone/config.h"
#include "hone/error.h"

namespace hone::hub {
namespace {

struct Joined {
  std::string_view part;  // of a tensor's name
  std::vector<std::string_view> into;
};
struct Published {
  std::string_view prefix;  // that is left out
  std::vector<std::pair<std::string, std::string>> names;
  std::vector<Joined> joined;
};

const Published* published(const std::string& model_type) {
  static const Published kNomic{
      "",
      {{"encoder.layers.", "layers."},
       {"emb_ln.", "embeddings.LayerNorm."},
       {".attn.out_proj.", ".self_attn.o_proj."},
       {".fc11.", ".up_proj."},
       {".fc12.", ".gate_proj."},
       {".fc2.", ".down_proj."},
       {".norm1.", ".post_attention_layernorm."},
       {".norm2.", ".post_mlp_layernorm."}},
      {{".attn.Wqkv.", {".self_attn.q_proj.", ".self_attn.k_proj.", ".self_attn.v_proj."}}}};
  static const Published kGte{
      "new.",
      {{"encoder.layer.", "layers."},
       {".attention.o_proj.", ".self_attn.o_proj."},
       {".attn_ln.", ".post_attention_layernorm."},
       {".mlp_ln.", ".post_mlp_layernorm."},
       {"lm_head.norm.", "lm_head.layer_norm."}},
      {{".attention.qkv_proj.", {".self_attn.q_proj.", ".self_attn.k_proj.", ".self_attn.v_proj."}},
       {".mlp.up_gate_proj.", {".mlp.up_proj.", ".mlp.gate_proj."}}}};
  static const Published kJina{
      "",
      {{"encoder.layers.", "layers."},
       {"emb_ln.", "embeddings.LayerNorm."},
       {".mixer.out_proj.", ".self_attn.o_proj."},
       {".norm1.", ".post_attention_layernorm."},
       {".norm2.", ".post_mlp_layernorm."}},
      {{".mixer.Wqkv.", {".self_attn.q_proj.", ".self_attn.k_proj.", ".self_attn.v_proj."}}}};
  if (model_type == "nomic_bert") return &kNomic;
  if (model_type == "gte" || model_type == "new") return &kGte;
  return model_type == "jina_embeddings_v3" ? &kJina : nullptr;
}

std::string type_in(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  if (!std::filesystem::is_regular_file(file)) return "";
  const config::Node config = config::read_file(file.string());
  const config::Node* type = config.is_map() ? config.find("model_type") : nullptr;
  return type && type->kind() == config::Node::Kind::scalar ? type->text() : "";
}

std::string renamed(std::string name, const Published& all) {
  if (!all.prefix.empty() && name.starts_with(all.prefix)) name.erase(0, all.prefix.size());
  for (const auto& [from, to] : all.names) name = replace_all(name, from, to);
  return name;
}

void split(const std::string& name, const Joined& joined, const SafetensorsSet::Place& place, Places& into,
           std::deque<TensorInfo>& parts) {
  const TensorInfo& all = *place.tensor;
  const std::int64_t count = std::ssize(joined.into);
  if (all.shape.empty() || all.shape[0] % count != 0 || all.bytes() % static_cast<std::uint64_t>(count) != 0)
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: {}: got {} rows, expected a multiple of {}", place.file->path().string(), all.name,
                            all.shape.empty() ? 0 : all.shape[0], count));
  const std::uint64_t bytes = all.bytes() / static_cast<std::uint64_t>(count);
  std::vector<std::int64_t> shape = all.shape;
  shape[0] /= count;
  for (std::uint64_t i = 0; i < joined.into.size(); ++i) {
    const std::uint64_t begin = all.begin + i * bytes;
    parts.push_back({all.name, all.dtype, shape, begin, begin + bytes});
    into.emplace(replace_all(name, std::string(joined.part), std::string(joined.into[i])),
                 SafetensorsSet::Place{place.file, &parts.back()});
  }
}

}  // namespace

void take_published_names(const std::filesystem::path& folder, Places& places, std::deque<TensorInfo>& parts) {
  const Published* all = published(type_in(folder));
  if (!all) return;
  Places made;
  for (const auto& [given, place] : places) {
    const std::string name = renamed(given, *all);
    const Joined* joined = nullptr;
    for (const Joined& one : all->joined)
      if (name.find(one.part) != std::string::npos) joined = &one;
    if (joined) split(name, *joined, place, made, parts);
    else made.emplace(name, place);
  }
  places = std::move(made);
}

}  // namespace hone::hub
