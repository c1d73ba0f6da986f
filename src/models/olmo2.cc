// OLMo 2 (Walsh et al., 2024, arXiv:2501.00656) and OLMo 3 (2025): what attention and MLP give is normed, not what they
// read, and queries and keys are, all heads together. OLMo 3 has windows in three of four layers.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/post_norm_block.h"

namespace hone::models {
namespace {

struct Olmo2Config : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

constexpr double kTheta = 500000;  // of OLMo 3's layers that slide whatever rope_theta says, as in transformers

LlamaShape resolve(const Olmo2Config& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  if (s.model_type == "olmo3") read_two_ropes(c, kTheta, kTheta, s, problems);
  return s;
}

void Olmo2Config::validate(Problems& problems) const { resolve(*this, problems); }

class Olmo2 final : public DecodingLlama<PostNormBlock<>> {
 public:
  Olmo2(const Olmo2Config& config, const HeadRequest& head) : DecodingLlama(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  Olmo2Config config_;
};

}  // namespace

void register_olmo2(Registries& hone) {
  hone.models.add<Olmo2, Olmo2Config>({"olmo2", "olmo3"}, "OLMo 2 and 3: norms behind attention and MLP.");
}

}  // namespace hone::models
