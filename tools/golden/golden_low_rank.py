#!/usr/bin/env python3
# Optimizers whose moments are of projections, as galore-torch 1.0 and apollo-torch 1.0.3 have them: golden_low_rank.py
# -> tests/golden/train/low_rank.safetensors (development time only). Of a tall and of a wide matrix the weight at the
# start, gradients, and the weight after each of twelve updates. `golden` says each one's options, by hone's names.
#
# What one would not guess: eps is added before the second moment is corrected; weights are decayed after the update;
# APOLLO's first seed is the parameter's number, from 1 on, and its updates' norms grow by 1 % at most.
import apollo_torch
import galore_torch
import torch

import golden_common as common

MAKER = "tools/golden/golden_low_rank.py"
UPDATES, RATE = 12, 1e-2
RUNS = {
    "galore": ("galore_adamw", {"rank": 4, "update_proj_gap": 5, "scale": 0.25}),
    "galore_decay": ("galore_adamw", {"rank": 2, "update_proj_gap": 200, "scale": 1, "weight_decay": 0.3}),
    "galore_all": ("galore_adamw", {"rank": 64, "update_proj_gap": 3, "betas": [0.8, 0.95], "eps": 1e-3}),
    "apollo": ("apollo", {"rank": 4, "update_proj_gap": 5}),
    "apollo_mini": ("apollo", {"rank": 1, "update_proj_gap": 4, "scale": 128, "scale_type": "tensor"}),
    "apollo_decay": ("apollo", {"rank": 3, "weight_decay": 0.3, "betas": [0.8, 0.95], "eps": 1e-3}),
}  # fmt: skip


def trajectory(kind, options, start, gradients):
    weight = torch.nn.Parameter(start.clone())
    own = {"rank": 4, "update_proj_gap": 200, "scale": 0.25 if kind == "galore_adamw" else 1, "proj_type": "std"}
    if kind == "apollo":
        own |= {"proj": "random", "scale_type": "channel"}
    group = {"params": [weight]} | own | {name: value for name, value in options.items() if name in own}
    more = {"betas": tuple(options.get("betas", (0.9, 0.999))), "eps": options.get("eps", 1e-8)}
    maker = galore_torch.GaLoreAdamW if kind == "galore_adamw" else apollo_torch.APOLLOAdamW
    optimizer = maker([group], lr=RATE, weight_decay=options.get("weight_decay", 0.0), **more)
    made = []
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
        made.append(weight.detach().clone())
    return torch.stack(made)


def main():
    generator = torch.Generator().manual_seed(3)
    tensors = {}
    for side, shape in (("tall", (20, 12)), ("wide", (12, 20))):
        start = torch.randn(shape, generator=generator)
        sizes = torch.tensor([1, 1, 3, 0.1, 1, 2, 1, 10, 1, 1, 0.5, 1]).view(-1, 1, 1)
        gradients = torch.randn(UPDATES, *shape, generator=generator) * sizes
        tensors |= {f"{side}.start": start, f"{side}.gradients": gradients}
        for name, (kind, options) in RUNS.items():
            tensors[f"{side}.{name}"] = trajectory(kind, options, start, gradients)
    about = {"lr": RATE, "runs": {name: {"type": kind, **options} for name, (kind, options) in RUNS.items()}}
    common.write_safetensors(common.ROOT / "train" / "low_rank.safetensors", tensors, about, MAKER)


if __name__ == "__main__":
    main()
