// Nemotron-H (NVIDIA, 2025, arXiv:2504.03624) and Nemotron 3: each layer is one thing, a state space (Mamba-2),
// attention without a rotation, an MLP of squares, or experts of the same.
//
// Letters in tensor names: N tokens, D hidden.
#include "hone/registry.h"
#include "models/hybrid_model.h"
#include "models/nemotron_h_config.h"
#include "ops/experts.h"

namespace hone::models {
namespace {

// Experts without gates, and one that every token goes to; between two products they may read fewer numbers.
class NemotronHExperts final : public Module {
 public:
  explicit NemotronHExperts(const NemotronHShape& shape) : s(shape) {
    if (s.latent > 0)
      to_latent_ = &latent("fc1_latent_proj", s.hidden, s.latent),
      from_latent_ = &latent("fc2_latent_proj", s.latent, s.hidden);
  }

  Tensor operator()(const Tensor& x_1ND, Pass& pass) const {
    const GroupedExperts& e = s.experts;
    const Tensor x_ND = x_1ND.squeeze(0);
    const ops::Choice choice = gate(x_ND, pass);
    const ops::Routing routing = ops::route(choice.expert_NK, e.count);
    if (pass.training) {
      gate.observe(routing.slots, pass);
      nn::measure_routing(pass, choice.probability_E, routing.slots, x_ND.size(0), e.per_token);
    }
    const Tensor read_ND = to_latent_ ? (*to_latent_)(x_ND, pass) : x_ND;
    Tensor y_ND = ops::routed_mlp(read_ND, choice.weight_NK, routing, experts.each(), ops::Activation::relu);
    if (from_latent_) y_ND = (*from_latent_)(y_ND, pass);
    return y_ND.unsqueeze(0) + shared_experts(x_1ND, pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    nn::RoutedForm form{.experts = experts.each(), .activation = ops::Activation::relu};
    gate.describe(form);
    nn::PreNormLayer shared;
    shared_experts.describe(shared, pass);
    form.shared = shared.mlp;
    if (to_latent_)
      form.to_latent = to_latent_->with_adapter(pass), form.from_latent = from_latent_->with_adapter(pass);
    layer.routed = std::make_shared<const nn::RoutedForm>(std::move(form));
    layer.is_known &= s.squares;  // as its experts do
    layer.is_known &= pass.adapter.empty() || !experts.has_adapters();
  }

 private:
  struct Experts final : Module {
    explicit Experts(const NemotronHShape& s) {
      const std::int64_t width = s.latent > 0 ? s.latent : s.hidden;
      for (std::int64_t e = 0; e < s.experts.count; ++e) all.push_back(&child<Expert>(std::to_string(e), s, width));
      each_weight([&](const std::string&, Weight& weight) {
        weight.set_share_of_tokens(static_cast<double>(s.experts.per_token) / static_cast<double>(s.experts.count));
        weight.set_takes_float8(false);
      });
    }
    // relu(u)^2 is relu(u) u: a gated MLP whose gate is what it gates.
    std::vector<ops::GatedMlpWeights> each() const {
      std::vector<ops::GatedMlpWeights> weights;
      for (const Expert* one : all)
        weights.push_back({one->up_proj.with_bias(), one->up_proj.with_bias(), one->down_proj.with_bias()});
      return weights;
    }

   private:
    struct Expert final : Module {
      Expert(const NemotronHShape& s, std::int64_t width)
          : up_proj(child<nn::Linear>("up_proj", width, s.experts.inner, nn::Linear::Options{.std = s.std})),
            down_proj(child<nn::Linear>("down_proj", s.experts.inner, width, nn::Linear::Options{.std = s.std})) {}
      nn::Linear &up_proj, &down_proj;
    };
    std::vector<const Expert*> all;
  };

  nn::Linear& latent(const char* name, std::int64_t in, std::int64_t out) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = s.mlp_bias, .std = s.std});
  }
  PlainMlp::Options shared_options() const {
    PlainMlp::Options made = s.mlp_options();
    made.inner = s.shared_inner;
    return made;
  }
  const NemotronHShape& s;
  nn::GroupedRouter& gate = child<nn::GroupedRouter>("gate", s.hidden, s.experts.count, s.experts.router, s.std);
  Experts& experts = child<Experts>("experts", s);
  PlainMlp& shared_experts = child<PlainMlp>("shared_experts", shared_options());
  const nn::Linear *to_latent_ = nullptr, *from_latent_ = nullptr;  // null: there are none
};

