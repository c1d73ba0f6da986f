#!/usr/bin/env python3
# Pairs of answers as TRL's XPOTrainer and NashMDTrainer learn from them: golden_xpo_nash.py ->
# tests/golden/train/online/{xpo,nash_md}.json, of TRL 0.21, the last one that is tested with both (they are gone since;
# with `pip install --target=FOLDER --no-deps trl==0.21.0` and FOLDER first in PYTHONPATH it runs beside what
# golden_online_dpo.py wants). Log-probabilities, losses and what is logged are TRL's own functions'; the loop around
# them is here, as HF Trainer's. Model, prompts, answers and worth are those of golden_online_dpo.py: of two answers the
# first is the model's, the second the reference's, or the mixture's.
#
# What one would not guess of TRL 0.21:
# - XPO logs under logps/chosen and logps/rejected the sum of the model's and the reference's; here they are apart.
# - `alpha` and `mixture_coef` as lists fail at the second step, as `beta` does.
import json
import types

import torch
from golden_trl_021 import EOS, MODEL, PAD, SETTINGS, padded
from trl.trainer.nash_md_trainer import NashMDTrainer
from trl.trainer.xpo_trainer import XPOTrainer

import golden_common as common
import golden_online_layout as online

FOLDER = common.ROOT / "train" / "online"
MAKER = "tools/golden/golden_xpo_nash.py"
STEPS, PROMPTS = 6, 4
GIVEN = json.loads((FOLDER / "online_dpo.json").read_text())
DATA = json.loads((common.ROOT / "train" / "grpo" / "runs.json").read_text())
XPO = {
    "sigmoid": {"beta": 0.2, "alpha": 0.01},
    "ipo": {"beta": 0.5, "loss_type": "ipo", "alpha": 0.05},
    "penalty": {"beta": 0.1, "alpha": 1e-5, "missing_eos_penalty": 0.7},
}
NASH = {
    "plain": {"beta": 0.1, "mixture_coef": 0.5},
    "strong": {"beta": 0.8, "mixture_coef": 0.25, "missing_eos_penalty": 0.7},
}


class Gathered:
    def gather_for_metrics(self, tensor):
        return tensor


def trainer_for(kind, options, model, reference):
    """What the functions look at of a trainer."""
    made = object.__new__(kind)
    arguments = {"loss_type": "sigmoid", "missing_eos_penalty": None} | options
    made.args = types.SimpleNamespace(**arguments)
    made.processing_class = types.SimpleNamespace(eos_token_id=EOS, pad_token_id=PAD)
    made.accelerator, made.ref_model, made.model, made.reward_model = Gathered(), reference, model, object()
    made._beta = options["beta"]
    made._alpha = made._mixture_coef = options.get("alpha", options.get("mixture_coef"))
    made.stats = {}

    class Stats(dict):
        def __missing__(self, name):
            self[name] = []
            return self[name]

    made.stats = Stats()
    return made


def side(rows, which):
    prompts = padded([DATA["prompts"][row] for row in rows], left=True)
    answers = padded([DATA["completions"][row][which] for row in rows])
    prompt_mask, answer_mask = (prompts != PAD).long(), (answers != PAD).long()
    data = {"input_ids": torch.cat((prompts, answers), 1), "attention_mask": torch.cat((prompt_mask, answer_mask), 1)}
    return data, prompts.shape[1]


def worth(rows, which, penalty):
    made = torch.tensor([GIVEN["scores"][row][which] for row in rows])
    ended = torch.tensor([EOS in DATA["completions"][row][which] for row in rows])
    return made if penalty is None else torch.where(ended, made, made - penalty)


def step(trainer, model, rows):
    first, context = side(rows, 0)
    second, _ = side(rows, 1)
    scores = [worth(rows, which, trainer.args.missing_eos_penalty) for which in (0, 1)]
    if isinstance(trainer, XPOTrainer):
        chosen = scores[0] >= scores[1]
        likely = trainer._compute_logprobs(model, first, second, context)
        loss, dpo, xpo = trainer._compute_losses(*likely, chosen)
        trainer._log_statistics(first, second, *(one.detach() for one in likely), chosen, dpo.detach(), xpo.detach(),
                                context, *scores)  # fmt: skip
        # without the reference's
        for name, is_chosen in (("logps/chosen", chosen), ("logps/rejected", ~chosen)):
            own = torch.where(is_chosen, likely[0].sum(1), likely[1].sum(1))
            trainer.stats[name][-1] = own.mean().item()
        return loss
    probability = torch.sigmoid(scores[0] - scores[1])
    likely = trainer._compute_logprobs(model, first, context)
    loss, score, kl = trainer._compute_losses(*likely, probability)
    trainer._log_statistics(first, second, *(one.detach() for one in likely), probability, score.detach(), kl.detach(),
                            context, *scores)  # fmt: skip
    return loss


def optimizer_for(model):
    decayed = [p for name, p in model.named_parameters() if p.dim() > 1]
    others = [p for name, p in model.named_parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": SETTINGS["weight_decay"]}, {"params": others, "weight_decay": 0}]
    return torch.optim.AdamW(groups, lr=SETTINGS["learning_rate"])


def run(kind, options):
    model, reference = common.load_model(MODEL), common.load_model(MODEL)
    optimizer, trainer = optimizer_for(model), trainer_for(kind, options, model, reference)
    losses, norms = [], []
    for number in range(STEPS):
        loss = step(trainer, model, list(range(number * PROMPTS, (number + 1) * PROMPTS)))
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["max_grad_norm"]).item())
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    history = {"loss": losses, "grad_norm": norms} | trainer.stats
    return {"options": options, "history": {n: [float(f"{v:.9g}") for v in values] for n, values in history.items()}}


if __name__ == "__main__":
    online.write("xpo.json", {name: run(XPOTrainer, options) for name, options in XPO.items()}, MAKER)
    online.write("nash_md.json", {name: run(NashMDTrainer, options) for name, options in NASH.items()}, MAKER)
