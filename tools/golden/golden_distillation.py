#!/usr/bin/env python3
# Distillation as TRL's GKDTrainer does it on given texts: golden_distillation.py -> tests/golden/train/distillation/
# {teacher, texts.jsonl, distillation.json}. The model that learns is that of golden_dpo.py, which is run first; its
# teacher has another width. TRL's trainer knows neither the labels' loss nor a temperature in its loss: with them
# ("hinton") its divergence is multiplied by the temperature's square and LibTorch's cross-entropy added.
import json
import tempfile

import torch
import transformers
from datasets import Dataset
from golden_dpo import BATCH, FOLDER as STUDENT, InFileOrder, PAD, SETTINGS, any_tokenizer
from trl.experimental.gkd import GKDConfig, GKDTrainer

import golden_common as common

FOLDER = common.ROOT / "train" / "distillation"
MAKER = "tools/golden/golden_distillation.py"
STEPS = 10
# hone's options.
RUNS = {
    "forward": {"beta": 0.0}, "between": {"beta": 0.3}, "reverse": {"beta": 1.0},
    "hinton": {"beta": 0.0, "temperature": 2.0, "alpha": 0.6},
    "cool": {"beta": 0.5, "temperature": 0.5, "alpha": 1.0},
}  # fmt: skip


def make_teacher():
    config = transformers.LlamaConfig(
        vocab_size=259, hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, initializer_range=0.5, bos_token_id=256, eos_token_id=257,
        pad_token_id=PAD, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(17)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(FOLDER / "teacher")
    (FOLDER / "teacher" / "generation_config.json").unlink(missing_ok=True)
    (FOLDER / "teacher" / "model.safetensors").chmod(0o644)


def collate(rows):
    length = max(len(row["input_ids"]) for row in rows)
    padded = lambda name, fill: torch.tensor([row[name] + [fill] * (length - len(row[name])) for row in rows])
    ids = padded("input_ids", PAD)
    return {"input_ids": ids, "labels": padded("labels", -100), "attention_mask": padded("mask", 0)}


class OnGivenTexts(GKDTrainer):
    alpha, heat = 1.0, 1.0
    _get_train_sampler = InFileOrder._get_train_sampler

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        if self.alpha == 1 and self.heat == 1:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        given = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            teacher = self.teacher_model.eval()(**given).logits[:, :-1]
        student, labels = model(**given).logits[:, :-1], inputs["labels"][:, 1:]
        divergence = self.generalized_jsd_loss(
            student, teacher, labels, beta=self.beta, temperature=self.heat, num_items_in_batch=num_items_in_batch
        )
        label = torch.nn.functional.cross_entropy(student.flatten(0, 1), labels.flatten(), reduction="sum")
        return self.alpha * self.heat**2 * divergence + (1 - self.alpha) * label / num_items_in_batch


def run(texts, beta, temperature=1.0, alpha=1.0):
    rows = []
    for text in texts:
        prompt = list(text["prompt"].encode())
        ids = prompt + list(text["completion"].encode()) + [257]
        rows.append({"input_ids": ids, "labels": [-100] * len(prompt) + ids[len(prompt):], "mask": [1] * len(ids)})
    with tempfile.TemporaryDirectory() as out:
        arguments = GKDConfig(
            output_dir=out, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
            bf16=False, gradient_checkpointing=False, max_length=None, optim="adamw_torch", lmbda=0.0, beta=beta,
            per_device_train_batch_size=BATCH, max_steps=STEPS, **SETTINGS,
        )  # fmt: skip
        trainer = OnGivenTexts(
            model=common.load_model(STUDENT), teacher_model=common.load_model(FOLDER / "teacher"), args=arguments,
            processing_class=any_tokenizer(), train_dataset=Dataset.from_list(rows), data_collator=collate,
        )  # fmt: skip
        trainer.heat, trainer.alpha = temperature, alpha
        trainer.train()
        history = [entry for entry in trainer.state.log_history if "loss" in entry]
        return {name: [entry[name] for entry in history] for name in ("loss", "grad_norm", "learning_rate")}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_teacher()
    pairs = [json.loads(line) for line in (STUDENT / "pairs.jsonl").read_text().splitlines()]
    texts = [{"prompt": pair["prompt"], "completion": pair["chosen"]} for pair in pairs]
    (FOLDER / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    runs = {name: run(texts, **options) for name, options in RUNS.items()}
    common.write_json(FOLDER / "distillation.json", {"settings": RUNS, "runs": runs}, MAKER)


if __name__ == "__main__":
    main()
