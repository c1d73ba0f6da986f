#!/usr/bin/env python3
# Preferences without a reference as TRL's ORPOTrainer and CPOTrainer learn them: golden_orpo_cpo.py ->
# tests/golden/train/dpo/without_reference.json. Model and pairs are those of golden_dpo.py, which is run first. TRL's
# ORPO learns the prompt along with the chosen answer; here, as in hone, the answer alone.
import json
import tempfile

from datasets import Dataset
from golden_dpo import BATCH, FOLDER, InFileOrder, SETTINGS, any_tokenizer, as_ids
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

import golden_common as common

MAKER = "tools/golden/golden_orpo_cpo.py"
STEPS = 10
LOGGED = ("loss", "grad_norm", "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins",
          "logps/chosen", "logps/rejected", "nll_loss", "log_odds_ratio", "log_odds_chosen")  # fmt: skip
# What is told to TRL; hone's options are the same.
CPO = {
    "sigmoid": {"loss_type": "sigmoid", "label_smoothing": 0.1}, "hinge": {"loss_type": "hinge", "cpo_alpha": 0.5},
    "ipo": {"loss_type": "ipo"}, "simpo": {"loss_type": "simpo", "beta": 2.0, "simpo_gamma": 0.8, "cpo_alpha": 0.0},
    "alphapo": {"loss_type": "simpo", "beta": 2.0, "alpha": 0.25, "cpo_alpha": 0.1},
}  # fmt: skip


def tokenized(row):
    ids, made = as_ids(row), {}
    for side in ("chosen", "rejected"):
        all_ids = ids["prompt_ids"] + ids[f"{side}_ids"]
        made[f"{side}_input_ids"] = all_ids
        made[f"{side}_attention_mask"] = [1] * len(all_ids)
        made[f"{side}_labels"] = [-100] * len(ids["prompt_ids"]) + ids[f"{side}_ids"]
    made["prompt_input_ids"] = ids["prompt_ids"]
    made["prompt_attention_mask"] = [1] * len(ids["prompt_ids"])
    return made


class AsIds:
    def tokenize_row(self, row, model=None):
        return tokenized(row)

    _get_train_sampler = InFileOrder._get_train_sampler


class Cpo(AsIds, CPOTrainer):
    pass


class Orpo(AsIds, ORPOTrainer):
    # CPO's means of answers' tokens, and its loss of the chosen ones, are those that ORPO's formulas want.
    loss_type, cpo_alpha = "simpo", 1.0
    concatenated_forward = CPOTrainer.concatenated_forward

    @property
    def pad_token_id(self):
        return self.padding_value


def run(trainer, config, **options):
    pairs = [json.loads(line) for line in (FOLDER / "pairs.jsonl").read_text().splitlines()]
    with tempfile.TemporaryDirectory() as out:
        arguments = config(
            output_dir=out, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
            bf16=False, gradient_checkpointing=False, max_length=256, max_completion_length=200, optim="adamw_torch",
            per_device_train_batch_size=BATCH, max_steps=STEPS, **({"beta": 0.2} | SETTINGS | options),
        )  # fmt: skip
        made = trainer(
            model=common.load_model(FOLDER), args=arguments, processing_class=any_tokenizer(),
            train_dataset=Dataset.from_list(pairs),
        )  # fmt: skip
        made.train()
        history = [entry for entry in made.state.log_history if "loss" in entry]
        return {name: [entry[name] for entry in history] for name in LOGGED if name in history[0]}


def main():
    runs = {name: run(Cpo, CPOConfig, **options) for name, options in CPO.items()}
    runs["orpo"] = run(Orpo, ORPOConfig)
    common.write_json(FOLDER / "without_reference.json", {"settings": CPO, "runs": runs}, MAKER)


if __name__ == "__main__":
    main()
