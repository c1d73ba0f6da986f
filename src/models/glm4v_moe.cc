// GLM-4.5V and GLM-4.6V (GLM-V team, 2025, arXiv:2507.01006): GLM-4.5's experts with GLM-4.1V's tower, and tokens that
// stand in three dimensions.
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/glm4v_model.h"
#include "models/grouped_block.h"
#include "models/hf_values.h"
#include "models/picture_texts.h"
#include "models/sections.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kMoeTexts = "glm4v_moe_text", *kMoeTower = "glm4v_moe_vision", *kMoeWhole = "glm4v_moe";
constexpr double kMoeShareOfHead = 0.5;  // that is rotated, when nothing is said

struct Glm4vMoeTextConfig : GroupedConfig {
  using Base = GroupedConfig;
  double router_aux_loss_coef = 0.0001;
  std::optional<bool> use_qk_norm;
  static constexpr auto fields() {
    using C = Glm4vMoeTextConfig;
    return std::tuple_cat(
        GroupedConfig::fields(),
        std::tuple{field("router_aux_loss_coef", &C::router_aux_loss_coef,
                         "What the balancing loss is multiplied by, which training adds with output_router_logits.",
                         at_least(0)),
                   field("use_qk_norm", &C::use_qk_norm, "Must be false; said by older files.")});
  }
  void validate(Problems&) const {}  // with the whole
};

struct Glm4vMoeConfig : Glm4vConfig {
  using Base = Glm4vConfig;
  static constexpr auto fields() { return Glm4vConfig::fields(); }
  void validate(Problems& problems) const;
};

struct Glm4vMoeShape : Glm4vTowerShape {
  Glm4vMoeTextConfig text_config;
  GroupedShape texts;
  bool says_tied = false;                         // of text_config itself
  std::vector<std::int64_t> sections{8, 12, 12};  // pairs of a head that turn by time, height and width
  std::vector<std::string> left_out;              // ids of texts that are no tokens of the model
  PictureInput input;
};

// The section of texts without what is of pictures.
config::Open words_of(const Glm4vMoeConfig& c, Glm4vMoeShape& s, bool& by_turns, Problems& problems) {
  config::Open section = without_tokens_of_pictures(c.text_config);
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (Node* said = section.node.is_map() ? section.node.find(key) : nullptr) {
      config::Open rope{*said};
      take_sections(rope, s.sections, by_turns, problems);
      *said = std::move(rope.node);
    }
  leave_out_ids(section, vocab_of(section, kMoeTexts), s.left_out);
  return section;
}

void read_moe_texts(const Glm4vMoeConfig& c, Glm4vMoeShape& s, Problems& problems) {
  bool by_turns = false;
  Glm4vMoeTextConfig& texts = s.text_config;
  texts.model_type = kMoeTexts;
  const std::size_t before = problems.size();
  read_section(words_of(c, s, by_turns, problems), "text_config", texts, problems);
  if (problems.size() != before) return;
  const Problems::Scope scope(problems, "text_config.");
  problems.require(texts.model_type == kMoeTexts || texts.model_type == kMoeWhole, "model_type",
                   fmt::format("got \"{}\", expected {}", texts.model_type, kMoeTexts));
  texts.model_type = kMoeTexts;
  problems.require(!texts.use_qk_norm.value_or(false), "use_qk_norm",
                   "got true, expected false: transformers norms no queries and keys here");
  texts.attention_bias = texts.attention_bias.value_or(true);
  if (!texts.partial_rotary_factor) texts.partial_rotary_factor = kMoeShareOfHead;
  s.says_tied = texts.tie_word_embeddings.value_or(false);
  if (c.tie_word_embeddings.value_or(false)) texts.tie_word_embeddings = true;
  if (problems.size() != before || !resolve_base(texts, s.texts, problems)) return;
  refuse_rare_keys(texts, /*lists_layers=*/false, problems);
  problems.require(!by_turns, "rope_parameters.mrope_interleaved", "got true, expected false");
  s.texts.output_bias = false;
  s.texts.body = "model.language_model";
  s.texts.experts = read_grouped_experts(texts, s.texts, problems);
  s.texts.experts.balance = texts.output_router_logits ? texts.router_aux_loss_coef : 0;
  s.texts.experts.router.balances = s.texts.experts.balance > 0;
  check_sections(s.sections, s.texts, problems);
}

Glm4vMoeShape resolve(const Glm4vMoeConfig& c, Problems& problems) {
  Glm4vMoeShape s;
  const std::size_t before = problems.size();
  read_glm_tower(c.vision_config, {kMoeTower, kMoeWhole}, s, problems);
  if (problems.size() == before) read_moe_texts(c, s, problems);
  if (problems.size() != before) return s;
  s.input = glm_input(c, s, s.texts, problems);
  return s;
}

void Glm4vMoeConfig::validate(Problems& problems) const { resolve(*this, problems); }

Node texts_config(const Glm4vMoeShape& s, const std::string& dtype) {
  const Glm4vMoeTextConfig& c = s.text_config;
  Node texts = to_hf_config(static_cast<const LlamaConfig&>(c), s.texts, dtype);
  write_grouped_experts(c, s.texts.experts, texts);
  texts.at_or_add("attention_bias") = hf_flag(s.texts.qkv_bias);
  texts.at_or_add("router_aux_loss_coef") = nn::hf_float(c.router_aux_loss_coef);
  texts.at_or_add("rope_parameters").at_or_add("partial_rotary_factor") =
      nn::hf_float(s.texts.rope.partial_rotary_factor);
  if (c.use_qk_norm) texts.at_or_add("use_qk_norm") = hf_flag(*c.use_qk_norm);
  texts = section_of_texts(std::move(texts), s.says_tied);
  write_sections(s.sections, /*by_turns=*/false, texts);
  sort_keys(texts);
  return texts;
}

Node to_hf_config(const Glm4vMoeConfig& c, const Glm4vMoeShape& s, const std::string& dtype) {
  return glm_config(c, s, texts_config(s, dtype), s.texts.tied, kMoeTower, dtype);
}

}  // namespace

void register_glm4v_moe(Registries& hone) {
  using Glm4vMoe = Glm4vModel<GroupedModel<LlamaAttention, GroupedShape>, Glm4vMoeConfig, Glm4vMoeShape>;
  hone.models.add<Glm4vMoe, Glm4vMoeConfig>(kMoeWhole, "GLM-4.5V and GLM-4.6V: experts, texts with pictures.");
}

}  // namespace hone::models
