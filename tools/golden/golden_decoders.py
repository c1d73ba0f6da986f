#!/usr/bin/env python3
# Golden files of Llama's relatives with blocks of their own: golden_decoders.py -> tests/golden/decoders/<name>/
# (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus config-transformers4.json (the same model as
# transformers 4 would describe it) and golden.safetensors: a batch and what transformers computes from it, with
# gradients under the names that the weights have in the file. Seconds for all; the same bytes every time on the same
# versions.
import json

import torch
import transformers as hf

import golden_common as common
import golden_moe
from golden import check_old_config, transformers4
from golden_cases import BASE, LONG, ROPE, SHORT, Case
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

GEMMA = {**BASE, "head_dim": 10, "pad_token_id": 3}
# Small ones, so that many values are near them.
GEMMA2 = {**GEMMA, "num_hidden_layers": 3, "sliding_window": 5, "query_pre_attn_scalar": 7,
          "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0}
GEMMA3 = {**GEMMA, "num_hidden_layers": 3, "sliding_window": 5, "query_pre_attn_scalar": 7}
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=100.0)
PLAIN = dict(rope_type="default", rope_theta=50.0)
LONGROPE = dict(rope_type="longrope", short_factor=SHORT, long_factor=LONG, original_max_position_embeddings=64,
                rope_theta=1000.0)
MIXTRAL = {**BASE, "num_local_experts": 5, "intermediate_size": 9, "num_hidden_layers": 2}
GPT_OSS = {**ROPE, "num_attention_heads": 4, "intermediate_size": 9, "num_hidden_layers": 3, "sliding_window": 5,
           "num_local_experts": 5}
LFM2 = {**{key: value for key, value in BASE.items() if key != "rms_norm_eps"}, "num_hidden_layers": 3,
        "norm_eps": 1e-4}
LFM2_MOE = {**LFM2, "num_hidden_layers": 2, "num_experts": 5, "moe_intermediate_size": 9}
GLM = {**BASE, "head_dim": 12, "pad_token_id": 3, "eos_token_id": [2, 5]}
OLMOE = {**BASE, "num_experts": 5, "intermediate_size": 9, "pad_token_id": 3, "eos_token_id": 2}
COHERE = {**{key: value for key, value in BASE.items() if key != "rms_norm_eps"}, "layer_norm_eps": 1e-5,
          "pad_token_id": 3, "eos_token_id": 2, "bos_token_id": 1}
STARCODER2 = {**{key: value for key, value in BASE.items() if key != "rms_norm_eps"}, "norm_epsilon": 1e-4,
              "bos_token_id": 1, "eos_token_id": 2}
SEED_OSS = {**BASE, "head_dim": 10, "pad_token_id": 3, "attention_dropout": 0.0, "residual_dropout": 0.0}
HUNYUAN = {**BASE, "head_dim": 10, "pad_token_id": 3}
ARCEE = {**BASE, "bos_token_id": 1, "eos_token_id": 2}
NEMOTRON = {**{key: value for key, value in BASE.items() if key != "rms_norm_eps"}, "norm_eps": 1e-4,
            "bos_token_id": 1, "eos_token_id": 2}
MAMBA = {**BASE, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
         "mamba_n_heads": 6, "mamba_d_state": 5, "mamba_chunk_size": 8, "bos_token_id": 1, "eos_token_id": 2}
NEMOTRON_H = {**{key: value for key, value in BASE.items() if key not in ("rms_norm_eps", "num_hidden_layers")},
              "head_dim": 10, "layer_norm_epsilon": 1e-4, "mamba_num_heads": 6, "mamba_head_dim": 6,
              "ssm_state_size": 5, "chunk_size": 8, "pad_token_id": 3}
MAMBA2 = {"vocab_size": 64, "hidden_size": 24, "num_hidden_layers": 3, "num_heads": 6, "head_dim": 8, "state_size": 5,
          "chunk_size": 8, "layer_norm_epsilon": 1e-4, "pad_token_id": 3}
