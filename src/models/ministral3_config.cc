// What config.json of a Ministral 3 may say.
#include "models/ministral3_config.h"

#include "hone/config_read.h"
#include "models/query_growth.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char* kOriginal = "original_max_position_embeddings";

// What transformers takes where nothing is said.
Node default_rope() {
  Node rope = Node::map();
  const auto put = [&](const char* key, const char* value) { rope.at_or_add(key) = Node::scalar(value); };
  put("rope_type", "yarn"), put("rope_theta", "1000000.0"), put("factor", "16.0"), put(kOriginal, "16384");
  put("beta_fast", "32.0"), put("beta_slow", "1.0"), put("mscale", "1.0"), put("mscale_all_dim", "1.0");
  put("llama_4_scaling_beta", "0.1");
  return rope;
}

LlamaConfig completed(const Ministral3Config& given) {
  LlamaConfig c = given;
  if (c.rope_parameters.node.is_null() && !has_rope_scaling(c)) c.rope_parameters.node = default_rope();
  return c;
}

}  // namespace

LlamaShape resolve(const Ministral3Config& given, Problems& problems) {
  LlamaConfig c = completed(given);
  const std::string section = has_rope_scaling(c) ? "rope_scaling" : "rope_parameters", path = section + ".";
  const std::size_t before = problems.size();
  SaidOfGrowth said;
  if (Node* rope = rope_section(c)) said = take_growth(*rope, c.model_type, path, problems);
  // What stands beside the section wins over what stands in it.
  if (!c.original_max_position_embeddings) c.original_max_position_embeddings = said.length;
  LlamaShape s;
  if (problems.size() > before || !resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  const nn::RopeType type = s.rope.rope_type;
  const bool scales = type == nn::RopeType::yarn || type == nn::RopeType::llama3;
  problems.require(scales || type == nn::RopeType::standard || type == nn::RopeType::linear, path + "rope_type",
                   "expected default, linear, llama3 or yarn, as ministral3 has it");
  problems.require(scales || said.length, path + kOriginal, "missing; ministral3 needs it");
  s.growth.beta = said.beta;
  s.growth.length =
      scales ? s.rope.original_max_position_embeddings.value_or(s.max_positions) : said.length.value_or(1);
  return s;
}

void Ministral3Config::validate(Problems& problems) const { resolve(*this, problems); }

Node to_hf_config(const Ministral3Config& config, const LlamaShape& shape, const std::string& dtype) {
  Node node = to_hf_config(static_cast<const LlamaConfig&>(config), shape, dtype);
  write_growth(shape.growth, node.at_or_add("rope_parameters"));
  return node;
}

}  // namespace hone::models
