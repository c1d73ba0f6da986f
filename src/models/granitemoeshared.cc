// Granite 3 with experts and an MLP beside them that every token goes to (IBM, 2025); and granitemoe_swa, where most
// layers see a window, and each head's scores have a sink.
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/granite_experts.h"
#include "models/granite_keys.h"
#include "models/granite_swa_keys.h"
#include "models/joined_mlp.h"
#include "models/local_experts.h"
#include "models/routed_model.h"

namespace hone::models {
namespace {

struct GraniteSharedConfig : GraniteSwaKeys<LocalExpertKeys<GraniteKeys>> {
  using Base = GraniteSwaKeys<LocalExpertKeys<GraniteKeys>>;
  std::int64_t shared_intermediate_size = 0;

  static constexpr auto fields() {
    return std::tuple_cat(Base::fields(),
                          std::tuple{field("shared_intermediate_size", &GraniteSharedConfig::shared_intermediate_size,
                                           "Width of the MLP that every token goes to; 0 = there is none.",
                                           config::Range{.low = 0, .high = 2147483647})});
  }
  void validate(Problems& problems) const;
};

struct GraniteSharedShape : RoutedShape {
  std::int64_t shared_inner = 0;
  GraniteNames names;
};

bool has_windows(const GraniteSharedConfig& c) { return c.model_type == "granitemoe_swa"; }
GraniteSharedConfig completed(const GraniteSharedConfig& c) { return has_windows(c) ? with_granite_windows(c) : c; }

GraniteSharedShape resolve(const GraniteSharedConfig& given, Problems& problems) {
  const GraniteSharedConfig c = completed(given);
  GraniteSharedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/has_windows(c), problems);
  refuse_keys(c.model_type, {{"layer_rope_theta", !has_windows(c) && c.layer_rope_theta}}, problems);
  read_multipliers(c, s);
  if (has_windows(c)) {
    read_granite_windows(c, s, problems);
    s.names = {.gate_up = "experts.gate_up_proj", .down = "experts.down_proj", .router = "router"};
  }
  const LocalExperts experts = read_local_experts(c, {.count = 8, .per_token = 2}, s, problems);
  check_parameters(3 * static_cast<double>(s.layers) * static_cast<double>(s.hidden) *
                       static_cast<double>(c.shared_intermediate_size),
                   "shared_intermediate_size", problems);
  s.experts = local_mlp(experts, s), s.balance = experts.balance;
  s.shared_inner = c.shared_intermediate_size;
  s.mlp_name = "";  // both parts of it are the layer's own
  return s;
}

void GraniteSharedConfig::validate(Problems& problems) const { resolve(*this, problems); }

class GraniteSharedMlp final : public Module {
 public:
  GraniteSharedMlp(const GraniteSharedShape& s, std::int64_t /*layer*/)
      : experts(child<GraniteExperts>("block_sparse_moe", s.experts, s.names)) {
    if (s.shared_inner == 0) return;
    shared_mlp = &child<JoinedMlp>("shared_mlp", JoinedMlp::Options{.hidden = s.hidden,
                                                                    .inner = s.shared_inner,
                                                                    .activation = s.activation,
                                                                    .std = s.std,
                                                                    .gate_up = "input_linear",
                                                                    .down = "output_linear"});
  }
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const Tensor normed_1ND = x_1ND, routed_1ND = experts(normed_1ND, pass);
    return shared_mlp ? routed_1ND + (*shared_mlp)(normed_1ND, pass) : routed_1ND;
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    nn::RoutedForm form = experts.form(pass);
    if (shared_mlp) form.shared = shared_mlp->with_adapters(pass, layer);
    layer.routed = std::make_shared<const nn::RoutedForm>(std::move(form));
  }

 private:
  GraniteExperts& experts;
  const JoinedMlp* shared_mlp = nullptr;  // null: there is none
};

using GraniteSharedBlock = PreNormBlock<GraniteSharedShape, GraniteSharedMlp>;

class GraniteMoeShared final : public RoutedModel<GraniteSharedBlock, GraniteSharedShape> {
 public:
  GraniteMoeShared(const GraniteSharedConfig& config, const HeadRequest& head)
      : RoutedModel(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override {
    config::Node node = to_hf_config(completed(config_), s, dtype());
    write_multipliers(config_, node);
    if (has_windows(config_)) write_thetas(s, node);
    write_local_experts(config_, {s.experts.experts, s.experts.per_token}, node);
    node.at_or_add("shared_intermediate_size") = config::Values<std::int64_t>::write(s.shared_inner);
    sort_keys(node);
    return node;
  }

 private:
  GraniteSharedConfig config_;
};

}  // namespace

void register_granitemoeshared(Registries& hone) {
  hone.models.add<GraniteMoeShared, GraniteSharedConfig>({"granitemoeshared", "granitemoe_swa"},
                                                         "Granite with routed experts, and shared.");
}

}  // namespace hone::models
