// GLM-4.5V and GLM-4.6V (GLM-V team, 2025, arXiv:2507.01006): GLM-4.5's experts with GLM-4.1V's tower, and tokens that
// stand in three dimensions.
//
// Letters in tensor names: M tokens of pictures, D hidden.
// Children carry Hugging Face's names.
#include <fmt/format.h>

#include "hone/registry.h"
#include "models/glm4v_tower.h"
#include "models/grouped_block.h"
#include "models/hf_values.h"
#include "models/picture_model.h"
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

struct Glm4vMoeConfig {
  std::string model_type = kMoeWhole;
  config::Open text_config, vision_config;
  std::int64_t image_token_id = 151363, video_token_id = 151364, image_start_token_id = 151339,
               image_end_token_id = 151340, video_start_token_id = 151341, video_end_token_id = 151342;
  std::optional<bool> tie_word_embeddings;

  static constexpr auto fields() {
    using C = Glm4vMoeConfig;
    return std::tuple{
        field("model_type", &C::model_type, "glm4v_moe."),
        field("text_config", &C::text_config, "The model of texts: keys of glm4_moe."),
        field("vision_config", &C::vision_config, "The vision tower, as glm4v's."),
        field("image_token_id", &C::image_token_id, "Token that stands for pictures.", at_least(0)),
        field("video_token_id", &C::video_token_id, "Kept for others: hone reads no videos.", at_least(0)),
        field("image_start_token_id", &C::image_start_token_id, "Kept for others: texts have it before pictures."),
        field("image_end_token_id", &C::image_end_token_id, "Kept for others: texts have it behind pictures."),
        field("video_start_token_id", &C::video_start_token_id, "Kept for others."),
        field("video_end_token_id", &C::video_end_token_id, "Kept for others."),
        field("tie_word_embeddings", &C::tie_word_embeddings, "Use the embedding table as the head's weight.")};
  }
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
  s.input = glm_input(s, s.texts, c.image_token_id, c.video_token_id, problems);
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

class Glm4vMoe final : public PictureModelOf<GroupedModel<LlamaAttention, GroupedShape>> {
 public:
  Glm4vMoe(const Glm4vMoeConfig& config, const HeadRequest& head) : Glm4vMoe(config, picture_shape(config, head)) {}

  Node hf_config() const override {
    Node node = Node::map();
    node.at_or_add("architectures") = Node::list({hf_text("Glm4vMoeForConditionalGeneration")});
    if (!dtype().empty()) node.at_or_add("dtype") = hf_text(dtype());
    node.at_or_add("image_end_token_id") = hf_number(config_.image_end_token_id);
    node.at_or_add("image_start_token_id") = hf_number(config_.image_start_token_id);
    node.at_or_add("image_token_id") = hf_number(config_.image_token_id);
    node.at_or_add("model_type") = hf_text(kMoeWhole);
    node.at_or_add("text_config") = texts_config(shape_, dtype());
    node.at_or_add("tie_word_embeddings") = hf_flag(shape_.texts.tied);
    node.at_or_add("video_end_token_id") = hf_number(config_.video_end_token_id);
    node.at_or_add("video_start_token_id") = hf_number(config_.video_start_token_id);
    node.at_or_add("video_token_id") = hf_number(config_.video_token_id);
    node.at_or_add("vision_config") = glm_tower_config(shape_, kMoeTower, dtype());
    return node;
  }

 private:
  Glm4vMoe(const Glm4vMoeConfig& config, Glm4vMoeShape shape)
      : PictureModelOf(shape.texts, shape.input), config_(config), shape_(std::move(shape)) {}

  Tensor features_MD(const Batch& batch, const Tensor& like, Pass& pass) const override {
    rotate_in_three(batch, input_, *ropes_.of(0), axes_of(shape_.sections, /*by_turns=*/false), like, pass);
    return visual(batch.pictures, pass);
  }

  const Glm4vMoeConfig config_;
  const Glm4vMoeShape shape_;
  Glm4vTower& visual = child<Glm4vTower>("model.visual", shape_);
};

}  // namespace

void register_glm4v_moe(Registries& hone) {
  hone.models.add<Glm4vMoe, Glm4vMoeConfig>(kMoeWhole, "GLM-4.5V and GLM-4.6V: experts, texts with pictures.");
}

}  // namespace hone::models
