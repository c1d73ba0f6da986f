// Hunyuan (Tencent, 2025), without experts: Llama whose queries and keys are normed once they are rotated, by angles
// whose base a fixed factor may have stretched.
#include <cmath>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

using config::Node;

struct HunyuanConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::int64_t> eod_token_id, attention_head_dim, org_vocab_size, cla_share_factor, class_num;
  std::optional<std::string> norm_type, pool_type;
  std::optional<bool> use_qk_norm;
  bool use_rotary_pos_emb = true, use_cla = false, add_classification_head = false;
  std::optional<bool> position_embedding_xdrope, skip_cls_token;
  std::optional<std::vector<std::int64_t>> dense_list;
  std::optional<std::int64_t> text_start_id, text_end_id, im_start_id, im_end_id, im_newline_id, mask_init_id, pad_id;

  static constexpr auto fields() {
    using C = HunyuanConfig;
    constexpr const char *nothing = "Has no effect, in transformers as here.", *only_true = "Only true.",
                         *only_false = "Only false.";
    return std::tuple_cat(
        LlamaConfig::fields(),
        std::tuple{field("eod_token_id", &C::eod_token_id, "Last token of a document; kept for others. Default 3."),
                   field("attention_head_dim", &C::attention_head_dim, nothing),
                   field("org_vocab_size", &C::org_vocab_size, nothing),
                   field("cla_share_factor", &C::cla_share_factor, nothing),
                   field("class_num", &C::class_num, nothing),
                   field("norm_type", &C::norm_type, nothing),
                   field("pool_type", &C::pool_type, nothing),
                   field("use_qk_norm", &C::use_qk_norm, only_true),
                   field("use_rotary_pos_emb", &C::use_rotary_pos_emb, only_true),
                   field("use_cla", &C::use_cla, only_false),
                   field("add_classification_head", &C::add_classification_head, only_false),
                   field("position_embedding_xdrope", &C::position_embedding_xdrope, nothing),
                   field("skip_cls_token", &C::skip_cls_token, nothing),
                   field("dense_list", &C::dense_list, nothing),
                   field("text_start_id", &C::text_start_id, nothing),
                   field("text_end_id", &C::text_end_id, nothing),
                   field("im_start_id", &C::im_start_id, nothing),
                   field("im_end_id", &C::im_end_id, nothing),
                   field("im_newline_id", &C::im_newline_id, nothing),
                   field("mask_init_id", &C::mask_init_id, nothing), field("pad_id", &C::pad_id, nothing)});
  }
  void validate(Problems& problems) const;
};

constexpr const char* kAlpha = "alpha";

std::string type_of(const Node& rope) {
  for (const char* key : {"rope_type", "type"})
    if (const Node* type = rope.find(key); type && type->kind() == Node::Kind::scalar) return type->text();
  return "default";
}

// The section of rotary parameters that holds, if it is one that stretches the base; null: it is none.
Node* stretched_section(LlamaConfig& c) {
  Node& node = has_rope_scaling(c) ? c.rope_scaling.node : c.rope_parameters.node;
  const Node* alpha = node.is_map() ? node.find(kAlpha) : nullptr;
  return alpha && !alpha->is_null() && type_of(node) == "dynamic" ? &node : nullptr;
}

// By how much the base of the angles is multiplied (NTK-aware scaling with a factor of its own); such a section is made
// one of plain rotation, for its other keys mean nothing then.
double take_stretch(LlamaConfig& c, Problems& problems) {
  Node* section = stretched_section(c);
  if (!section) return 1;
  double alpha = 1;
  const std::string path = has_rope_scaling(c) ? "rope_scaling." : "rope_parameters.";
  config::Values<double>::read(*section->find(kAlpha), alpha, {problems, path + kAlpha, {.low = 1e-6, .high = 1e9}});
  problems.require(section->find("factor"), path + "factor", "missing; rope_type dynamic needs it");
  std::erase_if(section->entries(), [](const Node::Entry& entry) { return entry.first != "rope_theta"; });
  section->at_or_add("rope_type") = Node::scalar("default", /*quoted=*/true);
  return alpha;
}

LlamaShape resolve(const HunyuanConfig& given, Problems& problems) {
  LlamaConfig c = given;
  LlamaShape s;
  const std::size_t before = problems.size();
  const double alpha = take_stretch(c, problems);
  if (problems.size() > before || !resolve_base(c, s, problems)) return s;
  refuse_rare_keys(given, /*lists_layers=*/false, problems);
  problems.require(given.use_qk_norm.value_or(true), "use_qk_norm", "got false, expected true, as transformers has it");
  problems.require(given.use_rotary_pos_emb, "use_rotary_pos_emb", "got false, expected true, as transformers has it");
  problems.require(!given.use_cla, "use_cla", "got true, expected false, as transformers has it");
  problems.require(!given.add_classification_head, "add_classification_head", "got true, expected false");
  s.q_norm = "query_layernorm", s.k_norm = "key_layernorm";
  const auto size = static_cast<double>(s.head_size);
  problems.require(alpha == 1 || s.head_size > 2, "head_dim", "got 2, expected more for a stretched rotation");
  s.rope.rope_theta *= std::pow(alpha, size / (size - 2));
  return s;
}

void HunyuanConfig::validate(Problems& problems) const { resolve(*this, problems); }

class Hunyuan final : public LlamaStack {
 public:
  Hunyuan(const HunyuanConfig& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    Node node = to_hf_config(config_, s, dtype());
    LlamaConfig given = config_;
    if (const Node* section = stretched_section(given)) node.at_or_add("rope_parameters") = as_written(*section);
    node.at_or_add("pretraining_tp") = config::Values<std::int64_t>::write(config_.pretraining_tp.value_or(1));
    // What others read: vLLM makes no norms without it.
    if (config_.use_qk_norm) node.at_or_add("use_qk_norm") = config::Values<bool>::write(true);
    if (config_.attention_head_dim)
      node.at_or_add("attention_head_dim") = config::Values<std::int64_t>::write(*config_.attention_head_dim);
    node.at_or_add("eod_token_id") = config::Values<std::int64_t>::write(config_.eod_token_id.value_or(3));
    sort_keys(node);
    return node;
  }

 private:
  // With what transformers adds; numbers but for what counts tokens are floats there.
  Node as_written(const Node& section) const {
    Node rope = section;
    std::erase_if(rope.entries(), [](const Node::Entry& entry) { return entry.first == "type"; });
    rope.at_or_add("rope_type") = Node::scalar("dynamic", /*quoted=*/true);
    if (!rope.find("rope_theta")) rope.at_or_add("rope_theta") = nn::hf_float(config_.rope_theta.value_or(10000));
    sort_keys(rope);
    return rope;
  }

  HunyuanConfig config_;
};

}  // namespace

void register_hunyuan(Registries& hone) {
  hone.models.add<Hunyuan, HunyuanConfig>("hunyuan_v1_dense", "Hunyuan without experts: norms of what is rotated.");
}

}  // namespace hone::models
