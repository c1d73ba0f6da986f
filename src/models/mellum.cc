// Mellum 2 (JetBrains, 2026): Qwen3-MoE with windows in some layers, which are rotated by frequencies of their own.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/expert_keys.h"
#include "models/mlp_or_experts.h"
#include "models/mlp_types.h"
#include "models/pre_norm_block.h"

namespace hone::models {
namespace {

using config::Node;

struct MellumConfig : ExpertKeys<LlamaConfig> {
  using Base = ExpertKeys<LlamaConfig>;
  std::optional<std::int64_t> num_local_experts, num_nextn_predict_layers;
  std::optional<std::vector<std::string>> mlp_layer_types, mtp_layer_types, mtp_mlp_layer_types;

  static constexpr auto fields() {
    using C = MellumConfig;
    constexpr const char* of_guessing = "Of layers that guess further tokens, which are passed over.";
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("num_local_experts", &C::num_local_experts,
                  "The same as num_experts, as transformers 5 writes it; default 64.",
                  config::Range{.low = 1, .high = 65536}),
            field("mlp_layer_types", &C::mlp_layer_types, "sparse or dense for each layer; default: all are sparse."),
            field("num_nextn_predict_layers", &C::num_nextn_predict_layers,
                  "Layers that guess further tokens, which are passed over.", config::Range{.low = 0, .high = 1}),
            field("mtp_layer_types", &C::mtp_layer_types, of_guessing),
            field("mtp_mlp_layer_types", &C::mtp_mlp_layer_types, of_guessing)});
  }
  void validate(Problems& problems) const;
};

constexpr double kFullTheta = 500000, kSlidingTheta = 10000;
constexpr ExpertDefaults kMellumExperts{.experts = 64, .per_token = 8, .inner = 896, .normalise = true};

struct MellumShape : LlamaShape, ExpertShape {};

// What transformers takes for keys that are absent.
MellumConfig completed(const MellumConfig& given) {
  MellumConfig c = given;
  if (!c.num_experts) c.num_experts = c.num_local_experts;
  if (is_default(c.sliding_window)) c.sliding_window.node = config::Values<std::int64_t>::write(1024);
  const std::int64_t layers = c.num_hidden_layers.value_or(family_of(c.model_type)->layers);
  if (!c.layer_types) c.layer_types.emplace(std::min<std::int64_t>(layers, 10000), "full_attention");
  return c;
}

void refuse_others(const MellumConfig& c, Problems& problems) {
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  refuse_keys(c.model_type,
              {{"rope_theta", c.rope_theta.has_value()},
               {"rope_scaling", has_rope_scaling(c)},
               {"decoder_sparse_step", c.decoder_sparse_step.value_or(1) != 1},
               {"mlp_only_layers", c.mlp_only_layers && !c.mlp_only_layers->empty()}},
              problems);
  if (c.num_experts && c.num_local_experts && *c.num_experts != *c.num_local_experts)
    problems.add("num_experts", fmt::format("got {}, and num_local_experts {}: two names of the same number",
                                            *c.num_experts, *c.num_local_experts));
}

MellumShape resolve(const MellumConfig& given, Problems& problems) {
  MellumShape s;
  const MellumConfig c = completed(given);
  if (!resolve_base(c, s, problems)) return s;
  refuse_others(given, problems);
  read_two_ropes(c, kSlidingTheta, kFullTheta, s, problems);
  read_experts(c, kMellumExperts, s, s, problems);
  if (c.mlp_layer_types) read_mlp_types(*c.mlp_layer_types, s.layers, s.sparse, problems);
  return s;
}

void MellumConfig::validate(Problems& problems) const { resolve(*this, problems); }

class MellumMlp final : public MlpOrExperts {
 public:
  MellumMlp(const MellumShape& s, std::int64_t layer)
      : MlpOrExperts(s.sparse[static_cast<std::size_t>(layer)], s.options(s),
                     {s.hidden, s.inner, s.activation, /*bias=*/false, s.std}) {}
};

class Mellum final : public Balanced<DecodingLlama<PreNormBlock<MellumShape, MellumMlp>, MellumShape>> {
 public:
  Mellum(const MellumConfig& config, const HeadRequest& head) : Balanced(shape_of(config, head)), config_(config) {}

  bool is_no_weight(const std::string& tensor) const override { return tensor.starts_with("mtp."); }
  Node hf_config() const override {
    Node node = to_hf_config(completed(config_), s, dtype());
    write_experts(config_, kMellumExperts, s, "num_local_experts", node);
    std::erase_if(node.entries(), [](const Node::Entry& entry) {
      return entry.first == "decoder_sparse_step" || entry.first == "mlp_only_layers";
    });
    const auto keep = [&](const char* key, const auto& given) {
      node.at_or_add(key) = given ? config::Values<std::remove_cvref_t<decltype(*given)>>::write(*given) : Node();
    };
    keep("num_nextn_predict_layers", config_.num_nextn_predict_layers);
    keep("mtp_layer_types", config_.mtp_layer_types), keep("mtp_mlp_layer_types", config_.mtp_mlp_layer_types);
    node.at_or_add("mlp_layer_types") = config::Values<std::vector<std::string>>::write(mlp_types(s.sparse));
    sort_keys(node);
    return node;
  }

 private:
  MellumConfig config_;
};

}  // namespace

void register_mellum(Registries& hone) {
  hone.models.add<Mellum, MellumConfig>("mellum", "Mellum 2: Qwen3-MoE with windows in some layers.");
}

}  // namespace hone::models
