// Ministral 3 (Mistral AI, 2025): Mistral whose queries grow with their position, as in Llama 4.
#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

using config::Node;

struct Ministral3Config : LlamaConfig {
  using Base = LlamaConfig;
  static constexpr auto fields() { return LlamaConfig::fields(); }
  void validate(Problems& problems) const;
};

constexpr const char *kBeta = "llama_4_scaling_beta", *kOriginal = "original_max_position_embeddings";
// Is written beside the other rotary parameters, and means nothing there.
constexpr const char* kRepeated = "max_position_embeddings";

// What transformers takes where nothing is said.
Node default_rope() {
  Node rope = Node::map();
  const auto put = [&](const char* key, const char* value) { rope.at_or_add(key) = Node::scalar(value); };
  put("rope_type", "yarn"), put("rope_theta", "1000000.0"), put("factor", "16.0"), put(kOriginal, "16384");
  put("beta_fast", "32.0"), put("beta_slow", "1.0"), put("mscale", "1.0"), put("mscale_all_dim", "1.0");
  put(kBeta, "0.1");
  return rope;
}

LlamaConfig completed(const Ministral3Config& given) {
  LlamaConfig c = given;
  if (c.rope_parameters.node.is_null() && !has_rope_scaling(c)) c.rope_parameters.node = default_rope();
  return c;
}

// The section that holds; null: it is none.
Node* rope_section(LlamaConfig& c) {
  Node& node = has_rope_scaling(c) ? c.rope_scaling.node : c.rope_parameters.node;
  return node.is_map() ? &node : nullptr;
}

// What a section of rotary parameters says of how queries grow, taken out of it: it is not of rotation.
struct SaidOfGrowth {
  double beta = 0;
  std::optional<std::int64_t> length;
};
SaidOfGrowth take_growth(Node& rope, const std::string& path, Problems& problems) {
  SaidOfGrowth said;
  if (const Node* beta = rope.find(kBeta))
    config::Values<double>::read(*beta, said.beta, {problems, path + kBeta, {.low = 0, .high = 1000}});
  else
    problems.add(path + kBeta, "missing; ministral3 needs it, 0 = queries do not grow");
  if (const Node* length = rope.find(kOriginal); length && !length->is_null())
    config::Values<std::int64_t>::read(*length, said.length.emplace(1),
                                       {problems, path + kOriginal, {.low = 1, .high = 2147483647}});
  std::erase_if(rope.entries(), [](const Node::Entry& entry) {
    return entry.first == kBeta || entry.first == kRepeated || entry.first == kOriginal;
  });
  return said;
}

LlamaShape resolve(const Ministral3Config& given, Problems& problems) {
  LlamaConfig c = completed(given);
  const std::string section = has_rope_scaling(c) ? "rope_scaling" : "rope_parameters", path = section + ".";
  const std::size_t before = problems.size();
  SaidOfGrowth said;
  if (Node* rope = rope_section(c)) said = take_growth(*rope, path, problems);
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

class Ministral3 final : public LlamaStack {
 public:
  Ministral3(const Ministral3Config& config, const HeadRequest& head)
      : LlamaStack(shape_of(config, head)), config_(config) {}

  Node hf_config() const override {
    Node node = to_hf_config(config_, s, dtype());
    Node& rope = node.at_or_add("rope_parameters");
    rope.at_or_add(kBeta) = nn::hf_float(s.growth.beta);
    rope.at_or_add(kOriginal) = config::Values<std::int64_t>::write(s.growth.length);
    sort_keys(rope);
    return node;
  }

 private:
  Ministral3Config config_;
};

}  // namespace

void register_ministral3(Registries& hone) {
  hone.models.add<Ministral3, Ministral3Config>("ministral3", "Ministral 3: queries grow with their position.");
}

}  // namespace hone::models
