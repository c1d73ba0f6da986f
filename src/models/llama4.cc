// Llama 4 (Meta, 2025), text: most layers rotate queries and keys, norm them and attend in chunks; the others do not
// rotate, and see all. Experts are given a token times its score, beside one that every token goes to.
//
// Letters in tensor names: N tokens, D hidden, H query heads, G key/value heads, K head size or experts of a token, E
// experts, I inner.
#include <fmt/format.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/balanced_model.h"
#include "models/check_parameters.h"
#include "models/llama_model.h"
#include "models/pre_norm_block.h"
#include "nn/chunks.h"
#include "nn/experts.h"
#include "nn/plan.h"
#include "ops/experts.h"
#include "ops/rms_norm.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kInChunks = "chunked_attention", *kInFull = "full_attention";

struct Llama4Config : LlamaConfig {
  using Base = LlamaConfig;
  std::int64_t intermediate_size_mlp = 16384, num_experts_per_tok = 1, num_local_experts = 16,
               interleave_moe_layer_step = 1, no_rope_layer_interval = 4, floor_scale = 8192;
  std::optional<std::vector<std::int64_t>> moe_layers, no_rope_layers;
  config::Open attention_chunk_size{Node::scalar("8192")}, attn_temperature_tuning{Node::scalar("true")};
  bool use_qk_norm = true;
  double attn_scale = 0.1;
  // No effect, in transformers as here.
  bool output_router_logits = false;
  double router_aux_loss_coef = 0.001, router_jitter_noise = 0;
  std::optional<bool> for_llm_compressor;

  static constexpr auto fields() {
    using C = Llama4Config;
    constexpr config::Range size{.low = 1, .high = 2147483647}, count{.low = 1, .high = 65536};
    return std::tuple_cat(
        Base::fields(),
        std::tuple{
            field("intermediate_size_mlp", &C::intermediate_size_mlp, "Width inside the MLP of layers without experts.",
                  size),
            field("num_experts_per_tok", &C::num_experts_per_tok, "Experts that a token goes to.", count),
            field("num_local_experts", &C::num_local_experts, "Experts of a layer, each of intermediate_size.", count),
            field("moe_layers", &C::moe_layers, "Layers, from 0, that have experts; absent: as the next says.",
                  {.low = 0, .high = 10000}),
            field("interleave_moe_layer_step", &C::interleave_moe_layer_step,
                  "Every how manieth layer has experts; 1 = all. The others have an MLP.", size),
            field("no_rope_layers", &C::no_rope_layers,
                  "For each layer 1: queries and keys are rotated, or 0: they are not; absent or empty: as the next "
                  "says.",
                  {.low = 0, .high = 1}),
            field("no_rope_layer_interval", &C::no_rope_layer_interval, "Every how manieth layer does not rotate.",
                  size),
            field("attention_chunk_size", &C::attention_chunk_size,
                  "Places whose tokens see each other in layers of chunked_attention; null: no layer is of it."),
            field("use_qk_norm", &C::use_qk_norm, "Whether rotated queries and keys have a mean square of 1."),
            field("attn_temperature_tuning", &C::attn_temperature_tuning,
                  "Whether queries that are not rotated grow with their place; a number above 0 is true."),
            field("floor_scale", &C::floor_scale, "Places from one such growth to the next.", size),
            field("attn_scale", &C::attn_scale, "What the logarithm of so many growths is multiplied by.",
                  {.low = 0, .high = 1000}),
            field("output_router_logits", &C::output_router_logits,
                  "No effect, in transformers as here: there is no balancing loss; as the next two."),
            field("router_aux_loss_coef", &C::router_aux_loss_coef, "No effect.", at_least(0)),
            field("router_jitter_noise", &C::router_jitter_noise, "No effect.", at_least(0)),
            field("for_llm_compressor", &C::for_llm_compressor, "What old files say besides; no effect.")});
  }
  void validate(Problems& problems) const;
};

struct Llama4Shape : LlamaShape {
  std::vector<bool> rotates, in_chunks, sparse;  // per layer; sparse: has experts
  std::int64_t chunk = 0, experts = 1, per_token = 1, dense_inner = 0;
  bool norms_heads = true, tuned = true;
  Balancing balancing() const { return {per_token, 0}; }
};

std::size_t layers_of(const LlamaShape& s) {
  return static_cast<std::size_t>(std::min<std::int64_t>(s.layers, 10000));
}

bool check_count(std::size_t got, const LlamaShape& s, const char* key, Problems& problems) {
  const bool right = std::cmp_equal(got, s.layers);
  problems.require(right, key, fmt::format("got {} entries, expected num_hidden_layers ({})", got, s.layers));
  return right;
}

