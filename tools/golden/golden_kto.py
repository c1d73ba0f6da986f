#!/usr/bin/env python3
# Answers that are judged one by one as TRL's KTOTrainer learns them, and what SFTTrainer makes of loss_type dft:
# golden_kto.py -> tests/golden/train/kto/{answers.jsonl, kto.json, moving.json, dft.json, eaft.json}; with --moving or
# --eaft one of these alone. Model and texts are those of golden_dpo.py, which is run first; of each pair one side is
# taken, more of the desirable ones. EAFT's loss is Axolotl's formula.
import json
import sys
import tempfile

import torch
from datasets import Dataset
from golden_dpo import BATCH, EOS, SETTINGS, any_tokenizer
from golden_dpo import FOLDER as MODEL
from trl import KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

import golden_common as common

FOLDER = common.ROOT / "train" / "kto"
MAKER = "tools/golden/golden_kto.py"
STEPS = 10
LOGGED = ("loss", "grad_norm", "kl", "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen",
          "logps/rejected", "logits/chosen", "logits/rejected", "entropy")  # fmt: skip
# What is told to TRL; hone's options are the same.
KTO = {
    "kto": {},
    "weighted": {"desirable_weight": 0.7, "undesirable_weight": 1.5, "beta": 0.5},
    "apo_zero_unpaired": {"loss_type": "apo_zero_unpaired"},
}


def make_answers():
    pairs = [json.loads(line) for line in (MODEL / "pairs.jsonl").read_text().splitlines()]
    answers = []
    for i, pair in enumerate(pairs):
        good = i % 5 not in (1, 3)
        answers.append({"prompt": pair["prompt"], "completion": pair["chosen" if good else "rejected"], "label": good})
    (FOLDER / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    return answers


def as_ids(answer):
    return {
        "prompt_ids": list(answer["prompt"].encode()),
        "completion_ids": list(answer["completion"].encode()) + [EOS],
        "label": answer["label"],
    }


class Kto(KTOTrainer):
    def _prepare_dataset(self, dataset, *arguments):  # it is tokenised, in file order
        rows = list(dataset)
        for begin in range(0, len(rows), BATCH):
            batch = rows[begin : begin + BATCH]
            others = [batch[-1]["completion_ids"]] + [row["completion_ids"] for row in batch[:-1]]
            for row, other in zip(batch, others):
                row["KL_completion_ids"] = other
        return Dataset.from_list(rows)


def arguments(config, out, options):
    return config(
        output_dir=out, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
        bf16=False, gradient_checkpointing=False, max_length=256, optim="adamw_torch", max_steps=STEPS,
        per_device_train_batch_size=BATCH, **(SETTINGS | options),
    )  # fmt: skip


def history(trainer):
    trainer.train()
    lines = [entry for entry in trainer.state.log_history if "loss" in entry]
    return {name: [line[name] for line in lines] for name in LOGGED if all(name in line for line in lines)}


def kto(answers, **options):
    with tempfile.TemporaryDirectory() as out:
        return history(Kto(
            model=common.load_model(MODEL), ref_model=common.load_model(MODEL), processing_class=any_tokenizer(),
            args=arguments(KTOConfig, out, {"beta": 0.2} | options),
            train_dataset=Dataset.from_list([as_ids(answer) for answer in answers]),
        ))  # fmt: skip


class Sft(SFTTrainer):
    def _get_train_sampler(self, *arguments):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def dft(answers, told={"loss_type": "dft"}, **more):
    rows = []
    for row in map(as_ids, answers):
        prompt, completion = row["prompt_ids"], row["completion_ids"]
        rows.append({"input_ids": prompt + completion, "labels": [-100] * len(prompt) + completion})
    with tempfile.TemporaryDirectory() as out:
        options = told | {"dataset_kwargs": {"skip_prepare_dataset": True}}
        return history(Sft(
            model=common.load_model(MODEL), processing_class=any_tokenizer(), train_dataset=Dataset.from_list(rows),
            args=arguments(SFTConfig, out, options), **more,
        ))  # fmt: skip


def eaft_loss(alpha, k):
    """Axolotl's: each token's loss times the entropy of its k likeliest tokens, to the power of alpha."""

    def loss(outputs, labels, num_items_in_batch=None):
        logits, targets = outputs.logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten()
        logits, targets = logits[targets != -100], targets[targets != -100]
        p = logits.detach().topk(min(k, logits.shape[1])).values.softmax(-1)
        weight = -(p * (p + 1e-10).log()).sum(-1)
        each = torch.nn.functional.cross_entropy(logits, targets, reduction="none") * weight**alpha
        return each.sum() / num_items_in_batch

    return loss


def eaft():
    answers = [json.loads(line) for line in (FOLDER / "answers.jsonl").read_text().splitlines()]
    settings = {"usual": {}, "few": {"eaft_alpha": 0.5, "eaft_k": 3}, "all": {"eaft_alpha": 2, "eaft_k": 1000}}
    made = {}
    for name, own in settings.items():
        loss = eaft_loss(own.get("eaft_alpha", 1), own.get("eaft_k", 20))
        run = dft(answers, {"loss_type": "nll"}, compute_loss_func=loss)
        made[name] = {"options": own, "loss": run["loss"], "grad_norm": run["grad_norm"]}
    common.write_json(FOLDER / "eaft.json", {"runs": made}, MAKER)


def moving():
    """A reference that follows the model; hone's options."""
    made = {}
    for name, loss in (("kto", "kto"), ("unpaired", "apo_zero_unpaired")):
        own = {"loss_type": loss, "reference_sync_steps": 2, "reference_mixup_alpha": 0.4}
        theirs = {"sync_ref_model": True, "ref_model_sync_steps": 2, "ref_model_mixup_alpha": 0.4}
        answers = [json.loads(line) for line in (FOLDER / "answers.jsonl").read_text().splitlines()]
        made[name] = {"options": own, "history": kto(answers, loss_type=loss, **theirs)}
    common.write_json(FOLDER / "moving.json", {"runs": made}, MAKER)


def main():
    if "--moving" in sys.argv:
        return moving()
    if "--eaft" in sys.argv:
        return eaft()
    FOLDER.mkdir(parents=True, exist_ok=True)
    answers = make_answers()
    runs = {name: kto(answers, **options) for name, options in KTO.items()}
    common.write_json(FOLDER / "kto.json", {"settings": KTO, "runs": runs}, MAKER)
    moving()
    eaft()
    made = dft(answers)
    common.write_json(FOLDER / "dft.json", {"loss": made["loss"], "grad_norm": made["grad_norm"]}, MAKER)


if __name__ == "__main__":
    main()
