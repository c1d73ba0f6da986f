// Multi-head latent attention.
#include "models/latent_attention.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "nn/plan.h"
#include "ops/rope.h"

namespace hone::models {
namespace {

constexpr double kLatentEps = 1e-6;  // of the latents' norms, whatever rms_norm_eps says

struct LatentDefaults {
  std::int64_t query_latent, plain, values, latent = 512;
};
LatentDefaults latent_defaults(const std::string& type) {
  if (type == "mistral4") return {1024, 64, 128, 256};
  return type == "glm4_moe_lite" ? LatentDefaults{768, 192, 256} : LatentDefaults{1536, 128, 128};
}

std::int64_t read_query_latent(const LatentConfig& c, std::int64_t absent, Problems& problems) {
  if (is_default(c.q_lora_rank)) return absent;
  if (c.q_lora_rank.node.is_null()) return 0;
  std::int64_t value = 1;
  config::Values<std::int64_t>::read(c.q_lora_rank.node, value, {problems, "q_lora_rank", {.low = 1, .high = 65536}});
  return value;
}

// YaRN's factor of attention, which is in cos and sin as far as a head is rotated, is wanted for all of the head.
double attention_scale(const nn::RopeConfig& rope, std::int64_t size, const std::string& section, Problems& problems) {
  const double plain = 1 / std::sqrt(static_cast<double>(size)), all = rope.mscale_all_dim.value_or(0);
  if (rope.rope_type == nn::RopeType::standard || all == 0) return plain;
  problems.require(rope.rope_type == nn::RopeType::yarn, section + ".mscale_all_dim",
                   "scales all of a head's scores in transformers; expected it with rope_type yarn alone");
  problems.require(rope.factor.has_value(), section + ".factor", "missing; mscale_all_dim needs it");
  const double factor = rope.factor.value_or(1), scale = factor <= 1 ? 1 : 0.1 * all * std::log(factor) + 1;
  return plain * scale * scale;
}

void read_latent_sizes(const LatentConfig& c, LatentShape& s, Problems& problems) {
  LatentSizes& sizes = s.latent;
  const LatentDefaults absent = latent_defaults(c.model_type);
  sizes.heads = s.heads, sizes.rotated = s.head_size;
  sizes.plain = c.qk_nope_head_dim.value_or(absent.plain), sizes.values = c.v_head_dim.value_or(absent.values);
  sizes.latent = c.kv_lora_rank.value_or(absent.latent);
  sizes.query_latent = read_query_latent(c, absent.query_latent, problems);
  const auto same = [&](const char* key, std::int64_t given, std::int64_t expected, const char* why) {
    problems.require(given == expected, key, fmt::format("got {}, expected {}: {}", given, expected, why));
  };
  same("num_key_value_heads", s.kv_heads, s.heads, "each query head has keys and values of its own");
  same("head_dim", c.head_dim.value_or(sizes.rotated), sizes.rotated, "the same as qk_rope_head_dim");
  same("qk_head_dim", c.qk_head_dim.value_or(sizes.query_size()), sizes.query_size(),
       "the sum of qk_nope_head_dim and qk_rope_head_dim");
  const bool always = c.model_type == "deepseek_v2";
  problems.require(!always || c.rope_interleave.value_or(true), "rope_interleave",
                   "got false, expected true: deepseek_v2 has no such key, and always rotates neighbours");
  s.rotates_neighbours = c.rope_interleave.value_or(true);
  s.attention_scale = attention_scale(s.rope, sizes.query_size(),
                                      has_rope_scaling(c) ? "rope_scaling" : "rope_parameters", problems);
}

}  // namespace

LatentShape resolve(const LatentConfig& c, Problems& problems) {
  LatentConfig named = c;
  named.head_dim = c.qk_rope_head_dim.value_or(64);
  LatentShape s;
  if (!resolve_base(named, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  problems.require(!c.mlp_bias.value_or(false), "mlp_bias", "got true, expected false: experts here have no biases");
  read_latent_sizes(c, s, problems);
  s.experts = read_grouped_experts(c, s, problems);
  return s;
}

void LatentConfig::validate(Problems& problems) const { resolve(*this, problems); }

config::Node to_hf_config(const LatentConfig& c, const LatentShape& s, const std::string& dtype) {
  const LatentSizes& sizes = s.latent;
  config::Node node = to_hf_config(static_cast<const LlamaConfig&>(c), s, dtype);
  const auto put = [&](const char* key, const auto& value) {
    node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
  };
  put("kv_lora_rank", sizes.latent), put("qk_nope_head_dim", sizes.plain), put("qk_rope_head_dim", sizes.rotated);
  put("qk_head_dim", sizes.query_size()), put("v_head_dim", sizes.values);
  if (sizes.query_latent > 0)
    put("q_lora_rank", sizes.query_latent);
  else
    node.at_or_add("q_lora_rank") = config::Node();
  if (c.model_type != "deepseek_v2") put("rope_interleave", s.rotates_neighbours);
  put("pretraining_tp", c.pretraining_tp.value_or(1));
  write_grouped_experts(c, s.experts, node);
  sort_keys(node);
  return node;
}

LatentAttention::LatentAttention(const LatentShape& shape, const LlamaRopes& ropes, std::int64_t layer)
    : s(shape),
      rope_(*ropes.of(layer)),
      kv_a_layernorm(child<nn::RmsNorm>("kv_a_layernorm", s.latent.latent, ops::RmsNormForm{kLatentEps})) {
  const LatentSizes& sizes = s.latent;
  const std::int64_t queries = s.heads * sizes.query_size();
  if (sizes.query_latent == 0) {
    q_proj = &projection("q_proj", s.hidden, queries);
    return;
  }
  q_a_proj = &projection("q_a_proj", s.hidden, sizes.query_latent, s.qkv_bias);
  q_a_layernorm = &child<nn::RmsNorm>("q_a_layernorm", sizes.query_latent, ops::RmsNormForm{kLatentEps});
  q_b_proj = &projection("q_b_proj", sizes.query_latent, queries);
}

nn::Linear& LatentAttention::projection(const char* name, std::int64_t in, std::int64_t out, bool bias) {
  return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = s.std});
}

Tensor LatentAttention::turned(const Tensor& x_NHP, const ops::RopeTable& table) const {
  return partly_rotated(x_NHP, s.latent.rotated, s.rotates_neighbours, table);
}

Tensor LatentAttention::operator()(const nn::Input& x_1ND, Pass& pass) const {
  const LatentSizes& sizes = s.latent;
  const auto made = nn::linears(x_1ND, {q_proj ? q_proj : q_a_proj, &kv_a_proj}, pass);
  const Tensor all_1NH = q_proj ? made[0] : (*q_b_proj)((*q_a_layernorm)(made[0]), pass);
  const Tensor q_NHK = all_1NH.view({-1, s.heads, sizes.query_size()});
  const Tensor latent_NX = made[1].squeeze(0);
  const Tensor rotated_N1P = latent_NX.narrow(-1, sizes.latent, sizes.rotated).unsqueeze(1);
  const ops::RopeTable& table = pass.plan().rope(rope_, q_NHK);
  const Tensor turned_NHK =
      at::cat({q_NHK.narrow(-1, 0, sizes.plain), turned(q_NHK.narrow(-1, sizes.plain, sizes.rotated), table)}, -1);
  // No token of a short batch is where queries grow.
  const bool grows = s.growth.beta != 0 && (pass.cache || pass.plan().row_length() > s.growth.length);
  const nn::LatentTokens tokens{
      grows ? grown(turned_NHK, s.growth, table.rows_N) : turned_NHK,
      kv_a_layernorm(latent_NX.narrow(-1, 0, sizes.latent).contiguous()), turned(rotated_N1P, table).squeeze(1)};
  const ops::AttentionOptions options{
      .scale = s.attention_scale, .mask = ops::Mask::causal(0), .dropout = s.attention_dropout};
  const Tensor y_NHV = nn::attend_latents(tokens, kv_b_proj, sizes, pass, options);
  return o_proj(y_NHV.reshape({1, y_NHV.size(0), -1}), pass);
}

void LatentAttention::describe(nn::PreNormLayer& layer, const Pass& pass) const {
  const LatentSizes& sizes = s.latent;
  nn::LatentForm form{.q = (q_proj ? q_proj : q_b_proj)->with_adapter(pass),
                      .out = o_proj.with_adapter(pass),
                      .kv_down = kv_a_proj.with_adapter(pass),
                      .kv_norm = kv_a_layernorm.weight.use(),
                      .expand_HXL = nn::weight_of_heads(kv_b_proj, sizes, pass),
                      .heads = sizes.heads,
                      .plain = sizes.plain,
                      .rotated = sizes.rotated,
                      .values = sizes.values,
                      .latent = sizes.latent,
                      .neighbours = s.rotates_neighbours,
                      .eps = kLatentEps,
                      .scale = s.attention_scale,
                      .growth = s.growth.beta,
                      .growth_length = s.growth.length};
  if (q_a_proj) form.q_down = q_a_proj->with_adapter(pass), form.q_norm = q_a_layernorm->weight.use();
  layer.rope = &rope_;
  layer.latent = std::make_shared<const nn::LatentForm>(std::move(form));
}

}  // namespace hone::models
