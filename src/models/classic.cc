// What decoders share that are older than Llama.
#include "models/classic.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/check_parameters.h"

namespace hone::models {

void read_sizes(const ClassicSizes& sizes, ClassicShape& s, Problems& problems) {
  s.vocab = sizes.vocab, s.hidden = sizes.hidden, s.inner = sizes.inner, s.layers = sizes.layers;
  s.heads = s.kv_heads = sizes.heads, s.max_positions = sizes.max_positions;
  s.head_size = s.hidden / s.heads;
  problems.require(s.hidden % s.heads == 0 && s.head_size > 0, sizes.width_key,
                   fmt::format("got {}, expected a multiple of {} ({})", s.hidden, sizes.heads_key, s.heads));
  s.windows.assign(static_cast<std::size_t>(std::min<std::int64_t>(s.layers, 10000)), 0);
  s.attention_scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(s.head_size, 1)));
  s.norm_bias = true;
  const auto hidden = static_cast<double>(s.hidden), inner = static_cast<double>(s.inner);
  check_parameters(static_cast<double>(s.layers) * hidden * (4 * hidden + 2 * inner) +
                       2 * static_cast<double>(s.vocab) * hidden,
                   sizes.width_key.c_str(), problems);
}

void read_activation(const std::string& name, const char* key, ClassicShape& s, Problems& problems) {
  s.activation_name = name;
  s.activation = nn::read_activation(name, key, problems);
}

std::int64_t one_of(const char* key, std::optional<std::int64_t> value, const char* other_key,
                    std::optional<std::int64_t> other, std::int64_t absent, Problems& problems) {
  problems.require(!value || !other || *value == *other, key,
                   fmt::format("got {}, and {} {}; they mean the same", value.value_or(0), other_key,
                               other.value_or(0)));
  return value ? *value : other.value_or(absent);
}

void read_pad(std::optional<std::int64_t> pad, ClassicShape& s, Problems& problems) {
  problems.require(!pad || (*pad >= 0 && *pad < s.vocab), "pad_token_id",
                   fmt::format("got {}, expected an id below vocab_size ({})", pad.value_or(0), s.vocab));
  s.no_gradient_id = pad.value_or(-1);
}

void rotate_neighbours(std::int64_t count, const char* key, ClassicShape& s, Problems& problems) {
  problems.require(count % 2 == 0 && count <= s.head_size, key,
                   fmt::format("got {}, expected an even number of at most {}, the size of a head", count,
                               s.head_size));
  s.global_head_size = count;  // that the table of angles is for
  s.rotates_neighbours = true;
}

void require_flag(bool given, bool expected, const char* key, Problems& problems) {
  problems.require(given == expected, key, fmt::format("got {}, expected {}, as transformers has it", given, expected));
}

void drop_keys(config::Node& node, std::initializer_list<const char*> keys) {
  std::erase_if(node.entries(), [&](const config::Node::Entry& entry) {
    return std::find(keys.begin(), keys.end(), entry.first) != keys.end();
  });
}

namespace {

bool has_head(const ClassicShape& s, bool of_tokens) {
  return of_tokens ? s.labels_of_words_exist : s.labels_of_texts_exist;
}
std::string no_head(const ClassicShape& s, bool of_tokens) {
  return fmt::format("transformers has no classifier{} of type {}, so nobody could read its folder",
                     of_tokens ? " of tokens" : "", s.model_type);
}

}  // namespace

void read_head(const LabelKeys& config, ClassicShape& s, Problems& problems) {
  const HeadLabels labels = read_labels(config, problems);
  if (labels.empty()) return;
  if (has_head(s, labels.of_tokens))
    give_head({.labels = labels.names, .problem_type = labels.problem_type, .of_tokens = labels.of_tokens}, s);
  else
    problems.add("architectures", no_head(s, labels.of_tokens));
}

void give_classic_head(const HeadRequest& head, ClassicShape& s) {
  if (head.labels.empty()) return;
  if (!has_head(s, head.of_tokens))
    throw Error(ErrorKind::config, "the model: " + no_head(s, head.of_tokens))
        .hint(fmt::format("train a model of another type: llama, mistral, qwen3, {}, …",
                          head.of_tokens ? "gemma2" : "gemma3_text"));
  give_head(head, s);
}

nn::Linear& ClassicAttention::projection(const char* name, std::int64_t in, std::int64_t out, bool bias, double std) {
  return child<nn::Linear>(name, in, out, nn::Linear::Options{.bias = bias, .std = std});
}

