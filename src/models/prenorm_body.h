// Blocks of BERTs whose norms stand before attention and MLP.
//
// Letters in tensor names: D hidden, N tokens.
// Children carry Hugging Face's names.
#pragma once

#include "models/bert_body.h"

namespace hone::models {

// What of a family is not in its configuration.
struct PreNormFamily {
  const char *prefix, *classes, *attention_norm, *mlp_norm, *last_norm;
  bool drops_mlp, is_roberta;  // is_roberta: by its heads and positions
  MaskHeadNames mask_head;
};

// What all parts of a model look at.
struct PreNormBert {
  PreNormFamily family;
  Bert bert;
};

class PreNormLayer final : public nn::ResidualBlock {
 public:
  PreNormLayer(const PreNormBert& model, std::int64_t)
      : b(model.bert),
        drops_mlp_(model.family.drops_mlp),
        attention_norm(norm(model.family.attention_norm)),
        mlp_norm(norm(model.family.mlp_norm)) {}
  void add_to(nn::Residual& x, Pass& pass) const override {
    x += b.drop(output(self(attention_norm(x), pass), pass), pass, "attention");
    const Tensor inner = nn::activate(nn::linears(mlp_norm(x), {&up}, pass)[0], b.shape.activation);
    x += drops_mlp_ ? b.drop(down(inner, pass), pass, "mlp") : down(inner, pass);
  }

 private:
  nn::LayerNorm& norm(const char* name) {
    return child<nn::LayerNorm>(name, b.config.hidden_size, b.config.layer_norm_eps);
  }
  nn::Linear& linear(const char* name, std::int64_t in, std::int64_t out) {
    return child<nn::Linear>(name, in, out, b.linear());
  }
  const Bert& b;
  const bool drops_mlp_;
  nn::LayerNorm &attention_norm, &mlp_norm;
  BertSelfAttention& self = child<BertSelfAttention>("attention.self", b);
  nn::Linear& output = linear("attention.output.dense", b.config.hidden_size, b.config.hidden_size);
  nn::Linear& up = linear("intermediate.dense", b.config.hidden_size, b.config.intermediate_size);
  nn::Linear& down = linear("output.dense", b.config.intermediate_size, b.config.hidden_size);
};

}  // namespace hone::models
