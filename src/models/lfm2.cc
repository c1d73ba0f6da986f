// LFM2 (Liquid AI, 2025, arXiv:2511.23404): most layers have a short convolution between two gates, some attention of
// grouped heads that are normed; behind either an MLP, or experts that sigmoids choose.
#include "hone/registry.h"
#include "models/lfm2_stack.h"

namespace hone::models {
namespace {

template <class C>
class Lfm2 final : public Lfm2Stack {
 public:
  Lfm2(const C& config, const HeadRequest& head) : Lfm2Stack(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  C config_;
};

}  // namespace

void register_lfm2(Registries& hone) {
  hone.models.add<Lfm2<Lfm2Config>, Lfm2Config>("lfm2",
                                                "LFM2: gated short convolutions in most layers, attention in others.");
  hone.models.add<Lfm2<Lfm2MoeConfig>, Lfm2MoeConfig>("lfm2_moe", "LFM2 with routed experts.");
}

}  // namespace hone::models
