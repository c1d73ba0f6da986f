// Nemotron-H's config.json.
#include "models/nemotron_h_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/check_parameters.h"

namespace hone::models {
namespace {

using config::Node;
using Layer = NemotronHLayer;

struct LayerName {
  Layer layer;
  const char *name, *old_name;
  char letter;
};
constexpr std::array kLayerNames{LayerName{Layer::state, "linear_attention", "mamba", 'M'},
                                 LayerName{Layer::attention, "full_attention", "attention", '*'},
                                 LayerName{Layer::mlp, "mlp", "mlp", '-'},
                                 LayerName{Layer::experts, "moe", "moe", 'E'}};

// Of files that have both ways of saying it.
bool says_otherwise(const std::string& pattern, const std::vector<Layer>& kinds) {
  return !std::equal(pattern.begin(), pattern.end(), kinds.begin(), kinds.end(), [](char letter, Layer kind) {
    return std::any_of(kLayerNames.begin(), kLayerNames.end(),
                       [&](const LayerName& each) { return each.layer == kind && each.letter == letter; });
  });
}

std::vector<Layer> read_kinds(const NemotronHConfig& c, Problems& problems) {
  std::vector<Layer> kinds;
  const std::size_t before = problems.size();
  const auto find = [&](const std::string& key, const std::string& given, auto&& fits) {
    const auto* found = std::find_if(kLayerNames.begin(), kLayerNames.end(), fits);
    if (found != kLayerNames.end()) return kinds.push_back(found->layer);
    problems.add(key,
                 fmt::format("got \"{}\", expected {}", given,
                             c.layers_block_type ? "linear_attention, full_attention, mlp or moe" : "M, *, - or E"));
  };
  if (c.layers_block_type)
    for (const std::string& given : *c.layers_block_type)
      find("layers_block_type", given,
           [&](const LayerName& each) { return given == each.name || given == each.old_name; });
  else
    for (const char given : c.hybrid_override_pattern.value_or("ME*-"))
      find("hybrid_override_pattern", std::string(1, given),
           [&](const LayerName& each) { return given == each.letter; });
  problems.require(!kinds.empty() && kinds.size() <= 10000, "layers_block_type", "expected 1 to 10000 layers");
  if (c.layers_block_type && c.hybrid_override_pattern && problems.size() == before)
    problems.require(!says_otherwise(*c.hybrid_override_pattern, kinds), "hybrid_override_pattern",
                     fmt::format("got {}, and layers_block_type says otherwise; expected one of them",
                                 *c.hybrid_override_pattern));
  return kinds;
}

// Llama's keys, as transformers understands them here.
LlamaConfig as_llama(const NemotronHConfig& c, std::size_t layers) {
  LlamaConfig made = c;
  made.num_hidden_layers = static_cast<std::int64_t>(layers);
  made.hidden_act = c.mlp_hidden_act;
  made.rms_norm_eps = c.layer_norm_epsilon;
  made.rope_parameters = made.rope_scaling = {};
  made.rope_theta = made.partial_rotary_factor = {};
  return made;
}

void read_states(const NemotronHConfig& c, NemotronHShape& s, Problems& problems) {
  read_step_limits(c.time_step_limit, problems);
  for (const Layer kind : s.kinds) s.remembers.push_back(kind == Layer::state);
  const std::int64_t inner = c.mamba_num_heads * c.mamba_head_dim;
  s.mamba = {.hidden = s.hidden,
             .heads = c.mamba_num_heads,
             .head_size = c.mamba_head_dim,
             .groups = c.n_groups,
             .state_size = c.ssm_state_size,
             .taps = c.conv_kernel,
             .conv_bias = c.use_conv_bias,
             .in_bias = c.use_bias,
             .out_bias = c.use_bias,
             .least_step = c.time_step_min,
             .eps = s.eps,
             .std = s.std,
             .least_fresh_step = std::max(c.time_step_min, c.time_step_floor),
             .most_fresh_step = std::max(c.time_step_max, c.time_step_floor)};
  // As wide as numbers that lie evenly up to the inverse root of what is read.
  if (c.rescale_prenorm_residual)
    s.mamba.out_std = 1 / std::sqrt(3 * static_cast<double>(inner) * static_cast<double>(s.layers));
  check_state_spaces(s, inner, "mamba_num_heads", problems);
  problems.require(c.time_step_min <= c.time_step_max, "time_step_max", "expected at least time_step_min");
  problems.require(c.mamba_hidden_act == "silu" || c.mamba_hidden_act == "swish", "mamba_hidden_act",
                   fmt::format("got {}, expected silu", c.mamba_hidden_act));
}

void read_experts(const NemotronHConfig& c, NemotronHShape& s, Problems& problems) {
  if (!s.any_experts()) return;
  s.experts.count = c.n_routed_experts, s.experts.per_token = c.num_experts_per_tok;
  s.experts.inner = c.moe_intermediate_size;
  s.experts.router = {.rule = {.score = ops::GroupedRule::Score::sigmoid,
                               .per_token = c.num_experts_per_tok,
                               .groups = c.n_group,
                               .chosen_groups = c.topk_group,
                               .best_of_group = 2,
                               .normalise = c.norm_topk_prob,
                               .floor = 1e-20,
                               .scale = c.routed_scaling_factor},
                      .corrected = true,
                      .correction_rate = c.router_bias_update_rate};
  s.shared_inner = c.moe_shared_expert_intermediate_size, s.latent = c.moe_latent_size.value_or(0);
  check_groups(s.experts, "n_routed_experts", problems);
  check_experts_per_token(s.experts.per_token, s.experts.count, problems);
  problems.require(s.squares, "mlp_hidden_act", "expected relu2, which experts have");
  const double experts = static_cast<double>(std::count(s.kinds.begin(), s.kinds.end(), Layer::experts)) *
                         static_cast<double>(s.experts.count);
  const double width = static_cast<double>(s.latent > 0 ? s.latent : s.hidden);
  check_parameters(2 * experts * width * static_cast<double>(s.experts.inner), "n_routed_experts", problems);
  check_all_experts(experts, "n_routed_experts", problems);
}

// What it can be that this is not.
void refuse_others(const NemotronHConfig& c, const NemotronHShape& s, Problems& problems) {
  refuse_keys(c.model_type,
              {{"hidden_act", c.hidden_act.has_value()},
               {"layer_types", c.layer_types.has_value()},
               {"use_sliding_window", c.use_sliding_window.value_or(false)},
               {"max_window_layers", c.max_window_layers.has_value()}},
              problems);
  problems.require(!s.tied, "tie_word_embeddings", "got true, expected false: these models have heads of their own");
}

}  // namespace

bool NemotronHShape::any_experts() const {
  return std::find(kinds.begin(), kinds.end(), Layer::experts) != kinds.end();
}

NemotronHShape resolve(const NemotronHConfig& c, Problems& problems) {
  NemotronHShape s;
  const std::size_t before = problems.size();
  const std::vector<Layer> kinds = read_kinds(c, problems);
  if (problems.size() > before || !resolve_squaring(as_llama(c, kinds.size()), s, problems)) return s;
  refuse_others(c, s, problems);
  s.kinds = kinds;
  s.no_gradient_id = -1;  // the table of words knows of no padding
  s.body = "backbone", s.table = "embeddings", s.last_norm = "norm_f";
  s.unrotated.assign(s.kinds.size(), true);
  read_states(c, s, problems);
  read_experts(c, s, problems);
  return s;
}

void NemotronHConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const NemotronHConfig& c, const NemotronHShape& s, const std::string& dtype) {
  Node node = to_hf_config(as_llama(c, s.kinds.size()), s, dtype);
  std::erase_if(node.entries(), [](const Node::Entry& entry) {
    return entry.first == "rope_parameters" || entry.first == "num_hidden_layers";
  });
  const auto put = [&](const char* key, const auto& value) {
    node.at_or_add(key) = config::Values<std::decay_t<decltype(value)>>::write(value);
  };
  const auto put_float = [&](const char* key, double value) { node.at_or_add(key) = nn::hf_float(value); };
  std::vector<std::string> kinds;
  for (const Layer kind : s.kinds)
    kinds.push_back(std::find_if(kLayerNames.begin(), kLayerNames.end(), [&](const LayerName& each) {
                      return each.layer == kind;
                    })->name);
  put("layers_block_type", kinds);
  put("mtp_layers_block_type", c.mtp_layers_block_type.value_or(std::vector<std::string>{"full_attention", "moe"}));
  put("attention_bias", c.attention_bias.value_or(false));
  node.at_or_add("sliding_window") = is_default(c.sliding_window) ? Node() : c.sliding_window.node;
  put("ssm_state_size", c.ssm_state_size), put("mamba_num_heads", c.mamba_num_heads);
  put("mamba_head_dim", c.mamba_head_dim), put("n_groups", c.n_groups), put("conv_kernel", c.conv_kernel);
  put("expand", c.expand), put("chunk_size", c.chunk_size), put("use_conv_bias", c.use_conv_bias);
  put("use_bias", c.use_bias), put("mamba_proj_bias", c.mamba_proj_bias), put("mamba_hidden_act", c.mamba_hidden_act);
  put("mamba_ssm_cache_dtype", c.mamba_ssm_cache_dtype), put("residual_in_fp32", c.residual_in_fp32);
  put("rescale_prenorm_residual", c.rescale_prenorm_residual), put("use_mamba_kernels", c.use_mamba_kernels);
  Problems none;
  node.at_or_add("time_step_limit") = write_step_limits(read_step_limits(c.time_step_limit, none));
  put_float("time_step_min", c.time_step_min), put_float("time_step_max", c.time_step_max);
  put_float("time_step_floor", c.time_step_floor);
  put_float("hidden_dropout", c.hidden_dropout), put_float("routed_scaling_factor", c.routed_scaling_factor);
  if (c.router_bias_update_rate > 0) put_float("router_bias_update_rate", c.router_bias_update_rate);
  put("n_routed_experts", c.n_routed_experts), put("n_shared_experts", c.n_shared_experts);
  put("num_experts_per_tok", c.num_experts_per_tok), put("moe_intermediate_size", c.moe_intermediate_size);
  put("moe_shared_expert_intermediate_size", c.moe_shared_expert_intermediate_size);
  put("moe_latent_size", c.moe_latent_size), put("moe_shared_expert_overlap", c.moe_shared_expert_overlap);
  put("n_group", c.n_group), put("topk_group", c.topk_group), put("norm_topk_prob", c.norm_topk_prob);
  put("output_router_logits", c.output_router_logits), put("num_logits_to_keep", c.num_logits_to_keep);
  put("num_nextn_predict_layers", c.num_nextn_predict_layers);
  sort_keys(node);
  return node;
}

}  // namespace hone::models
