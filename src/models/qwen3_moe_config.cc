// Qwen2-MoE's, Qwen3-MoE's and, of texts, Qwen3-VL-MoE's config.json: Llama's keys and those of the experts.
#include "models/qwen3_moe_config.h"

#include <fmt/format.h>

#include "base/log.h"
#include "hone/config_read.h"

namespace hone::models {
namespace {

using config::Node;

bool is_second(const LlamaConfig& c) { return c.model_type == "qwen2_moe"; }
bool is_with_pictures(const LlamaConfig& c) { return c.model_type == "qwen3_vl_moe_text"; }
ExpertDefaults defaults_of(const Qwen3MoeConfig& c) {
  if (is_second(c)) return {.experts = 60, .per_token = 4, .inner = 1408, .shared_inner = 5632};
  if (is_with_pictures(c)) return {.experts = 60, .per_token = 4, .inner = 1408, .normalise = true};
  return {.experts = 128, .per_token = 8, .inner = 768};
}

// Keys of the Llama family that these do not have, or not all values of.
void refuse_others(const Qwen3MoeConfig& c, Problems& problems) {
  if (!is_second(c))
    problems.require(!c.layer_types, "layer_types",
                     c.model_type + " has no such key: all its layers slide or none does, as use_sliding_window says");
  refuse_keys(c.model_type,
              {{"mlp_bias", c.mlp_bias.has_value()},
               {"pretraining_tp", c.pretraining_tp.has_value()},
               {"use_sliding_window", is_with_pictures(c) && c.use_sliding_window.value_or(false)},
               {"max_window_layers", is_with_pictures(c) && c.max_window_layers},
               {"qkv_bias", !is_second(c) && c.qkv_bias},
               {"num_local_experts", is_second(c) && c.num_local_experts}},
              problems);
  problems.require(!is_with_pictures(c) || c.norm_topk_prob.value_or(true), "norm_topk_prob",
                   "got false, expected true, as these models do");
  problems.require(!is_second(c) || !c.use_sliding_window.value_or(false), "use_sliding_window",
                   "got true, expected false: layers of qwen2_moe that slide are not there");
}

// Llama's keys, without a window that nobody uses: transformers 5 writes 0 then.
LlamaConfig as_llama(const Qwen3MoeConfig& c) {
  LlamaConfig made = c;
  const bool is_null = made.sliding_window.node.is_null();
  if (is_second(c) || (is_with_pictures(c) && is_null)) made.sliding_window = LlamaConfig().sliding_window;
  return made;
}

}  // namespace

Qwen3MoeShape resolve(const Qwen3MoeConfig& c, Problems& problems) {
  Qwen3MoeShape s;
  if (!resolve_base(as_llama(c), s, problems)) return s;
  refuse_others(c, problems);
  s.qkv_bias = is_second(c) ? c.qkv_bias.value_or(true) : s.qkv_bias;
  if (c.num_experts && c.num_local_experts && *c.num_experts != *c.num_local_experts)
    problems.add("num_experts", fmt::format("got {}, and num_local_experts {}: two names of the same number",
                                            *c.num_experts, *c.num_local_experts));
  Qwen3MoeConfig named = c;
  if (!named.num_experts) named.num_experts = c.num_local_experts;
  read_experts(named, defaults_of(c), s, s, problems);
  return s;
}

void Qwen3MoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Qwen3MoeConfig& c, const Qwen3MoeShape& s, const std::string& dtype) {
  Node node = to_hf_config(static_cast<const LlamaConfig&>(c), s, dtype);
  write_experts(c, defaults_of(c), s, is_second(c) ? "num_experts" : "num_local_experts", node);
  if (is_with_pictures(c)) {
    std::erase_if(node.entries(), [](const Node::Entry& entry) { return entry.first == "norm_topk_prob"; });
    node.at_or_add("sliding_window") = Node();
  }
  if (is_second(c)) {
    node.at_or_add("qkv_bias") = config::Values<bool>::write(s.qkv_bias);
    node.at_or_add("sliding_window") = config::Values<std::int64_t>::write(0);
  }
  sort_keys(node);
  return node;
}

}  // namespace hone::models
