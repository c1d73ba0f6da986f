#!/usr/bin/env python3
# Steps of a cross-encoder by sentence-transformers' MultipleNegativesRankingLoss and its cached form, with all texts of
# a batch: golden_cross_negatives.py -> tests/golden/train/cross_encoder/negatives.json. Needs that package, and what
# golden_cross_encoder.py and golden_embedding.py have made. Steps of SGD, in the files' order.
import json

import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import losses

import golden_common as common
import golden_cross_encoder as lists
import golden_embedding as dense
import golden_taught as taught

MAKER = "tools/golden/golden_cross_negatives.py"
LOSS = {"loss_type": "multiple_negatives_ranking", "num_negatives": None}
SETTINGS = {  # data, hone's options, what makes the same loss
    "pairs": ("pairs", LOSS, lambda m: losses.MultipleNegativesRankingLoss(m, num_negatives=None)),
    "triplets": ("triplets", LOSS, lambda m: losses.MultipleNegativesRankingLoss(m, num_negatives=None)),
    "scaled": (
        "triplets",
        {**LOSS, "scale": 3, "activation_fn": "identity"},
        lambda m: losses.MultipleNegativesRankingLoss(m, num_negatives=None, scale=3.0, activation_fn=None),
    ),
    "cached": (
        "triplets",
        LOSS,
        lambda m: losses.CachedMultipleNegativesRankingLoss(m, num_negatives=None, mini_batch_size=5),
    ),
}


def rows_of(name):
    return [json.loads(line) for line in (dense.FOLDER / f"{name}.jsonl").read_text().splitlines()]


def run(make, rows):
    model = CrossEncoder(str(lists.FOLDER / "model"), device="cpu")

    def inputs(batch):
        return [[row[name] for row in batch] for name in rows[0]], torch.zeros(len(batch))

    return taught.steps(model, make(model), taught.CROSS_RATE, rows, inputs)


def main():
    for name in ("pairs", "triplets"):  # texts of the same tokens would be each other's negatives there
        rows, tokenizer = rows_of(name), CrossEncoder(str(lists.FOLDER / "model")).tokenizer
        texts = [tuple(tokenizer(row[column])["input_ids"]) for row in rows for column in rows[0]]
        assert len(set(texts)) == len(texts), name
    settings = {name: {"data": data, "options": options} for name, (data, options, _) in SETTINGS.items()}
    made = {"batch": dense.BATCH, "rate": taught.CROSS_RATE, "settings": settings}
    made["runs"] = {name: run(make, rows_of(data)) for name, (data, _, make) in SETTINGS.items()}
    common.write_json(lists.FOLDER / "negatives.json", made, MAKER)


if __name__ == "__main__":
    main()
