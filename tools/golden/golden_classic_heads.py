#!/usr/bin/env python3
# Golden files of older decoders, and of others beside them, with a head for labels of texts or of tokens:
# golden_classic_heads.py -> tests/golden/classifiers/{,tokens-}<name>/ (development time only), as
# golden_decoder_classifiers.py and golden_token_labels.py make them of Llama's relatives. With names of cases, those
# alone.
import sys

import torch
import transformers as hf

import golden_common as common
import golden_token_labels as tokens
from golden_classic import (BASE, BIGCODE, BIOGPT, BLOOM, FALCON, GPTJ, MODERN, MPT, NEO, NO_EPS, NORMS, OPT,
                            TABLES, once_biased)
from golden_decoder_classifiers import batch_of
from golden_model import fill, save_anew, write_golden

PAD = dict(pad_token_id=0)
NAMES = {0: "ham", 1: "spam", 2: "eggs"}
NAMED = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}}
GPT2 = dict(vocab_size=64, n_embd=24, n_layer=2, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=2)
NEOX = dict(vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=32)
ALIBI = {**FALCON, "alibi": True, "multi_query": False, "parallel_attn": False, "bias": True}
CASES = {
    "opt": (hf.OPTConfig, {**OPT, **PAD, "word_embed_proj_dim": 12, "num_labels": 3}),
    "olmo": (hf.OlmoConfig, {**NO_EPS, **PAD, "eos_token_id": 2, "num_labels": 3}),
    "gpt_neo": (hf.GPTNeoConfig, {**NEO, **PAD, "problem_type": "regression", "num_labels": 1}),
    "gptj": (hf.GPTJConfig, {**GPTJ, **PAD, "num_labels": 3}),
    "bloom": (hf.BloomConfig, {**BLOOM, **PAD, **NAMED}),
    "falcon": (hf.FalconConfig, {**ALIBI, **PAD, "num_labels": 3}),
    "mpt": (hf.MptConfig, {**MPT, **PAD, "num_labels": 3}),
    "gpt_bigcode": (hf.GPTBigCodeConfig, {**BIGCODE, **PAD, "num_labels": 3}),
    "helium": (hf.HeliumConfig, {**BASE, **PAD, "head_dim": 6, "num_labels": 3}),
    "biogpt": (hf.BioGptConfig, {**BIOGPT, **PAD, "scale_embedding": False, "num_labels": 3}),
    "modernbert-decoder": (hf.ModernBertDecoderConfig, {**MODERN, **PAD, "num_labels": 3}),
    "modernbert-decoder-bias": (hf.ModernBertDecoderConfig, {**MODERN, **PAD, "num_labels": 3, "norm_bias": True,
                                                             "classifier_bias": True}),
    "gpt2": (hf.GPT2Config, {**GPT2, **PAD, "num_labels": 3}),
    "gpt_neox": (hf.GPTNeoXConfig, {**NEOX, **PAD, "num_labels": 3}),
    "tokens-gpt_neo": (hf.GPTNeoConfig, {**NEO, **PAD, "num_labels": 3}),
    "tokens-bloom": (hf.BloomConfig, {**BLOOM, **PAD, "num_labels": 3}),
    "tokens-falcon": (hf.FalconConfig, {**FALCON, **PAD, "num_labels": 3}),
    "tokens-mpt": (hf.MptConfig, {**MPT, **PAD, "num_labels": 3}),
    "tokens-gpt_bigcode": (hf.GPTBigCodeConfig, {**BIGCODE, **PAD, "num_labels": 3}),
    "tokens-helium": (hf.HeliumConfig, {**BASE, **PAD, "head_dim": 6, "num_labels": 3}),
    "tokens-biogpt": (hf.BioGptConfig, {**BIOGPT, **PAD, "scale_embedding": False, "num_labels": 3}),
    "tokens-gpt_neox": (hf.GPTNeoXConfig, {**NEOX, **PAD, "num_labels": 3}),
}  # fmt: skip


def make(name, case, seed):
    config, options = case
    of_tokens = name.startswith("tokens-")
    kind = hf.AutoModelForTokenClassification if of_tokens else hf.AutoModelForSequenceClassification
    is_table = lambda weight: any(one in weight for one in (*TABLES, "embed_in")) and "norm" not in weight
    folder = common.ROOT / "classifiers" / name
    model = kind.from_config(config(**options), attn_implementation=common.ATTENTION)
    save_anew(folder, fill(model, seed, is_table, lambda weight: weight.endswith(NORMS)))
    (folder / "model.safetensors").chmod(0o644)
    batch = (tokens.batch_of if of_tokens else batch_of)(config(**options), seed)

    def more(model, output):
        mask = batch["attention_mask"].unsqueeze(-1)
        with torch.no_grad():
            below = model.base_model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        logits = output.logits.detach()
        return {"hidden": below.last_hidden_state * mask, "logits": logits * mask if of_tokens else logits}

    load = lambda where: once_biased(common.load_model(where, kind))
    write_golden(folder, seed, batch, "golden_classic_heads.py", load, more=more)


if __name__ == "__main__":
    for number, (one, case) in enumerate(CASES.items()):
        if len(sys.argv) == 1 or one in sys.argv[1:]:
            make(one, case, 6500 + number)
