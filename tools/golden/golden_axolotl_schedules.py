#!/usr/bin/env python3
# Learning rates as Axolotl's own schedules give them, alone and restarted, and transformers' warm-ups of other shapes:
# golden_axolotl_schedules.py AXOLOTL/src/axolotl/utils/schedulers.py -> tests/golden/train/axolotl_schedules.json.
import argparse
import importlib.util

import torch
from torch.optim.lr_scheduler import OneCycleLR
from transformers import get_scheduler
from transformers.optimization import get_wsd_schedule

import golden_common as common

MAKER = "tools/golden/golden_axolotl_schedules.py"
PEAK, STEPS = 1e-3, 40


def table(make):
    """The learning rates from the scheduler's first step on, up to three beyond the end, if it has such."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=PEAK)
    scheduler, rates = make(optimizer), []
    first = scheduler.last_epoch  # 1 of restarts: a scheduler that is wrapped there has made its first step before
    for _ in range(first, STEPS + (0 if isinstance(scheduler, OneCycleLR) else 3)):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if scheduler.last_epoch < STEPS - 1 or not isinstance(scheduler, OneCycleLR):
            scheduler.step()
    return {"first": first, "rates": rates}


def cosine(warmup, more=""):
    return f"{{type: cosine, warmup_steps: {warmup}{more}}}"


def cases(axolotl):
    """What the schedule is in a recipe, and what makes it."""
    for warmup, share, floor in [(0, 0.5, 0.1), (5, 0.8, 0.2), (4, 0.63, 0.05), (7, 1.0, 0.1)]:
        yield cosine(warmup, f", fall_ratio: {share}, final_ratio: {floor}"), lambda o: (
            axolotl.get_cosine_schedule_with_warmup_decay_constant(
                o, warmup, STEPS, constant_lr_ratio=share, min_lr_ratio=floor
            )
        )
    for warmup in (0, 7):
        yield cosine(warmup, ", warmup_type: quadratic" if warmup else ""), lambda o: (
            axolotl.get_cosine_schedule_with_quadratic_warmup(o, warmup, STEPS)
        )
    plain = {
        cosine(3, ", final_ratio: 0.1"): lambda o: axolotl.get_cosine_schedule_with_min_lr(o, 3, STEPS, 0.1),
        "{type: linear}": lambda o: get_scheduler("linear", o, 0, STEPS),
        "{type: constant}": lambda o: get_scheduler("constant", o),
    }
    for inner, make in plain.items():
        for every, warmup, anneal, low in [(10, 3, 1, 0.001), (13, 5, 4, 0.1), (12, 1, 6, 0.001), (8, 4, 4, 0.5)]:
            jagged = f"restart_steps: {every}, restart_warmup_steps: {warmup}, restart_anneal_steps: {anneal}"
            yield f"{{type: jagged, {jagged}, restart_ratio: {low}, schedule: {inner}}}", lambda o: (
                axolotl.JaggedLRRestartScheduler(o, make(o), every, warmup, anneal, min_lr_scale=low)
            )
    for shape in ("linear", "cosine", "1-sqrt"):
        yield f"{{type: wsd, warmup_steps: 6, decay_steps: 12, final_ratio: 0.1, warmup_type: {shape}}}", lambda o: (
            get_wsd_schedule(
                o, num_warmup_steps=6, num_decay_steps=12, num_training_steps=STEPS, warmup_type=shape, min_lr_ratio=0.1
            )
        )
    for warmup, floor in [(0, 0), (5, 0), (4, 0.1)]:
        yield f"{{type: rex, warmup_steps: {warmup}, final_ratio: {floor}}}", lambda o: (
            axolotl.RexLR(o, PEAK, floor * PEAK, total_steps=STEPS, num_warmup_steps=warmup)
        )
    for share, start, end in [(0.3, 25, 1e4), (0.1, 10, 100), (0.5, 4, 2)]:
        own = f"warmup_ratio: {share}, start_ratio: {1 / start}, final_ratio: {1 / start / end}"
        yield f"{{type: one_cycle, {own}}}", lambda o: OneCycleLR(
            o, PEAK, total_steps=STEPS, pct_start=share, div_factor=start, final_div_factor=end, cycle_momentum=False
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("schedulers", help="Axolotl's src/axolotl/utils/schedulers.py")
    spec = importlib.util.spec_from_file_location("axolotl_schedulers", parser.parse_args().schedulers)
    axolotl = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(axolotl)
    tables = [{"schedule": schedule, **table(make)} for schedule, make in cases(axolotl)]
    value = {"peak": PEAK, "steps": STEPS, "tables": tables}
    common.write_json(common.ROOT / "train" / "axolotl_schedules.json", value, MAKER)
    print(len(tables), "schedules")


if __name__ == "__main__":
    main()
