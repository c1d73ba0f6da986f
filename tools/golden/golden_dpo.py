#!/usr/bin/env python3
# Preference training as TRL's DPOTrainer does it: golden_dpo.py -> tests/golden/train/dpo/{config.json,
# model.safetensors, pairs.jsonl, adapter, dpo_30_steps.json, dpo_losses.json, dpo_variants.json}; with --variants the
# last one alone. A tiny model reads bytes: id 257 ends an
# answer, as hone's tokenizer `bytes` has it. TRL is given ids, so that only the training is compared. Pairs are of very
# uneven lengths.
import json
import sys
import tempfile

import peft
import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, models
from trl import DPOConfig, DPOTrainer

import golden_common as common

FOLDER = common.ROOT / "train" / "dpo"
MAKER = "tools/golden/golden_dpo.py"
EOS, PAD = 257, 258
STEPS, LOSS_STEPS, BATCH, PAIRS = 30, 8, 4, 40
LOGGED = (
    "loss", "grad_norm", "learning_rate", "rewards/chosen", "rewards/rejected", "rewards/accuracies",
    "rewards/margins", "logps/chosen", "logps/rejected", "logits/chosen", "logits/rejected", "entropy",
    "mean_token_accuracy",
)
SETTINGS = {
    "learning_rate": 1e-3, "weight_decay": 0.1, "max_grad_norm": 1.0, "warmup_steps": 3, "lr_scheduler_type": "cosine",
}  # fmt: skip