void read_rotations(const Llama4Config& c, Llama4Shape& s, Problems& problems) {
  const bool given = c.no_rope_layers && !c.no_rope_layers->empty();
  if (given && !check_count(c.no_rope_layers->size(), s, "no_rope_layers", problems)) return;
  for (std::size_t i = 0; i < layers_of(s); ++i)
    s.rotates.push_back(given ? (*c.no_rope_layers)[i] != 0
                              : (static_cast<std::int64_t>(i) + 1) % c.no_rope_layer_interval != 0);
}

void read_chunks(const Llama4Config& c, Llama4Shape& s, Problems& problems) {
  const Node& chunk = c.attention_chunk_size.node;
  if (!chunk.is_null())
    config::Values<std::int64_t>::read(chunk, s.chunk,
                                       {problems, "attention_chunk_size", {.low = 1, .high = 2147483647}});
  for (const bool rotated : s.rotates) s.in_chunks.push_back(rotated && s.chunk > 0);
  if (!c.layer_types || !check_count(c.layer_types->size(), s, "layer_types", problems)) return;
  for (std::size_t i = 0; i < std::min(s.in_chunks.size(), c.layer_types->size()); ++i) {
    const std::string& type = (*c.layer_types)[i];
    s.in_chunks[i] = type == kInChunks;
    problems.require(type == kInChunks || type == kInFull, fmt::format("layer_types.{}", i),
                     fmt::format("got \"{}\", expected {} or {}", type, kInChunks, kInFull));
    problems.require(type != kInChunks || s.chunk > 0, "attention_chunk_size",
                     fmt::format("got null, expected a number, as layer_types.{} is {}", i, kInChunks));
  }
}

void read_tuning(const Llama4Config& c, Llama4Shape& s, Problems& problems) {
  const Node& node = c.attn_temperature_tuning.node;
  const std::string text = node.kind() == Node::Kind::scalar ? node.text() : "";
  s.tuned = text != "false" && text != "0";
  const bool number = !text.empty() && std::ranges::all_of(text, [](char one) { return one >= '0' && one <= '9'; });
  problems.require(text == "true" || text == "false" || number, "attn_temperature_tuning", "expected true or false");
  s.growth = {c.attn_scale, c.floor_scale};
}

void read_experts(const Llama4Config& c, Llama4Shape& s, Problems& problems) {
  s.experts = c.num_local_experts, s.per_token = c.num_experts_per_tok, s.dense_inner = c.intermediate_size_mlp;
  for (std::int64_t i = 0; std::cmp_less(i, layers_of(s)); ++i)
    s.sparse.push_back(!c.moe_layers && (i + 1) % c.interleave_moe_layer_step == 0);
  const auto listed = c.moe_layers.value_or(std::vector<std::int64_t>());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const bool there = std::cmp_less(listed[i], s.sparse.size());
    problems.require(there, fmt::format("moe_layers.{}", i),
                     fmt::format("got {}, expected a layer from 0 to {}", listed[i], s.layers - 1));
    if (there) s.sparse[static_cast<std::size_t>(listed[i])] = true;
  }
  check_experts_per_token(s.per_token, s.experts, problems);
  const auto sparse = static_cast<double>(std::count(s.sparse.begin(), s.sparse.end(), true));
  const double of_hidden = 3 * static_cast<double>(s.hidden);
  check_parameters(of_hidden * sparse * static_cast<double>(s.experts + 1) * static_cast<double>(s.inner),
                   "num_local_experts", problems);
  check_parameters(of_hidden * (static_cast<double>(s.layers) - sparse) * static_cast<double>(s.dense_inner),
                   "intermediate_size_mlp", problems);
  check_all_experts(sparse * static_cast<double>(s.experts), "num_local_experts", problems);
}

