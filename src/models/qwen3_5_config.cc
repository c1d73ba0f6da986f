// Qwen3-Next's and Qwen3.5's config.json: Llama's keys and those of layers with memories.
#include "models/qwen3_5_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hone/config_read.h"
#include "models/check_parameters.h"

namespace hone::models {
namespace {

using config::Node;

constexpr double kRotatedPart = 0.25;  // of a head
constexpr std::int64_t kInterval = 4;
constexpr const char *kAttention = "full_attention", *kMemory = "linear_attention";

// How positions of images are cut among frequencies; of texts all of them are the same position.
constexpr std::array<const char*, 2> kOfImages{"mrope_section", "mrope_interleaved"};

// Llama's keys, without those that say something else here.
LlamaConfig as_llama(const DeltaKeys& c) {
  LlamaConfig made = c;
  made.layer_types.reset();
  made.partial_rotary_factor = c.partial_rotary_factor.value_or(kRotatedPart);
  for (config::Open* rope : {&made.rope_parameters, &made.rope_scaling})
    if (rope->node.is_map())
      std::erase_if(rope->node.entries(), [](const Node::Entry& entry) {
        return std::find(kOfImages.begin(), kOfImages.end(), entry.first) != kOfImages.end();
      });
  return made;
}

void read_layers(const DeltaKeys& c, Qwen35Shape& s, Problems& problems) {
  const std::int64_t every = c.full_attention_interval.value_or(kInterval);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(s.layers, 10000); ++i)
    s.remembers.push_back((i + 1) % every != 0);
  if (!c.layer_types) return;
  problems.require(std::ssize(*c.layer_types) == s.layers, "layer_types",
                   fmt::format("got {} entries, expected num_hidden_layers ({})", c.layer_types->size(), s.layers));
  for (std::size_t i = 0; i < std::min(s.remembers.size(), c.layer_types->size()); ++i) {
    const std::string& type = (*c.layer_types)[i];
    problems.require(type == kAttention || type == kMemory, fmt::format("layer_types.{}", i),
                     fmt::format("got \"{}\", expected {} or {}", type, kAttention, kMemory));
    s.remembers[i] = type == kMemory;
  }
}

void read_memories(const DeltaKeys& c, Qwen35Shape& s, Problems& problems) {
  s.taps = c.linear_conv_kernel_dim;
  s.key_size = c.linear_key_head_dim, s.value_size = c.linear_value_head_dim;
  s.key_heads = c.linear_num_key_heads, s.value_heads = c.linear_num_value_heads;
  problems.require(s.value_heads % s.key_heads == 0, "linear_num_value_heads",
                   fmt::format("got {}, expected a multiple of linear_num_key_heads ({})", s.value_heads, s.key_heads));
  const auto layers = static_cast<double>(std::count(s.remembers.begin(), s.remembers.end(), true));
  check_parameters(layers * static_cast<double>(s.hidden) * static_cast<double>(s.convolved() + 2 * s.values()),
                   "linear_num_value_heads", problems);
}

// What it can be that this is not.
void refuse_others(const DeltaKeys& c, Problems& problems) {
  refuse_keys(c.model_type,
              {{"mlp_bias", c.mlp_bias.has_value()},
               {"use_sliding_window", c.use_sliding_window.value_or(false)},
               {"max_window_layers", c.max_window_layers.has_value()},
               {"pretraining_tp", c.pretraining_tp.has_value()}},
              problems);
  problems.require(c.attn_output_gate.value_or(true), "attn_output_gate", "got false, expected true");
  const auto is_silu = [](const std::string& name) { return name == "silu" || name == "swish"; };
  for (const auto& [key, name] : {std::pair{"hidden_act", &c.hidden_act}, {"output_gate_type", &c.output_gate_type}})
    problems.require(is_silu(name->value_or("silu")), key,
                     fmt::format("got {}, expected silu, which these models have", name->value_or("")));
}

bool is_next(const DeltaKeys& c) { return c.model_type == "qwen3_next"; }
ExpertDefaults defaults_of(const Qwen35MoeConfig& c) {
  const std::int64_t experts = is_next(c) ? 512 : 256, per_token = is_next(c) ? 10 : 8;
  return {.experts = experts,
          .per_token = per_token,
          .inner = 512,
          .shared_inner = 512,
          .normalise = true,
          .may_be_dense = is_next(c)};
}

bool resolve_layers(const DeltaKeys& c, Qwen35Shape& s, Problems& problems) {
  if (!resolve_base(as_llama(c), s, problems)) return false;
  refuse_others(c, problems);
  read_layers(c, s, problems);
  read_memories(c, s, problems);
  return true;
}

Node layers_config(const DeltaKeys& c, const Qwen35Shape& s, const std::string& dtype) {
  Node node = to_hf_config(static_cast<const LlamaConfig&>(c), s, dtype);
  const auto put = [&](const char* key, std::int64_t value) {
    node.at_or_add(key) = config::Values<std::int64_t>::write(value);
  };
  put("linear_conv_kernel_dim", s.taps), put("linear_key_head_dim", s.key_size);
  put("linear_value_head_dim", s.value_size), put("linear_num_key_heads", s.key_heads);
  put("linear_num_value_heads", s.value_heads);
  std::vector<Node> types;
  for (const bool remembers : s.remembers)
    types.push_back(Node::scalar(remembers ? kMemory : kAttention, /*quoted=*/true));
  node.at_or_add("layer_types") = Node::list(std::move(types));
  Node& rope = node.at_or_add("rope_parameters");
  rope.at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
  for (const char* key : kOfImages)
    if (const Node* given = c.rope_parameters.node.is_map() ? c.rope_parameters.node.find(key) : nullptr)
      rope.at_or_add(key) = *given;
  sort_keys(rope);
  return node;
}

}  // namespace

Qwen35Shape resolve(const Qwen35Config& c, Problems& problems) {
  Qwen35Shape s;
  resolve_layers(c, s, problems);
  s.sparse.assign(s.remembers.size(), false);
  return s;
}

Qwen35Shape resolve(const Qwen35MoeConfig& c, Problems& problems) {
  Qwen35Shape s;
  if (resolve_layers(c, s, problems)) read_experts(c, defaults_of(c), s, s, problems);
  s.joined = is_next(c);
  return s;
}

void Qwen35Config::validate(Problems& problems) const { resolve(*this, problems); }
void Qwen35MoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Qwen35Config& c, const Qwen35Shape& s, const std::string& dtype) {
  Node node = layers_config(c, s, dtype);
  sort_keys(node);
  return node;
}

Node to_hf_config(const Qwen35MoeConfig& c, const Qwen35Shape& s, const std::string& dtype) {
  Node node = layers_config(c, s, dtype);
  write_experts(c, defaults_of(c), s, "num_experts", node);
  // Where all layers have experts, nothing has that width.
  if (!is_next(c) && !c.intermediate_size)
    std::erase_if(node.entries(), [](const Node::Entry& entry) { return entry.first == "intermediate_size"; });
  sort_keys(node);
  return node;
}

}  // namespace hone::models
