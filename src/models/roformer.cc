// RoFormer (Su et al., 2021, arXiv:2104.09864): BERT's encoder with rotary positions; alone, with a classification
// head, with one that answers questions, or with one for masked tokens.
//
// Children carry Hugging Face's names. Alone, its weights have no prefix; below a head they begin with "roformer.".
#include "base/strings.h"
#include "hone/registry.h"
#include "models/bert_body.h"

namespace hone::models {
namespace {

struct OfRoformer : UsualOfEncoders {
  static constexpr const char *kType = "roformer", *kOfType = "roformer.";
  static constexpr const char* kOfPositions = "Positions that there are angles for: no document may be longer.";
  static constexpr std::int64_t kVocab = 50000, kPositions = 1536;
};

struct RoformerConfig : EncoderKeys<OfRoformer> {
  using Base = EncoderKeys<OfRoformer>;
  std::int64_t type_vocab_size = 2;
  std::optional<std::int64_t> embedding_size;
  bool rotary_value = false, is_decoder = false, add_cross_attention = false;

  static constexpr auto own_fields() {
    using C = RoformerConfig;
    constexpr config::Range size{.low = 1, .high = 2147483647};
    return std::tuple{
        field("type_vocab_size", &C::type_vocab_size, "Token types: 0 for the first of two texts, 1 for the second.",
              size),
        field("embedding_size", &C::embedding_size, "Width of the tables; default: hidden_size.", size),
        field("rotary_value", &C::rotary_value, "Must be false: queries and keys alone are rotated."),
        field("is_decoder", &C::is_decoder, "Must be false."),
        field("add_cross_attention", &C::add_cross_attention, "Must be false.")};
  }
  static constexpr auto fields() { return std::tuple_cat(Base::fields(), own_fields()); }

  BertConfig as_bert() const {
    BertConfig made;
    copy_keys(*this, made);
    made.type_vocab_size = type_vocab_size;
    made.is_decoder = is_decoder, made.add_cross_attention = add_cross_attention;
    return made;
  }
  void validate(Problems& problems) const {
    as_bert().validate(problems);
    problems.require(!rotary_value, "rotary_value", "got true, expected false");
    problems.require(hidden_size / num_attention_heads % 2 == 0, "hidden_size",
                     "got heads of an odd size, expected an even one, as pairs of values are rotated");
  }
};

BertShape resolve(const RoformerConfig& c, const HeadRequest& head) {
  BertShape s = resolve(c.as_bert(), head);
  s.embedding_size = c.embedding_size.value_or(c.hidden_size);
  s.learns_positions = false, s.rotates = true;
  return s;
}

class RoformerModel final : public BertBase {
 public:
  RoformerModel(const RoformerConfig& config, const HeadRequest& head)
      : BertBase({"roformer", "RoFormer", {"cls.predictions.decoder", "cls.predictions.bias"}}, config.as_bert(),
                 resolve(config, head), /*pools=*/false),
        c_(config) {
    if (!b.shape.labels.empty()) add_products(config.hidden_size, b.linear(), b.shape.activation);
    if (b.shape.masked_lm) add_mask_head(mask_form("transform.dense", "transform.LayerNorm", b.shape.activation));
  }
  config::Node hf_config() const override {
    config::Node more = config::Node::map();
    more.at_or_add("use_cache") = config::Values<bool>::write(true);
    more.at_or_add("embedding_size") = config::Values<std::int64_t>::write(b.table_width());
    return as_hf_config(c_, more);
  }
  // Sines and cosines, which follow from their places.
  bool is_no_weight(const std::string& tensor) const override {
    return EncoderModel::is_no_weight(tensor) || tensor.ends_with("encoder.embed_positions.weight");
  }

 private:
  const RoformerConfig c_;
};

}  // namespace

void register_roformer(Registries& hone) {
  hone.models.add<RoformerModel, RoformerConfig>(
      "roformer",
      "RoFormer, alone, with a classification head of texts or of tokens, with one that answers questions, or with one "
      "for masked tokens.");
}

}  // namespace hone::models
