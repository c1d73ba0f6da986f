#!/usr/bin/env python3
# Golden files of BERT, RoBERTa, ModernBERT and DistilBERT with a head for masked tokens: golden_masked_lm.py ->
# tests/golden/masked/<name>/ (development time only).
#
# Each folder is a complete HF folder plus golden.safetensors: texts with some tokens to be said, and what transformers
# computes from them. Seconds for all; the same bytes every time on the same versions.
import torch
import transformers as hf

import golden_common as common
from golden_bert import BODY, DISTIL, MODERN, CASES as BERT, config_of
from golden_model import fill, save_anew, write_golden

CASES = {
    "bert": BODY,
    "bert-odd": {key: value for key, value in BERT["bert-odd"].items() if "label" not in key},
    "roberta": {**BODY, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "gelu_new"},
    "modernbert": MODERN,
    "modernbert-odd": {key: value for key, value in {**BERT["modernbert-odd"], "decoder_bias": False}.items()
                       if key not in ("num_labels", "problem_type")},
    "distilbert": {**DISTIL, "activation": "gelu"},
}


def random_model(config, seed):
    model = hf.AutoModelForMaskedLM.from_config(config, attn_implementation=common.ATTENTION)
    is_norm = lambda name: name.lower().endswith("norm.weight")
    return fill(model, seed, lambda name: "embeddings.weight" in name, is_norm, 0.4)


def batch_of(config, seed):
    """Five texts of different lengths, one fills the row; of about a third of the tokens it is asked what they were."""
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    lengths = [9, 14, 14, 3, 11]
    ids = torch.randint(6, config.vocab_size, (5, 14), generator=generator)
    labels = torch.where(torch.rand(5, 14, generator=generator) < 0.3, ids, -100)
    ids[(labels != -100) & (torch.rand(5, 14, generator=generator) < 0.8)] = 4
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
    labels[mask == 0] = -100
    ids[mask == 0] = config.pad_token_id
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def load(folder):
    return common.load_model(folder, hf.AutoModelForMaskedLM)


if __name__ == "__main__":
    for number, (name, options) in enumerate(CASES.items()):
        folder = common.ROOT / "masked" / name
        config = config_of(name, options)
        save_anew(folder, random_model(config, 5200 + number))
        (folder / "model.safetensors").chmod(0o644)
        write_golden(folder, 5200 + number, batch_of(config, 5200 + number), "golden_masked_lm.py", load, {})
