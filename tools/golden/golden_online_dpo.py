#!/usr/bin/env python3
# Pairs of answers as TRL's OnlineDPOTrainer learns from them: golden_online_dpo.py ->
# tests/golden/train/online/online_dpo.json. Model, prompts and answers are those of golden_grpo.py, of whose four
# answers the first two are the model's; a step takes the next four prompts. What they are worth is made here.
#
# What one would not guess of TRL 1.16:
# - Log-probabilities are without the temperature. IPO's are sums, where DPOTrainer takes means.
# - Sums of objective/kl, objective/entropy and what follows from them run over padding as well; here they are masked.
# - Gradients of several micro-batches are their sum, not their mean.
# - `beta` as a list fails at the second step, as the epoch that it is indexed with is no integer.
import json
import tempfile

import torch
from datasets import Dataset
from golden_dpo import EOS, FOLDER as MODEL, PAD, SETTINGS, any_tokenizer
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

import golden_common as common
import golden_online_layout as online

FOLDER = common.ROOT / "train" / "online"
MAKER = "tools/golden/golden_online_dpo.py"
STEPS, PROMPTS, LONGEST = 6, 4, 12
COMMON = SETTINGS | {
    "warmup_steps": 0, "lr_scheduler_type": "constant", "max_steps": STEPS, "per_device_train_batch_size": PROMPTS,
    "max_new_tokens": LONGEST, "temperature": 0.7,
}  # fmt: skip
NOT_LOGGED = ("epoch", "learning_rate", "num_tokens", "step", "step_time")
RUNS = {
    "sigmoid": {"beta": 0.2},
    "ipo": {"beta": 0.5, "loss_type": "ipo"},
    "penalty": {"missing_eos_penalty": 0.7},
    "accumulated": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2},
}
DATA = json.loads((common.ROOT / "train" / "grpo" / "runs.json").read_text())


def make_scores():
    generator = torch.Generator().manual_seed(23)
    scores = torch.randint(-4, 5, (len(DATA["prompts"]), 2), generator=generator) / 4
    scores[5] = 0.5  # the first one counts as the better
    return scores.tolist()


SCORES = make_scores()


def padded(rows, left=False):
    longest = max(len(row) for row in rows)
    ids = [[PAD] * (longest - len(row)) + row if left else row + [PAD] * (longest - len(row)) for row in rows]
    mask = [[0] * (longest - len(row)) + [1] * len(row) if left else [1] * len(row) + [0] * (longest - len(row))
            for row in rows]  # fmt: skip
    return torch.tensor(ids), torch.tensor(mask)


class Canned(OnlineDPOTrainer):
    def _get_train_sampler(self, *arguments):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def _generate(self, model, prompts, images=None):
        rows = [int(prompt) for prompt in prompts]
        prompt_ids, prompt_mask = padded([DATA["prompts"][row] for row in rows] * 2, left=True)
        answers = [DATA["completions"][row][side] for side in (0, 1) for row in rows]
        completion_ids, completion_mask = padded(answers)
        return prompt_ids, prompt_mask, completion_ids, completion_mask, None

    def _forward(self, model, prompt_ids, prompt_mask, completion_ids, completion_mask, vision_inputs=None):
        made = super()._forward(model, prompt_ids, prompt_mask, completion_ids, completion_mask, vision_inputs)
        return made * completion_mask


def worth(prompts, **arguments):
    half = len(prompts) // 2
    return [SCORES[int(prompt)][i // half] for i, prompt in enumerate(prompts)]


def run(options):
    rows = [{"prompt": str(row)} for row in range(len(DATA["prompts"]))]
    with tempfile.TemporaryDirectory() as out:
        settings = OnlineDPOConfig(
            output_dir=out, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
            bf16=False, gradient_checkpointing=False, optim="adamw_torch", **(COMMON | options),
        )  # fmt: skip
        made = Canned(
            model=common.load_model(MODEL), ref_model=common.load_model(MODEL), args=settings,
            processing_class=any_tokenizer(), reward_funcs=[worth], train_dataset=Dataset.from_list(rows),
        )  # fmt: skip
        made.train()
    history = [entry for entry in made.state.log_history if "loss" in entry]
    names = [name for name in history[0] if name not in NOT_LOGGED]
    return {"options": options, "history": {n: [float(f"{e[n]:.9g}") for e in history] for n in names}}


if __name__ == "__main__":
    assert EOS == 257
    online.write("online_dpo.json", {name: run(options) for name, options in RUNS.items()}, MAKER, scores=SCORES)
