#!/usr/bin/env python3
# Golden files of GPT-NeoX: golden_gpt_neox.py -> tests/golden/decoders/gpt_neox*/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus config-transformers4.json (the same model as
# Pythia's folders describe theirs) and golden.safetensors: a batch and what transformers computes from it. Seconds for
# all; the same bytes every time on the same versions.
import json

import transformers as hf

import golden_common as common
from golden import check_old_config
from golden_cases import Case
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

BODY = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=128, layer_norm_eps=1e-4)
CASES = [
    Case("gpt_neox", hf.GPTNeoXConfig, BODY),
    # Attention and MLP one behind the other, no biases in attention, half of a head rotated, a tied head.
    Case("gpt_neox-serial", hf.GPTNeoXConfig,
         {**BODY, "use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True,
          "hidden_act": "gelu_new", "rope_parameters": {
              "rope_type": "linear", "factor": 2.0, "rope_theta": 100.0, "partial_rotary_factor": 0.5}}),
]


def random_model(case):
    model = causal_lm(case)
    is_norm = lambda name: name.endswith("norm.weight")
    return fill(model, case.seed, lambda name: "embed_in" in name, is_norm, tied_scale(model))


def gradients(model):
    """By the names of the file, which calls the head otherwise."""
    for name, weight in model.named_parameters():
        yield name.replace("lm_head.", "embed_out."), weight.grad


def old_config(config):
    """As transformers 4 has written it."""
    rope = dict(config.pop("rope_parameters"))
    config["rotary_emb_base"], config["rotary_pct"] = rope.pop("rope_theta"), rope.pop("partial_rotary_factor")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    return config


def make(case):
    folder = common.ROOT / "decoders" / case.name
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    batch = batch_of(case)
    _, output = write_golden(folder, case.seed, batch, "golden_gpt_neox.py", gradients=gradients)
    old = old_config(json.loads((folder / "config.json").read_text()))
    (folder / "config-transformers4.json").write_text(json.dumps(old, indent=2, sort_keys=True) + "\n")
    check_old_config(folder, batch, output.logits)


if __name__ == "__main__":
    for number, one in enumerate(CASES):
        one.seed = 5500 + number
        make(one)
