// Keys of config.json that are passed over.
#include "config/hf_keys.h"

#include <algorithm>
#include <array>

namespace hone::config {
namespace {

constexpr auto kInertKeys = std::to_array<std::string_view>({"architectures",
                                                             "torch_dtype",
                                                             "dtype",
                                                             "use_cache",
                                                             "transformers_version",
                                                             "_name_or_path",
                                                             "_attn_implementation",
                                                             "_attn_implementation_autoset",
                                                             "_from_model_config",
                                                             "auto_map",
                                                             "output_attentions",
                                                             "output_hidden_states",
                                                             "output_past",
                                                             "return_dict",
                                                             "torchscript",
                                                             "is_decoder",
                                                             "is_encoder_decoder",
                                                             "add_cross_attention",
                                                             "cross_attention_hidden_size",
                                                             "chunk_size_feed_forward",
                                                             "pruned_heads",
                                                             "tie_encoder_decoder",
                                                             "tokenizer_class",
                                                             "prefix",
                                                             "task_specific_params",
                                                             "problem_type",
                                                             "id2label",
                                                             "label2id",
                                                             "num_labels",
                                                             "finetuning_task",
                                                             "sep_token_id",
                                                             "cls_token_id",
                                                             "mask_token_id",
                                                             "decoder_start_token_id",
                                                             "max_length",
                                                             "min_length",
                                                             "max_new_tokens",
                                                             "do_sample",
                                                             "early_stopping",
                                                             "num_beams",
                                                             "num_beam_groups",
                                                             "diversity_penalty",
                                                             "temperature",
                                                             "top_k",
                                                             "top_p",
                                                             "typical_p",
                                                             "repetition_penalty",
                                                             "length_penalty",
                                                             "no_repeat_ngram_size",
                                                             "encoder_no_repeat_ngram_size",
                                                             "bad_words_ids",
                                                             "num_return_sequences",
                                                             "output_scores",
                                                             "return_dict_in_generate",
                                                             "forced_bos_token_id",
                                                             "forced_eos_token_id",
                                                             "remove_invalid_values",
                                                             "exponential_decay_length_penalty",
                                                             "suppress_tokens",
                                                             "begin_suppress_tokens",
                                                             "tf_legacy_loss",
                                                             "use_bfloat16",
                                                             "unsloth_version",
                                                             "unsloth_fixed",
                                                             "use_mrope"});

}  // namespace

bool changes_nothing(std::string_view key) {
  return std::find(kInertKeys.begin(), kInertKeys.end(), key) != kInertKeys.end();
}

}  // namespace hone::config
