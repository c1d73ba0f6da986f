#!/usr/bin/env python3
# Golden files of encoders beside those of golden_encoders.py, made the same way (development time only):
# golden_more_encoders.py -> tests/golden/classifiers/<name>/, masked/<name>/ and answers/<name>/, with each head that
# transformers has of a model.
import sys

import torch
import transformers as hf

import golden_bert
import golden_common as common
import golden_encoders
import golden_masked_lm
import golden_token_labels
from golden_bert import BODY
from golden_model import fill, save_anew, write_golden

ROTARY = {**BODY, "pad_token_id": 5}
EURO = {**BODY, "pad_token_id": 5, "bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 4, "num_key_value_heads": 2}
CASES = {
    "nomic_bert": (hf.NomicBertConfig, {**ROTARY, "hidden_act": "silu"}),
    "gte": (hf.GteConfig, {**ROTARY, "type_vocab_size": 0}),
    "jina_embeddings_v3": (hf.JinaEmbeddingsV3Config, {**ROTARY, "type_vocab_size": 1}),
    "eurobert": (hf.EuroBertConfig, EURO),
    "xlm-roberta-xl": (hf.XLMRobertaXLConfig, {**BODY, "type_vocab_size": 1}),
    "ernie": (hf.ErnieConfig, {**BODY, "use_task_id": True}),
    "megatron-bert": (hf.MegatronBertConfig, {**BODY, "hidden_act": "gelu_new"}),
    "rembert": (hf.RemBertConfig, {**BODY, "input_embedding_size": 10, "output_embedding_size": 12,
                                   "bos_token_id": 1, "eos_token_id": 2}),
    "roformer": (hf.RoFormerConfig, {**BODY, "embedding_size": 10, "hidden_act": "gelu"}),
    "roberta-prelayernorm": (hf.RobertaPreLayerNormConfig, {**BODY, "type_vocab_size": 1}),
    "data2vec-text": (hf.Data2VecTextConfig, {**BODY, "type_vocab_size": 1}),
    "deberta-v1": (hf.DebertaConfig, {**BODY, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
                                      "position_biased_input": False, "max_relative_positions": 9}),
    "esm": (hf.EsmConfig, {**BODY, "pad_token_id": 1, "mask_token_id": 4, "position_embedding_type": "rotary",
                           "token_dropout": True, "emb_layer_norm_before": False}),
}  # fmt: skip
# The same with other options, of texts; the names begin with the models'.
MORE = {
    "nomic_bert-odd": ("nomic_bert", {"head_dim": 4, "hidden_act": "gelu",
                                      "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}}),
    "gte-odd": ("gte", {"type_vocab_size": 2, "hidden_act": "gelu_new",
                        "rope_parameters": {"rope_type": "default", "rope_theta": 200.0}}),
    "eurobert-bos": ("eurobert", {"classifier_pooling": "bos", "attention_bias": True, "mlp_bias": True}),
    "eurobert-mean": ("eurobert", {"classifier_pooling": "mean", "num_key_value_heads": 4, "head_dim": 4}),
    "ernie-plain": ("ernie", {"use_task_id": False}),
    "deberta-v1-odd": ("deberta-v1", {"pos_att_type": ["p2c"], "position_biased_input": True, "type_vocab_size": 2,
                                      "max_relative_positions": -1, "pooler_hidden_act": "gelu_new"}),
    "esm-odd": ("esm", {"position_embedding_type": "absolute", "token_dropout": False, "emb_layer_norm_before": True}),
}  # fmt: skip
WITHOUT_ANSWERS = ("nomic_bert", "gte", "eurobert", "esm")


DECAYS = common.decays


def decays(name):
    """Names of layers, not of a family, say what is a norm."""
    return DECAYS(name.replace("roberta_prelayernorm.", "")) and "emb_layer_norm_after" not in name


common.decays = decays


def is_norm(name):
    return name.lower().endswith(("norm.weight", ".ln.weight", "norm_after.weight"))


def random_model(kind, config, seed, scale=1.0):
    model = kind.from_config(config, attn_implementation=common.ATTENTION)
    is_table = lambda name: "embeddings.weight" in name or "embed_tokens" in name
    fill(model, seed, is_table, is_norm, scale)
    for module in model.modules():
        if hasattr(module, "create_weight"):  # RoFormer's positions, which no training changes
            with torch.no_grad():
                module.weight.copy_(module.create_weight())
    return model


def load(folder, kind):
    """RoFormer's positions stay as they are: the class freezes them, which from_pretrained() undoes."""
    model = common.load_model(folder, kind)
    for module in model.modules():
        if hasattr(module, "create_weight"):
            module.weight.requires_grad_(False)
    return model


def gradients_of(model):
    """A table that a head uses, too, by its own name, whichever comes first."""
    names = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        if weight.grad is not None and (id(weight) not in names or ".decoder." in names[id(weight)][0]):
            names[id(weight)] = (name, weight.grad)
    return names.values()


def make(where, name, kind, config, seed, batch_of, scale=1.0, hidden=True):
    folder = common.ROOT / where / name
    if len(sys.argv) > 1 and f"{where}/{name}" not in sys.argv[1:] and name not in sys.argv[1:]:
        return
    save_anew(folder, random_model(kind, config, seed, scale))
    (folder / "model.safetensors").chmod(0o644)
    options = {}
    if hidden:
        options["more"] = golden_encoders.with_hidden(batch_of)
        options["more"].seed = seed
    write_golden(folder, seed, batch_of(config, seed), "golden_more_encoders.py",
                 lambda at: load(at, kind), {}, gradients=gradients_of, **options)  # fmt: skip


def texts(name, kind, keys, seed, labels):
    make("classifiers", name, hf.AutoModelForSequenceClassification, kind(**keys, num_labels=labels), seed,
         golden_encoders.text_batch)  # fmt: skip


if __name__ == "__main__":
    for number, (name, (kind, keys)) in enumerate(CASES.items()):
        seed = 7000 + 10 * number
        texts(name, kind, keys, seed, 3)
        make("classifiers", f"tokens-{name}", hf.AutoModelForTokenClassification, kind(**keys, num_labels=3), seed + 1,
             golden_token_labels.batch_of)  # fmt: skip
        make("masked", name, hf.AutoModelForMaskedLM, kind(**keys), seed + 2, golden_masked_lm.batch_of, 0.4,
             hidden=False)  # fmt: skip
        if name not in WITHOUT_ANSWERS:
            make("answers", name, hf.AutoModelForQuestionAnswering, kind(**keys), seed + 3,
                 golden_encoders.answer_batch)  # fmt: skip
    for number, (name, (of, keys)) in enumerate(MORE.items()):
        texts(name, CASES[of][0], {**CASES[of][1], **keys}, 7500 + number, 4)
