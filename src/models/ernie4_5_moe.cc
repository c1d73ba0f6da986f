// ERNIE 4.5 with experts (Baidu, 2025): Llama that rotates neighbours; a softmax, corrected for the choice, gives a
// token its experts, which stand beside shared ones.
//
// Letters in tensor names: N tokens, D hidden.
#include <fmt/format.h>

#include <algorithm>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/check_parameters.h"
#include "models/grouped_block.h"

namespace hone::models {
namespace {

struct Ernie45MoeConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::int64_t moe_num_experts = 64, moe_k = 6, moe_intermediate_size = 1536, moe_num_shared_experts = 2;
  std::int64_t moe_layer_start_index = 1, moe_layer_end_index = -1, moe_layer_interval = 1;
  double moe_norm_min = 1e-12, router_aux_loss_coef = 0.001, router_bias_update_rate = 0;
  bool use_bias = false, output_router_logits = false, moe_use_aux_free = true;
  bool use_rmsnorm = true, is_quantized = false;
  std::optional<double> compression_ratio;
  std::optional<std::string> moe_gate;
  std::optional<std::vector<std::int64_t>> moe_capacity;
  std::optional<std::int64_t> num_nextn_predict_layers;

  static constexpr auto fields() {
    using C = Ernie45MoeConfig;
    constexpr config::Range count{.low = 1, .high = 65536}, size{.low = 1, .high = 2147483647};
    constexpr config::Range layer{.low = -1, .high = 10000};
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{
            field("moe_num_experts", &C::moe_num_experts, "Experts of a layer.", count),
            field("moe_k", &C::moe_k, "Experts that a token goes to.", count),
            field("moe_intermediate_size", &C::moe_intermediate_size, "Width inside an expert.", size),
            field("moe_num_shared_experts", &C::moe_num_shared_experts,
                  "How many times as wide as an expert the MLP is that every token goes to; 0 = none.",
                  {.low = 0, .high = 65536}),
            field("moe_layer_start_index", &C::moe_layer_start_index, "First layer, from 0, that may have experts.",
                  layer),
            field("moe_layer_end_index", &C::moe_layer_end_index, "Last layer that may; -1 = the model's last.", layer),
            field("moe_layer_interval", &C::moe_layer_interval,
                  "Every how manieth layer has experts; 1 = all. The others have an MLP of intermediate_size.", count),
            field("moe_norm_min", &C::moe_norm_min,
                  "The weights of a token's experts are divided by their sum, or by this where that is less.",
                  {.low = 1e-30, .high = 1e9}),
            field("use_bias", &C::use_bias, "Biases of all products but the experts'; of the head, too."),
            field("output_router_logits", &C::output_router_logits, "Whether training adds the balancing loss."),
            field("router_aux_loss_coef", &C::router_aux_loss_coef, "What the balancing loss is multiplied by.",
                  at_least(0)),
            field("moe_gate", &C::moe_gate, "Only topk."),
            field("moe_use_aux_free", &C::moe_use_aux_free, "Only true: experts are chosen by corrected scores."),
            field("use_rmsnorm", &C::use_rmsnorm, "Only true."),
            field("is_quantized", &C::is_quantized, "Only false: weights as they were trained."),
            field("compression_ratio", &C::compression_ratio, "Only 1: angles of positions as they are."),
            field("moe_capacity", &C::moe_capacity, "No effect: no token is dropped."),
            field("num_nextn_predict_layers", &C::num_nextn_predict_layers,
                  "Layers that guess further tokens (mtp_): they are passed over.", at_least(0)),
            field("router_bias_update_rate", &C::router_bias_update_rate,
                  "hone's own: after each update the e_score_correction_bias of an expert rises by this if it had "
                  "fewer tokens than the mean, and falls if it had more (arXiv:2412.19437). 0: it stays.",
                  {.low = 0, .high = 1})});
  }
  void validate(Problems& problems) const;
};

void refuse_others(const Ernie45MoeConfig& c, Problems& problems) {
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  refuse_keys(c.model_type,
              {{"attention_bias", c.attention_bias.value_or(false)},
               {"attention_dropout", c.attention_dropout.value_or(0) > 0}},
              problems);
  problems.require(c.moe_gate.value_or("topk") == "topk", "moe_gate",
                   fmt::format("got \"{}\", expected topk", c.moe_gate.value_or("")));
  problems.require(c.use_rmsnorm, "use_rmsnorm", "got false, expected true, as transformers has it");
  problems.require(!c.is_quantized, "is_quantized", "got true, expected false; take the folder of full weights");
  problems.require(c.compression_ratio.value_or(1) == 1, "compression_ratio", "expected 1, as transformers has it");
  problems.require(c.moe_use_aux_free, "moe_use_aux_free", "got false, expected true, as transformers has it");
}

