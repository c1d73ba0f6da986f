#!/usr/bin/env python3
# Golden files of Gemma 3n's text models: golden_gemma3n.py -> tests/golden/decoders/gemma3n*/ (development time only).
#
# As golden_gemma4.py makes them. Seconds for all.
import torch
import transformers as hf

import golden_common as common
from golden_cases import BASE, Case
from golden_gemma4 import TURNS
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

TEXT = {**BASE, "head_dim": 10, "sliding_window": 5, "pad_token_id": 3, "hidden_size_per_layer_input": 6,
        "laurel_rank": 5}
ROPES = {"full_attention": dict(rope_type="default", rope_theta=100.0),
         "sliding_attention": dict(rope_type="default", rope_theta=50.0)}
# Seeds for which transformers' own fp32 gives every gradient within 5e-6 of fp64's, and ten losses within 1e-6: what is
# cut off has a corner.
CASES = [
    # MLPs of two sizes, of which one lets little through; layers that use others' keys; a table that is shorter than
    # that of words.
    Case("gemma3n", hf.Gemma3nTextConfig,
         {**TEXT, "num_hidden_layers": 6, "layer_types": 3 * TURNS, "num_kv_shared_layers": 2, "altup_num_inputs": 3,
          "intermediate_size": [28, 28, 20, 28, 28, 20], "vocab_size_per_layer_input": 60,
          "activation_sparsity_pattern": [0.0, 0.0, 0.6, 0.0, 0.0, 0.0], "rope_parameters": ROPES}, seed=5938),
    # The usual kinds of layers; nothing is shared; another stream is the active one.
    Case("gemma3n-plain", hf.Gemma3nTextConfig,
         {**TEXT, "num_hidden_layers": 5, "num_kv_shared_layers": 0, "intermediate_size": 28, "attention_bias": True,
          "vocab_size_per_layer_input": 64, "altup_active_idx": 1,
          "altup_num_inputs": 4, "tie_word_embeddings": False, "final_logit_softcapping": 5.0}, seed=5903),
]


def random_model(case):
    """As golden_gemma4.py's; what mixes streams is small, and they stay apart."""
    model = causal_lm(case)
    is_norm = lambda name: name.endswith(("norm.weight", "norm_1.weight", "correct_output_scale"))
    is_table = lambda name: name.endswith("embed_tokens.weight")
    fill(model, case.seed, is_table, is_norm, tied_scale(model) / case.options["hidden_size"] ** 0.5)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "per_layer" in name and "norm" not in name:
                weight.mul_(0.5 if "gate" in name else 4.0)
            if name.endswith(("q_norm.weight", "per_layer_input_norm.weight")):
                weight.mul_(0.3)
            if "modality_router" in name:
                weight.mul_(20.0)
    return model


def make(case):
    folder = common.ROOT / "decoders" / case.name
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    write_golden(folder, case.seed, batch_of(case), "golden_gemma3n.py")


if __name__ == "__main__":
    for one in CASES:
        make(one)
