// GLM-4 (GLM team, 2024, arXiv:2406.12793), and its later form (GLM-4-0414, 2025), which norms also what attention and
// MLP give: Llama that rotates neighbours in half of each head, and whose gate and up are one weight.
//
// Letters in tensor names: N tokens, D hidden.
#include <array>
#include <vector>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/glm_block.h"

namespace hone::models {
namespace {

struct GlmConfig : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

constexpr double kRotatedShare = 0.5;                                    // of a head, when nothing is said
constexpr std::array<std::int64_t, 3> kEnds = {151329, 151336, 151338};  // of texts, likewise

// What transformers takes for keys that are absent.
LlamaConfig completed(const GlmConfig& given) {
  LlamaConfig c = given;
  if (!c.attention_bias) c.attention_bias = true;
  if (!c.partial_rotary_factor) c.partial_rotary_factor = kRotatedShare;
  const bool none = is_default(c.eos_token_id) || c.eos_token_id.node.is_null();
  if (none && kEnds.back() < c.vocab_size.value_or(family_of(c.model_type)->vocab)) {
    std::vector<config::Node> ids;
    for (const std::int64_t id : kEnds) ids.push_back(config::Values<std::int64_t>::write(id));
    c.eos_token_id.node = config::Node::list(std::move(ids));
  }
  return c;
}

LlamaShape resolve(const GlmConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(completed(c), s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  s.output_bias = false;
  s.rotates_neighbours = true;
  return s;
}

void GlmConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Glm final : public LlamaModel<GlmBlock> {
 public:
  Glm(const GlmConfig& config, const HeadRequest& head) : LlamaModel(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(completed(config_), s, dtype());
    node.at_or_add("attention_bias") = config::Values<bool>::write(s.qkv_bias);
    node.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") = nn::hf_float(s.rope.partial_rotary_factor);
    sort_keys(node);
    return node;
  }

 private:
  GlmConfig config_;
};

}  // namespace

void register_glm(Registries& hone) {
  hone.models.add<Glm, GlmConfig>({"glm", "glm4"}, "GLM-4: half of each head is rotated, neighbour by neighbour.");
}

}  // namespace hone::models
