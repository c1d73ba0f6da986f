#!/usr/bin/env python3
# Golden files of models with a head for tokens: golden_token_labels.py -> tests/golden/classifiers/tokens-<name>/
# (development time only), as golden_bert.py makes them of heads for texts.
import sys

import torch
import transformers as hf

import golden_common as common
from golden_bert import BODY as ENCODER
from golden_bert import DISTIL, MODERN
from golden_decoder_classifiers import BODY as DECODER
from golden_model import IGNORE, fill, save_anew, write_golden

NAMES = {0: "B-LOC", 1: "B-PER", 2: "I-PER", 3: "O"}
NAMED = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}}
CASES = {
    "tokens-bert": (hf.BertConfig, {**ENCODER, **NAMED}),
    "tokens-roberta": (hf.RobertaConfig, {**ENCODER, "type_vocab_size": 1, "num_labels": 3, "classifier_dropout": 0.3}),
    "tokens-distilbert": (hf.DistilBertConfig, {**DISTIL, "num_labels": 3}),
    "tokens-modernbert": (hf.ModernBertConfig, {**MODERN, "num_labels": 5}),
    "tokens-llama": (hf.LlamaConfig, {**DECODER, **NAMED}),
    "tokens-qwen3": (hf.Qwen3Config, {**DECODER, "head_dim": 6, "num_labels": 3, "classifier_dropout": 0.2}),
    "tokens-gemma2": (hf.Gemma2Config, {**DECODER, "head_dim": 6, "num_labels": 4, "sliding_window": 4}),
    "tokens-stablelm": (hf.StableLmConfig, {**DECODER, "hidden_size": 32, "num_labels": 3}),
    "tokens-gpt2": (
        hf.GPT2Config,
        {"vocab_size": 64, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 32, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, "num_labels": 3},
    ),
}  # fmt: skip


def random_model(config, seed):
    model = hf.AutoModelForTokenClassification.from_config(config, attn_implementation=common.ATTENTION)
    is_table = lambda name: "embed" in name or ".wte." in name or ".wpe." in name
    is_norm = lambda name: name.endswith(("Norm.weight", "norm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight"))
    return fill(model, seed, is_table, is_norm, 0.4 if config.model_type == "gemma2" else 1.0)


def batch_of(config, seed):
    """Five texts of different lengths, one of which fills the row; first tokens and others have labels, or none."""
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    ids = torch.randint(6, config.vocab_size, (5, 14), generator=generator)
    mask = torch.zeros_like(ids)
    for row, length in enumerate([9, 14, 13, 3, 11]):
        mask[row, :length] = 1
    ids[mask == 0] = config.pad_token_id
    labels = torch.randint(0, config.num_labels, ids.shape, generator=generator)
    labels[torch.rand(ids.shape, generator=generator) < 0.4] = IGNORE
    labels[1, 0], labels[2, 0] = 1, IGNORE
    labels[mask == 0] = IGNORE
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def load(folder):
    return common.load_model(folder, hf.AutoModelForTokenClassification)


def make(name, case, seed):
    config, options = case
    folder = common.ROOT / "classifiers" / name
    save_anew(folder, random_model(config(**options), seed))
    batch = batch_of(config(**options), seed)

    def more(model, output):
        mask = batch["attention_mask"].unsqueeze(-1)
        with torch.no_grad():
            below = model.base_model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        return {"hidden": below.last_hidden_state * mask, "logits": output.logits.detach() * mask}

    write_golden(folder, seed, batch, "golden_token_labels.py", load, {}, more=more)


if __name__ == "__main__":
    for number, (name, case) in enumerate(CASES.items()):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, case, number)
