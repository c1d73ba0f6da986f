# The tiny models of tools/golden/golden.py: one line per golden folder, its configuration class and what is special about
# it.
from dataclasses import dataclass, field

import transformers as hf

# Small bodies. BASE has every size different from every other; ROPE has wide heads, so that there are 8 frequencies.
BASE = dict(
    vocab_size=64,
    hidden_size=24,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
    rms_norm_eps=1e-5,
)
ROPE = dict(
    vocab_size=32,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=16,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
)
SHORT = [1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.8, 2.0]
LONG = [1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0]


@dataclass
class Case:
    name: str
    config: type
    options: dict
    length: int = 24  # T of the batch
    v4: dict = field(default_factory=dict)  # what a transformers 4 config.json would say differently
    max_shard_size: str = ""
    seed: int = 0


def rope(name, length=24, body=None, **parameters):
    return Case(name, hf.LlamaConfig, {**ROPE, **(body or {}), "rope_parameters": parameters}, length)


def cases():
    llama, mistral, qwen2, qwen3 = hf.LlamaConfig, hf.MistralConfig, hf.Qwen2Config, hf.Qwen3Config
    window = dict(use_sliding_window=True, sliding_window=5)
    all_cases = [
        Case("llama", llama, {**BASE, "vocab_size": 80, "bos_token_id": 1, "eos_token_id": 2}),
        Case("llama-tied", llama, {**BASE, "tie_word_embeddings": True}),
        Case("llama-bias", llama, {**BASE, "attention_bias": True, "mlp_bias": True}),
        Case("llama-head-dim", llama, {**BASE, "head_dim": 10}),
        Case("llama-one-kv-head", llama, {**BASE, "num_key_value_heads": 1}),
        Case("llama-no-gqa", llama, {**ROPE, "num_key_value_heads": 2}),
        Case("llama-gelu", llama, {**ROPE, "hidden_act": "gelu"}),
        Case("llama-gelu-tanh", llama, {**ROPE, "hidden_act": "gelu_pytorch_tanh"}),
        Case("llama-relu", llama, {**ROPE, "hidden_act": "relu"}),
        # pad_token_id: the look-up gives that row no gradient, though the id is a real token here; a tied head does.
        Case("llama-pad-token", llama, {**ROPE, "pad_token_id": 3}),
        Case("llama-tied-pad-token", llama, {**ROPE, "pad_token_id": 3, "tie_word_embeddings": True}),
        Case("llama-sharded", llama, BASE, max_shard_size="12KB"),
        rope("rope-theta", rope_type="default", rope_theta=500.0),
        rope("rope-linear", rope_type="linear", factor=4.0, rope_theta=10000.0),
        rope(
            "rope-dynamic-short",
            16,
            {"max_position_embeddings": 16},
            rope_type="dynamic",
            factor=2.0,
            rope_theta=10000.0,
        ),
        rope(
            "rope-dynamic-long",
            24,
            {"max_position_embeddings": 16},
            rope_type="dynamic",
            factor=2.0,
            rope_theta=10000.0,
        ),
        rope(
            "rope-llama3",
            rope_type="llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=32,
            rope_theta=100.0,
        ),
        rope(
            "rope-llama3-short",
            12,
            rope_type="llama3",
            factor=32.0,
            low_freq_factor=1.5,
            high_freq_factor=6.0,
            original_max_position_embeddings=48,
            rope_theta=200.0,
        ),
        rope("rope-yarn", rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=100.0),
        rope(
            "rope-yarn-attention-factor",
            rope_type="yarn",
            factor=4.0,
            original_max_position_embeddings=64,
            rope_theta=100.0,
            attention_factor=0.8,
        ),
        rope(
            "rope-yarn-mscale",
            rope_type="yarn",
            factor=8.0,
            original_max_position_embeddings=64,
            rope_theta=100.0,
            mscale=1.4,
            mscale_all_dim=0.6,
        ),
        rope(
            "rope-yarn-betas",
            rope_type="yarn",
            factor=4.0,
            original_max_position_embeddings=64,
            rope_theta=100.0,
            beta_fast=4,
            beta_slow=0.5,
        ),
        rope(
            "rope-yarn-no-truncate",
            rope_type="yarn",
            factor=4.0,
            original_max_position_embeddings=64,
            rope_theta=100.0,
            beta_fast=4,
            beta_slow=0.5,
            truncate=False,
        ),
        rope(
            "rope-longrope-short",
            16,
            rope_type="longrope",
            short_factor=SHORT,
            long_factor=LONG,
            original_max_position_embeddings=16,
            rope_theta=10000.0,
        ),
        rope(
            "rope-longrope-long",
            17,
            rope_type="longrope",
            short_factor=SHORT,
            long_factor=LONG,
            original_max_position_embeddings=16,
            rope_theta=10000.0,
        ),
        rope(
            "rope-longrope-factor",
            24,
            rope_type="longrope",
            short_factor=SHORT,
            long_factor=LONG,
            factor=3.0,
            original_max_position_embeddings=16,
            rope_theta=10000.0,
        ),
        rope(
            "rope-longrope-attention-factor",
            24,
            rope_type="longrope",
            short_factor=SHORT,
            long_factor=LONG,
            attention_factor=1.3,
            original_max_position_embeddings=16,
            rope_theta=10000.0,
        ),
        Case("mistral-sliding", mistral, {**BASE, "sliding_window": 5}),
        Case("mistral-full", mistral, {**ROPE, "sliding_window": None}),
        # transformers 4 wrote the window of a Qwen2 that does not use it; it must be ignored.
        Case("qwen2", qwen2, {**BASE, "use_sliding_window": False}, v4={"sliding_window": 5}),
        Case("qwen2-tied-head-dim", qwen2, {**ROPE, "head_dim": 12, "tie_word_embeddings": True}),
        Case("qwen2-sliding", qwen2, {**BASE, **window, "max_window_layers": 1}),
        Case(
            "qwen2-layer-types",
            qwen2,
            {**ROPE, **window, "max_window_layers": 2, "layer_types": ["sliding_attention", "full_attention"]},
        ),
        Case("qwen3", qwen3, {**BASE, "head_dim": 8}),
        Case("qwen3-bias", qwen3, {**ROPE, "attention_bias": True, "tie_word_embeddings": True}),
        Case(
            "qwen3-sliding",
            qwen3,
            {**ROPE, **window, "max_window_layers": 2, "layer_types": ["full_attention", "sliding_attention"]},
        ),
        Case(
            "qwen3-yarn",
            qwen3,
            {
                **ROPE,
                "rope_parameters": dict(
                    rope_type="yarn", factor=2.0, rope_theta=100.0, original_max_position_embeddings=32
                ),
            },
        ),
    ]
    for number, case in enumerate(all_cases):
        case.seed = 1000 + number
    return {case.name: case for case in all_cases}
