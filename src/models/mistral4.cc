// Mistral 4 (Mistral AI, 2026), text: attention by latents whose queries grow with their position, and experts by
// groups that lie in one tensor.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "hone/registry.h"
#include "models/expert_stacks.h"
#include "models/latent_model.h"
#include "models/query_growth.h"

namespace hone::models {
namespace {

using config::Node;

struct Mistral4Config : LatentConfig {
  using Base = LatentConfig;
  static constexpr auto fields() { return LatentConfig::fields(); }
  void validate(Problems& problems) const;
};

constexpr const char* kShareKey = "partial_rotary_factor";  // of a head, which is as its sizes say
constexpr std::int64_t kRotatedSize = 64, kPlainSize = 64;  // of a head, when nothing is said

double share_of_head(const LatentConfig& c) {
  const auto rotated = static_cast<double>(c.qk_rope_head_dim.value_or(kRotatedSize));
  return rotated / (rotated + static_cast<double>(c.qk_nope_head_dim.value_or(kPlainSize)));
}

// What transformers takes where nothing is said.
Node default_rope_of_mistral4() {
  Node rope = Node::map();
  const auto put = [&](const char* key, const char* value) { rope.at_or_add(key) = Node::scalar(value); };
  put("rope_type", "yarn"), put("rope_theta", "10000.0"), put("factor", "128.0");
  put("original_max_position_embeddings", "8192"), put("beta_fast", "32.0"), put("beta_slow", "1.0");
  put("mscale", "1.0"), put("mscale_all_dim", "1.0"), put("llama_4_scaling_beta", "0.1");
  return rope;
}

void take_share(const LatentConfig& c, Node& rope, const std::string& path, Problems& problems) {
  const double expected = share_of_head(c);
  double said = expected;
  if (const Node* share = rope.find(kShareKey); share && !share->is_null())
    config::Values<double>::read(*share, said, {problems, path + kShareKey, {.low = 0, .high = 1}});
  problems.require(std::abs(said - expected) < 1e-6, path + kShareKey,
                   fmt::format("got {}, expected {}, as qk_rope_head_dim and qk_nope_head_dim say", said, expected));
  std::erase_if(rope.entries(), [](const Node::Entry& entry) { return entry.first == kShareKey; });
}

LatentShape resolve(const Mistral4Config& given, Problems& problems) {
  LatentConfig c = given;
  if (c.rope_parameters.node.is_null() && !has_rope_scaling(c)) c.rope_parameters.node = default_rope_of_mistral4();
  const std::string path = has_rope_scaling(c) ? "rope_scaling." : "rope_parameters.";
  const std::size_t before = problems.size();
  SaidOfGrowth said;
  if (Node* rope = rope_section(c)) {
    said = take_growth(*rope, c.model_type, path, problems);
    take_share(c, *rope, path, problems);
  }
  if (!c.original_max_position_embeddings) c.original_max_position_embeddings = said.length;
  c.head_dim.reset();
  LatentShape s;
  if (problems.size() > before) return s;
  s = resolve(static_cast<const LatentConfig&>(c), problems);
  if (problems.size() > before) return s;
  const std::int64_t head = s.latent.query_size(), named = given.head_dim.value_or(head);
  problems.require(named == head, "head_dim",
                   fmt::format("got {}, expected {}: the sum of qk_nope_head_dim and qk_rope_head_dim", named, head));
  problems.require(s.rope.rope_type == nn::RopeType::yarn, path + "rope_type",
                   "expected yarn: with another one transformers rotates more of a head than is there");
  s.growth = {said.beta, s.rope.original_max_position_embeddings.value_or(s.max_positions)};
  return s;
}

void Mistral4Config::validate(Problems& problems) const { resolve(*this, problems); }

// Experts, or in some layers a plain MLP.
class StackedGroupedMlp final : public Module {
 public:
  StackedGroupedMlp(const LatentShape& s, std::int64_t layer) : o(s.experts.options(s, layer)) {
    if (s.experts.sparse[static_cast<std::size_t>(layer)]) {
      gate_ = &child<nn::GroupedRouter>(o.router, o.hidden, o.experts, *o.by_groups, o.std);
      experts_ = &child<ExpertStacks>(
          "experts",
          ExpertStacks::Options{
              .hidden = o.hidden, .inner = o.inner, .experts = o.experts, .per_token = o.per_token, .std = o.std});
    }
    mlp_ = &child<nn::GatedMlp>(gate_ ? o.shared : "",
                                nn::GatedMlp::Options{o.hidden, gate_ ? o.shared_inner : s.inner, o.activation,
                                                      /*bias=*/false, o.std});
    if (gate_) gate_->each_weight([](const std::string&, Weight& weight) { weight.set_takes_float8(false); });
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    if (!gate_) return (*mlp_)(x_1ND, pass);
    const Tensor all_1ND = x_1ND, x_ND = all_1ND.squeeze(0);
    const ops::Choice choice = (*gate_)(x_ND, pass);
    const ops::Routing routing = ops::route(choice.expert_NK, o.experts);
    if (pass.training) nn::measure_routing(pass, choice.probability_E, routing.slots, x_ND.size(0), o.per_token);
    const Tensor routed_ND = ops::routed_mlp(x_ND, choice.weight_NK, routing, experts_->each(), o.activation);
    return routed_ND.unsqueeze(0) + (*mlp_)(all_1ND, pass);
  }
  void describe(nn::PreNormLayer& layer, const Pass& pass) const {
    if (!gate_) return describe_mlp(*mlp_, layer, pass);
    nn::RoutedForm form{.experts = experts_->each(), .activation = o.activation, .shared = mlp_->with_adapters(pass)};
    gate_->describe(form);
    layer.routed = std::make_shared<const nn::RoutedForm>(std::move(form));
  }

 private:
  const nn::RoutedMlp::Options o;
  nn::GroupedRouter* gate_ = nullptr;  // with experts; null: there are none
  ExpertStacks* experts_ = nullptr;
  nn::GatedMlp* mlp_ = nullptr;  // beside experts, or instead of them
};

class Mistral4 final : public LatentModel<StackedGroupedMlp> {
 public:
  Mistral4(const Mistral4Config& config, const HeadRequest& head)
      : LatentModel(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    Node node = to_hf_config(static_cast<const LatentConfig&>(config_), s, dtype());
    node.at_or_add("head_dim") = config::Values<std::int64_t>::write(s.latent.query_size());
    Node& rope = node.at_or_add("rope_parameters");
    rope.at_or_add(kShareKey) = nn::hf_float(share_of_head(config_));
    write_growth(s.growth, rope);
    return node;
  }

 private:
  Mistral4Config config_;
};

}  // namespace

void register_mistral4(Registries& hone) {
  hone.models.add<Mistral4, Mistral4Config>("mistral4", "Mistral 4, text: attention by latents, experts by groups.");
}

}  // namespace hone::models
