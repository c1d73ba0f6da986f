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

ROWS, IGNORE = 3, -100
SETTINGS = {"learning_rate": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0}


def random_model(case):
    """Weights no initialiser makes: nothing is zero, one or small enough to hide a missing term, and yet well
    conditioned: fp32 stays within 3e-6 of an fp64 run, logits and gradients."""
    model = build(case)
    generator = torch.Generator().manual_seed(case.seed)
    wide = 0.4 if model.config.tie_word_embeddings else 1.0  # a tied head must not make one token certain
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            scale = wide if "embed" in name else 0.2
            noise = torch.randn(weight.shape, generator=generator) * scale
            weight.copy_(1 + noise if name.endswith("norm.weight") else noise)
    return model.eval()


def build(case):
    from transformers import AutoModelForCausalLM

    config = case.config(**case.options)
    return AutoModelForCausalLM.from_config(config, attn_implementation=common.ATTENTION, dtype=torch.float32)


def batch_of(case):
    """Row 0: a prompt without loss. Row 1: holes in the labels. Row 2: padded on the right (with a valid id)."""
    generator = torch.Generator().manual_seed(case.seed + 1_000_000)
    vocabulary, length = case.options["vocab_size"], case.length
    ids = torch.randint(3, vocabulary, (ROWS, length), generator=generator)
    if "pad_token_id" in case.options:  # real tokens with that id, as input and as target
        ids[0, length // 2], ids[1, 3], ids[1, length - 2] = (case.options["pad_token_id"],) * 3
    real = length * 2 // 3
    mask = torch.ones_like(ids)
    mask[2, real:], ids[2, real:] = 0, case.options.get("pad_token_id", 0)
    labels = ids.clone()
    labels[mask == 0] = IGNORE
    labels[0, : length // 3] = IGNORE
    labels[1, torch.randperm(length, generator=generator)[: length // 4]] = IGNORE
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def ten_steps(model, inputs):
    """Loss before each of ten AdamW updates on the same inputs, and the gradient norm before clipping."""
    groups = {True: [], False: []}
    for name, weight in model.named_parameters():
        groups[common.decays(name)].append((name, weight))
    optimizer = torch.optim.AdamW(
        [
            {"params": [w for _, w in groups[True]], "weight_decay": SETTINGS["weight_decay"]},
            {"params": [w for _, w in groups[False]], "weight_decay": 0.0},
        ],
        lr=SETTINGS["learning_rate"],
        betas=tuple(SETTINGS["betas"]),
        eps=SETTINGS["eps"],
        foreach=False,
        fused=False,
    )
    losses, norms = [], []
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["max_grad_norm"], foreach=False))
        optimizer.step()
        losses.append(loss.detach())
    about = {"decayed": [n for n, _ in groups[True]], "not_decayed": [n for n, _ in groups[False]]}
    return torch.stack(losses), torch.stack(norms).detach(), about


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
    shutil.rmtree(folder, ignore_errors=True)
    options = {"max_shard_size": case.max_shard_size} if case.max_shard_size else {}
    random_model(case).save_pretrained(folder, **options)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config-transformers4.json").write_text(
        json.dumps(transformers4(config, case), indent=2, sort_keys=True) + "\n"
    )

    batch = batch_of(case)
    model = common.load_model(folder)
    output = model(**batch, use_cache=False)
    output.loss.backward()
    gradients = {f"grad.{name}": weight.grad.clone() for name, weight in model.named_parameters()}
    check_old_config(folder, batch, output.logits)
    losses, norms, groups = ten_steps(common.load_model(folder), {**batch, "use_cache": False})
    logits = output.logits.detach() * batch["attention_mask"].unsqueeze(-1)  # 0 at padded places
    tensors = {
        **batch,
        "logits": logits,
        "loss": output.loss,
        "ten_losses": losses,
        "ten_grad_norms": norms,
        **gradients,
    }
    about = {"name": case.name, "seed": case.seed, "optimizer": {"type": "adamw", **SETTINGS}, **groups}
    common.write_safetensors(folder / "golden.safetensors", tensors, about, "tools/golden/golden.py")
    if case.name in golden_packing.NAMES:
        golden_packing.make(case.name)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{case.name:32} {size / 1000:7.1f} kB  loss {float(output.loss.detach()):.6f} -> {float(losses[-1]):.6f}")


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