MAMBA1 = {"vocab_size": 64, "hidden_size": 24, "num_hidden_layers": 3, "state_size": 5, "layer_norm_epsilon": 1e-4,
          "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2}
JAMBA = {**BASE, "num_hidden_layers": 4, "attn_layer_period": 4, "attn_layer_offset": 1, "mamba_d_state": 5,
         "pad_token_id": 3}
LLAMA4 = {**BASE, "num_hidden_layers": 4, "head_dim": 10, "intermediate_size": 9, "intermediate_size_mlp": 22,
          "num_local_experts": 5, "pad_token_id": 3}

CASES = [
    Case("gemma", hf.GemmaConfig, GEMMA),
    Case("gemma2", hf.Gemma2Config, GEMMA2),
    Case("gemma2-uncapped", hf.Gemma2Config, {**GEMMA2, "attn_logit_softcapping": None,
                                              "final_logit_softcapping": None, "layer_types": TYPES,
                                              "tie_word_embeddings": False}),
    Case("gemma3", hf.Gemma3TextConfig, {**GEMMA3, "layer_types": TYPES, "rope_parameters": {
        "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000.0), "sliding_attention": PLAIN}}),
    Case("gemma3-capped", hf.Gemma3TextConfig, {**GEMMA3, "num_hidden_layers": 7, "final_logit_softcapping": 4.0}),
    Case("granite", hf.GraniteConfig, {**BASE, "embedding_multiplier": 3.0, "attention_multiplier": 0.3,
                                       "residual_multiplier": 0.22, "logits_scaling": 1.7, "attention_bias": True,
                                       "mlp_bias": True}),
    Case("granite-tied", hf.GraniteConfig, {**ROPE, "tie_word_embeddings": True, "embedding_multiplier": 0.5}),
    Case("smollm3", hf.SmolLM3Config, {**BASE, "num_hidden_layers": 4, "no_rope_layer_interval": 2, "pad_token_id": 3,
                                       "bos_token_id": 1, "eos_token_id": 2}),
    Case("smollm3-sliding", hf.SmolLM3Config, {**ROPE, "num_hidden_layers": 3, "no_rope_layers": [1, 0, 0],
                                               "use_sliding_window": True, "sliding_window": 5, "pad_token_id": 3,
                                               "bos_token_id": 1, "eos_token_id": 2, "mlp_bias": True,
                                               "tie_word_embeddings": False}),
    Case("olmo2", hf.Olmo2Config, {**BASE, "eos_token_id": 2}),
    Case("olmo3", hf.Olmo3Config, {**ROPE, "num_hidden_layers": 4, "sliding_window": 5, "eos_token_id": 2,
                                   "rope_parameters": {"full_attention": YARN, "sliding_attention": PLAIN}}),
    Case("phi3", hf.Phi3Config, {**BASE, "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2}),
    Case("phi3-partial", hf.Phi3Config, {**BASE, "hidden_size": 48, "pad_token_id": 3, "bos_token_id": 1,
                                         "eos_token_id": 2, "sliding_window": 5, "tie_word_embeddings": True,
                                         "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.67}}),
    Case("phi3-longrope", hf.Phi3Config, {**ROPE, "hidden_size": 40, "head_dim": 20, "max_position_embeddings": 128,
                                          "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2,
                                          "original_max_position_embeddings": 64,
                                          "rope_parameters": {**LONGROPE, "partial_rotary_factor": 0.8}}),
    Case("mixtral", hf.MixtralConfig, {**MIXTRAL, "num_experts_per_tok": 3, "output_router_logits": True,
                                       "router_aux_loss_coef": 0.05}),
    Case("mixtral-sliding", hf.MixtralConfig, {**MIXTRAL, "sliding_window": 5, "num_experts_per_tok": 2}),
    # Limits that many values are beyond.
    Case("gpt_oss", hf.GptOssConfig, {**GPT_OSS, "num_experts_per_tok": 3, "output_router_logits": True,
                                      "router_aux_loss_coef": 0.05, "swiglu_limit": 0.4, "eos_token_id": 2,
                                      "rope_parameters": {**YARN, "truncate": False, "beta_fast": 32.0,
                                                          "beta_slow": 1.0}}),
    Case("gpt_oss-plain", hf.GptOssConfig, {**GPT_OSS, "num_hidden_layers": 2, "num_experts_per_tok": 5,
                                            "attention_bias": False, "swiglu_alpha": 1.2, "pad_token_id": 3,
                                            "layer_types": TYPES[1::-1], "rope_parameters": PLAIN}),
    # Half of each head; all of each.
    Case("glm", hf.GlmConfig, {**GLM, "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}}),
    Case("glm4", hf.Glm4Config, {**GLM, "attention_bias": False, "tie_word_embeddings": True,
                                 "rope_parameters": {**PLAIN, "partial_rotary_factor": 1.0}}),
    # Queries that grow twice within the batch, with a window and without.
    Case("ministral3", hf.Ministral3Config, {**ROPE, "pad_token_id": 3, "rope_parameters": {
        **YARN, "original_max_position_embeddings": 8, "beta_fast": 4.0, "beta_slow": 0.5, "mscale": 1.0,
        "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.7}}),
    Case("ministral3-plain", hf.Ministral3Config, {**BASE, "head_dim": 10, "pad_token_id": 3, "sliding_window": 5,
                                                   "tie_word_embeddings": True, "rope_parameters": {
        **PLAIN, "original_max_position_embeddings": 6, "llama_4_scaling_beta": 0.4}}),
    Case("ministral", hf.MinistralConfig, {**BASE, "head_dim": 10, "num_hidden_layers": 3, "sliding_window": 5,
                                           "layer_types": TYPES}),
    Case("ministral-sliding", hf.MinistralConfig, {**ROPE, "sliding_window": 5, "tie_word_embeddings": True}),
    # Cut where many values are beyond.
    Case("olmoe", hf.OlmoeConfig, {**OLMOE, "num_experts_per_tok": 3, "clip_qkv": 0.6, "attention_bias": True,
                                   "output_router_logits": True, "router_aux_loss_coef": 0.05}),
    Case("olmoe-plain", hf.OlmoeConfig, {**OLMOE, "num_experts_per_tok": 2, "norm_topk_prob": True,
                                         "tie_word_embeddings": True}),
    Case("ernie4_5", hf.Ernie4_5Config, {**BASE, "head_dim": 10, "use_bias": True, "pad_token_id": 3}),
    Case("ernie4_5-untied", hf.Ernie4_5Config, {**ROPE, "tie_word_embeddings": False, "pad_token_id": 3}),
    Case("cohere", hf.CohereConfig, {**COHERE, "use_qk_norm": True, "logit_scale": 0.3, "attention_bias": True,
                                     "tie_word_embeddings": False}),
    Case("cohere-tied", hf.CohereConfig, {**COHERE, "logit_scale": 1.7}),
    Case("cohere2", hf.Cohere2Config, {**COHERE, "num_hidden_layers": 4, "sliding_window": 5, "logit_scale": 0.6}),
    Case("cohere2-types", hf.Cohere2Config, {**COHERE, "num_hidden_layers": 3, "sliding_window": 5,
                                             "layer_types": TYPES, "tie_word_embeddings": False}),
    Case("lfm2", hf.Lfm2Config, {**LFM2, "layer_types": ["conv", "full_attention", "conv"], "conv_bias": True,
                                 "conv_L_cache": 4, "block_auto_adjust_ff_dim": False, "tie_word_embeddings": False,
                                 "pad_token_id": 3, "rope_parameters": PLAIN}),
    # An MLP of 48: 2/3 of 50 is 33, times 1.3 is 42, made a multiple of 8. As published files say it: by other names.
    Case("lfm2-adjusted", hf.Lfm2Config, {**LFM2, "full_attn_idxs": [1], "head_dim": 10, "intermediate_size": 50,
                                          "block_ffn_dim_multiplier": 1.3, "block_multiple_of": 8},
         v4=dict(intermediate_size=10, block_ff_dim=50, tie_word_embeddings=False, tie_embedding=True,
                 theta=1000000.0, block_dim=24, conv_dim=24, num_heads=4, block_norm_eps=1e-5, block_use_swiglu=True,
                 block_mlp_init_scale=1.0, use_pos_enc=True)),
    Case("starcoder2", hf.Starcoder2Config, {**STARCODER2, "sliding_window": 5}),
    Case("starcoder2-plain", hf.Starcoder2Config, {**STARCODER2, "use_bias": False, "hidden_act": "gelu",
                                                   "tie_word_embeddings": False}),
    Case("seed_oss", hf.SeedOssConfig, {**SEED_OSS, "attention_out_bias": True, "mlp_bias": True}),
    Case("seed_oss-tied", hf.SeedOssConfig, {**SEED_OSS, "attention_bias": False, "tie_word_embeddings": True}),
    # A base that is stretched; one that is not.
    Case("hunyuan", hf.HunYuanDenseV1Config, {**HUNYUAN, "rope_parameters": dict(
        rope_type="dynamic", alpha=50.0, factor=1.0, mscale=1.0, mscale_all_dim=1.0, beta_fast=32, beta_slow=1)}),
    Case("hunyuan-plain", hf.HunYuanDenseV1Config, {**HUNYUAN, "attention_bias": True, "tie_word_embeddings": True,
                                                    "eod_token_id": 7}),
    Case("exaone4", hf.Exaone4Config, {**BASE, "num_hidden_layers": 4, "sliding_window": 5, "head_dim": 10,
                                       "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 3}),
    Case("exaone4-full", hf.Exaone4Config, {**BASE, "num_hidden_layers": 2, "sliding_window": None,
                                            "layer_types": ["full_attention"] * 2, "tie_word_embeddings": True}),
    Case("arcee", hf.ArceeConfig, {**ARCEE, "mlp_bias": True, "attention_bias": True}),
    Case("arcee-gelu", hf.ArceeConfig, {**ARCEE, "hidden_act": "gelu", "tie_word_embeddings": True}),
    Case("phi", hf.PhiConfig, {**COHERE, "hidden_size": 32, "num_key_value_heads": 4, "qk_layernorm": True,
                               "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}}),
    Case("phi-plain", hf.PhiConfig, {**COHERE, "hidden_size": 40, "hidden_act": "gelu",
                                     "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.4}}),
    Case("stablelm", hf.StableLmConfig, {**COHERE, "hidden_size": 32, "qk_layernorm": True,
                                         "use_parallel_residual": True,
                                         "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.25}}),
    Case("stablelm-serial", hf.StableLmConfig, {**COHERE, "hidden_size": 40, "use_qkv_bias": True,
                                                "tie_word_embeddings": True,
                                                "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.4}}),
    Case("nemotron", hf.NemotronConfig, {**NEMOTRON, "head_dim": 12, "attention_bias": True, "mlp_bias": True,
                                         "rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5}}),
    Case("nemotron-tied", hf.NemotronConfig, {**NEMOTRON, "tie_word_embeddings": True, "hidden_act": "gelu",
                                              "rope_parameters": {**PLAIN, "partial_rotary_factor": 1.0}}),
    Case("lfm2_moe", hf.Lfm2MoeConfig, {**LFM2_MOE, "num_hidden_layers": 3, "num_dense_layers": 1, "pad_token_id": 3,
                                        "layer_types": ["conv", "full_attention", "conv"], "num_experts_per_tok": 3,
                                        "routed_scaling_factor": 1.5}),
    Case("lfm2_moe-plain", hf.Lfm2MoeConfig, {**LFM2_MOE, "layer_types": ["full_attention", "conv"],
                                              "num_dense_layers": 0, "use_expert_bias": False, "conv_bias": True,
                                              "norm_topk_prob": False, "num_experts_per_tok": 2, "head_dim": 10,
                                              "tie_word_embeddings": False, "rope_parameters": PLAIN}),
    Case("granitemoe", hf.GraniteMoeConfig, {**MIXTRAL, "num_experts_per_tok": 3, "output_router_logits": True,
                                             "router_aux_loss_coef": 0.05, "attention_bias": True,
                                             "embedding_multiplier": 3.0, "attention_multiplier": 0.3,
                                             "residual_multiplier": 0.22, "logits_scaling": 1.7}),
    Case("granitemoe-tied", hf.GraniteMoeConfig, {**MIXTRAL, "num_experts_per_tok": 2, "tie_word_embeddings": True,
                                                  "hidden_act": "gelu", "pad_token_id": 3}),
    Case("flex_olmo", hf.FlexOlmoConfig, {**OLMOE, "num_experts_per_tok": 3, "attention_bias": True,
                                          "output_router_logits": True, "router_aux_loss_coef": 0.05}),
    Case("flex_olmo-plain", hf.FlexOlmoConfig, {**OLMOE, "num_experts_per_tok": 2, "norm_topk_prob": True,
                                                "tie_word_embeddings": True}),
    Case("apertus", hf.ApertusConfig, {**BASE, "head_dim": 10, "attention_bias": True, "rope_parameters": PLAIN}),
    Case("apertus-tied", hf.ApertusConfig, {**BASE, "tie_word_embeddings": True}),
    # Steps that are cut on both sides.
    Case("granitemoehybrid", hf.GraniteMoeHybridConfig, {
        **MAMBA, "intermediate_size": 9, "num_local_experts": 5, "num_experts_per_tok": 3, "mamba_n_groups": 2,
        "mamba_proj_bias": True, "time_step_limit": [0.5, 0.9], "output_router_logits": True,
        "router_aux_loss_coef": 0.05, "attention_bias": True, "position_embedding_type": "rope",
        "shared_intermediate_size": 20, "embedding_multiplier": 3.0, "attention_multiplier": 0.3,
        "residual_multiplier": 0.22, "logits_scaling": 1.7}),
    Case("granitemoehybrid-dense", hf.GraniteMoeHybridConfig, {
        **MAMBA, "num_local_experts": 0, "num_experts_per_tok": 0, "mamba_conv_bias": False, "mamba_d_conv": 3,
        "shared_intermediate_size": 20, "position_embedding_type": "nope", "tie_word_embeddings": True,
        "pad_token_id": 3},
         v4=dict(layer_types=["mamba", "attention", "mamba"], mamba_d_head="auto", init_method="mup",
                 normalization_function="rmsnorm")),
    Case("bamba", hf.BambaConfig, {
        **{key: value for key, value in MAMBA.items() if key != "layer_types"}, "hidden_size": 32,
        "attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_n_groups": 2, "attention_bias": True, "mlp_bias": True,
        "pad_token_id": 3, "tie_word_embeddings": True, "num_logits_to_keep": 2}),
    Case("falcon_h1", hf.FalconH1Config, {
        **{key: value for key, value in MAMBA.items() if key != "layer_types"}, "num_hidden_layers": 2,
        "mamba_d_ssm": 36, "mamba_n_groups": 3, "mamba_rms_norm": True, "mamba_proj_bias": True,
        "time_step_limit": [0.1, 5.0], "lm_head_multiplier": 0.7, "embedding_multiplier": 3.0, "key_multiplier": 0.4,
        "attention_in_multiplier": 1.3, "attention_out_multiplier": 0.9, "ssm_in_multiplier": 1.2,
        "ssm_out_multiplier": 0.8, "mlp_multipliers": [0.9, 0.6], "ssm_multipliers": [0.7, 1.3, 1.1, 1.2, 0.9],
        "head_dim": 10, "pad_token_id": 3}),
    Case("falcon_h1-plain", hf.FalconH1Config, {
        **{key: value for key, value in MAMBA.items() if key != "layer_types"}, "num_hidden_layers": 2,
        "mamba_d_ssm": None, "projectors_bias": True, "attention_bias": True, "mlp_bias": True, "pad_token_id": 3,
        "tie_word_embeddings": True}),
    Case("falcon_h1-gated", hf.FalconH1Config, {
        **{key: value for key, value in MAMBA.items() if key != "layer_types"}, "num_hidden_layers": 1,
        "mamba_d_ssm": 24, "mamba_n_groups": 2, "mamba_rms_norm": True, "mamba_norm_before_gate": False,
        "pad_token_id": 3}),
    Case("nemotron_h", hf.NemotronHConfig, {
        **NEMOTRON_H, "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp", "moe"],
        "n_routed_experts": 6, "num_experts_per_tok": 2, "n_group": 3, "topk_group": 2, "moe_intermediate_size": 9,
        "moe_shared_expert_intermediate_size": 14, "moe_latent_size": 16, "routed_scaling_factor": 1.5,
        "mlp_bias": True, "use_bias": True, "n_groups": 2}),
    Case("nemotron_h-dense", hf.NemotronHConfig, {
        **NEMOTRON_H, "layers_block_type": ["mlp", "linear_attention", "full_attention", "linear_attention"],
        "n_groups": 1, "use_conv_bias": False, "mlp_hidden_act": "silu", "time_step_limit": [0.3, 1.5],
        "time_step_min": 0.63, "time_step_max": 0.8}),
    Case("mamba2", hf.Mamba2Config, {**MAMBA2, "n_groups": 2, "use_bias": True}),
    Case("mamba2-tied", hf.Mamba2Config, {**MAMBA2, "n_groups": 1, "tie_word_embeddings": True, "use_conv_bias": False,
                                          "conv_kernel": 3, "time_step_limit": [0.3, 1.5]}),
    Case("mamba", hf.MambaConfig, {**MAMBA1, "use_bias": True, "tie_word_embeddings": False}),
    Case("mamba-tied", hf.MambaConfig, {**MAMBA1, "use_conv_bias": False, "conv_kernel": 3, "time_step_rank": 5,
                                        "intermediate_size": 30, "residual_in_fp32": False}),
    Case("falcon_mamba", hf.FalconMambaConfig, {**MAMBA1, "mixer_rms_eps": 1e-3, "tie_word_embeddings": False}),
    Case("jamba", hf.JambaConfig, {**JAMBA, "intermediate_size": 9, "num_experts": 5, "num_experts_per_tok": 2,
                                   "output_router_logits": True, "router_aux_loss_coef": 0.05}),
    Case("jamba-dense", hf.JambaConfig, {**JAMBA, "num_experts": 1, "mamba_conv_bias": False, "mamba_proj_bias": True,
                                         "mamba_dt_rank": 5, "mamba_d_conv": 3, "tie_word_embeddings": True}),
    Case("llama4", hf.Llama4TextConfig, {
        **LLAMA4, "num_experts_per_tok": 2, "interleave_moe_layer_step": 2, "no_rope_layer_interval": 2,
        "attention_chunk_size": 7, "floor_scale": 5, "attn_scale": 0.5,
        "rope_parameters": dict(rope_type="llama3", rope_theta=1000.0, factor=4.0, low_freq_factor=1.0,
                                high_freq_factor=4.0, original_max_position_embeddings=64)},
         v4=dict(for_llm_compressor=False)),
    Case("llama4-plain", hf.Llama4TextConfig, {
        **LLAMA4, "num_hidden_layers": 3, "moe_layers": [1], "no_rope_layers": [1, 1, 0], "attention_chunk_size": None,
        "use_qk_norm": False, "attn_temperature_tuning": False, "attention_bias": True, "tie_word_embeddings": True}),
]
TWO_ROPES = ("gemma3_text", "olmo3")
ROUTED = ("mixtral", "gpt_oss", "olmoe", "lfm2_moe", "granitemoe", "flex_olmo", "nemotron_h", "jamba")
PARTS = {"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)}


def random_model(case):
    """Norms' weights are near 1, or near 0 where 1 is added to them."""
    model = causal_lm(case)
    adds_one = case.name.startswith(("gemma", "nemotron")) and not case.name.startswith("nemotron_h")
    is_norm = lambda name: name.endswith(("norm.weight", "norm_f.weight")) and not adds_one
    is_table = lambda name: "embed" in name and not is_norm(name)
    for name, correction in model.named_buffers():
        if name.endswith(("expert_bias", "e_score_correction_bias")):
            correction.copy_(torch.randn(correction.shape, generator=torch.Generator().manual_seed(case.seed)) * 0.3)
        if case.name == "apertus" and name.endswith(("act_fn.beta", "act_fn.eps")):  # others than usual
            correction.fill_(0.4 if name.endswith("beta") else -0.05)
    return fill(model, case.seed, is_table, is_norm, tied_scale(model) / embedding_scale(case))


def embedding_scale(case):
    return case.options["hidden_size"] ** 0.5 if case.name.startswith("gemma") else 1.0


def load(folder):
    eager = {"experts_implementation": "eager"} if folder.name.startswith(ROUTED) else {}
    return common.load_model(folder, **eager)


def gradients(model):
    """By the names of the file, which keeps every expert's matrices apart."""
    if model.config.model_type in ("olmoe", "flex_olmo", "jamba"):
        yield from golden_moe.gradients(model)
        return
    if model.config.model_type in ("granitemoe", "granitemoehybrid"):
        yield from ((granite_name(name), weight.grad) for name, weight in model.named_parameters())
        return
    if model.config.model_type == "nemotron_h":
        yield from nemotron_h_gradients(model)
        return
    for name, weight in model.named_parameters():
        stem, part = name.rsplit(".", 1)
        if part not in PARTS or model.config.model_type in ("gpt_oss", "llama4_text"):
            yield name.replace(".mlp.gate.", ".block_sparse_moe.gate."), weight.grad
            continue
        stem = stem.replace(".mlp.", ".block_sparse_moe.")
        for expert, grad in enumerate(weight.grad):
            for own, piece in zip(PARTS[part], grad.chunk(len(PARTS[part]))):
                yield f"{stem}.{expert}.{own}.weight", piece


def granite_name(name):
    for own, there in (("experts.gate_up_proj", "input_linear.weight"), ("experts.down_proj", "output_linear.weight"),
                       ("router.weight", "router.layer.weight")):
        name = name.replace(f"block_sparse_moe.{own}", f"block_sparse_moe.{there}")
    return name


def nemotron_h_gradients(model):
    for name, weight in model.named_parameters():
        name = name.replace("model.", "backbone.", 1) if name.startswith("model.") else name
        if not name.endswith((".experts.up_proj", ".experts.down_proj")):
            yield name, weight.grad
            continue
        stem, part = name.rsplit(".", 1)
        yield from ((f"{stem}.{expert}.{part}.weight", grad) for expert, grad in enumerate(weight.grad))


def nemotron_h_old(config):
    """As published files have it."""
    old = {key: value for key, value in config.items() if key not in ("dtype", "layers_block_type")}
    letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
    old["hybrid_override_pattern"] = "".join(letters[kind] for kind in config["layers_block_type"])
    return {**old, "num_hidden_layers": len(config["layers_block_type"]), "torch_dtype": config["dtype"],
            "norm_eps": config["layer_norm_epsilon"], "rope_theta": 10000, "partial_rotary_factor": 1.0,
            "time_step_rank": 256, "transformers_version": "4.55.4"}


def old_config(config, case):
    """As transformers 4 would have written it."""
    if config["model_type"] == "nemotron_h":
        return nemotron_h_old(config)
    if config["model_type"] == "mamba2":
        return {**{key: value for key, value in config.items() if key != "dtype"}, "intermediate_size": 48,
                "norm_before_gate": True, "rms_norm": True, "time_step_init_scheme": "random", "time_step_scale": 1.0,
                "torch_dtype": config["dtype"], "transformers_version": "4.44.0"}
    if config["model_type"] == "mamba":
        return {**{key: value for key, value in config.items() if key not in ("dtype", "use_associative_scan")},
                "d_inner": config["intermediate_size"], "d_model": 24, "fused_add_norm": True, "n_layer": 3,
                "pad_vocab_size_multiple": 8, "rms_norm": True, "ssm_cfg": {}, "torch_dtype": config["dtype"],
                "transformers_version": "4.39.0"}
    if config["model_type"] == "falcon_mamba":
        return {**{key: value for key, value in config.items() if key not in ("dtype", "use_associative_scan")},
                "torch_dtype": config["dtype"], "transformers_version": "4.44.0"}
    if config["model_type"] == "jamba":
        return {**{key: value for key, value in config.items() if key not in ("dtype", "use_associative_scan")},
                "calc_logits_for_entire_prompt": False, "mamba_inner_layernorms": True, "n_ctx": 512,
                "num_logits_to_keep": 1, "sliding_window": None, "torch_dtype": config["dtype"],
                "transformers_version": "4.40.0"}
    if case.name == "gpt_oss-plain":
        return None  # no rope_scaling there means YaRN
    if case.name == "apertus":
        return None  # no rope_scaling there means llama3
    if case.name == "ministral3-plain":
        return None  # how queries grow is said in rope_scaling, which is absent
    if config["model_type"] not in TWO_ROPES:
        old = transformers4(config, case)
        if "partial_rotary_factor" in config["rope_parameters"]:
            old["partial_rotary_factor"] = config["rope_parameters"]["partial_rotary_factor"]
            for key in ("partial_rotary_factor", "original_max_position_embeddings"):
                if old["rope_scaling"]:
                    del old["rope_scaling"][key]
        return old
    both = config["rope_parameters"]
    old = transformers4({**config, "rope_parameters": both["full_attention"]}, case)
    if old["rope_scaling"] and "type" in old["rope_scaling"]:  # transformers 5 passes that name over here
        old["rope_scaling"]["rope_type"] = old["rope_scaling"].pop("type")
    if config["model_type"] == "gemma3_text":
        old["rope_local_base_freq"] = both["sliding_attention"]["rope_theta"]
        old["sliding_window_pattern"] = old.pop("_sliding_window_pattern")
        return old
    return None  # has one base for both kinds of layers there


def make(case):
    folder = common.ROOT / "decoders" / case.name
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    config = json.loads((folder / "config.json").read_text())
    old = old_config(config, case)
    batch = batch_of(case)
    more = lambda model, output: {} if getattr(output, "aux_loss", None) is None else {"aux_loss": output.aux_loss}
    _, output = write_golden(folder, case.seed, batch, "golden_decoders.py", load, gradients=gradients, more=more)
    if old is None:
        return
    (folder / "config-transformers4.json").write_text(json.dumps(old, indent=2, sort_keys=True) + "\n")
    if not case.name.startswith(ROUTED):  # a loop over experts is asked for there
        check_old_config(folder, batch, output.logits)


if __name__ == "__main__":
    for number, one in enumerate(CASES):
        one.seed = 5000 + number
        make(one)
