// Hunyuan's config.json: the base of its angles may be stretched by a fixed factor.
#include "models/hunyuan_config.h"

#include <cmath>

namespace hone::models {
namespace {

using config::Node;

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

// With what transformers adds; numbers but for what counts tokens are floats there.
Node as_written(const Node& section, const LlamaConfig& c) {
  Node rope = section;
  std::erase_if(rope.entries(), [](const Node::Entry& entry) { return entry.first == "type"; });
  rope.at_or_add("rope_type") = Node::scalar("dynamic", /*quoted=*/true);
  if (!rope.find("rope_theta")) rope.at_or_add("rope_theta") = nn::hf_float(c.rope_theta.value_or(10000));
  sort_keys(rope);
  return rope;
}

}  // namespace

bool resolve_hunyuan(const HunyuanKeys& given, LlamaShape& s, Problems& problems) {
  LlamaConfig c = given;
  const std::size_t before = problems.size();
  const double alpha = take_stretch(c, problems);
  if (problems.size() > before || !resolve_base(c, s, problems)) return false;
  refuse_rare_keys(given, /*lists_layers=*/false, problems);
  problems.require(given.use_qk_norm.value_or(true), "use_qk_norm", "got false, expected true, as transformers has it");
  problems.require(given.use_rotary_pos_emb, "use_rotary_pos_emb", "got false, expected true, as transformers has it");
  problems.require(!given.use_cla, "use_cla", "got true, expected false, as transformers has it");
  problems.require(!given.add_classification_head, "add_classification_head", "got true, expected false");
  s.q_norm = "query_layernorm", s.k_norm = "key_layernorm";
  const auto size = static_cast<double>(s.head_size);
  problems.require(alpha == 1 || s.head_size > 2, "head_dim", "got 2, expected more for a stretched rotation");
  s.rope.rope_theta *= std::pow(alpha, size / (size - 2));
  return problems.size() == before;
}

Node hunyuan_config(const HunyuanKeys& c, const LlamaShape& s, const std::string& dtype) {
  Node node = to_hf_config(c, s, dtype);
  LlamaConfig given = c;
  if (const Node* section = stretched_section(given)) node.at_or_add("rope_parameters") = as_written(*section, c);
  node.at_or_add("pretraining_tp") = config::Values<std::int64_t>::write(c.pretraining_tp.value_or(1));
  // What others read: vLLM makes no norms without it.
  if (c.use_qk_norm) node.at_or_add("use_qk_norm") = config::Values<bool>::write(true);
  if (c.attention_head_dim)
    node.at_or_add("attention_head_dim") = config::Values<std::int64_t>::write(*c.attention_head_dim);
  node.at_or_add("eod_token_id") = config::Values<std::int64_t>::write(c.eod_token_id.value_or(3));
  return node;
}

}  // namespace hone::models
