#!/usr/bin/env python3
# Golden files of BERT, RoBERTa, ModernBERT and DistilBERT with a classification head: golden_bert.py ->
# tests/golden/classifiers/<name>/ (development time only).
#
# Each folder is a complete HF folder plus golden.safetensors: pairs of different lengths and what transformers computes
# from them. bert-base holds the weights of `bert` below its head, as BertModel saves them: without a prefix. Seconds for
# all; the same bytes every time on the same versions.
import torch
import transformers as hf

import golden_common as common
from golden_model import fill, labels_of, save_anew, write_golden

BODY = dict(
    vocab_size=64,
    hidden_size=24,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=32,
)
# Of seven tokens a sliding layer sees three on each side; layers 0 and 3 see all.
MODERN = {**BODY, "num_hidden_layers": 4, "local_attention": 6, "pad_token_id": 5, "bos_token_id": 1, "eos_token_id": 2}
DISTIL = {"vocab_size": 64, "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 32,
          "activation": "relu", "pad_token_id": 5}  # fmt: skip
CASES = {
    "bert": {**BODY, "num_labels": 3},
    "bert-odd": {
        **BODY,
        "hidden_size": 18,
        "num_attention_heads": 3,
        "type_vocab_size": 3,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-5,
        "id2label": {0: "ham", 1: "spam"},
        "label2id": {"ham": 0, "spam": 1},
        "pad_token_id": 5,
    },
    "bert-relu": {**BODY, "num_labels": 4, "hidden_act": "relu", "num_hidden_layers": 1, "type_vocab_size": 1},
    "roberta": {**BODY, "num_labels": 3, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "xlm-roberta": {**BODY, "num_labels": 4, "pad_token_id": 5, "hidden_act": "gelu_new"},
    "bert-regression": {**BODY, "num_labels": 1, "problem_type": "regression"},
    "roberta-several": {**BODY, "num_labels": 5, "type_vocab_size": 1, "problem_type": "multi_label_classification"},
    "modernbert": {**MODERN, "num_labels": 3},
    "modernbert-odd": {
        **MODERN,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
        "local_attention": 2,
        "attention_bias": True,
        "mlp_bias": True,
        "norm_bias": True,
        "classifier_bias": True,
        "classifier_pooling": "mean",
        "hidden_activation": "gelu_pytorch_tanh",
        "classifier_activation": "silu",
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
        "num_labels": 4,
        "problem_type": "multi_label_classification",
    },
    "distilbert": {**DISTIL, "num_labels": 3},
}


def config_of(name, options):
    kinds = {"roberta": hf.RobertaConfig, "xlm": hf.XLMRobertaConfig, "modernbert": hf.ModernBertConfig,
             "distilbert": hf.DistilBertConfig}  # fmt: skip
    return kinds.get(name.split("-")[0], hf.BertConfig)(**options)



def random_model(config, seed):
    model = hf.AutoModelForSequenceClassification.from_config(config, attn_implementation=common.ATTENTION)
    is_norm = lambda name: name.endswith(("Norm.weight", "norm.weight"))
    return fill(model, seed, lambda name: "embeddings.weight" in name, is_norm)


def batch_of(config, seed):
    """Five texts, of which the last three are pairs; the lengths differ, one fills the row."""
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    lengths, firsts = [9, 14, 14, 3, 11], [9, 14, 6, 1, 10]
    ids = torch.randint(6, config.vocab_size, (5, 14), generator=generator)
    mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, (length, first) in enumerate(zip(lengths, firsts)):
        mask[row, :length] = 1
        types[row, first:length] = min(1, getattr(config, "type_vocab_size", 1) - 1)
    ids[mask == 0] = config.pad_token_id
    labels = labels_of(config, 5, generator)
    typed = {"token_type_ids": types} if hasattr(config, "type_vocab_size") else {}
    return {"input_ids": ids, "attention_mask": mask, **typed, "labels": labels}


def load(folder):
    return common.load_model(folder, hf.AutoModelForSequenceClassification)


def make(name, options, seed):
    folder = common.ROOT / "classifiers" / name
    config = config_of(name, options)
    save_anew(folder, random_model(config, seed))
    batch = batch_of(config, seed)

    def more(model, output):
        with torch.no_grad():
            below = model.base_model(**{key: value for key, value in batch.items() if key != "labels"})
        hidden = below.last_hidden_state * batch["attention_mask"].unsqueeze(-1)
        return {"hidden": hidden, "logits": output.logits}

    model, _ = write_golden(folder, seed, batch, "golden_bert.py", load, {}, more=more)
    if name == "bert":
        save_anew(folder.parent / "bert-base", model.bert)


if __name__ == "__main__":
    for number, (case, options) in enumerate(CASES.items()):
        make(case, options, number)
