// What config.json of Hunyuan (Tencent, 2025) may say beyond Llama's keys, and the plain numbers that it means.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "models/llama_config.h"

namespace hone::models {

struct HunyuanKeys : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<std::int64_t> eod_token_id, attention_head_dim, org_vocab_size, cla_share_factor, class_num;
  std::optional<std::string> norm_type, pool_type;
  std::optional<bool> use_qk_norm;
  bool use_rotary_pos_emb = true, use_cla = false, add_classification_head = false;
  std::optional<bool> position_embedding_xdrope, skip_cls_token;
  std::optional<std::vector<std::int64_t>> dense_list;
  std::optional<std::int64_t> text_start_id, text_end_id, im_start_id, im_end_id, im_newline_id, mask_init_id, pad_id;

  static constexpr auto fields() {
    using C = HunyuanKeys;
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
                   field("mask_init_id", &C::mask_init_id, nothing),
                   field("pad_id", &C::pad_id, nothing)});
  }
};

// As resolve_base().
bool resolve_hunyuan(const HunyuanKeys& config, LlamaShape& shape, Problems& problems);
config::Node hunyuan_config(const HunyuanKeys& config, const LlamaShape& shape, const std::string& dtype);

}  // namespace hone::models
