#!/usr/bin/env python3
# Golden files of DeepSeek-V2 and -V3 and of those whose routers are like theirs: golden_deepseek.py ->
# tests/golden/decoders/{deepseek*,glm4_moe*,dots1*,ernie4_5_moe*,minimax_m2*,hunyuan_moe*}/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, and golden.safetensors: a batch and what
# transformers computes from it, with gradients under the names that the weights have in the file. Seconds for all; the
# same bytes every time on the same versions.
import torch
import transformers as hf

import golden_common as common
import golden_decoders
import golden_moe
from golden_cases import BASE, Case
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=100.0, mscale=0.7,
            mscale_all_dim=1.3)
LATENT = {**BASE, "num_key_value_heads": BASE["num_attention_heads"], "num_hidden_layers": 3, "kv_lora_rank": 10,
          "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 7}
EXPERTS = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=7, n_shared_experts=2,
               first_k_dense_replace=1)
ERNIE = dict(moe_num_experts=6, moe_intermediate_size=7, pad_token_id=3)
MINIMAX = dict(num_local_experts=6, intermediate_size=9, head_dim=12, bos_token_id=1, eos_token_id=2)
HUNYUAN = dict(num_experts=5, intermediate_size=9, head_dim=10, pad_token_id=3)
CASES = [
    # Groups of experts, the first layer without any; biases, queries of full rank.
    Case("deepseek_v2", hf.DeepseekV2Config,
         {**LATENT, **EXPERTS, "q_lora_rank": None, "topk_method": "group_limited_greedy", "n_group": 3,
          "topk_group": 2, "attention_bias": True, "routed_scaling_factor": 1.7}, seed=5700),
    # Values larger than queries and keys; longer texts than at first.
    Case("deepseek_v2-yarn", hf.DeepseekV2Config,
         {**LATENT, **EXPERTS, "q_lora_rank": 9, "v_head_dim": 13, "n_shared_experts": 1, "first_k_dense_replace": 0,
          "tie_word_embeddings": True, "rope_parameters": YARN, "eos_token_id": [1, 2]}, seed=5701),
    Case("deepseek_v3", hf.DeepseekV3Config,
         {**LATENT, **EXPERTS, "q_lora_rank": 9, "n_group": 3, "topk_group": 2, "rope_parameters": YARN,
          "n_routed_experts": 9, "num_experts_per_tok": 3, "pad_token_id": 3}, seed=5702),
    # Halves are rotated; weights of a token's experts as they come; all layers have experts.
    Case("deepseek_v3-halves", hf.DeepseekV3Config,
         {**LATENT, **EXPERTS, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "rope_interleave": False,
          "norm_topk_prob": False, "attention_bias": True, "first_k_dense_replace": 0, "tie_word_embeddings": True},
         seed=5703),
    # Norms of queries and keys, half of each head rotated.
    Case("glm4_moe", hf.Glm4MoeConfig,
         {**BASE, **EXPERTS, "num_hidden_layers": 3, "head_dim": 12, "use_qk_norm": True, "attention_bias": True,
          "num_experts_per_tok": 3, "routed_scaling_factor": 1.5, "pad_token_id": 3, "eos_token_id": [2, 5]},
         seed=5704),
    Case("glm4_moe-plain", hf.Glm4MoeConfig,
         {**BASE, **EXPERTS, "first_k_dense_replace": 2, "num_hidden_layers": 3, "head_dim": 12, "n_group": 2,
          "topk_group": 1, "norm_topk_prob": False, "tie_word_embeddings": True,
          "rope_parameters": dict(rope_type="default", rope_theta=50.0, partial_rotary_factor=1.0)}, seed=5705),
    Case("glm4_moe_lite", hf.Glm4MoeLiteConfig,
         {**LATENT, **{key: value for key, value in EXPERTS.items() if key != "first_k_dense_replace"},
          "q_lora_rank": 9, "mlp_layer_types": ["sparse", "dense", "sparse"]}, seed=5706),
    # Groups, biases of all projections; the last of three layers slides, and has experts as the one before.
    Case("dots1", hf.Dots1Config,
         {**BASE, **EXPERTS, "num_hidden_layers": 3, "n_group": 3, "topk_group": 2, "attention_bias": True,
          "norm_topk_prob": True, "routed_scaling_factor": 1.7, "sliding_window": 5, "max_window_layers": 2,
          "pad_token_id": 3, "eos_token_id": 2}, seed=5707),
    Case("dots1-plain", hf.Dots1Config,
         {**BASE, **EXPERTS, "num_experts_per_tok": 3, "n_shared_experts": 1, "first_k_dense_replace": 0,
          "sliding_window": None, "tie_word_embeddings": True}, seed=5708),
    # Biases of all that is not an expert; the balancing loss, by what softmax alone would choose; one layer of two has
    # experts, and not the first ones.
    Case("ernie4_5_moe", hf.Ernie4_5_MoeConfig,
         {**BASE, **ERNIE, "num_hidden_layers": 5, "moe_k": 3, "use_bias": True, "moe_num_shared_experts": 2,
          "moe_layer_interval": 2, "moe_layer_start_index": 2, "output_router_logits": True,
          "router_aux_loss_coef": 0.05, "tie_word_embeddings": False}, seed=5709),
    # Weights that sum to less than 1; no shared experts.
    Case("ernie4_5_moe-plain", hf.Ernie4_5_MoeConfig,
         {**BASE, **ERNIE, "moe_k": 2, "moe_num_shared_experts": 0, "moe_layer_start_index": 0,
          "moe_layer_end_index": 0, "moe_norm_min": 0.5}, seed=5710),
    Case("minimax_m2", hf.MiniMaxM2Config,
         {**BASE, **MINIMAX, "num_experts_per_tok": 3, "output_router_logits": True, "router_aux_loss_coef": 0.05,
          "rope_parameters": dict(rope_type="default", rope_theta=50.0, partial_rotary_factor=0.5)}, seed=5711),
    Case("minimax_m2-tied", hf.MiniMaxM2Config,
         {**BASE, **MINIMAX, "num_experts_per_tok": 2, "tie_word_embeddings": True,
          "rope_parameters": dict(rope_type="default", rope_theta=50.0)}, seed=5712),
    # A base that is stretched, and layers with more or fewer experts of a token; neither.
    Case("hunyuan_moe", hf.HunYuanMoEV1Config,
         {**BASE, **HUNYUAN, "moe_topk": [2, 3], "attention_bias": True, "rope_parameters": dict(
             rope_type="dynamic", alpha=50.0, factor=1.0, mscale=1.0, mscale_all_dim=1.0, beta_fast=32, beta_slow=1)},
         seed=5713),
    Case("hunyuan_moe-plain", hf.HunYuanMoEV1Config,
         {**BASE, **HUNYUAN, "moe_topk": 2, "head_dim": 6, "tie_word_embeddings": True, "eod_token_id": 7},
         seed=5714),
]


def random_model(case):
    """Experts whose corrections are as large as their scores' differences."""
    model = causal_lm(case)
    fill(model, case.seed, lambda name: "embed" in name, lambda name: name.endswith("norm.weight"), tied_scale(model))
    generator = torch.Generator().manual_seed(case.seed + 1)
    for name, buffer in sorted(model.named_buffers()):
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
    return model


def gradients(model):
    if model.config.model_type == "minimax_m2":
        return golden_decoders.gradients(model)
    # A correction may be a parameter there, though it is never trained.
    return ((name, grad) for name, grad in golden_moe.gradients(model) if grad is not None)


def make(case):
    folder = common.ROOT / "decoders" / case.name
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    more = lambda model, output: {} if getattr(output, "aux_loss", None) is None else {"aux_loss": output.aux_loss}
    write_golden(folder, case.seed, batch_of(case), "golden_deepseek.py", golden_moe.load, gradients=gradients,
                 more=more)


if __name__ == "__main__":
    for one in CASES:
        make(one)
