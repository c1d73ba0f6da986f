#!/usr/bin/env python3
# Learning rates as transformers' and optax's schedules give them, and parameter trajectories of torch.optim, optax,
# transformers, torchao, lion_pytorch, prodigyopt, schedulefree and pytorch_optimizer (whose AdEMAMix is the paper's):
# golden_optim.py -> tests/golden/train/{schedules.json, optimizers.safetensors, optimizers_8bit.safetensors}.
import contextlib

import jax
import optax
import torch
from lion_pytorch import Lion
from prodigyopt import Prodigy
from pytorch_optimizer import AdEMAMix
from schedulefree import AdamWScheduleFree
from torchao.optim import AdamW8bit
from transformers import get_scheduler
from transformers.optimization import Adafactor, get_wsd_schedule

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
    falls = {  # of so many steps to a tenth
        "constant": lambda length: optax.constant_schedule(LEARNING_RATE),
        "linear": lambda length: optax.linear_schedule(LEARNING_RATE, LEARNING_RATE / 10, length),
        "cosine": lambda length: optax.cosine_decay_schedule(LEARNING_RATE, length, alpha=0.1),
        "exponential": lambda length: optax.exponential_decay(LEARNING_RATE, length, 0.1),
        "polynomial": lambda length: optax.polynomial_schedule(LEARNING_RATE, LEARNING_RATE / 10, 3, length),
    }
    jax.config.update("jax_enable_x64", True)
    for name, fall in falls.items():
        for warmup, cooldown in [(0, 0), (5, 0), (0, 8), (5, 8)]:
            rise, main = optax.linear_schedule(0, LEARNING_RATE, warmup), fall(steps - warmup - cooldown)
            last = float(main(steps - warmup - cooldown))
            cool = optax.linear_schedule(last, LEARNING_RATE / 50, cooldown)
            joined = optax.join_schedules([rise, main, cool], [warmup, steps - cooldown])
            rates = [float(joined(step)) for step in range(steps + (3 if cooldown else 0))]
            options = {"power": 3, "final_ratio": 0.1, "cooldown_steps": cooldown, "cooldown_ratio": 0.02}
            tables.append(
                {"type": f"optax_{name}", "options": options, "warmup_steps": warmup, "steps": steps, "rates": rates}
            )
    common.write_json(FOLDER / "schedules.json", {"peak": LEARNING_RATE, "tables": tables}, MAKER)
    print(len(tables), "schedules")


class Lamb:
    """optax.lamb as an optimizer of torch's kind."""

    def __init__(self, weights, lr, **options):
        self.weight, self.param_groups, self.options = weights[0], [{"lr": lr}], options
        self.state = None

    def step(self):
        array = lambda tensor: jax.numpy.asarray(tensor.detach().numpy())
        rule = optax.lamb(self.param_groups[0]["lr"], **self.options)
        weight = array(self.weight)
        if self.state is None:
            self.state = rule.init(weight)
        change, self.state = rule.update(array(self.weight.grad), self.state, weight)
        with torch.no_grad():
            self.weight += torch.tensor(jax.device_get(change))


class Mars:
    """MARS-AdamW as its authors' code has it; pytorch_optimizer adds eps before it corrects the second moment."""

    def __init__(self, weights, lr, betas=(0.95, 0.99), eps=1e-8, gamma=0.025, weight_decay=0.0):
        self.weight, self.param_groups, self.betas, self.steps = weights[0], [{"lr": lr}], betas, 0
        self.eps, self.gamma, self.weight_decay = eps, gamma, weight_decay
        self.first, self.second, self.last = (torch.zeros_like(weights[0]) for _ in range(3))

    @torch.no_grad()
    def step(self):
        (beta1, beta2), gradient, lr = self.betas, self.weight.grad, self.param_groups[0]["lr"]
        self.steps += 1
        corrected = gradient + self.gamma * beta1 / (1 - beta1) * (gradient - self.last)
        corrected /= max(1.0, corrected.norm().item())
        self.last = gradient
        self.first = beta1 * self.first + (1 - beta1) * corrected
        self.second = beta2 * self.second + (1 - beta2) * corrected**2
        change = self.first / (1 - beta1**self.steps) / ((self.second / (1 - beta2**self.steps)).sqrt() + self.eps)
        self.weight -= lr * (change + self.weight_decay * self.weight)


