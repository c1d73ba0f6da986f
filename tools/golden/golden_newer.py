#!/usr/bin/env python3
# Golden files of decoders that came after those of golden_decoders.py and golden_deepseek.py: golden_newer.py ->
# tests/golden/decoders/<name>/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, and golden.safetensors: a batch and what
# transformers computes from it, with gradients under the names that the weights have in the file. Seconds for all; the
# same bytes every time on the same versions. With names of cases, those alone.
import sys

import safetensors.torch
import torch
import transformers as hf

import golden_common as common
import golden_moe
from golden_cases import BASE, ROPE, Case
from golden_decoders import granite_name
from golden_deepseek import EXPERTS, LATENT
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

PLAIN = dict(rope_type="default", rope_theta=50.0)
NO_EPS = {key: value for key, value in BASE.items() if key != "rms_norm_eps"}
NO_INNER = {key: value for key, value in BASE.items() if key != "intermediate_size"}
GEMMA = {**BASE, "head_dim": 10, "pad_token_id": 3, "num_hidden_layers": 3, "sliding_window": 5,
         "query_pre_attn_scalar": 7}
SOLAR = {key: value for key, value in EXPERTS.items() if key != "first_k_dense_replace"}
EXAONE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=7, head_dim=10, bos_token_id=1,
              eos_token_id=2, pad_token_id=3)
HY = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=7, head_dim=10)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8, rope_theta=100.0, beta_fast=4.0,
            beta_slow=0.5, mscale=1.0, mscale_all_dim=0.5, llama_4_scaling_beta=0.7)
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
MELLUM = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=7, head_dim=10, sliding_window=5,
              num_hidden_layers=3)
LFM3 = {**NO_EPS, "num_hidden_layers": 3, "norm_eps": 1e-4, "head_dim": 10, "sliding_window": 5, "pad_token_id": 3,
        "bos_token_id": 1, "eos_token_id": 2}
