#!/usr/bin/env python3
# Golden files of GPT-2: golden_gpt2.py -> tests/golden/gpt2/<name>/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus golden.safetensors: a batch and what transformers
# computes from it. Seconds for all; the same bytes every time on the same versions.
import transformers as hf

import golden_common as common
from golden_cases import Case
from golden_model import batch_of, causal_lm, fill, save_anew, tied_scale, write_golden

BODY = dict(vocab_size=64, n_embd=24, n_layer=2, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=1)
CASES = [
    Case("gpt2", hf.GPT2Config, BODY),
    Case("gpt2-odd", hf.GPT2Config, dict(
        vocab_size=43, n_embd=18, n_layer=3, n_head=3, n_positions=24, n_inner=22, activation_function="relu",
        layer_norm_epsilon=1e-3, tie_word_embeddings=False, bos_token_id=2, eos_token_id=3)),
]


def random_model(case):
    model = causal_lm(case)
    is_table = lambda name: ".wte" in name or ".wpe" in name
    is_norm = lambda name: "ln_" in name and name.endswith(".weight")
    return fill(model, case.seed, is_table, is_norm, tied_scale(model))


def make(case):
    folder = common.ROOT / "gpt2" / case.name
    save_anew(folder, random_model(case))
    write_golden(folder, case.seed, batch_of(case), "golden_gpt2.py")


if __name__ == "__main__":
    for number, one in enumerate(CASES):
        one.seed = number
        make(one)