class Sophia:
    """SophiaG as the paper has it; every second curvature is that of the gradient itself, as if of ten labels."""

    def __init__(self, weights, lr, betas, rho, weight_decay):
        self.weight, self.param_groups = weights[0], [{"lr": lr}]
        self.betas, self.rho, self.weight_decay, self.steps = betas, rho, weight_decay, 0
        self.exp_avg, self.hessian = torch.zeros_like(weights[0]), torch.zeros_like(weights[0])

    @torch.no_grad()
    def step(self):
        lr, gradient = self.param_groups[0]["lr"], self.weight.grad
        self.exp_avg.mul_(self.betas[0]).add_(gradient, alpha=1 - self.betas[0])
        ratio = (self.exp_avg.abs() / (self.rho * self.hessian + 1e-15)).clamp(None, 1)
        self.weight.mul_(1 - lr * self.weight_decay)
        self.weight.addcmul_(self.exp_avg.sign(), ratio, value=-lr)
        self.steps += 1
        if self.steps % 2 == 0:
            self.hessian.mul_(self.betas[1]).addcmul_(gradient, 10 * gradient, value=1 - self.betas[1])


@contextlib.contextmanager
def without_bf16():
    """torch.optim.Muon rounds directions to bf16; hone makes them orthogonal in the type of the weight."""
    rounded = torch.Tensor.bfloat16
    torch.Tensor.bfloat16 = torch.Tensor.clone
    try:
        yield
    finally:
        torch.Tensor.bfloat16 = rounded


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
        "adafactor": (Adafactor, {"lr": 1e-2, "relative_step": False, "scale_parameter": False}),
        "adafactor-all": (
            Adafactor,
            {
                "lr": 1e-2,
                "relative_step": False,
                "scale_parameter": True,
                "beta1": 0.9,
                "decay_rate": -0.5,
                "clip_threshold": 0.5,
                "eps": (1e-8, 1e-2),
                "weight_decay": 0.1,
            },
        ),
        "lamb": (Lamb, {"lr": 1e-2}),
        "lamb-decay": (Lamb, {"lr": 1e-2, "b1": 0.8, "b2": 0.95, "eps": 1e-4, "weight_decay": 0.1}),
        "mars": (Mars, {"lr": 1e-2}),
        "mars-decay": (Mars, {"lr": 1e-2, "betas": (0.9, 0.95), "gamma": 0.1, "weight_decay": 0.1}),
        "muon": (torch.optim.Muon, {"lr": 1e-2}),
        "muon-plain": (torch.optim.Muon, {"lr": 1e-2, "momentum": 0.8, "nesterov": False, "ns_steps": 3}),
        "muon-rms": (torch.optim.Muon, {"lr": 1e-2, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"}),
        "free": (AdamWScheduleFree, {"lr": 1e-2}),
        "free-decay": (
            AdamWScheduleFree,
            {"lr": 1e-2, "betas": (0.95, 0.99), "weight_decay": 0.1, "r": 1.0, "weight_lr_power": 1.0},
        ),
        "sophia": (Sophia, {"lr": 1e-2, "betas": (0.965, 0.99), "rho": 0.04, "weight_decay": 0.1}),
        "sophia-rho": (Sophia, {"lr": 1e-2, "betas": (0.9, 0.8), "rho": 2.0, "weight_decay": 0.0}),
        "prodigy": (Prodigy, {"lr": 1.0}),
        "prodigy-all": (
            Prodigy,
            {
                "lr": 0.5,
                "betas": (0.8, 0.95),
                "beta3": 0.9,
                "eps": 1e-6,
                "weight_decay": 0.1,
                "d0": 1e-4,
                "d_coef": 2.0,
                "growth_rate": 1.5,
                "use_bias_correction": True,
                "safeguard_warmup": True,
            },
        ),
    }
    kinds |= {f"{name}-row": kinds[name] for name in ("adafactor", "lamb-decay", "prodigy")}  # of one dimension
    kinds |= {f"{name}-tall": kinds[name] for name in ("adafactor", "muon", "muon-rms")}
    shapes = {"row": (15,), "tall": (5, 3)}
    plain = {torch.optim.AdamW, torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adamax}
    plain |= {torch.optim.NAdam, torch.optim.RAdam, AdEMAMix}  # those that have code for one tensor after another
    ours = {"t_alpha_beta3": "slow_warmup_steps", "adjust_lr_fn": "adjust_lr", "b1": None, "b2": None}
    ours |= dict.fromkeys(["weight_decouple", "relative_step"])  # None: what we do anyway
    types = {AdamWScheduleFree: "adamw_schedule_free"}
    generator = torch.Generator().manual_seed(3)
    start, steps = torch.randn(3, 5, generator=generator), 20
    gradients = torch.randn(steps, 3, 5, generator=generator) * torch.logspace(-4, 1, 5)
    rates = [min(1.0, (step + 1) / 5) for step in range(steps)]  # a warm-up on top of lr
    tensors = {"start": start, "gradients": gradients, "rate_factors": torch.tensor(rates, dtype=torch.float64)}
    for name, (kind, options) in kinds.items():
        shape = shapes.get(name.split("-")[-1], start.shape)
        weight = start.reshape(shape).clone().requires_grad_()
        optimizer, path = kind([weight], **({"foreach": False} if kind in plain else {}), **options), []
        if kind is AdamWScheduleFree:
            optimizer.train()
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = options["lr"] * rates[step]
            weight.grad = gradients[step].reshape(shape).clone()
            with without_bf16():
                optimizer.step()
            path.append(weight.detach().clone())
        tensors[f"{name}.weights"] = torch.stack(path)
        if kind is AdamWScheduleFree:
            optimizer.eval()
            tensors[f"{name}.average"] = weight.detach().clone()
    about = {
        "optimizers": {
            name: {
                "type": types.get(kind, kind.__name__.lower()),
                **{ours.get(key, key): value for key, value in options.items() if ours.get(key, key)},
                **({"betas": (options["b1"], options["b2"])} if "b1" in options else {}),
            }
            for name, (kind, options) in kinds.items()
        }
    }
    common.write_safetensors(FOLDER / "optimizers.safetensors", tensors, about, MAKER)
    print(len(kinds), "optimizers")


def eight_bits():
    """torchao's AdamW8bit on weights that it keeps in bytes; gradients are sums of two tensors."""
    generator = torch.Generator().manual_seed(4)
    start, one, other = torch.randn(3, 19, 256, generator=generator)
    one *= torch.logspace(-3, 1, 256)
    shares = torch.randn(20, 2, generator=generator)
    options = {"lr": 1e-2, "weight_decay": 0.1}
    weight, path = start.clone().requires_grad_(), {}
    optimizer = AdamW8bit([weight], **options)
    for step in range(20):
        weight.grad = one * shares[step, 0] + other * shares[step, 1]
        optimizer.step()
        if step + 1 in (1, 2, 20):
            path[f"weights.{step + 1}"] = weight.detach().clone()
    state = optimizer.state[weight]
    codes = {key: state[key].codes for key in ("exp_avg", "exp_avg_sq")}
    scales = {f"{key}_scale": state[key].scale for key in ("exp_avg", "exp_avg_sq")}
    tensors = {"start": start, "one": one, "other": other, "shares": shares} | path | codes | scales
    common.write_safetensors(FOLDER / "optimizers_8bit.safetensors", tensors, {"options": options}, MAKER)


if __name__ == "__main__":
    optimizers()
    eight_bits()
    schedules()