OLMO = {**BASE, "num_hidden_layers": 3, "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"]}
NANO = {**BASE, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
COHERE = {**NO_EPS, "num_hidden_layers": 4, "head_dim": 10, "intermediate_size": 9, "sliding_window": 5,
          "num_experts": 5, "pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2}
GRANITE = {**BASE, "num_local_experts": 5, "intermediate_size": 9}
CASES = [
    Case("internlm3", hf.InternLM3Config, {**BASE, "head_dim": 10, "attention_bias": True, "mlp_bias": True,
                                           "pad_token_id": 3}, seed=5800),
    Case("iquestcoder", hf.IQuestCoderConfig, {**BASE, "head_dim": 10, "tie_word_embeddings": True}, seed=5801),
    Case("jais2", hf.Jais2Config, {**NO_EPS, "layer_norm_eps": 1e-4, "bos_token_id": 1, "eos_token_id": 2}, seed=5802),
    Case("jais2-plain", hf.Jais2Config, {**NO_EPS, "head_dim": 10, "attention_bias": False, "mlp_bias": False,
                                         "hidden_act": "gelu", "tie_word_embeddings": True, "bos_token_id": 1,
                                         "eos_token_id": 2}, seed=5803),
    Case("vaultgemma", hf.VaultGemmaConfig, {**GEMMA, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0},
         seed=5804),
    Case("vaultgemma-uncapped", hf.VaultGemmaConfig, {**GEMMA, "attn_logit_softcapping": None,
                                                      "final_logit_softcapping": None, "layer_types": TYPES,
                                                      "tie_word_embeddings": False}, seed=5805),
    # Groups, biases of queries, keys and values alone.
    Case("solar_open", hf.SolarOpenConfig, {**NO_INNER, **SOLAR, "n_group": 3, "topk_group": 2, "head_dim": 10,
                                            "attention_bias": True, "routed_scaling_factor": 1.7}, seed=5806),
    Case("solar_open-plain", hf.SolarOpenConfig, {**NO_INNER, **SOLAR, "head_dim": 6, "num_experts_per_tok": 3,
                                                  "norm_topk_prob": False, "n_shared_experts": 1,
                                                  "tie_word_embeddings": True, "pad_token_id": 3}, seed=5807),
    # The second layer of four has an MLP, the last one sees all and is not rotated.
    Case("exaone_moe", hf.ExaoneMoeConfig,
         {**BASE, **EXAONE, "num_hidden_layers": 4, "sliding_window": 5, "num_shared_experts": 2, "n_group": 3,
          "topk_group": 2, "num_experts_per_tok": 3, "mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]},
         seed=5808),
    Case("exaone_moe-full", hf.ExaoneMoeConfig,
         {**BASE, **EXAONE, "sliding_window": 5, "layer_types": ["full_attention"] * 2, "norm_topk_prob": False,
          "tie_word_embeddings": True}, seed=5809),
    Case("hy_v3", hf.HYV3Config, {**BASE, **HY, "num_hidden_layers": 3, "num_shared_experts": 2, "attention_bias": True,
                                  "mlp_bias": True, "num_experts_per_tok": 3, "rope_parameters": PLAIN}, seed=5810),
    Case("hy_v3-types", hf.HYV3Config, {**BASE, **HY, "mlp_layer_types": ["sparse", "dense"], "head_dim": 6,
                                        "tie_word_embeddings": True, "pad_token_id": 3, "eos_token_id": 2}, seed=5811),
    # Queries that grow twice within the batch; experts in one tensor.
    Case("mistral4", hf.Mistral4Config, {**LATENT, **EXPERTS, "q_lora_rank": 9, "n_group": 3, "topk_group": 2,
                                         "routed_scaling_factor": 1.7, "pad_token_id": 3, "rope_parameters": YARN},
         seed=5812),
    # Halves are rotated, and no query grows; all layers have experts, whose weights are as they come.
    Case("mistral4-halves", hf.Mistral4Config,
         {**LATENT, **SOLAR, "num_hidden_layers": 2, "q_lora_rank": None, "rope_interleave": False,
          "norm_topk_prob": False, "attention_bias": True, "tie_word_embeddings": True, "pad_token_id": 3,
          "rope_parameters": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=50.0,
                                  llama_4_scaling_beta=0.0)}, seed=5813),
    Case("mellum", hf.MellumConfig,
         {**BASE, **MELLUM, "layer_types": TYPES, "mlp_layer_types": ["sparse", "dense", "sparse"],
          "output_router_logits": True, "router_aux_loss_coef": 0.05, "attention_bias": True, "pad_token_id": 3,
          "num_experts_per_tok": 3, "rope_parameters": {
              "full_attention": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16,
                                     rope_theta=100.0), "sliding_attention": PLAIN}}, seed=5814),
    Case("mellum-plain", hf.MellumConfig, {**BASE, **MELLUM, "num_hidden_layers": 2, "norm_topk_prob": False,
                                           "tie_word_embeddings": True}, seed=5815),
    Case("lfm3", hf.Lfm3Config, {**LFM3, "layer_types": ["conv", "full_attention", "sliding_attention"],
                                 "conv_bias": True, "conv_L_cache": 4}, seed=5816),
    Case("lfm3-bare", hf.Lfm3Config, {**LFM3, "layer_types": ["sliding_attention", "conv", "sliding_attention"],
                                      "use_sandwich_norm": False, "use_attention_gate": False,
                                      "tie_word_embeddings": False, "rope_parameters": {
                                          "full_attention": PLAIN, "sliding_attention": PLAIN}}, seed=5817),
    Case("olmo_hybrid", hf.OlmoHybridConfig, {**OLMO, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                                              "linear_key_head_dim": 5, "attention_bias": True,
                                              "rope_parameters": dict(rope_type="default", rope_theta=None)},
         seed=5818),
    Case("olmo_hybrid-rope", hf.OlmoHybridConfig,
         {**OLMO, "linear_allow_neg_eigval": False, "linear_conv_kernel_dim": 3, "linear_key_head_dim": 6,
          "linear_value_head_dim": 7, "rope_parameters": PLAIN}, seed=5819),
    Case("nanochat", hf.NanoChatConfig, {**NANO, "final_logit_softcapping": 3.0}, seed=5820),
    Case("nanochat-uncapped", hf.NanoChatConfig, {**NANO, "final_logit_softcapping": None, "attention_bias": True,
                                                  "hidden_act": "gelu", "tie_word_embeddings": True,
                                                  "rope_parameters": PLAIN}, seed=5821),
    Case("cohere2_moe", hf.Cohere2MoeConfig,
         {**COHERE, "num_shared_experts": 2, "prefix_dense_intermediate_size": 20, "first_k_dense_replace": 1,
          "expert_selection_fn": "sigmoid", "num_experts_per_tok": 3, "logit_scale": 0.3, "attention_bias": True,
          "tie_word_embeddings": False}, seed=5822),
    Case("cohere2_moe-rms", hf.Cohere2MoeConfig,
         {**COHERE, "rms_norm_eps": 1e-4, "num_hidden_layers": 2, "sliding_window_pattern": 2, "logit_scale": 1.7,
          "shared_expert_combination_strategy": "sum", "num_shared_experts": 1}, seed=5823),
    Case("granitemoeshared", hf.GraniteMoeSharedConfig,
         {**GRANITE, "num_experts_per_tok": 3, "output_router_logits": True, "router_aux_loss_coef": 0.05,
          "attention_bias": True, "embedding_multiplier": 3.0, "attention_multiplier": 0.3,
          "residual_multiplier": 0.22, "logits_scaling": 1.7, "shared_intermediate_size": 20}, seed=5824),
    Case("granitemoeshared-none", hf.GraniteMoeSharedConfig,
         {**GRANITE, "num_experts_per_tok": 2, "tie_word_embeddings": True, "hidden_act": "gelu",
          "pad_token_id": 3}, seed=5825),
]


def is_norm(case):
    """Norms' weights are near 1, or near 0 where 1 is added to them."""
    return lambda name: name.endswith(("norm.weight", "norm_fn.weight")) and not case.name.startswith("vaultgemma")


def new_model(case):
    if not case.name.startswith("mistral4"):
        return causal_lm(case)
    return hf.Mistral4ForCausalLM(hf.Mistral4Config(**case.options, attn_implementation=common.ATTENTION))


def random_model(case):
    """Experts whose corrections are as large as their scores' differences."""
    model = new_model(case)
    scale = tied_scale(model) / (case.options["hidden_size"] ** 0.5 if case.name.startswith("vaultgemma") else 1)
    norm = is_norm(case)
    fill(model, case.seed, lambda name: "embed" in name and not norm(name), norm, scale)
    generator = torch.Generator().manual_seed(case.seed + 1)
    for name, buffer in sorted(model.named_buffers()):
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
    return model


def of_file(model, name, grad):
    """Names, and parts, of the file."""
    family = model.config.model_type
    if family == "hy_v3":
        for own, there in ((".mlp.gate.", ".mlp.router.gate."), (".shared_experts.", ".shared_mlp.")):
            name = name.replace(own, there)
    if family == "lfm3":
        name = name.replace(".self_attn.g_proj.", ".self_attn.gate_proj.")
    has_memory = family == "olmo_hybrid" and ".layers." in name and \
        model.config.layer_types[int(name.split(".")[2])] == "linear_attention"
    yield from of_memory(model.config, name, grad) if has_memory else [(name, grad)]


def of_memory(config, name, tensor):
    """As files of OLMo Hybrid have what belongs to a layer with a memory."""
    for own, there in ((".input_layernorm.", ".attention_layer_norm."),
                       (".post_attention_layernorm.", ".feedforward_layer_norm.")):
        name = name.replace(own, there)
    if ".conv1d." not in name:
        yield name, tensor
        return
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    for part, piece in zip("qkv", tensor.split([keys, keys, len(tensor) - 2 * keys])):
        yield name.replace(".conv1d.", f".{part}_conv1d."), piece


def rewrite_olmo_hybrid(folder, model):
    """As published: transformers 5.24 cuts the joined convolution into thirds, whatever its parts' sizes are, and has
    names of layers with memories for all."""
    tensors = {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        tensors |= {own: piece.contiguous() for own, piece in of_file(model, name, weight)}
    safetensors.torch.save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})


