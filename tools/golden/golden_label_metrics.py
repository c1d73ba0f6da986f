#!/usr/bin/env python3
# What scikit-learn says of the logits in the goldens of classification heads: golden_label_metrics.py ->
# tests/golden/classifiers/metrics.json (development time only; after golden_bert.py and golden_decoder_classifiers.py).
import json

import numpy as np
from safetensors.numpy import load_file
from scipy.stats import pearsonr
from sklearn import metrics

import golden_common as common

FOLDER = common.ROOT / "classifiers"


def of_numbers(truth, said):
    labels = range(truth.shape[1])
    return {
        "loss": metrics.mean_squared_error(truth, said),
        "mae": metrics.mean_absolute_error(truth, said),
        "pearson": np.mean([pearsonr(truth[:, i], said[:, i]).statistic for i in labels]),
        "r2": metrics.r2_score(truth, said),
    }


def of_sets(truth, logits):
    given = (logits > 0).astype(int)
    losses = np.logaddexp(0, logits) - truth * logits
    return {
        "loss": losses.mean(),
        "accuracy": metrics.accuracy_score(truth, given),
        "f1_micro": metrics.f1_score(truth, given, average="micro"),
        "f1_macro": metrics.f1_score(truth, given, average="macro", zero_division=0),
    }


def make():
    found = {}
    for name in ("bert-regression", "qwen3-regression", "roberta-several", "mistral-several"):
        golden = load_file(FOLDER / name / "golden.safetensors")
        logits = golden["logits"].astype(np.float64)
        truth = golden["labels"].astype(np.float64).reshape(logits.shape)
        numbers = of_numbers(truth, logits) if name.endswith("regression") else of_sets(truth.astype(int), logits)
        found[name] = {key: float(value) for key, value in numbers.items()}
    (FOLDER / "metrics.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    make()
