#!/usr/bin/env python3
# Learning rates as transformers' schedules give them, and parameter trajectories of torch.optim, lion_pytorch and
# pytorch_optimizer (whose AdEMAMix is the paper's): golden_optim.py
# -> tests/golden/train/{schedules.json, optimizers.safetensors}.
import torch
from lion_pytorch import Lion
from pytorch_optimizer import AdEMAMix
from transformers import get_scheduler
from transformers.optimization import get_wsd_schedule

import golden_common as common

FOLDER = common.ROOT / "train"
MAKER = "tools/golden/golden_optim.py"
LEARNING_RATE = 1e-3


def table(make, steps):
    """The learning rate of each step (step 0 first), peak 1e-3."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LEARNING_RATE)
    scheduler, rates = make(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def schedules():
    steps, tables = 40, []
    named = [
        ("constant", {}, 0),
        ("constant_with_warmup", {}, 7),
        ("linear", {}, 0),
        ("linear", {}, 7),
        ("cosine", {}, 0),
        ("cosine", {}, 7),
        ("cosine_with_min_lr", {"min_lr_rate": 0.1}, 7),
        ("cosine_with_min_lr", {"min_lr": 2e-4}, 0),
        ("cosine", {}, 40),
        ("cosine_with_restarts", {"num_cycles": 3}, 4),
        ("polynomial", {"lr_end": 1e-4, "power": 2.0}, 5),
        ("inverse_sqrt", {}, 7),
    ]
    for name, options, warmup in named:
        rates = table(
            lambda o: get_scheduler(
                name, o, num_warmup_steps=warmup, num_training_steps=steps, scheduler_specific_kwargs=dict(options)
            ),
            steps + 3,
        )
        tables.append({"type": name, "options": options, "warmup_steps": warmup, "steps": steps, "rates": rates})
    for warmup, decay, options in [
        (0, 10, {}),
        (5, 10, {}),
        (5, 10, {"decay_type": "linear", "min_lr_ratio": 0.1}),
        (5, 10, {"decay_type": "1-sqrt"}),
        (5, 10, {"decay_type": "1-sqrt", "min_lr_ratio": 0.2}),
        (5, 35, {"decay_type": "linear"}),
        (6, 12, {"warmup_type": "cosine"}),
    ]:
        rates = table(
            lambda o: get_wsd_schedule(
                o, num_warmup_steps=warmup, num_decay_steps=decay, num_training_steps=steps, **options
            ),
            steps + 3,
        )
        tables.append(
            {
                "type": "warmup_stable_decay",
                "options": options,
                "warmup_steps": warmup,
                "decay_steps": decay,
                "steps": steps,
                "rates": rates,
            }
        )
    common.write_json(FOLDER / "schedules.json", {"peak": LEARNING_RATE, "tables": tables}, MAKER)
    print(len(tables), "schedules")


def optimizers():
    """20 updates of one small parameter with gradients that are stored; torch's single-tensor code."""
    kinds = {
        "adamw": (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1}),
        "adamw-no-decay": (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.0}),
        "adamw-betas-eps": (torch.optim.AdamW, {"lr": 3e-2, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.01}),
        "sgd": (torch.optim.SGD, {"lr": 1e-1}),
        "sgd-decay": (torch.optim.SGD, {"lr": 1e-1, "weight_decay": 0.05}),
        "sgd-momentum": (torch.optim.SGD, {"lr": 1e-1, "momentum": 0.9}),
        "sgd-momentum-decay": (torch.optim.SGD, {"lr": 1e-1, "momentum": 0.9, "weight_decay": 0.05}),
        "sgd-dampening": (torch.optim.SGD, {"lr": 1e-1, "momentum": 0.9, "dampening": 0.3}),
        "sgd-nesterov": (torch.optim.SGD, {"lr": 1e-1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05}),
        "adam-decay": (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.05}),
        "lion": (Lion, {"lr": 1e-2}),
        "lion-decay": (Lion, {"lr": 1e-2, "betas": (0.8, 0.95), "weight_decay": 0.1}),
        "rmsprop": (torch.optim.RMSprop, {"lr": 1e-2}),
        "rmsprop-decay": (torch.optim.RMSprop, {"lr": 1e-2, "alpha": 0.9, "eps": 1e-4, "weight_decay": 0.05}),
        "rmsprop-momentum": (torch.optim.RMSprop, {"lr": 1e-2, "momentum": 0.9}),
        "rmsprop-centered": (torch.optim.RMSprop, {"lr": 1e-2, "alpha": 0.9, "eps": 1e-3, "centered": True}),
        "rmsprop-all": (
            torch.optim.RMSprop,
            {"lr": 1e-2, "alpha": 0.9, "eps": 1e-3, "centered": True, "momentum": 0.5, "weight_decay": 0.05},
        ),
        "adamax": (torch.optim.Adamax, {"lr": 1e-2}),
        "adamax-decay": (torch.optim.Adamax, {"lr": 1e-2, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.05}),
        "nadam": (torch.optim.NAdam, {"lr": 1e-2}),
        "nadam-decay": (torch.optim.NAdam, {"lr": 1e-2, "momentum_decay": 0.1, "weight_decay": 0.05}),
        "nadam-decoupled": (torch.optim.NAdam, {"lr": 1e-2, "weight_decay": 0.1, "decoupled_weight_decay": True}),
        "radam": (torch.optim.RAdam, {"lr": 1e-2}),
        "radam-decay": (torch.optim.RAdam, {"lr": 1e-2, "betas": (0.8, 0.9), "weight_decay": 0.05}),
        "radam-decoupled": (torch.optim.RAdam, {"lr": 1e-2, "weight_decay": 0.1, "decoupled_weight_decay": True}),
        "ademamix": (AdEMAMix, {"lr": 1e-2}),
        "ademamix-decay": (AdEMAMix, {"lr": 1e-2, "weight_decay": 0.1, "weight_decouple": True, "alpha": 2.0}),
        "ademamix-warmup": (AdEMAMix, {"lr": 1e-2, "betas": (0.9, 0.99, 0.999), "t_alpha_beta3": 12}),
    }
    plain = {torch.optim.AdamW, torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adamax}
    plain |= {torch.optim.NAdam, torch.optim.RAdam, AdEMAMix}  # those that have code for one tensor after another
    ours = {"t_alpha_beta3": "slow_warmup_steps", "weight_decouple": None}  # names; None: what we do anyway
    generator = torch.Generator().manual_seed(3)
    start, steps = torch.randn(3, 5, generator=generator), 20
    gradients = torch.randn(steps, 3, 5, generator=generator) * torch.logspace(-4, 1, 5)
    rates = [min(1.0, (step + 1) / 5) for step in range(steps)]  # a warm-up on top of lr
    tensors = {"start": start, "gradients": gradients, "rate_factors": torch.tensor(rates, dtype=torch.float64)}
    for name, (kind, options) in kinds.items():
        weight = start.clone().requires_grad_()
        optimizer, path = kind([weight], **({"foreach": False} if kind in plain else {}), **options), []
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = options["lr"] * rates[step]
            weight.grad = gradients[step].clone()
            optimizer.step()
            path.append(weight.detach().clone())
        tensors[f"{name}.weights"] = torch.stack(path)
    about = {
        "optimizers": {
            name: {
                "type": kind.__name__.lower(),
                **{ours.get(key, key): value for key, value in options.items() if ours.get(key, key)},
            }
            for name, (kind, options) in kinds.items()
        }
    }
    common.write_safetensors(FOLDER / "optimizers.safetensors", tensors, about, MAKER)
    print(len(kinds), "optimizers")


if __name__ == "__main__":
    optimizers()
    schedules()