class NemotronHBlock final : public nn::ResidualBlock {
 public:
  NemotronHBlock(const NemotronHShape& shape, const LlamaRopes& ropes, std::int64_t layer) : s(shape) {
    switch (s.kinds[static_cast<std::size_t>(layer)]) {
      case NemotronHLayer::state:
        state = &child<nn::StateSpace>("mixer", s.mamba);
        break;
      case NemotronHLayer::attention:
        attention = &child<LlamaAttention>("mixer", s, ropes, layer);
        break;
      case NemotronHLayer::mlp:
        mlp = &child<PlainMlp>("mixer", s.mlp_options());
        break;
      case NemotronHLayer::experts:
        experts = &child<NemotronHExperts>("mixer", s);
        break;
    }
  }

  void add_to(nn::Residual& x, Pass& pass) const override {
    if (state) x += (*state)(norm(x), pass);
    if (attention) x += (*attention)(norm(x), pass);
    if (mlp) x += (*mlp)(norm(x), pass);
    if (experts) x += (*experts)(norm(x), pass);
  }
  nn::PreNormLayer describe(const Pass& pass) const {
    nn::PreNormLayer layer;
    layer.has_mixer = state || attention, layer.has_mlp = !layer.has_mixer;
    if (state) state->describe(layer, pass);
    if (attention) attention->describe(layer, pass);
    if (mlp) mlp->describe(layer, pass);
    if (experts) experts->describe(layer, pass);
    (layer.has_mixer ? layer.attention_norm_D : layer.mlp_norm_D) = norm.weight.use();
    return layer;
  }

 private:
  const NemotronHShape& s;
  const nn::StateSpace* state = nullptr;  // one of the four
  const LlamaAttention* attention = nullptr;
  const PlainMlp* mlp = nullptr;
  const NemotronHExperts* experts = nullptr;
  nn::RmsNorm& norm = child<nn::RmsNorm>("norm", s.hidden, s.norm());
};

class NemotronH final : public HybridModel<NemotronHBlock, NemotronHShape> {
 public:
  NemotronH(const NemotronHConfig& config, const HeadRequest& head)
      : HybridModel(shape_of(config, head)), config_(config) {}

  Tensor finish(const Tensor& x_1ND, Pass& pass) const override {
    if (pass.training && s.any_experts()) nn::balance(pass, s.experts.per_token, /*coefficient=*/0);
    return HybridModel::finish(x_1ND, pass);
  }
  std::vector<AttentionLayer> attention() const override {
    return std::vector<AttentionLayer>(std::count(s.kinds.begin(), s.kinds.end(), NemotronHLayer::attention),
                                       AttentionLayer{s.heads, s.head_size});
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec = HybridModel::cache_spec();
    for (std::size_t i = 0; i < s.kinds.size(); ++i)
      if (s.kinds[i] == NemotronHLayer::mlp || s.kinds[i] == NemotronHLayer::experts) spec.layers[i] = {};
    return spec;
  }
  // Layers that guess further tokens.
  bool is_no_weight(const std::string& tensor) const override { return tensor.starts_with("mtp."); }
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  NemotronHConfig config_;
};

}  // namespace

void register_nemotron_h(Registries& hone) {
  hone.models.add<NemotronH, NemotronHConfig>(
      "nemotron_h", "Nemotron-H and Nemotron 3: state spaces (Mamba-2), attention, MLPs of squares and experts.");
}

}  // namespace hone::models
