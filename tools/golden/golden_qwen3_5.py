#!/usr/bin/env python3
# Golden files of Qwen3-Next, of Qwen3.5's text models and of Qwen2-MoE, whose experts they have: golden_qwen3_5.py
# -> tests/golden/decoders/qwen*/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, and golden.safetensors: a batch and what
# transformers computes from it, by its own code and not by the packages fla and causal-conv1d, with gradients under the
# names that the weights have in the file. Seconds for all; the same bytes every time on the same versions.
import torch
import transformers as hf

import golden_common as common
import golden_moe
from golden_cases import BASE, Case
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

MEMORIES = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=5)
TEXT = {**BASE, "head_dim": 16, "num_hidden_layers": 4, **MEMORIES}
EXPERTS = dict(num_experts=5, num_experts_per_tok=3, moe_intermediate_size=7, shared_expert_intermediate_size=9,
               output_router_logits=True, router_aux_loss_coef=0.05)
TWO = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}
# Seeds for which transformers' own fp32 gives every gradient within 5e-6 of fp64's.
CASES = [
    # Longer than a chunk, and no multiple of one; three layers with memories and one with attention.
    Case("qwen3_5", hf.Qwen3_5TextConfig, TEXT, length=100, seed=5350),
    # Another order of layers, a short convolution, as many heads of keys as of values, biases, a tied head.
    Case("qwen3_5-tied", hf.Qwen3_5TextConfig,
         {**TEXT, "num_hidden_layers": 3, "layer_types": ["full_attention", "linear_attention", "linear_attention"],
          "linear_num_key_heads": 4, "linear_conv_kernel_dim": 3, "attention_bias": True, "tie_word_embeddings": True,
          "pad_token_id": 3, "rope_parameters": {
              "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5, "mrope_interleaved": True,
              "mrope_section": [2, 1, 1]}}, length=40, seed=5231),
    Case("qwen3_5-moe", hf.Qwen3_5MoeTextConfig,
         {**{key: value for key, value in TEXT.items() if key != "intermediate_size"}, **EXPERTS, **TWO}, length=40,
         seed=5252),
    # The first layer has an MLP; weights of a token's experts as they come.
    Case("qwen3_next", hf.Qwen3NextConfig,
         {**TEXT, **EXPERTS, **TWO, "mlp_only_layers": [0], "norm_topk_prob": False}, length=40, seed=5303),
    Case("qwen3_next-all", hf.Qwen3NextConfig, {**TEXT, **EXPERTS, **TWO, "output_router_logits": False}, length=40,
         seed=5254),
    Case("qwen2-moe", hf.Qwen2MoeConfig, {**BASE, **EXPERTS}, seed=5215),
    Case("qwen2-moe-step", hf.Qwen2MoeConfig,
         {**BASE, **EXPERTS, "decoder_sparse_step": 2, "qkv_bias": False, "norm_topk_prob": True,
          "tie_word_embeddings": True}, seed=5216),
]


def make_keys_like_queries(name, weight, config):
    """Keys are much like queries: a norm stands behind what is read, and near 0 that has no digits in fp32."""
    heads, size = config.linear_num_key_heads, config.linear_key_head_dim
    if name.endswith("in_proj_qkv.weight"):
        queries, keys = weight[: heads * size], weight[heads * size : 2 * heads * size]
    elif name.endswith("in_proj_qkvz.weight"):
        queries, keys = weight.view(heads, -1, weight.size(-1))[:, : 2 * size].chunk(2, 1)
    else:
        return
    keys.copy_(queries + 0.3 * keys)


def give_memories(model, config, scale):
    """Memories that forget little and much, steps that differ from token to token, and tokens that have something in
    common."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            make_keys_like_queries(name, weight, config)
            if name.endswith("embed_tokens.weight"):
                weight.add_(scale)
            if name.endswith(".A_log"):
                weight.copy_(torch.linspace(-4, 0, weight.numel()))
            if name.endswith("conv1d.weight"):
                weight[..., -1] += 1.0
            if name.endswith(("in_proj_b.weight", "in_proj_a.weight", "in_proj_ba.weight")):
                weight.mul_(2.0)
    return model


def random_model(case):
    model = causal_lm(case)
    has_memories = hasattr(model.config, "linear_num_key_heads")
    is_norm = lambda name: "linear_attn.norm" in name or (not has_memories and name.endswith("norm.weight"))
    fill(model, case.seed, lambda name: "embed" in name, is_norm, tied_scale(model))
    return give_memories(model, model.config, tied_scale(model)) if has_memories else model


def make(case):
    folder = common.ROOT / "decoders" / case.name
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    routed = hasattr(case.config(), "num_experts")
    load = golden_moe.load if routed else common.load_model
    options = {"use_cache": False}
    more = lambda model, output: {} if getattr(output, "aux_loss", None) is None else {"aux_loss": output.aux_loss}
    write_golden(folder, case.seed, batch_of(case), "golden_qwen3_5.py", load, options, golden_moe.gradients, more)


if __name__ == "__main__":
    for case in CASES:
        make(case)
