// AFM (Arcee AI, 2025): Llama whose MLP has no gate, but squares what relu gives (Zhang et al., 2024,
// arXiv:2402.03804).
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_model.h"
#include "models/plain_mlp.h"
#include "models/pre_norm_block.h"

namespace hone::models {
namespace {

struct ArceeConfig : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

SquaringShape resolve(const ArceeConfig& c, Problems& problems) {
  SquaringShape s;
  if (!resolve_squaring(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  return s;
}

void ArceeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Arcee final : public DecodingLlama<PreNormBlock<SquaringShape, PlainMlp>, SquaringShape> {
 public:
  Arcee(const ArceeConfig& config, const HeadRequest& head) : DecodingLlama(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  ArceeConfig config_;
};

}  // namespace

void register_arcee(Registries& hone) {
  hone.models.add<Arcee, ArceeConfig>("arcee", "AFM: Llama with an MLP of squares instead of gates.");
}

}  // namespace hone::models
