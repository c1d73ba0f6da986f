#!/usr/bin/env python3
# Golden files of xLSTM: golden_xlstm.py -> tests/golden/decoders/xlstm*/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, and golden.safetensors: a batch and what
# transformers computes from it, by its own code and not by the package xlstm. Seconds for all; the same bytes every
# time on the same versions.
import torch
import transformers as hf

import golden_common as common
from golden_cases import Case
from golden_model import batch_of, causal_lm, fill, save_anew, write_golden

BASE = dict(vocab_size=64, hidden_size=24, num_hidden_layers=2, num_heads=4, ffn_round_up_to_multiple_of=8)
CASES = [
    # Longer than two chunks, and no multiple of one.
    Case("xlstm", hf.xLSTMConfig, BASE, length=150),
    # Small caps and a large eps, so that each is seen; values wider than the stream, keys as wide as it.
    Case("xlstm-wide", hf.xLSTMConfig, {**BASE, "vocab_size": 48, "num_heads": 2, "qk_dim_factor": 1.0,
                                        "v_dim_factor": 1.5, "ffn_proj_factor": 1.9, "gate_soft_cap": 2.0,
                                        "output_logit_soft_cap": 4.0, "eps": 0.05, "norm_eps": 1e-3,
                                        "chunk_size": 16, "pad_token_id": 3}, length=40),
]


def random_model(case):
    """Gates that differ from token to token, and forget much and little. Keys are much like queries, and tokens have
    something in common: what is read is divided by a sum of their products, which near 0 has no digits in fp32."""
    model = fill(causal_lm(case), case.seed, lambda name: "embed" in name, lambda name: "norm" in name)
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            if "embed" in name:
                weight.add_(3.0)
            if name.endswith(".k.weight"):
                weight.copy_(weights[name.replace(".k.", ".q.")] + 0.2 * weight)
            if "igate" in name or "fgate" in name:
                weight.mul_(3.0)
            if "fgate" in name and name.endswith("bias"):
                weight.add_(2.0)
    return model


def decays(name):
    """The Trainer's patterns miss two of four kinds of norms here: they are meant, too."""
    return "norm" not in name and not name.endswith("bias")


if __name__ == "__main__":
    common.decays = decays
    for number, case in enumerate(CASES):
        case.seed = 5100 + number
        folder = common.ROOT / "decoders" / case.name
        save_anew(folder, random_model(case))
        (folder / "model.safetensors").chmod(0o644)
        write_golden(folder, case.seed, batch_of(case), "golden_xlstm.py")
