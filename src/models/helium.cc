// Helium 1 (Kyutai, 2025): Llama whose heads are rotated in neighbours; and CWM (Meta, 2025, arXiv:2510.02387): Llama
// three of whose four layers have windows.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

using config::Node;

struct HeliumConfig : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const HeliumConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  problems.require(s.heads * s.head_size == s.hidden, "head_dim",
                   fmt::format("got {}, expected hidden_size / num_attention_heads ({}), as transformers has it",
                               s.head_size, s.hidden / s.heads));
  s.rotates_neighbours = true;
  s.output_bias = false;
  return s;
}

class Helium final : public LlamaStack {
 public:
  Helium(const HeliumConfig& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    Node node = to_hf_config(config_, s, dtype());
    node.at_or_add("attention_bias") = config::Values<bool>::write(s.qkv_bias);
    return node;
  }

 private:
  HeliumConfig config_;
};

struct CwmConfig : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

constexpr std::int64_t kSeesAllEvery = 4;  // every how manieth layer, from the first one on

// What transformers takes for keys that are absent.
LlamaConfig completed(const CwmConfig& given) {
  LlamaConfig c = given;
  const std::int64_t layers = std::min<std::int64_t>(c.num_hidden_layers.value_or(64), 10000);
  if (!c.layer_types) {
    c.layer_types.emplace();
    for (std::int64_t i = 0; i < layers; ++i)
      c.layer_types->push_back(i % kSeesAllEvery == 0 ? "full_attention" : "sliding_attention");
  }
  if (is_default(c.sliding_window)) c.sliding_window.node = Node::scalar("8192");
  if (!has_rope_scaling(c) && c.rope_parameters.node.is_null() && !c.rope_theta) {
    Node rope = Node::map();
    for (const auto& [key, value] : {std::pair{"rope_type", "llama3"}, {"rope_theta", "1000000.0"}, {"factor", "16.0"},
                                     {"low_freq_factor", "1.0"}, {"high_freq_factor", "4.0"},
                                     {"original_max_position_embeddings", "8192"}})
      rope.at_or_add(key) = Node::scalar(value);
    c.rope_parameters.node = rope;
  }
  return c;
}

LlamaShape resolve(const CwmConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  return s;
}

class Cwm final : public LlamaStack {
 public:
  Cwm(const CwmConfig& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    Node node = to_hf_config(completed(config_), s, dtype());
    node.at_or_add("pretraining_tp") = config::Values<std::int64_t>::write(config_.pretraining_tp.value_or(1));
    sort_keys(node);
    return node;
  }

 private:
  CwmConfig config_;
};

void HeliumConfig::validate(Problems& problems) const { resolve(*this, problems); }
void CwmConfig::validate(Problems& problems) const { resolve(*this, problems); }

}  // namespace

void register_helium(Registries& hone) {
  hone.models.add<Helium, HeliumConfig>("helium", "Helium 1: Llama whose heads are rotated in neighbours.");
  hone.models.add<Cwm, CwmConfig>("cwm", "CWM: Llama three of whose four layers have windows.");
}

}  // namespace hone::models
