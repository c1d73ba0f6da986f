#!/usr/bin/env python3
# What seqeval and scikit-learn say of labels of tokens: golden_entities.py -> tests/golden/classifiers/entities.json
# (development time only; after golden_token_labels.py; needs seqeval, which nothing else does).
import json
import random
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from seqeval import metrics as seqeval
from seqeval.metrics.sequence_labeling import get_entities
from sklearn import metrics

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden" / "classifiers"
SCHEMES = [["B-A", "I-A", "B-B", "I-B", "O"], ["B-A", "I-A", "E-A", "S-A", "B-C-D", "I-C-D", "O"]]


def rows(scheme, count, chance):
    return [[chance.choice(scheme) for _ in range(chance.randint(1, 9))] for _ in range(count)]


def of_golden(name):
    """Of the logits in a golden, by documents."""
    golden = load_file(FOLDER / name / "golden.safetensors")
    config = json.loads((FOLDER / name / "config.json").read_text())
    names = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    said, truth = golden["logits"].argmax(-1), golden["labels"]
    pairs = [[(names[str(t)], names[str(s)]) for t, s in zip(*row) if t != -100] for row in zip(truth, said)]
    is_true, is_said = [[t for t, _ in row] for row in pairs], [[s for _, s in row] for row in pairs]
    if "O" in names.values():
        numbers = [getattr(seqeval, kind)(is_true, is_said) for kind in ("precision_score", "recall_score", "f1_score")]
        accuracy = seqeval.accuracy_score(is_true, is_said)
    else:
        flat = sum(is_true, []), sum(is_said, [])
        numbers = [getattr(metrics, kind)(*flat, average="macro", zero_division=0)
                   for kind in ("precision_score", "recall_score", "f1_score")]  # fmt: skip
        accuracy = metrics.accuracy_score(*flat)
    logits = golden["logits"].astype(np.float64)
    shares = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = [-shares[b, t, truth[b, t]] for b, t in zip(*np.nonzero(truth != -100))]
    made = dict(zip(("precision", "recall", "f1"), numbers)) | {"accuracy": accuracy, "loss": np.mean(losses)}
    return {key: float(value) for key, value in made.items()} | {"tokens": len(losses)}


def make():
    chance = random.Random(7)
    found = []
    for scheme in SCHEMES:
        for row in rows(scheme, 40, chance):
            found.append({"row": row, "entities": [[kind, first, last + 1] for kind, first, last in get_entities(row)]})
    goldens = {name: of_golden(name) for name in ("tokens-bert", "tokens-llama", "tokens-modernbert", "tokens-qwen3")}
    (FOLDER / "entities.json").write_text(json.dumps({"metrics": goldens, "rows": found}) + "\n")


if __name__ == "__main__":
    make()
