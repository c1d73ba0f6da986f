// What decoders share that are older than Llama: LayerNorms with biases, an MLP without a gate, dropout, and attention
// whose queries, keys and values are often one weight.
//
// Letters in tensor names: B batch, T time, N tokens, D hidden, H query heads, G key/value heads, K head size.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/config_read.h"
#include "hone/layers.h"
#include "models/bare_layer_norm.h"
#include "models/llama_model.h"
#include "models/plain_mlp.h"
#include "models/sort_keys.h"
#include "nn/alibi.h"

namespace hone::models {

// How queries, keys and values lie in what their weight gives: apart, of a weight each; by heads, [H, 3, K]; by groups,
// [G, H / G queries, a key, a value], which with one group is all queries first; by parts, [3, H, K]; in quarters of
// all heads, each queries, values, keys.
enum class QkvForm { apart, by_heads, by_groups, by_parts, in_quarters };

struct ClassicShape : LlamaShape {
  double embedding_dropout = 0, activation_dropout = 0;
  bool norms_first = true;                            // a part's norm is before it, not behind its sum
  bool adds_to_norms = false;                         // a part is added to the norm that it reads
  bool norm_weights = true, normed_at_last = true;    // norms have weights; there is one before the head
  QkvForm qkv_form = QkvForm::apart;
  const char* qkv = "query_key_value";                          // what their one weight is called
  std::vector<double> slopes;                                   // of scores that fall with the distance; empty: none
  std::optional<double> added_std;                                  // of what attention and the MLP give
  bool labels_of_texts_exist = true, labels_of_words_exist = true;  // in transformers
  PlainMlp::Options mlp_options(const char* up, const char* down) const {
    PlainMlp::Options made = PlainMlp::options_of(*this, up, down);
    made.down_std = added_std, made.dropout = activation_dropout;
    return made;
  }
};

// What old folders say of heads that these models have not, and of other things that change nothing.
struct ClassicKeys : LabelKeys {
  using Base = LabelKeys;
  std::optional<std::string> summary_type, summary_activation;
  std::optional<bool> summary_use_proj, summary_proj_to_labels, gradient_checkpointing;
  std::optional<double> summary_first_dropout;

  static constexpr auto fields() {
    using C = ClassicKeys;
    constexpr const char* nothing = "No effect.";
    return std::tuple_cat(
        LabelKeys::fields(),
        std::tuple{field("summary_type", &C::summary_type,
                         "Of a head that this model has not, as all summary_*; no effect."),
                   field("summary_activation", &C::summary_activation, nothing),
                   field("summary_use_proj", &C::summary_use_proj, nothing),
                   field("summary_proj_to_labels", &C::summary_proj_to_labels, nothing),
                   field("summary_first_dropout", &C::summary_first_dropout, nothing),
                   field("gradient_checkpointing", &C::gradient_checkpointing,
                         "No effect: a run says which blocks are computed again.")});
  }
};

// Sizes that are in each config.json by one name or another.
struct ClassicSizes {
  std::int64_t vocab, hidden, inner, layers, heads, max_positions;
  std::string width_key = "hidden_size", heads_key = "num_attention_heads";  // for messages
};
void read_sizes(const ClassicSizes& sizes, ClassicShape& shape, Problems& problems);
// Another activation than gelu_new or the like is a problem at `key`.
void read_activation(const std::string& name, const char* key, ClassicShape& shape, Problems& problems);
// Of a key that has two names: what one of them says, or both alike.
std::int64_t one_of(const char* key, std::optional<std::int64_t> value, const char* other_key,
                    std::optional<std::int64_t> other, std::int64_t absent, Problems& problems);
// Whose row of the table gets no gradient from look-ups.
void read_pad(std::optional<std::int64_t> pad_token_id, ClassicShape& shape, Problems& problems);
// Of the head that config.json says, or a problem: transformers has none.
void read_head(const LabelKeys& config, ClassicShape& shape, Problems& problems);
// The head that is asked for instead. Throws Error(config), as give_head().
void give_classic_head(const HeadRequest& head, ClassicShape& shape);
// Positions are in no head.
inline void leave_unrotated(ClassicShape& s) {
  s.unrotated.assign(s.windows.size(), true);
  s.global_head_size = 2;  // for a table that nobody reads
}
// Values of a head that are rotated, in neighbours, as rotary_dim says.
void rotate_neighbours(std::int64_t count, const char* key, ClassicShape& shape, Problems& problems);
// "true" or "false" is the only one that there is in transformers.
void require_flag(bool given, bool expected, const char* key, Problems& problems);

template <class C>
auto classic_shape_of(const C& config, const HeadRequest& head) {
  Problems problems;
  auto shape = resolve(config, problems);
  problems.raise("the model's configuration");
  give_classic_head(head, shape);
  return shape;
}

// config.json of C, which extends LabelKeys, as transformers writes it.
// nulls: keys that are there whatever they say.
template <class C>
config::Node written(const C& c, const ClassicShape& s, const std::string& dtype,
                     std::initializer_list<const char*> nulls = {}) {
  config::Node node = config::write(c);
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) node.at_or_add(key);
  for (const char* key : nulls) node.at_or_add(key);
  std::erase_if(node.entries(), [](const config::Node::Entry& entry) {
    return entry.first.starts_with("summary_") || entry.first == "gradient_checkpointing" ||
           (entry.first == "classifier_dropout" && entry.second.is_null());
  });
  node.at_or_add("architectures") = config::Node::list({config::Node::scalar(s.architecture, /*quoted=*/true)});
  if (!dtype.empty()) node.at_or_add("dtype") = config::Node::scalar(dtype, /*quoted=*/true);
  node.at_or_add("use_cache") = config::Values<bool>::write(true);
  write_labels(s.labels, c, node);
  sort_keys(node);
  return node;
}
void drop_keys(config::Node& node, std::initializer_list<const char*> keys);