def make_model():
    config = transformers.LlamaConfig(
        vocab_size=259, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, bos_token_id=256, eos_token_id=EOS,
        pad_token_id=PAD, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
    (FOLDER / "model.safetensors").chmod(0o644)


def make_pairs():
    generator = torch.Generator().manual_seed(5)

    def text(low, high):
        count = int(torch.randint(low, high, (1,), generator=generator))
        return "".join(chr(97 + int(i)) for i in torch.randint(0, 26, (count,), generator=generator))

    pairs = []
    for i in range(PAIRS):
        long_one, short_one = text(30, 120), text(1, 6)
        chosen, rejected = (long_one, short_one) if i % 3 == 0 else (short_one, text(1, 20))
        pairs.append({"prompt": text(1, 40) + ":", "chosen": chosen, "rejected": rejected})
    (FOLDER / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return pairs


def as_ids(pair):
    return {
        "prompt_ids": list(pair["prompt"].encode()),
        "chosen_ids": list(pair["chosen"].encode()) + [EOS],
        "rejected_ids": list(pair["rejected"].encode()) + [EOS],
    }


def any_tokenizer():
    names = {f"<{i}>": i for i in range(257)} | {"<eos>": EOS, "<pad>": PAD}
    plain = Tokenizer(models.WordLevel(names, unk_token="<0>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<eos>", pad_token="<pad>")


class InFileOrder(DPOTrainer):
    def _prepare_dataset(self, dataset, *arguments):  # it is tokenised
        return dataset

    def _get_train_sampler(self, *arguments):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def adapted():
    """With a fresh adapter, which is saved as hone is to begin with it."""
    torch.manual_seed(3)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(common.load_model(FOLDER), config)
    model.save_pretrained(FOLDER / "adapter")
    (FOLDER / "adapter" / "README.md").unlink()
    config = json.loads((FOLDER / "adapter" / "adapter_config.json").read_text())
    config |= {"base_model_name_or_path": "..", "target_modules": sorted(config["target_modules"])}
    (FOLDER / "adapter" / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (FOLDER / "adapter" / "adapter_model.safetensors").chmod(0o644)
    return model


def run(pairs, model=None, steps=STEPS, **changes):
    settings = {"per_device_train_batch_size": BATCH, "max_steps": steps, "beta": 0.2} | SETTINGS | changes
    with tempfile.TemporaryDirectory() as out:
        arguments = DPOConfig(
            output_dir=out, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1,
            bf16=False, gradient_checkpointing=False, max_length=None, optim="adamw_torch", **settings,
        )  # fmt: skip
        trainer = InFileOrder(
            model=model or common.load_model(FOLDER), args=arguments, processing_class=any_tokenizer(),
            train_dataset=Dataset.from_list([as_ids(pair) for pair in pairs]),
        )  # fmt: skip
        trainer.train()
        history = [entry for entry in trainer.state.log_history if "loss" in entry]
        return {name: [entry[name] for entry in history] for name in LOGGED if name in history[0]}


# What is told to TRL of each loss; hone's options are the same.
LOSSES = {
    "hinge": {}, "ipo": {}, "robust": {"label_smoothing": 0.1}, "exo_pair": {"label_smoothing": 0.01}, "nca_pair": {},
    "bco_pair": {}, "sppo_hard": {}, "apo_zero": {}, "apo_down": {}, "discopop": {"discopop_tau": 0.1},
    "sigmoid_norm": {},
}  # fmt: skip


def losses(pairs):
    def few(**changes):
        made = run(pairs, steps=LOSS_STEPS, **changes)
        return {name: made[name] for name in ("loss", "grad_norm", "rewards/margins", "logps/chosen")}

    made = {name: few(loss_type=[name], **options) for name, options in LOSSES.items()}
    made["several"] = few(loss_type=["sigmoid", "bco_pair"], loss_weights=[0.8, 0.2])
    return made


# Hone's options and TRL's, where these have other names.
VARIANTS = {
    "ld_half": ({"ld_alpha": 0.5}, {"ld_alpha": 0.5}),
    "ld_none": ({"ld_alpha": 0.0}, {"ld_alpha": 0.0}),
    "forward_kl": ({"f_divergence_type": "forward_kl"}, None),
    "js_divergence": ({"f_divergence_type": "js_divergence"}, None),
    "alpha_divergence": ({"f_divergence_type": "alpha_divergence"}, None),
    "alpha_divergence_high": ({"f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": 1.7}, None),
    "alpha_divergence_one": ({"f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": 1.0}, None),
    "ipo_forward_kl": ({"f_divergence_type": "forward_kl", "loss_type": "ipo"}, None),
    "norm_js": ({"f_divergence_type": "js_divergence", "loss_type": "sigmoid_norm"}, None),
    "weighted": ({"use_weighting": True}, None),
    # (TRL multiplies its losses in place, which its hinge and its sums of losses cannot stand.)
    "weighted_ld_ipo": ({"use_weighting": True, "ld_alpha": 0.3, "loss_type": "ipo"}, None),
    "moving": (
        {"reference_sync_steps": 3},
        {"sync_ref_model": True, "ref_model_sync_steps": 3},
    ),
    "moving_each": (
        {"reference_sync_steps": 1, "reference_mixup_alpha": 0.1},
        {"sync_ref_model": True, "ref_model_sync_steps": 1, "ref_model_mixup_alpha": 0.1},
    ),
    "moving_whole": (
        {"reference_sync_steps": 4, "reference_mixup_alpha": 1.0},
        {"sync_ref_model": True, "ref_model_sync_steps": 4, "ref_model_mixup_alpha": 1.0},
    ),
}  # fmt: skip


def variants(pairs):
    # (Accuracies are those of rounding where a reference has just become the model.)
    logged = ("loss", "grad_norm", "rewards/margins", "logps/chosen")
    runs = {}
    for name, (own, theirs) in VARIANTS.items():
        made = run(pairs, steps=10, **(own if theirs is None else theirs))
        runs[name] = {one: made[one] for one in logged}
    return {"settings": {name: own for name, (own, _) in VARIANTS.items()}, "runs": runs}


def main():
    if "--variants" in sys.argv:  # of the files that are there
        pairs = [json.loads(line) for line in (FOLDER / "pairs.jsonl").read_text().splitlines()]
        return common.write_json(FOLDER / "dpo_variants.json", variants(pairs), MAKER)
    FOLDER.mkdir(parents=True, exist_ok=True)
    make_model()
    pairs = make_pairs()
    common.write_json(
        FOLDER / "dpo_30_steps.json",
        {
            "settings": {**SETTINGS, "batch_size": BATCH, "beta": 0.2, "rpo_alpha": 0.5},
            "plain": run(pairs),
            "lora": run(pairs, adapted(), learning_rate=1e-2),
            "rpo": run(pairs, loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.5], steps=10),
        },
        MAKER,
    )
    common.write_json(FOLDER / "dpo_losses.json", {"settings": LOSSES, "runs": losses(pairs)}, MAKER)
    common.write_json(FOLDER / "dpo_variants.json", variants(pairs), MAKER)


if __name__ == "__main__":
    main()
