#!/usr/bin/env python3
# Answers as TRL's SDFTTrainer learns from them: golden_sdft.py -> tests/golden/train/sdft.json.
# The model is that of golden_dpo.py, which is run first. Nothing is sampled: prompts, what the teacher is shown and
# answers are made here, a step takes the next four prompts, and answers keep their order.
#
# What one would not guess of TRL 1.16:
# - An answer's loss is the mean of its tokens that count, and 0 where none does; answers count alike.
# - `temperature` divides both models' logits, and the divergence is not multiplied by its square.
import json
import tempfile

import torch
import trl
from datasets import Dataset
from golden_dpo import EOS, FOLDER as MODEL, SETTINGS, any_tokenizer
from golden_grpo import layout, short
from trl.experimental.sdft import SDFTConfig, SDFTTrainer

import golden_common as common

MAKER = "tools/golden/golden_sdft.py"
STEPS, PROMPTS, LONGEST = 5, 4, 12
COMMON = SETTINGS | {
    "warmup_steps": 0, "lr_scheduler_type": "constant", "max_steps": STEPS, "max_completion_length": LONGEST,
    "distillation_mode": "full_logits", "learning_rate": 1e-2, "weight_decay": 0.0,
}  # fmt: skip
RUNS = {
    "base": {},
    "forward": {"distillation_alpha": 0.0, "num_generations": 1},
    "reverse": {"distillation_alpha": 1.0, "temperature": 0.7},
    "skipped": {"num_loss_tokens_to_skip": 3, "distillation_alpha": 0.3},
    "live": {"teacher_model_kind": "live", "distillation_alpha": 0.0},
    "ema": {"teacher_model_kind": "ema", "teacher_update_rate": 0.5, "distillation_alpha": 0.0},
    "ema_seldom": {"teacher_model_kind": "ema", "teacher_update_rate": 0.8, "teacher_sync_steps": 2},
    "template": {"teacher_prompt_template": "{privileged_context}{prompt}<{privileged_context}"},
    "accumulated": {"gradient_accumulation_steps": 2, "per_device_train_batch_size": PROMPTS},
}  # fmt: skip


def make_data():
    generator = torch.Generator().manual_seed(23)

    def number(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    def text(low, high):
        return "".join(chr(number(97, 123)) for _ in range(number(low, high)))

    def answer():
        ids = torch.randint(0, 256, (number(1, LONGEST + 1),), generator=generator).tolist()
        return ids if len(ids) == LONGEST else [*ids, EOS]

    rows = range(STEPS * PROMPTS)
    return {
        "prompts": [text(2, 9) for _ in rows],
        "privileged_contexts": [text(1, 20) for _ in rows],
        "completions": [[answer(), answer()] for _ in rows],
    }


DATA = make_data()


class Canned(SDFTTrainer):
    def _tokenize_prompts(self, prompts):
        return [list(prompt.encode()) for prompt in prompts]

    def _generate(self, prompt_ids):
        seen, made = {}, []
        for ids in prompt_ids:
            row = DATA["prompts"].index(bytes(ids).decode())
            seen[row] = seen.get(row, -1) + 1
            made.append(DATA["completions"][row][seen[row]])
        return prompt_ids, made


def run(options):
    rows = [
        {"prompt": prompt, "privileged_context": shown}
        for prompt, shown in zip(DATA["prompts"], DATA["privileged_contexts"], strict=True)
    ]
    generations = options.get("num_generations", 2)
    batch = {"num_generations": generations, "per_device_train_batch_size": PROMPTS * generations}
    with tempfile.TemporaryDirectory() as out:
        settings = SDFTConfig(
            output_dir=out, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
            bf16=False, gradient_checkpointing=False, optim="adamw_torch", shuffle_dataset=False,
            **(COMMON | batch | options),
        )  # fmt: skip
        model = common.load_model(MODEL)
        made = Canned(
            model=model, args=settings, processing_class=any_tokenizer(), train_dataset=Dataset.from_list(rows)
        )
        made.train()
    history = [entry for entry in made.state.log_history if "loss" in entry]
    names = ("loss", "grad_norm", "completions/mean_length", "completions/clipped_ratio")
    return {
        "options": {"num_generations": generations} | options,
        "history": {name: [short(entry.get(name)) for entry in history] for name in names},
    }


def main():
    runs = {name: run(options) for name, options in RUNS.items()}
    about = {"maker": MAKER, **common.versions(), "trl": trl.__version__, "settings": COMMON}
    (common.ROOT / "train" / "sdft.json").write_text(layout(about | DATA | {"runs": runs}) + "\n")


if __name__ == "__main__":
    main()