class ClassicAttention final : public Module {
 public:
  ClassicAttention(const ClassicShape& shape, const LlamaRopes& ropes, std::int64_t layer);
  Tensor operator()(const nn::Input& x_1ND, Pass& pass) const;

 private:
  struct Heads {
    Tensor q_NHK, k_NGK, v_NGK;
  };
  Heads heads(const nn::Input& x_1ND, Pass& pass) const;
  nn::Linear& projection(const char* name, std::int64_t in, std::int64_t out, bool bias, double std);
  const ClassicShape& s;
  LayerAttention attend_;
  std::optional<nn::Alibi> alibi_;
  nn::Linear *q_proj = nullptr, *k_proj = nullptr, *v_proj = nullptr, *qkv = nullptr;
  nn::Linear* out = nullptr;
};

// B: a block, made as B(shape, ropes, index); N: the last norm; S: ClassicShape, or what extends it.
template <class B, class N = nn::LayerNorm, class S = ClassicShape>
class ClassicModel : public LlamaModel<B, S, N> {
  using Base = LlamaModel<B, S, N>;

 public:
  using Base::Base;

  Tensor embed(const Batch& batch, Pass& pass) const override {
    return nn::dropout_embedded(with_places(Base::embed(batch, pass), pass), Base::s.embedding_dropout, pass,
                                "embeddings");
  }
  CacheSpec cache_spec() const override {
    CacheSpec spec = Base::cache_spec();
    if (!Base::s.slopes.empty())
      for (CacheSpec::Layer& layer : spec.layers) layer.head_size = nn::Alibi::kept_size(layer.head_size);
    return spec;
  }

 protected:
  virtual Tensor with_places(const Tensor& x_BTD, Pass&) const { return x_BTD; }
};

// Of models whose positions are learned; offset: of the row of the first place.
template <class B, class N = nn::LayerNorm>
class LearnedPlaces : public ClassicModel<B, N> {
  using Base = ClassicModel<B, N>;

 public:
  LearnedPlaces(ClassicShape shape, const char* name, std::int64_t offset = 0)
      : Base(std::move(shape)),
        offset_(offset),
        places_(this->template child<nn::Embedding>(name, Base::s.max_positions + offset, Base::s.hidden,
                                                    Base::s.std)) {}
  bool positions_are_learned() const override { return true; }

 protected:
  Tensor with_places(const Tensor& x_BTD, Pass& pass) const override {
    const Tensor places_BT = nn::positions(pass);
    return x_BTD + places_(offset_ > 0 ? places_BT + offset_ : places_BT, pass);
  }

 private:
  const std::int64_t offset_;
  nn::Embedding& places_;
};

// Attention and an MLP, each of a norm of its own, one behind the other: what GPT-Neo, GPT-BigCode and BLOOM have.
struct SerialNames {
  const char *attention_norm, *attention, *mlp_norm, *mlp, *up, *down;
};
template <const SerialNames& names>
class SerialBlock final : public nn::ResidualBlock {
 public:
  SerialBlock(const ClassicShape& shape, const LlamaRopes& ropes, std::int64_t layer)
      : s(shape), attention_norm(norm(names.attention_norm)),
        attention(child<ClassicAttention>(names.attention, s, ropes, layer)), mlp_norm(norm(names.mlp_norm)) {}

  void add_to(nn::Residual& x, Pass& pass) const override {
    add(x, attention_norm, attention, pass, "attention");
    add(x, mlp_norm, mlp, pass, "mlp");
  }

 private:
  template <class Part>
  void add(nn::Residual& x, const nn::LayerNorm& norm, const Part& part, Pass& pass, const char* place) const {
    if (!s.adds_to_norms) {
      x += nn::dropout(part(norm(x), pass), s.residual_dropout, pass, place);
      return;
    }
    const Tensor normed = norm(x);
    x = nn::Residual(normed);
    x += nn::dropout(part(normed, pass), s.residual_dropout, pass, place);
  }
  nn::LayerNorm& norm(const char* name) { return child<nn::LayerNorm>(name, s.hidden, s.eps, s.norm_bias); }
  const ClassicShape& s;
  nn::LayerNorm& attention_norm;
  ClassicAttention& attention;
  nn::LayerNorm& mlp_norm;
  PlainMlp& mlp = child<PlainMlp>(names.mlp, s.mlp_options(names.up, names.down));
};

// The same in fairseq's order: OPT, XGLM and BioGPT.
class FairseqBlock final : public nn::ResidualBlock {
 public:
  FairseqBlock(const ClassicShape& shape, const LlamaRopes& ropes, std::int64_t layer);
  void add_to(nn::Residual& x, Pass& pass) const override;

 private:
  const nn::Norm& norm(const char* name);
  const ClassicShape& s;
  ClassicAttention& self_attn;
  const nn::Norm& self_attn_layer_norm;
  nn::Linear &fc1, &fc2;
  const nn::Norm& final_layer_norm;
};

// The norm before the head, where there is one.
class LastNorm final : public Module {
 public:
  explicit LastNorm(const ClassicShape& s) {
    if (!s.normed_at_last) return;
    if (s.norm_weights) norm_ = &child<nn::LayerNorm>("", s.hidden, s.eps);
    else norm_ = &child<BareLayerNorm>("", s.eps);
  }
  Tensor operator()(const Tensor& x) const { return norm_ ? (*norm_)(x) : x; }

 private:
  const nn::Norm* norm_ = nullptr;
};

}  // namespace hone::models
