// Granite 3 (IBM, 2024): Llama whose embeddings, scores, residual additions and logits are multiplied by numbers of
// their own.
#include "hone/registry.h"
#include "models/granite_keys.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

struct GraniteConfig : GraniteKeys {
  using Base = GraniteKeys;
  static constexpr auto fields() { return GraniteKeys::fields(); }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const GraniteConfig& c, Problems& problems) {
  LlamaShape s;
  if (resolve_base(c, s, problems)) read_multipliers(c, s);
  return s;
}

void GraniteConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Granite final : public LlamaStack {
 public:
  Granite(const GraniteConfig& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    write_multipliers(config_, node);
    sort_keys(node);
    return node;
  }

 private:
  GraniteConfig config_;
};

}  // namespace

void register_granite(Registries& hone) {
  hone.models.add<Granite, GraniteConfig>("granite", "Llama with multipliers of embeddings, scores, sums and logits.");
}

}  // namespace hone::models
