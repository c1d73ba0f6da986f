#!/usr/bin/env python3
# Further folders as sentence-transformers has them, made as golden_embedding.py makes its own:
# golden_sentence_modules.py -> tests/golden/train/embedding/<name>/ and more.json (development time only). Modules that
# make other vectors of pooled ones, as EmbeddingGemma's and LaBSE's, and encoders of other types.
import shutil
import sys

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

import golden_common as common
import golden_embedding as base
from golden_embedding import FOLDER

MAKER = "tools/golden/golden_sentence_modules.py"
SMALL = dict(
    hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=64,
)  # fmt: skip
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2)
IDENTITY = torch.nn.Identity()


def gemma(tokenizer):
    config = transformers.Gemma3TextConfig(
        **SMALL, vocab_size=len(tokenizer), num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=8,
        use_bidirectional_attention=True, sliding_window=8, initializer_range=0.1, pad_token_id=0, bos_token_id=None,
        eos_token_id=0, layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    return transformers.Gemma3TextModel(config)


def encoder(config, **options):
    def make(tokenizer):
        return transformers.AutoModel.from_config(config(**SMALL, **STILL, vocab_size=len(tokenizer), **options))

    return make


def eurobert(tokenizer):
    config = transformers.EuroBertConfig(**SMALL, vocab_size=len(tokenizer), initializer_range=0.2, bos_token_id=2,
                                         eos_token_id=3, pad_token_id=0, mask_token_id=4)  # fmt: skip
    return transformers.EuroBertModel(config)


MODELS = {  # tokenizer, model, pooling, modules behind it, prompts
    "gemma3": (base.qwen_tokenizer, gemma, "mean",
               lambda: [Dense(24, 40, bias=False, activation_function=IDENTITY),
                        Dense(40, 24, bias=False, activation_function=IDENTITY), Normalize()],
               {"query": "ask: ", "document": "title: none | text: "}),
    "modules": (base.bert_tokenizer, encoder(transformers.BertConfig), "cls",
                lambda: [Dense(24, 16), LayerNorm(16)], base.PROMPTS),
    "nomic": (base.bert_tokenizer, encoder(transformers.NomicBertConfig), "mean", lambda: [Normalize()], base.PROMPTS),
    "gte": (base.bert_tokenizer, encoder(transformers.GteConfig, pad_token_id=0), "cls", lambda: [Normalize()], None),
    "euro": (base.bert_tokenizer, eurobert, "mean", lambda: [Normalize()], None),
}  # fmt: skip


def make_folder(name):
    make_tokenizer, make_model, pooling, modules, prompts = MODELS[name]
    torch.manual_seed(73)
    tokenizer = make_tokenizer()
    made = make_model(tokenizer)
    folder = FOLDER / f"{name}-base"
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    all_modules = [Transformer(str(folder)), Pooling(24, pooling), *modules()]
    model = SentenceTransformer(modules=all_modules, prompts=prompts, device="cpu")
    for one in all_modules[2:]:
        if isinstance(one, LayerNorm):
            torch.nn.init.normal_(one.norm.weight, 1, 0.2)
            torch.nn.init.normal_(one.norm.bias, 0, 0.2)
    model.max_seq_length = 48
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    model.save(str(FOLDER / name))
    shutil.rmtree(folder)
    (FOLDER / name / "README.md").unlink(missing_ok=True)
    for path in (FOLDER / name).rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def main():
    data = base.records()
    runs = {key: base.RUNS[key] for key in ("ranking", "triplet_euclidean")}
    report = {"settings": {k: {"data": d, "options": o} for k, (d, o, _) in runs.items()}}
    texts = ["rain", "what about the rain and the moon?", "z" * 80, "bees: 12. 13?"]
    report["texts"] = texts
    for name in MODELS:
        make_folder(name)
        model = base.open_folder(name)
        prompt = {"prompt_name": "query"} if MODELS[name][4] else {}
        report[name] = {
            "vectors": model.encode(texts).tolist(),
            "query_vectors": model.encode(texts, **prompt).tolist(),
            "runs": {key: base.run(base.open_folder(name), make, data[d]) for key, (d, _, make) in runs.items()},
            "measured": base.measured(name, data),
        }
        print(name, report[name]["runs"]["ranking"]["loss"])
    common.write_json(FOLDER / "more.json", report, MAKER)


if __name__ == "__main__":
    sys.exit(main())