void check_ernie_count(const GroupedExperts& e, const LlamaShape& s, Problems& problems) {
  const auto layers = static_cast<double>(std::count(e.sparse.begin(), e.sparse.end(), true));
  const double each = 3.0 * static_cast<double>(s.hidden) * static_cast<double>(e.inner);
  problems.require(e.per_token <= e.count, "moe_k",
                   fmt::format("got {}, expected at most as many as there are experts ({})", e.per_token, e.count));
  check_parameters(each * layers * static_cast<double>(e.count + e.shared), "moe_num_experts", problems);
  check_all_experts(layers * static_cast<double>(e.count), "moe_num_experts", problems);
}

GroupedExperts read_ernie_experts(const Ernie45MoeConfig& c, const LlamaShape& s, Problems& problems) {
  GroupedExperts e;
  e.count = c.moe_num_experts, e.per_token = c.moe_k;
  e.inner = c.moe_intermediate_size, e.shared = c.moe_num_shared_experts;
  const std::int64_t last = c.moe_layer_end_index < 0 ? s.layers - 1 : c.moe_layer_end_index;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(s.layers, 10000); ++i)
    e.sparse.push_back((i + 1) % c.moe_layer_interval == 0 && i >= c.moe_layer_start_index && i <= last);
  e.balance = c.output_router_logits ? c.router_aux_loss_coef : 0;
  e.router = {.rule = {.per_token = c.moe_k, .normalise = true, .floor = c.moe_norm_min, .floor_is_least = true},
              .corrected = true,
              .correction_rate = c.router_bias_update_rate,
              .correction_is_row = true,
              .balances = e.balance > 0,
              .weight = "gate.weight",
              .correction = "moe_statics.e_score_correction_bias"};
  e.router_name = "", e.shared_bias = c.use_bias;
  check_ernie_count(e, s, problems);
  return e;
}

GroupedShape resolve(const Ernie45MoeConfig& c, Problems& problems) {
  GroupedShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_others(c, problems);
  s.qkv_bias = s.output_bias = s.mlp_bias = s.head_bias = c.use_bias;
  s.rotates_neighbours = true;
  s.experts = read_ernie_experts(c, s, problems);
  return s;
}

void Ernie45MoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Ernie45Moe final : public GroupedModel<LlamaAttention, GroupedShape> {
 public:
  Ernie45Moe(const Ernie45MoeConfig& config, const HeadRequest& head)
      : GroupedModel(shape_of(config, head)), config_(config) {}

  bool is_no_weight(const std::string& tensor) const override { return tensor.starts_with("model.mtp_"); }
  config::Node hf_config() const override {
    config::Node node = to_hf_config(config_, s, dtype());
    std::erase_if(node.entries(), [](const config::Node::Entry& entry) { return entry.first == "attention_dropout"; });
    const auto put = [&](const char* key, const auto& value) {
      node.at_or_add(key) = config::Values<std::remove_cvref_t<decltype(value)>>::write(value);
    };
    const Ernie45MoeConfig& c = config_;
    put("moe_num_experts", c.moe_num_experts), put("moe_k", c.moe_k);
    put("moe_intermediate_size", c.moe_intermediate_size), put("moe_num_shared_experts", c.moe_num_shared_experts);
    put("moe_layer_start_index", c.moe_layer_start_index), put("moe_layer_interval", c.moe_layer_interval);
    put("moe_layer_end_index", c.moe_layer_end_index < 0 ? s.layers - 1 : c.moe_layer_end_index);
    put("use_bias", c.use_bias), put("output_router_logits", c.output_router_logits);
    node.at_or_add("moe_norm_min") = nn::hf_float(c.moe_norm_min);
    node.at_or_add("router_aux_loss_coef") = nn::hf_float(c.router_aux_loss_coef);
    if (c.router_bias_update_rate > 0)
      node.at_or_add("router_bias_update_rate") = nn::hf_float(c.router_bias_update_rate);
    sort_keys(node);
    return node;
  }

 private:
  Ernie45MoeConfig config_;
};

}  // namespace

void register_ernie4_5_moe(Registries& hone) {
  hone.models.add<Ernie45Moe, Ernie45MoeConfig>("ernie4_5_moe", "ERNIE 4.5 with experts: a corrected softmax chooses.");
}

}  // namespace hone::models
