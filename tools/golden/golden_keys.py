#!/usr/bin/env python3
# Which keys of config.json exist, their defaults, and whether each changes the result: golden_keys.py
# -> tests/golden/models/KEYS.md. The effect is measured: a tiny model is built with and without the changed key.
import json
import zlib

import torch
import transformers as hf

import golden_common as common

LAYERS = ["sliding_attention", "full_attention"]
BODY = dict(
    vocab_size=32,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=4,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
)
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # within the small vocabulary
TWO = {kind: {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0} for kind in LAYERS}
BODIES = {
    "qwen3_moe": {**BODY, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
    "mixtral": {**BODY, "num_local_experts": 4, "num_experts_per_tok": 2},
    "phi3": {**BODY, **IDS},
    "smollm3": {**BODY, **IDS},
    "gpt2": dict(vocab_size=32, n_embd=16, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=1),
}
CLASSES = [hf.LlamaConfig, hf.MistralConfig, hf.Qwen2Config, hf.Qwen3Config, hf.Qwen3MoeConfig, hf.GPT2Config,
           hf.GemmaConfig, hf.Gemma2Config, hf.Gemma3TextConfig, hf.Phi3Config, hf.MixtralConfig, hf.SmolLM3Config,
           hf.GraniteConfig, hf.Olmo2Config, hf.Olmo3Config]
# key -> another value than BODY's or the default
CHANGED = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 4,
    "head_dim": 6,
    "hidden_act": "gelu",
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-2,
    "initializer_range": 0.5,
    "use_cache": False,
    "pretraining_tp": 2,
    "tie_word_embeddings": True,
    "attention_bias": True,
    "mlp_bias": True,
    "attention_dropout": 0.5,
    "pad_token_id": 3,
    "bos_token_id": 5,
    "eos_token_id": [5, 6],
    "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
    "sliding_window": 4,
    "use_sliding_window": True,
    "max_window_layers": 0,
    "layer_types": LAYERS,
    "dtype": "float64",
    "output_hidden_states": True,
    "return_dict": False,
    "chunk_size_feed_forward": 2,
    "is_encoder_decoder": True,
    "id2label": {"0": "a"},
    "label2id": {"a": 0},
    "problem_type": "regression",
    "transformers_version": "4.0.0",
    "architectures": ["Other"],
    "decoder_sparse_step": 2,
    "moe_intermediate_size": 12,
    "num_experts_per_tok": 3,
    "num_local_experts": 6,
    "norm_topk_prob": True,
    "output_router_logits": True,
    "router_aux_loss_coef": 0.5,
    "mlp_only_layers": [0],
    "n_positions": 128,
    "n_embd": 24,
    "n_layer": 1,
    "n_head": 2,
    "n_inner": 24,
    "activation_function": "relu",
    "resid_pdrop": 0.5,
    "embd_pdrop": 0.5,
    "attn_pdrop": 0.5,
    "layer_norm_epsilon": 1e-2,
    "summary_type": "mean",
    "summary_use_proj": False,
    "summary_activation": "tanh",
    "summary_proj_to_labels": False,
    "summary_first_dropout": 0.5,
    "scale_attn_weights": False,
    "scale_attn_by_inverse_layer_idx": True,
    "reorder_and_upcast_attn": True,
    "add_cross_attention": True,
    "hidden_activation": "gelu",
    "query_pre_attn_scalar": 2,
    "attn_logit_softcapping": 1.0,
    "final_logit_softcapping": 1.0,
    "use_bidirectional_attention": True,
    "original_max_position_embeddings": 8,
    "router_jitter_noise": 0.5,
    "no_rope_layers": [0, 1],
    "no_rope_layer_interval": 1,
    "embedding_multiplier": 2.0,
    "residual_multiplier": 2.0,
    "attention_multiplier": 2.0,
    "logits_scaling": 2.0,
}
OTHER = {  # keys that no class declares, but that files carry
    "rope_theta": 100.0,
    "rope_scaling": {"type": "linear", "factor": 2.0},
    "partial_rotary_factor": 0.5,
    "original_max_position_embeddings": 32,
    "torch_dtype": "float64",
    "is_causal": False,
    "output_attentions": True,
    "per_layer_config": {"1": {"intermediate_size": 12}},
    "sliding_window": 4,
    "layer_types": LAYERS,
    "use_sliding_window": True,
    "max_window_layers": 0,
    "attention_bias": True,
    "mlp_bias": True,
    "head_dim": 6,
    "pretraining_tp": 2,
    "is_decoder": True,
    "add_cross_attention": True,
    "tie_encoder_decoder": True,
    "pruned_heads": {"0": [1]},
    "final_logit_softcapping": 1.0,
    "attn_logit_softcapping": 1.0,
    "logit_scale": 2.0,
    "embedding_multiplier": 2.0,
    "residual_multiplier": 2.0,
    "attention_multiplier": 2.0,
    "query_pre_attn_scalar": 2.0,
    "use_qk_norm": True,
    "qk_layernorm": True,
    "clip_qkv": 0.1,
    "use_mrope": True,
    "num_labels": 3,
    "temperature": 0.5,
    "max_length": 7,
    "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "num_experts": 6,
    "n_ctx": 32,
    "attention_dropout": 0.5,
    "_name_or_path": "x",
    "auto_map": {},
}
ROPE = {  # keys inside rope_parameters, and the type in which they act
    "rope_type / type": "all",
    "rope_theta": "all",
    "partial_rotary_factor": "proportional (others: see below)",
    "factor": "linear, dynamic, llama3, yarn, longrope, proportional",
    "original_max_position_embeddings": "llama3, yarn, longrope",
    "low_freq_factor, high_freq_factor": "llama3",
    "attention_factor": "yarn, longrope",
    "beta_fast, beta_slow": "yarn",
    "mscale, mscale_all_dim": "yarn",
    "truncate": "yarn",
    "short_factor, long_factor": "longrope",
}


