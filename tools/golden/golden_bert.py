#!/usr/bin/env python3
# Golden files of BERT with a classification head: golden_bert.py -> tests/golden/classifiers/<name>/ (development time
# only).
#
# Each folder is a complete HF folder plus golden.safetensors: pairs of different lengths and what transformers computes
# from them. bert-base holds the weights of `bert` below its head, as BertModel saves them: without a prefix. Seconds for
# all; the same bytes every time on the same versions.
import shutil

import torch
import transformers as hf

import golden_common as common
from golden import SETTINGS, ten_steps

BODY = dict(
    vocab_size=64,
    hidden_size=24,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=32,
)
CASES = {
    "bert": {**BODY, "num_labels": 3},
    "bert-odd": {
        **BODY,
        "hidden_size": 18,
        "num_attention_heads": 3,
        "type_vocab_size": 3,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-5,
        "id2label": {0: "ham", 1: "spam"},
        "label2id": {"ham": 0, "spam": 1},
        "pad_token_id": 5,
    },
    "bert-relu": {**BODY, "num_labels": 4, "hidden_act": "relu", "num_hidden_layers": 1, "type_vocab_size": 1},
}


def random_model(options, seed):
    """Nothing is zero, one or small enough to hide a missing term."""
    config = hf.BertConfig(**options)
    model = hf.BertForSequenceClassification._from_config(config, attn_implementation=common.ATTENTION)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator) * (1.0 if "embeddings.weight" in name else 0.2)
            weight.copy_(1 + noise if name.endswith("LayerNorm.weight") else noise)
    return model.eval()


def batch_of(config, seed):
    """Five texts, of which the last three are pairs; the lengths differ, one fills the row."""
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    lengths, firsts = [9, 14, 14, 3, 11], [9, 14, 6, 1, 10]
    ids = torch.randint(6, config.vocab_size, (5, 14), generator=generator)
    mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, (length, first) in enumerate(zip(lengths, firsts)):
        mask[row, :length] = 1
        types[row, first:length] = min(1, config.type_vocab_size - 1)
    ids[mask == 0] = config.pad_token_id
    labels = torch.randint(0, config.num_labels, (5,), generator=generator)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types, "labels": labels}


def load(folder):
    return common.load_model(folder, hf.AutoModelForSequenceClassification)


def make(name, options, seed):
    folder = common.ROOT / "classifiers" / name
    shutil.rmtree(folder, ignore_errors=True)
    random_model(options, seed).save_pretrained(folder)
    model = load(folder)
    batch = batch_of(model.config, seed)
    output = model(**batch)
    output.loss.backward()
    gradients = {f"grad.{key}": weight.grad.clone() for key, weight in model.named_parameters()}
    with torch.no_grad():
        below = model.bert(**{key: batch[key] for key in ("input_ids", "attention_mask", "token_type_ids")})
    losses, norms, groups = ten_steps(load(folder), batch)
    tensors = {
        **batch,
        "hidden": below.last_hidden_state * batch["attention_mask"].unsqueeze(-1),
        "pooled": below.pooler_output,
        "logits": output.logits,
        "loss": output.loss,
        "ten_losses": losses,
        "ten_grad_norms": norms,
        **gradients,
    }
    about = {"name": name, "seed": seed, "optimizer": {"type": "adamw", **SETTINGS}, **groups}
    common.write_safetensors(folder / "golden.safetensors", tensors, about, "tools/golden/golden_bert.py")
    print(f"{name:12} loss {float(output.loss.detach()):.6f} -> {float(losses[-1]):.6f}")
    if name == "bert":
        base = folder.parent / "bert-base"
        shutil.rmtree(base, ignore_errors=True)
        model.bert.save_pretrained(base)


if __name__ == "__main__":
    for number, (case, options) in enumerate(CASES.items()):
        make(case, options, number)
