#!/usr/bin/env python3
# A reward model as TRL's RewardTrainer learns it: golden_reward.py -> tests/golden/train/reward/{model, reward.json}.
# The pairs are those of golden_dpo.py, which is run first; their ids are given to TRL. The model is a Llama with a head
# of one label.
import json
import tempfile

import torch
import transformers
from datasets import Dataset
from golden_dpo import BATCH, FOLDER as PAIRS, PAD, SETTINGS, InFileOrder, any_tokenizer, as_ids
from trl import RewardConfig, RewardTrainer

import golden_common as common

FOLDER = common.ROOT / "train" / "reward"
MAKER = "tools/golden/golden_reward.py"
STEPS = 10
LOGGED = ("loss", "grad_norm", "learning_rate", "accuracy", "margin", "mean_reward", "min_reward", "max_reward")
RUNS = {"plain": {}, "centred": {"center_rewards_coefficient": 0.05}}  # hone's options


def make_model():
    config = transformers.LlamaConfig(
        vocab_size=259, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, bos_token_id=256, eos_token_id=257,
        pad_token_id=PAD, num_labels=1,
    )  # fmt: skip
    torch.manual_seed(23)
    transformers.LlamaForSequenceClassification(config).save_pretrained(FOLDER / "model")
    (FOLDER / "model" / "model.safetensors").chmod(0o644)


class GivenIds(RewardTrainer):
    _prepare_dataset = InFileOrder._prepare_dataset
    _get_train_sampler = InFileOrder._get_train_sampler


def run(rows, **options):
    with tempfile.TemporaryDirectory() as out:
        arguments = RewardConfig(
            output_dir=out, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
            bf16=False, gradient_checkpointing=False, max_length=None, optim="adamw_torch", max_steps=STEPS,
            per_device_train_batch_size=BATCH, **SETTINGS, **options,
        )  # fmt: skip
        trainer = GivenIds(
            model=common.load_model(FOLDER / "model", transformers.AutoModelForSequenceClassification), args=arguments,
            processing_class=any_tokenizer(), train_dataset=Dataset.from_list(rows),
        )  # fmt: skip
        trainer.train()
        history = [entry for entry in trainer.state.log_history if "loss" in entry]
        return {name: [entry[name] for entry in history] for name in LOGGED}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_model()
    pairs = [as_ids(json.loads(line)) for line in (PAIRS / "pairs.jsonl").read_text().splitlines()]
    rows = [{side: pair["prompt_ids"] + pair[side] for side in ("chosen_ids", "rejected_ids")} for pair in pairs]
    runs = {name: run(rows, **options) for name, options in RUNS.items()}
    common.write_json(FOLDER / "reward.json", {"settings": RUNS, "runs": runs}, MAKER)


if __name__ == "__main__":
    main()