Llama4Shape resolve(const Llama4Config& c, Problems& problems) {
  Llama4Shape s;
  LlamaConfig llama = c;
  llama.layer_types.reset();
  if (!resolve_base(llama, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/true, problems);
  s.rotates_neighbours = true, s.mlp_name = "feed_forward", s.norms_heads = c.use_qk_norm;
  read_rotations(c, s, problems);
  read_chunks(c, s, problems);
  read_tuning(c, s, problems);
  read_experts(c, s, problems);
  return s;
}

void Llama4Config::validate(Problems& problems) const { resolve(*this, problems); }

class Llama4Attention final : public Module {
 public:
  Llama4Attention(const Llama4Shape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape),
        rope_(s.rotates[static_cast<std::size_t>(layer)] ? ropes.of(layer) : nullptr),
        chunk_(s.in_chunks[static_cast<std::size_t>(layer)] ? s.chunk : 0) {}

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    const auto qkv = nn::linears(x_1ND, {&q_proj, &k_proj, &v_proj}, pass);
    const auto heads = [&](const Tensor& x, std::int64_t count) {
      return x.squeeze(0).unflatten(-1, {count, s.head_size});
    };
    const Tensor q_NHK = placed(heads(qkv[0], s.heads), pass), v_NGK = heads(qkv[2], s.kv_heads);
    const Tensor k_NGK = rope_ ? placed(heads(qkv[1], s.kv_heads), pass) : heads(qkv[1], s.kv_heads);
    const ops::AttentionOptions options{.scale = s.attention_scale, .dropout = s.attention_dropout};
    const Tensor y_NHK = chunk_ > 0 ? nn::attend_in_chunks(q_NHK, k_NGK, v_NGK, chunk_, pass, options)
                                    : nn::attend(q_NHK, k_NGK, v_NGK, pass, options);
    return o_proj(y_NHK.flatten(1).unsqueeze(0), pass);
  }

 private:
  // Heads as their places make them: rotated, or queries grown.
  Tensor placed(const Tensor& x_NHK, Pass& pass) const {
    if (!rope_) return s.tuned ? tuned(x_NHK, pass) : x_NHK;
    const Tensor turned_NHK =
        partly_rotated(x_NHK, s.head_size, /*neighbours=*/true, pass.plan().rope(*rope_, x_NHK));
    if (!s.norms_heads) return turned_NHK;
    return ops::rms_norm(turned_NHK, at::ones({s.head_size}, x_NHK.options()), ops::RmsNormForm(s.eps), nullptr);
  }
  // By how many times floor_scale tokens there are up to each; of a short batch no one has any.
  Tensor tuned(const Tensor& q_NHK, Pass& pass) const {
    if (!pass.cache && pass.plan().row_length() < s.growth.length) return q_NHK;
    const Tensor place_N = pass.plan().to_flat(nn::positions(pass).unsqueeze(-1)).flatten();
    return grown(q_NHK, s.growth, place_N + 1);
  }

  const Llama4Shape& s;
  const nn::Rope* const rope_;  // null: it is not rotated
  const std::int64_t chunk_;    // 0: all is seen
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, bool bias) {
    return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = s.std});
  }
  nn::Linear& q_proj = projection("q_proj", s.hidden, s.heads* s.head_size, s.qkv_bias);
  nn::Linear& k_proj = projection("k_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& v_proj = projection("v_proj", s.hidden, s.kv_heads* s.head_size, s.qkv_bias);
  nn::Linear& o_proj = projection("o_proj", s.heads* s.head_size, s.hidden, s.output_bias);
};

// Of all experts one weight of gate and up, and one of down, as right factors.
class Llama4Experts final : public Module {
 public:
  explicit Llama4Experts(const Llama4Shape& shape) : s(shape) {
    for (Weight* weight : {&gate_up_proj, &down_proj}) {
      weight->set_use(WeightUse::stack_in_out);
      weight->set_share_of_tokens(static_cast<double>(s.per_token) / static_cast<double>(s.experts));
    }
  }
  std::vector<ops::GatedMlpWeights> each() const {
    const auto both_EDI = gate_up_proj.use().chunk(2, -1);
    const auto gate_DI = both_EDI[0].unbind(), up_DI = both_EDI[1].unbind(), down_ID = down_proj.use().unbind();
    std::vector<ops::GatedMlpWeights> all;
    for (std::size_t e = 0; e < down_ID.size(); ++e)
      all.push_back({{gate_DI[e].t()}, {up_DI[e].t()}, {down_ID[e].t()}});
    return all;
  }

 private:
  const Llama4Shape& s;
  Weight& gate_up_proj = parameter("gate_up_proj", {s.experts, s.hidden, 2 * s.inner}, {.std = s.std});
  Weight& down_proj = parameter("down_proj", {s.experts, s.inner, s.hidden}, {.std = s.std});
};

// Experts, or in some layers a plain MLP.
class Llama4Mlp final : public Module {
 public:
  Llama4Mlp(const Llama4Shape& shape, std::int64_t layer) : s(shape) {
    const bool sparse = s.sparse[static_cast<std::size_t>(layer)];
    mlp_ = &child<nn::GatedMlp>(sparse ? "shared_expert" : "",
                                nn::GatedMlp::Options{.hidden = s.hidden,
                                                      .inner = sparse ? s.inner : s.dense_inner,
                                                      .activation = s.activation,
                                                      .std = s.std});
    if (!sparse) return;
    const ops::GroupedRule rule{
        .score = ops::GroupedRule::Score::sigmoid, .by_logits = true, .per_token = s.per_token};
    router_ = &child<nn::GroupedRouter>("router", s.hidden, s.experts, nn::GroupedRouter::Options{.rule = rule}, s.std);
    router_->each_weight([](const std::string&, Weight& weight) { weight.set_takes_float8(false); });
    experts_ = &child<Llama4Experts>("experts", s);
  }

  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const {
    if (!router_) return (*mlp_)(x_1ND, pass);
    const Tensor all_1ND = x_1ND;
    return routed(all_1ND.squeeze(0), pass).unsqueeze(0) + (*mlp_)(all_1ND, pass);
  }