def run(config_class, options):
    """Logits and the gradients of a model whose weights depend only on their names and shapes."""
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(config_class(**options), attn_implementation="eager").eval()
    if model.dtype != torch.float32:
        return None
    with torch.no_grad():
        for name, weight in model.named_parameters():
            generator = torch.Generator().manual_seed(zlib.crc32(f"{name}{tuple(weight.shape)}".encode()))
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3 + (1 if "norm" in name else 0))
    ids = torch.arange(24).reshape(1, 24) * 7 % 29 + 3
    output = model(input_ids=ids, labels=ids)
    loss, logits = (output.loss, output.logits) if hasattr(output, "loss") else (output[0], output[1])
    loss.backward()
    return logits.detach(), {name: weight.grad for name, weight in model.named_parameters()}


def effect(config_class, key, value):
    base = dict(BODIES.get(config_class.model_type, BODY))
    if key == "num_local_experts" and "num_experts" in base:
        base["num_local_experts"] = base.pop("num_experts")
    if key == "router_aux_loss_coef":
        base["output_router_logits"] = True
    if key == "tie_word_embeddings":
        value = not config_class().tie_word_embeddings
    if (
        key in ("max_window_layers", "layer_types", "sliding_window")
        and "use_sliding_window" in config_class().to_dict()
    ):
        base |= {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}
    if key == "rope_parameters" and config_class.model_type in ("gemma3_text", "olmo3"):
        value = TWO
    if key == "use_sliding_window":
        base |= {"sliding_window": 4, "max_window_layers": 1}
    try:
        before = run(config_class, base)
        after = run(config_class, base | {key: value})
    except Exception as problem:
        return f"error: {type(problem).__name__}"
    if after is None:
        return "dtype of the loaded weights"
    if set(before[1]) != set(after[1]) or any(before[1][n].shape != after[1][n].shape for n in before[1]):
        return "**changes the set or shapes of the weights**"
    if not torch.equal(before[0], after[0]):
        return "**changes the result**"
    if any(not torch.equal(before[1][name], after[1][name]) for name in before[1]):
        return "**changes the gradient only**"
    return "ignored"


def table(config_class):
    defaults = config_class().to_dict()
    model_type = defaults.pop("model_type")
    lines = [
        f"\n## {model_type}\n",
        "| key | default in transformers | effect of another value (measured) |",
        "|---|---|---|",
    ]
    for key in sorted(defaults):
        value = "by max_window_layers" if key == "layer_types" else defaults[key]
        if key in CHANGED:
            lines.append(f"| `{key}` | `{json.dumps(value)}` | {effect(config_class, key, CHANGED[key])} |")
        elif key in OTHER:
            lines.append(f"| `{key}` | `{json.dumps(value)}` | {effect(config_class, key, OTHER[key])} |")
        elif not key.startswith("_"):
            raise SystemExit(f"{model_type}: {key}: no changed value in golden_keys.py")
    lines += ["\nNot declared, but seen in files:\n", "| key | effect (measured) |", "|---|---|"]
    lines += [f"| `{key}` | {effect(config_class, key, OTHER[key])} |" for key in sorted(OTHER) if key not in defaults]
    return lines


HEAD = """# Keys of config.json: {types}

Made by tools/golden/golden_keys.py with transformers {version}; do not edit. "error" means that transformers fails when the
model is built or run. "ignored" is what transformers does; a program that knows better may refuse such a key.

## Inside rope_parameters (transformers 5) or rope_scaling (4)

| key | acts in rope type |
|---|---|
{rope}

- `partial_rotary_factor` below 1: rope type default ignores it; linear, dynamic, llama3, yarn and longrope fail.
- `rope_scaling`, when not empty, wins over `rope_parameters`. `rope_theta`: inside, then top level, then 10000.
- A top-level `original_max_position_embeddings` wins over the one inside (llama3, yarn, longrope); if there is
  neither, it is `max_position_embeddings`.
- `max_position_embeddings` acts in dynamic, in yarn when factor is null, in longrope when factor is absent.
- qwen2, qwen3: `sliding_window` acts only with `use_sliding_window`; `max_window_layers` only without `layer_types`;
  a sliding layer without a window fails. mistral: the window holds in every layer, `layer_types` is ignored;
  but transformers takes a folder that has it for ministral, where it counts.
- `num_key_value_heads` absent: llama num_attention_heads, mistral 8, qwen2 and qwen3 32; null: num_attention_heads,
  mistral fails.
- `head_dim` absent: hidden_size / num_attention_heads, qwen3 128 whatever the sizes are; null: the quotient, qwen3
  fails.
- `attention_dropout`, and gpt2's `resid_pdrop`, `embd_pdrop`, `attn_pdrop`, act in training mode only (the table is measured
  in evaluation mode).
- qwen3_moe: `router_aux_loss_coef` acts only with `output_router_logits`, which puts the balancing loss into the loss: on
  the gradient, not on the logits. `num_local_experts` and `num_experts` are one key.
- Parameters of generation (temperature, max_length, ...) in config.json are dropped.
"""


def main():
    rope = "\n".join(f"| `{key}` | {types} |" for key, types in ROPE.items())
    lines = [HEAD.format(version=hf.__version__, rope=rope, types=", ".join(one.model_type for one in CLASSES))]
    for config_class in CLASSES:
        lines += table(config_class)
    (common.ROOT / "models" / "KEYS.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