def gradients(model):
    if model.config.model_type == "granitemoeshared":
        yield from ((granite_name(name), weight.grad) for name, weight in model.named_parameters())
        return
    stacked = model.config.model_type == "mistral4"
    named = ((name, weight.grad) for name, weight in model.named_parameters()) if stacked else \
        golden_moe.gradients(model)
    for name, grad in named:
        if grad is not None:  # a correction may be a parameter there, though it is never trained
            yield from of_file(model, name, grad)


def load(folder):
    config = hf.AutoConfig.from_pretrained(folder)
    if config.model_type == "mistral4":  # is the texts' half of another class in transformers' list
        return hf.Mistral4ForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=common.ATTENTION,
                                                      experts_implementation="eager")
    routed = any(hasattr(config, key) for key in ("num_experts", "n_routed_experts", "num_local_experts"))
    return golden_moe.load(folder) if routed else common.load_model(folder)


def make(case):
    folder = common.ROOT / "decoders" / case.name
    model = random_model(case)
    save_anew(folder, model)
    if model.config.model_type == "olmo_hybrid":
        rewrite_olmo_hybrid(folder, model)
    (folder / "model.safetensors").chmod(0o644)
    more = lambda model, output: {} if getattr(output, "aux_loss", None) is None else {"aux_loss": output.aux_loss}
    write_golden(folder, case.seed, batch_of(case), "golden_newer.py", load, gradients=gradients, more=more)


if __name__ == "__main__":
    for one in CASES:
        if not sys.argv[1:] or one.name in sys.argv[1:]:
            make(one)
