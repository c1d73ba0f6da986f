#!/usr/bin/env python3
# Opens a folder that hone saved with transformers and compares it with the folder it was made from:
#   compare_with_transformers.py SAVED ORIGINAL [--same] [--logits out.safetensors --data rows.jsonl]
# Always: the same key set and shapes; it loads without missing, unexpected or mismatched keys; the configuration
# means the same; the tokenizer gives the same ids. --same: the weights were not trained, so logits must agree to
# 1e-5. --logits: what `hone eval SAVED --data rows.jsonl --logits` wrote must agree with transformers' logits of
# SAVED. Exit 1 if anything does not.
import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "golden"))
import golden_common as common  # noqa: E402
from compare_logits import Report, compare_logits, names_agree, read_rows

TEXTS = [
    "Once upon a time",
    "Hello, world!\n\n  Two  spaces.",
    "na\u00efve \u4f60\u597d \U0001f600",
    "",
    " lead and trail ",
]
NOT_COMPARED = {"transformers_version", "_name_or_path", "architectures", "dtype"}


def stored(folder):
    """name -> (shape, dtype) of every tensor in the folder's model files."""
    index = Path(folder) / "model.safetensors.index.json"
    names = (
        sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else ["model.safetensors"]
    )
    found = {}
    for name in names:
        with safe_open(Path(folder) / name, framework="pt") as file:
            for key in file.keys():
                part = file.get_slice(key)
                found[key] = (tuple(part.get_shape()), part.get_dtype())
    return found


def compare_keys(report, saved, original):
    got, expected = stored(saved), stored(original)
    for name in names_agree(report, got, expected):
        if got[name][0] != expected[name][0]:
            report.fail(f"{name}: shape {got[name][0]}, expected {expected[name][0]}")
        elif got[name][1] != expected[name][1]:
            print(f"{name}: note: dtype {got[name][1]}, the original has {expected[name][1]}")
    print(f"{len(got)} tensors in {saved}")


def open_strictly(report, folder):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation=common.ATTENTION, dtype=torch.float32, output_loading_info=True
    )
    for kind, names in info.items():
        if names:
            report.fail(f"{folder}: {kind}: {sorted(map(str, names))[:10]}")
    return model.eval()


def compare_configs(report, saved, original):
    got, expected = (AutoConfig.from_pretrained(folder).to_dict() for folder in (saved, original))
    for key in sorted((set(got) | set(expected)) - NOT_COMPARED):
        if got.get(key) != expected.get(key):
            report.fail(f"config.json: {key}: {got.get(key)!r}, expected {expected.get(key)!r}")


def compare_tokenizers(report, saved, original):
    if not (Path(original) / "tokenizer.json").exists():
        return
    got, expected = (AutoTokenizer.from_pretrained(folder) for folder in (saved, original))
    for text in TEXTS:
        if got(text).input_ids != expected(text).input_ids:
            report.fail(f"tokenizer: {text!r}: {got(text).input_ids}, expected {expected(text).input_ids}")
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if getattr(got, name) != getattr(expected, name):
            report.fail(f"tokenizer: {name}: {getattr(got, name)}, expected {getattr(expected, name)}")


def compare_models(report, saved_model, original):
    model = common.load_model(original)
    generator = torch.Generator().manual_seed(0)
    length = min(64, model.config.max_position_embeddings)
    ids = torch.randint(0, model.config.vocab_size, (4, length), generator=generator)
    with torch.no_grad():
        got, expected = saved_model(input_ids=ids).logits, model(input_ids=ids).logits
    report.compare("logits", got, expected, 1e-5)


def main():
    parser = argparse.ArgumentParser(description="Opens a folder that hone saved with transformers.")
    parser.add_argument("saved")
    parser.add_argument("original")
    parser.add_argument("--same", action="store_true", help="the weights were not changed: compare logits too")
    parser.add_argument("--logits", help="what `hone eval SAVED --logits` wrote")
    parser.add_argument("--data", help="the rows of --logits")
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--append-eos", action="store_true")
    options = parser.parse_args()
    report = Report()
    compare_keys(report, options.saved, options.original)
    model = open_strictly(report, options.saved)
    compare_configs(report, options.saved, options.original)
    compare_tokenizers(report, options.saved, options.original)
    if options.same:
        compare_models(report, model, options.original)
    if options.logits:
        rows = read_rows(options.data, options.saved, options.max_length, options.append_eos)
        compare_logits(report, model, rows, load_file(options.logits))
    return report.finish(options.saved)


if __name__ == "__main__":
    sys.exit(main())
