// Granite 3 (IBM, 2024): Llama whose embeddings, scores, residual additions and logits are multiplied by numbers of
// their own; and granite_swa, where most layers see a window, and each head's scores have a sink.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/granite_keys.h"
#include "models/granite_swa_keys.h"
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

struct GraniteSwaConfig : GraniteSwaKeys<GraniteKeys> {
  using Base = GraniteSwaKeys<GraniteKeys>;
  static constexpr auto fields() { return Base::fields(); }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const GraniteSwaConfig& given, Problems& problems) {
  const GraniteSwaConfig c = with_granite_windows(given);
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  read_multipliers(c, s);
  read_granite_windows(c, s, problems);
  return s;
}

void GraniteConfig::validate(Problems& problems) const { resolve(*this, problems); }
void GraniteSwaConfig::validate(Problems& problems) const { resolve(*this, problems); }

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

class GraniteSwa final : public LlamaStack {
 public:
  GraniteSwa(const GraniteSwaConfig& config, const HeadRequest& head)
      : LlamaStack(shape_of(config, head)), config_(config) {}

  config::Node hf_config() const override {
    config::Node node = to_hf_config(with_granite_windows(config_), s, dtype());
    write_multipliers(config_, node);
    write_thetas(s, node);
    sort_keys(node);
    return node;
  }

 private:
  GraniteSwaConfig config_;
};

}  // namespace

void register_granite(Registries& hone) {
  hone.models.add<Granite, GraniteConfig>("granite", "Llama with multipliers of embeddings, scores, sums and logits.");
  hone.models.add<GraniteSwa, GraniteSwaConfig>("granite_swa",
                                                "Granite most of whose layers see a window, with sinks.");
}

}  // namespace hone::models
