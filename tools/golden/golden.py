#!/usr/bin/env python3
# Golden files of the models: golden.py NAME...|all|list -> tests/golden/models/<name>/ (development time only).
#
# Each folder is a complete HF folder as transformers' save_pretrained writes it, plus config-transformers4.json (the
# same model as transformers 4 would describe it) and golden.safetensors: a batch and what transformers computes from
# it. Seconds for all; the same bytes every time on the same versions.
import json
import shutil
import sys

import torch

import golden_common as common
import golden_packing
from golden_cases import cases
from golden_model import batch_of, random_model, save_anew, write_golden


def transformers4(config, case):
    """The same configuration as transformers 4 wrote it."""
    old = {key: value for key, value in config.items() if key not in ("rope_parameters", "dtype")}
    parameters = dict(config["rope_parameters"])
    old["rope_theta"] = parameters.pop("rope_theta")
    old["rope_scaling"] = None if parameters["rope_type"] == "default" else parameters
    if parameters["rope_type"] == "linear":  # the oldest spelling
        old["rope_scaling"] = {"type": "linear", "factor": parameters["factor"]}
    old["torch_dtype"] = config["dtype"]
    old["transformers_version"] = "4.46.3"
    if "layer_types" in old and "layer_types" not in case.options:  # 4.46 had max_window_layers only
        del old["layer_types"]
    if old.get("pad_token_id", 0) is None:
        del old["pad_token_id"]
    old.update(case.v4)
    return old


def forward(folder, batch):
    return common.load_model(folder)(**batch, use_cache=False)


def check_old_config(folder, batch, logits):
    """config-transformers4.json must mean the same model."""
    again = folder / "transformers4"
    shutil.copytree(folder, again, ignore=shutil.ignore_patterns("golden*", "transformers4"))
    shutil.copy(folder / "config-transformers4.json", again / "config.json")
    try:
        if not torch.equal(forward(again, batch).logits, logits):
            raise SystemExit(f"{folder.name}: config-transformers4.json gives other logits")
    finally:
        shutil.rmtree(again)


def make(case):
    folder = common.ROOT / "models" / case.name
    options = {"max_shard_size": case.max_shard_size} if case.max_shard_size else {}
    save_anew(folder, random_model(case), **options)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config-transformers4.json").write_text(
        json.dumps(transformers4(config, case), indent=2, sort_keys=True) + "\n"
    )
    batch = batch_of(case)
    _, output = write_golden(folder, case.seed, batch, "golden.py")
    check_old_config(folder, batch, output.logits)
    if case.name in golden_packing.NAMES:
        golden_packing.make(case.name)


def main(names):
    known = cases()
    if not names or names == ["list"]:
        print("\n".join(known))
        return
    for name in known if names == ["all"] else names:
        if name not in known:
            raise SystemExit(f"{name}: no such golden; see golden.py list")
        make(known[name])


if __name__ == "__main__":
    main(sys.argv[1:])
