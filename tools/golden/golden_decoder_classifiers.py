#!/usr/bin/env python3
# Golden files of decoders with a classification head: golden_decoder_classifiers.py ->
# tests/golden/classifiers/ (development time only), as golden_bert.py makes them of BERT.
import torch
import transformers as hf

import golden_common as common
import golden_moe
from golden_model import fill, labels_of, save_anew, write_golden

BODY = dict(
    vocab_size=64, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
CASES = {
    "llama": (hf.LlamaConfig, hf.LlamaForSequenceClassification, {**BODY, "num_labels": 3}),
    "qwen2": (
        hf.Qwen2Config, hf.Qwen2ForSequenceClassification,
        {**BODY, "hidden_size": 18, "num_attention_heads": 3, "num_key_value_heads": 1, "tie_word_embeddings": True,
         "id2label": {0: "ham", 1: "spam"}, "label2id": {"ham": 0, "spam": 1}},
    ),
    "qwen3_moe": (
        hf.Qwen3MoeConfig, hf.Qwen3MoeForSequenceClassification,
        {**BODY, "num_labels": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
         "head_dim": 8},
    ),
    "qwen3-regression": (
        hf.Qwen3Config, hf.Qwen3ForSequenceClassification,
        {**BODY, "head_dim": 6, "problem_type": "regression",
         "id2label": {0: "helpful", 1: "short"}, "label2id": {"helpful": 0, "short": 1}},
    ),
    "mistral-several": (
        hf.MistralConfig, hf.MistralForSequenceClassification,
        {**BODY, "num_labels": 3, "sliding_window": None, "problem_type": "multi_label_classification"},
    ),
}  # fmt: skip


def random_model(config, kind, seed):
    model = kind._from_config(config, attn_implementation=common.ATTENTION)
    return fill(model, seed, lambda name: "embed" in name, lambda name: name.endswith("norm.weight"))


def batch_of(config, seed):
    """Five texts of different lengths, one of which fills the row."""
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    ids = torch.randint(3, config.vocab_size, (5, 14), generator=generator)
    mask = torch.zeros_like(ids)
    for row, length in enumerate([9, 14, 13, 3, 11]):
        mask[row, :length] = 1
    ids[mask == 0] = config.pad_token_id
    return {"input_ids": ids, "attention_mask": mask, "labels": labels_of(config, 5, generator)}


def load(folder):
    return common.load_model(folder, hf.AutoModelForSequenceClassification)


def make(name, case, seed):
    config, kind, options = case
    folder = common.ROOT / "classifiers" / name
    save_anew(folder, random_model(config(**options), kind, seed))
    batch = batch_of(config(**options), seed)

    def more(model, output):
        with torch.no_grad():
            below = model.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        hidden = below.last_hidden_state * batch["attention_mask"].unsqueeze(-1)
        return {"hidden": hidden, "logits": output.logits}

    write_golden(folder, seed, batch, "golden_decoder_classifiers.py", load, gradients=golden_moe.gradients, more=more)


if __name__ == "__main__":
    for number, (name, case) in enumerate(CASES.items()):
        make(name, case, number)
