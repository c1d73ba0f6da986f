#!/usr/bin/env python3
# Golden files of Gemma 4's text models: golden_gemma4.py -> tests/golden/decoders/gemma4*/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, and golden.safetensors: a batch and what
# transformers computes from it, with gradients under the names that the weights have in the file. Seconds for all; the
# same bytes every time on the same versions.
import torch
import transformers as hf

import golden_common as common
from golden_cases import BASE, Case
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

TEXT = {**BASE, "head_dim": 10, "global_head_dim": 12, "sliding_window": 5, "pad_token_id": 3}
NOTHING = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 64}
TURNS = ["sliding_attention", "full_attention"]
ROPES = {
    "full_attention": dict(rope_type="proportional", rope_theta=100.0, partial_rotary_factor=0.5, factor=2.0),
    "sliding_attention": dict(rope_type="default", rope_theta=50.0),
}
# Seeds for which transformers' own fp32 gives every gradient within 6e-6 of fp64's.
CASES = [
    # Three layers with keys and values, three of both kinds that use them, twice as wide; what tokens bring to each.
    Case("gemma4", hf.Gemma4TextConfig,
         {**TEXT, "num_hidden_layers": 6, "layer_types": 3 * TURNS, "num_kv_shared_layers": 3,
          "use_double_wide_mlp": True, "intermediate_size": 28, "hidden_size_per_layer_input": 6,
          "vocab_size_per_layer_input": 66, "final_logit_softcapping": 4.0, "rope_parameters": ROPES}, seed=5860),
    # Values of keys, fewer heads of them where all is seen; the default pattern, whose last layer is another; no cap.
    Case("gemma4-global", hf.Gemma4TextConfig,
         {**TEXT, **NOTHING, "num_hidden_layers": 7, "intermediate_size": 28, "attention_k_eq_v": True,
          "num_global_key_value_heads": 1, "attention_bias": True, "tie_word_embeddings": False,
          "use_bidirectional_attention": "vision"}, seed=5751),
    # Experts beside MLPs, with a layer that uses the keys and values of the one before the last.
    Case("gemma4-moe", hf.Gemma4TextConfig,
         {**TEXT, "num_hidden_layers": 3, "layer_types": [TURNS[1], *TURNS], "num_kv_shared_layers": 1,
          "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": 64, "enable_moe_block": True,
          "num_experts": 5, "top_k_experts": 3, "moe_intermediate_size": 9}, seed=5542),
    Case("gemma4-unified", hf.Gemma4UnifiedTextConfig,
         {**TEXT, "num_hidden_layers": 4, "layer_types": 2 * TURNS, "num_kv_shared_layers": 2,
          "attention_k_eq_v": True, "final_logit_softcapping": 30.0}, seed=5833),
]


def random_model(case):
    """Norms' weights and all factors are near 1; what is normed behind products of products is not near 0, and no
    token is all that another one sees."""
    model = causal_lm(case)
    is_norm = lambda name: name.endswith(("norm.weight", "norm_1.weight", "norm_2.weight", "scale"))
    is_table = lambda name: name.endswith("embed_tokens.weight")
    fill(model, case.seed, is_table, is_norm, tied_scale(model) / case.options["hidden_size"] ** 0.5)
    generator = torch.Generator().manual_seed(case.seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "per_layer" in name and "norm" not in name:
                weight.mul_(0.5 if "gate" in name else 4.0)
            if name.endswith(("q_norm.weight", "per_layer_input_norm.weight")):  # scores are not divided by anything
                weight.mul_(0.3)
    for layer in model.model.layers:
        layer.layer_scalar.copy_(1 + 0.2 * torch.randn(1, generator=generator))
    return model


def load(folder):
    routed = {"experts_implementation": "eager"} if folder.name == "gemma4-moe" else {}
    return common.load_model(folder, **routed)


def make(case):
    folder = common.ROOT / "decoders" / case.name
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    write_golden(folder, case.seed, batch_of(case), "golden_gemma4.py", load)


if __name__ == "__main__":
    for one in CASES:
        make(one)