 private:
  // An expert reads its token times the score, so that what it gives counts as it is: each choice is a row of its own.
  Tensor routed(const Tensor& x_ND, Pass& pass) const {
    const ops::Choice choice = (*router_)(x_ND, pass);
    const ops::Routing routing = ops::route(choice.expert_NK.reshape({-1, 1}), s.experts);
    if (pass.training)
      nn::measure_routing(pass, choice.probability_E, routing.slots, x_ND.size(0), s.per_token);
    const Tensor scaled_NKD = x_ND.unsqueeze(1) * choice.weight_NK.to(x_ND.scalar_type()).unsqueeze(-1);
    const Tensor rows_SD = scaled_NKD.flatten(0, 1);
    const Tensor ones_S1 = at::ones({rows_SD.size(0), 1}, choice.weight_NK.options());
    return ops::routed_mlp(rows_SD, ones_S1, routing, experts_->each(), s.activation).view_as(scaled_NKD).sum(1);
  }

  const Llama4Shape& s;
  nn::GatedMlp* mlp_ = nullptr;  // beside experts, or instead of them
  nn::GroupedRouter* router_ = nullptr;
  Llama4Experts* experts_ = nullptr;
};

using Llama4Block = PreNormBlock<Llama4Shape, Llama4Mlp, Llama4Attention>;

class Llama4 final : public Balanced<LlamaModel<Llama4Block, Llama4Shape>> {
 public:
  Llama4(const Llama4Config& config, const HeadRequest& head) : Balanced(shape_of(config, head)), config_(config) {}

  bool takes_context() const override { return false; }  // chunks are of whole batches
  // A chunk is counted as a window: it is one, but for what lies before its begin.
  std::vector<AttentionLayer> attention() const override {
    std::vector<AttentionLayer> layers;
    for (const bool in_chunks : s.in_chunks) layers.push_back({s.heads, s.head_size, in_chunks ? s.chunk : 0});
    return layers;
  }
  Node hf_config() const override;

 private:
  Llama4Config config_;
};

Node Llama4::hf_config() const {
  LlamaConfig llama = config_;
  llama.layer_types.reset();
  Node node = to_hf_config(llama, s, dtype());
  const auto put = [&](const char* key, const auto& value) {
    node.at_or_add(key) = config::Values<std::decay_t<decltype(value)>>::write(value);
  };
  std::vector<std::int64_t> sparse, rotates;
  std::vector<std::string> types;
  for (std::size_t i = 0; i < s.sparse.size(); ++i) {
    if (s.sparse[i]) sparse.push_back(static_cast<std::int64_t>(i));
    rotates.push_back(s.rotates[i] ? 1 : 0);
    types.emplace_back(s.in_chunks[i] ? kInChunks : kInFull);
  }
  put("moe_layers", sparse), put("no_rope_layers", rotates), put("layer_types", types);
  put("intermediate_size_mlp", config_.intermediate_size_mlp), put("num_experts_per_tok", s.per_token);
  put("num_local_experts", s.experts), put("interleave_moe_layer_step", config_.interleave_moe_layer_step);
  put("no_rope_layer_interval", config_.no_rope_layer_interval), put("floor_scale", config_.floor_scale);
  put("use_qk_norm", config_.use_qk_norm), put("attn_temperature_tuning", s.tuned);
  put("output_router_logits", config_.output_router_logits);
  node.at_or_add("attention_chunk_size") = s.chunk > 0 ? config::Values<std::int64_t>::write(s.chunk) : Node();
  node.at_or_add("attn_scale") = nn::hf_float(config_.attn_scale);
  node.at_or_add("router_aux_loss_coef") = nn::hf_float(config_.router_aux_loss_coef);
  node.at_or_add("router_jitter_noise") = nn::hf_float(config_.router_jitter_noise);
  sort_keys(node);
  return node;
}

}  // namespace

void register_llama4(Registries& hone) {
  hone.models.add<Llama4, Llama4Config>(
      "llama4_text", "Llama 4, text: attention in chunks, experts that read their tokens by score.");
}

}  // namespace hone::models