ClassicAttention::ClassicAttention(const ClassicShape& shape, const LlamaRopes& ropes, std::int64_t layer)
    : s(shape), attend_(shape, ropes, layer) {
  const std::int64_t queries = s.heads * s.head_size, keys = s.kv_heads * s.head_size;
  if (s.qkv_form == QkvForm::apart) {
    k_proj = &projection("k_proj", s.hidden, keys, s.qkv_bias, s.std);
    v_proj = &projection("v_proj", s.hidden, keys, s.qkv_bias, s.std);
    q_proj = &projection("q_proj", s.hidden, queries, s.qkv_bias, s.std);
  } else {
    qkv = &projection(s.qkv, s.hidden, queries + 2 * keys, s.qkv_bias, s.std);
  }
  out = &projection(s.output, queries, s.hidden, s.output_bias, s.added_std.value_or(s.std));
  if (!s.slopes.empty()) alibi_.emplace(s.slopes);
}

ClassicAttention::Heads ClassicAttention::heads(const nn::Input& x_1ND, Pass& pass) const {
  const std::int64_t H = s.heads, G = s.kv_heads, K = s.head_size;
  if (s.qkv_form == QkvForm::apart) {
    const auto made = nn::linears(x_1ND, {q_proj, k_proj, v_proj}, pass);
    return {made[0].view({-1, H, K}), made[1].view({-1, G, K}), made[2].view({-1, G, K})};
  }
  const Tensor x = nn::linears(x_1ND, {qkv}, pass)[0].flatten(0, 1);
  if (s.qkv_form == QkvForm::in_quarters) {
    const Tensor quarters = x.view({-1, 4, 3, H * K / 4});
    const auto part = [&](std::int64_t at) { return quarters.select(2, at).reshape({-1, H, K}); };
    return {part(0), part(2), part(1)};
  }
  if (s.qkv_form == QkvForm::by_groups) {
    const Tensor groups = x.view({-1, G, H / G + 2, K});
    return {groups.narrow(2, 0, H / G).flatten(1, 2), groups.select(2, H / G), groups.select(2, H / G + 1)};
  }
  const auto made = s.qkv_form == QkvForm::by_heads ? x.view({-1, H, 3, K}).unbind(2) : x.view({-1, 3, H, K}).unbind(1);
  return {made[0], made[1], made[2]};
}

Tensor ClassicAttention::operator()(const nn::Input& x_1ND, Pass& pass) const {
  Heads made = heads(x_1ND, pass);
  if (s.clip > 0)
    for (Tensor* x : {&made.q_NHK, &made.k_NGK, &made.v_NGK}) *x = x->clamp(-s.clip, s.clip);
  const Tensor y_NHK =
      alibi_ ? alibi_->attend(made.q_NHK, made.k_NGK, made.v_NGK, pass,
                              {.scale = s.attention_scale,
                               .mask = ops::Mask::causal(attend_.window()),
                               .dropout = s.attention_dropout})
             : attend_(made.q_NHK, made.k_NGK, made.v_NGK, pass);
  return (*out)(y_NHK.flatten(1).unsqueeze(0), pass);
}

FairseqBlock::FairseqBlock(const ClassicShape& shape, const LlamaRopes& ropes, std::int64_t layer)
    : s(shape),
      self_attn(child<ClassicAttention>("self_attn", s, ropes, layer)),
      self_attn_layer_norm(norm("self_attn_layer_norm")),
      fc1(child<nn::Linear>("fc1", s.hidden, s.inner, nn::Linear::Options{.bias = s.mlp_bias, .std = s.std})),
      fc2(child<nn::Linear>("fc2", s.inner, s.hidden, nn::Linear::Options{.bias = s.mlp_bias, .std = s.std})),
      final_layer_norm(norm("final_layer_norm")) {}

const nn::Norm& FairseqBlock::norm(const char* name) {
  if (!s.norm_weights) return child<BareLayerNorm>(name, s.eps);
  return child<nn::LayerNorm>(name, s.hidden, s.eps);
}

void FairseqBlock::add_to(nn::Residual& x, Pass& pass) const {
  const auto add = [&](const nn::Norm& norm, std::string_view place, const auto& part) {
    if (s.norms_first) {
      x += nn::dropout(part(norm(x)), s.residual_dropout, pass, place);
      return;
    }
    x += nn::dropout(part(nn::Input(x.sum())), s.residual_dropout, pass, place);
    const Tensor normed = norm(x);
    x = nn::Residual(normed);
  };
  add(self_attn_layer_norm, "attention", [&](const nn::Input& in) { return self_attn(in, pass); });
  add(final_layer_norm, "mlp", [&](const nn::Input& in) {
    const Tensor inner = nn::activate(nn::linears(in, {&fc1}, pass)[0], s.activation);
    return fc2(nn::dropout(inner, s.activation_dropout, pass, "inner"), pass);
  });
}

}  // namespace hone::models
