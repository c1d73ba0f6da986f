#!/usr/bin/env python3
# Golden files of DeBERTa, ELECTRA, ALBERT and MPNet, and of heads that answer questions of all encoders:
# golden_encoders.py -> tests/golden/classifiers/<name>/, tests/golden/masked/<name>/ and tests/golden/answers/<name>/
# (development time only), as golden_bert.py, golden_token_labels.py and golden_masked_lm.py make theirs.
#
# Texts with a question are of one length: transformers lets padding have a part in where an answer stands.
import sys

import torch
import transformers as hf

import golden_bert
import golden_common as common
import golden_masked_lm
import golden_token_labels
from golden_bert import BODY, DISTIL, MODERN
from golden_model import fill, save_anew, write_golden

# Distances from 4 on share buckets; the longest text has 14 tokens.
DEBERTA = {**BODY, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8,
           "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0,
           "pad_token_id": 5, "legacy": False}  # fmt: skip
DEBERTA_ODD = {**BODY, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 2,
               "conv_kernel_size": 3, "conv_act": "gelu", "pooler_hidden_act": "tanh", "hidden_act": "gelu_new",
               "max_relative_positions": 9}  # fmt: skip
DEBERTA_ONE = {**BODY, "relative_attention": True, "pos_att_type": ["c2p"], "type_vocab_size": 2,
               "position_buckets": 8, "share_att_key": True, "max_position_embeddings": 16}  # fmt: skip
ELECTRA = {**BODY, "embedding_size": 10}
ALBERT = {**BODY, "embedding_size": 10, "num_hidden_layers": 3, "hidden_act": "gelu_new"}
MPNET = {**BODY, "max_position_embeddings": 40}

TEXTS = {
    "deberta": (hf.DebertaV2Config, {**DEBERTA, "num_labels": 3}),
    "deberta-odd": (hf.DebertaV2Config, {**DEBERTA_ODD, "num_labels": 1, "problem_type": "regression"}),
    "deberta-one": (hf.DebertaV2Config, {**DEBERTA_ONE, "num_labels": 4}),
    "electra": (hf.ElectraConfig, {**ELECTRA, "num_labels": 3}),
    "albert": (hf.AlbertConfig, {**ALBERT, "num_labels": 3}),
    "albert-groups": (hf.AlbertConfig, {**ALBERT, "num_hidden_groups": 2, "inner_group_num": 2, "num_labels": 4}),
    "mpnet": (hf.MPNetConfig, {**MPNET, "num_labels": 3}),
}
TOKENS = {
    "tokens-deberta": (hf.DebertaV2Config, {**DEBERTA, "num_labels": 3}),
    "tokens-electra": (hf.ElectraConfig, {**ELECTRA, "num_labels": 3}),
    "tokens-albert": (hf.AlbertConfig, {**ALBERT, "num_labels": 3}),
    "tokens-mpnet": (hf.MPNetConfig, {**MPNET, "num_labels": 3}),
}
MASKED = {
    "deberta": (hf.DebertaV2Config, DEBERTA),
    "deberta-legacy": (hf.DebertaV2Config, {**DEBERTA_ODD, "hidden_act": "gelu"}),
    "electra": (hf.ElectraConfig, {**ELECTRA, "hidden_act": "gelu_new"}),
    "albert": (hf.AlbertConfig, ALBERT),
    "mpnet": (hf.MPNetConfig, MPNET),
}
ANSWERS = {
    "bert": (hf.BertConfig, BODY),
    "roberta": (hf.RobertaConfig, {**BODY, "type_vocab_size": 1}),
    "distilbert": (hf.DistilBertConfig, DISTIL),
    "modernbert": (hf.ModernBertConfig, MODERN),
    "deberta": (hf.DebertaV2Config, DEBERTA),
    "electra": (hf.ElectraConfig, ELECTRA),
    "albert": (hf.AlbertConfig, ALBERT),
    "mpnet": (hf.MPNetConfig, MPNET),
}


def random_model(kind, config, seed, scale=1.0):
    model = kind.from_config(config, attn_implementation=common.ATTENTION)
    is_table = lambda name: "embeddings.weight" in name or "relative_attention_bias" in name
    return fill(model, seed, is_table, lambda name: name.lower().endswith("norm.weight"), scale)


def make(folder, kind, case, seed, batch, scale=1.0, **options):
    config, keys = case
    config = config(**keys)
    save_anew(folder, random_model(kind, config, seed, scale))
    (folder / "model.safetensors").chmod(0o644)
    load = lambda at: common.load_model(at, kind)
    write_golden(folder, seed, batch(config, seed), "golden_encoders.py", load, {}, **options)


def text_batch(config, seed):
    batch = golden_bert.batch_of(config, seed)
    if not getattr(config, "type_vocab_size", 0):
        batch.pop("token_type_ids", None)
    return batch


def with_hidden(batch_of):
    def more(model, output):
        batch = batch_of(model.config, more.seed)
        asked = ("labels", "start_positions", "end_positions")
        inputs = {key: value for key, value in batch.items() if key not in asked}
        mask = batch["attention_mask"].unsqueeze(-1)
        with torch.no_grad():
            hidden = model.base_model(**inputs).last_hidden_state * mask
        if "start_positions" in batch:
            return {"hidden": hidden, "logits": torch.stack([output.start_logits, output.end_logits], -1).detach()}
        return {"hidden": hidden, "logits": output.logits.detach() * (mask if output.logits.dim() == 3 else 1)}

    return more


def answer_batch(config, seed):
    """Five questions of twelve tokens; an answer of one token, and one that is not there."""
    generator = torch.Generator().manual_seed(seed + 1_000_000)
    ids = torch.randint(6, config.vocab_size, (5, 12), generator=generator)
    types = torch.zeros_like(ids)
    types[:, 5:] = 1
    typed = {"token_type_ids": types} if getattr(config, "type_vocab_size", 0) > 1 else {}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **typed,
            "start_positions": torch.tensor([6, 7, 0, 9, 5]),
            "end_positions": torch.tensor([8, 7, 0, 11, 10])}  # fmt: skip


def all_of(cases, where, kind, batch, first, scale=1.0):
    for number, (name, case) in enumerate(cases.items()):
        seed = first + number
        if len(sys.argv) > 1 and f"{where}/{name}" not in sys.argv[1:]:
            continue
        more = with_hidden(batch)
        more.seed = seed
        options = {} if where == "masked" else {"more": more}
        make(common.ROOT / where / name, kind, case, seed, batch, scale, **options)


if __name__ == "__main__":
    all_of(TEXTS, "classifiers", hf.AutoModelForSequenceClassification, text_batch, 5400)
    all_of(TOKENS, "classifiers", hf.AutoModelForTokenClassification, golden_token_labels.batch_of, 5420)
    all_of(MASKED, "masked", hf.AutoModelForMaskedLM, golden_masked_lm.batch_of, 5440, 0.4)
    all_of(ANSWERS, "answers", hf.AutoModelForQuestionAnswering, answer_batch, 5460)
