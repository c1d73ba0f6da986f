#!/usr/bin/env python3
# Compares what hone computes with transformers, on the same rows:
#   compare_logits.py MODEL --data rows.jsonl --logits out.safetensors      (of hone eval MODEL --data ... --logits
# ...)   compare_logits.py MODEL --data rows.jsonl --gradients out.safetensors   (of hone train ... --gradients ...)
# A row is {"input_ids": [...], "labels": [...]} or {"text": "..."}; row i is `logits.<i>` [T,V]. Gradients are those
# of the mean loss over all rows given, before clipping, by parameter name. Exit 1 when a difference is above the
# tolerance: logits 1e-5 x max(1, largest); a gradient 1e-5 x max(its own largest, 1e-3 x the model's largest).
import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "golden"))
import golden_common as common  # noqa: E402


def read_rows(path, model, max_length=None, append_eos=False, limit=None):
    """(ids, labels) of each row; a text is encoded with the model's tokenizer, its post-processor included."""
    rows, tokenizer = [], None
    for line in open(path, encoding="utf-8"):
        record = json.loads(line)
        if "input_ids" in record:
            ids, labels = record["input_ids"], record.get("labels", record["input_ids"])
        else:
            tokenizer = tokenizer or AutoTokenizer.from_pretrained(model)
            ids = tokenizer(record["text"]).input_ids + ([tokenizer.eos_token_id] if append_eos else [])
            labels = ids
        rows.append((ids[:max_length], labels[:max_length]))
    return rows[:limit]


class Report:
    def __init__(self):
        self.failed, self.worst = 0, 0.0

    def compare(self, name, got, expected, allowed):
        if got.shape != expected.shape:
            self.fail(f"{name}: shape {tuple(got.shape)}, expected {tuple(expected.shape)}")
            return
        difference = (got.double() - expected.double()).abs()
        at = int(difference.argmax())
        largest = float(difference.flatten()[at])
        self.worst = max(self.worst, largest / allowed)
        if not largest <= allowed:
            self.fail(
                f"{name}: element {at} is {float(got.flatten()[at])!r}, expected {float(expected.flatten()[at])!r}, "
                f"differs by {largest:.2e}, allowed {allowed:.2e}"
            )

    def fail(self, text):
        self.failed += 1
        print(text)

    def finish(self, what):
        print(
            f"{what}: {f'FAILED {self.failed}' if self.failed else 'agree'}; "
            f"the worst difference is {self.worst:.3f} of what is allowed"
        )
        return 1 if self.failed else 0


def names_agree(report, got, expected):
    for name in sorted(set(expected) - set(got))[:10]:
        report.fail(f"{name}: missing")
    for name in sorted(set(got) - set(expected))[:10]:
        report.fail(f"{name}: not expected")
    return sorted(set(got) & set(expected))


def compare_logits(report, model, rows, got):
    with torch.no_grad():
        expected = {
            f"logits.{i}": model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
            for i, (ids, _) in enumerate(rows)
        }
    for name in names_agree(report, got, expected):
        report.compare(name, got[name], expected[name], 1e-5 * max(1.0, float(expected[name].abs().max())))


def gradients(model, rows):
    """Of the token-weighted mean loss over all rows; and that loss."""
    targets = sum(label != -100 for _, labels in rows for label in labels[1:])
    total = 0.0
    for ids, labels in rows:
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1]
        loss = (
            torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]), ignore_index=-100, reduction="sum")
            / targets
        )
        loss.backward()
        total += float(loss.detach())
    return {name: weight.grad for name, weight in model.named_parameters()}, total


def compare_gradients(report, model, rows, got):
    expected, loss = gradients(model, rows)
    print(f"loss {loss:.7f}")
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for name in names_agree(report, got, expected):
        report.compare(name, got[name], expected[name], 1e-5 * max(float(expected[name].abs().max()), 1e-3 * largest))


def main():
    parser = argparse.ArgumentParser(description="Compares hone's logits or gradients with transformers'.")
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--logits")
    parser.add_argument("--gradients")
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--limit", type=int, help="only the first rows")
    parser.add_argument("--append-eos", action="store_true", help="texts end with the tokenizer's eos")
    options = parser.parse_args()
    if not (options.logits or options.gradients):
        parser.error("one of --logits and --gradients is needed")
    report = Report()
    rows = read_rows(options.data, options.model, options.max_length, options.append_eos, options.limit)
    if options.logits:
        compare_logits(report, common.load_model(options.model), rows, load_file(options.logits))
    if options.gradients:
        compare_gradients(report, common.load_model(options.model), rows, load_file(options.gradients))
    return report.finish(f"{options.model}, {len(rows)} rows")


if __name__ == "__main__":
    sys.exit(main())
