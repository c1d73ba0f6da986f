#!/usr/bin/env python3
# Embedding models as sentence-transformers has them: golden_embedding.py -> tests/golden/train/embedding/*. Needs that
# package. Folders that it has written (bert: mean and of length 1, with prompts; qwen3: the last token, as it is), the
# vectors that it makes with them, what its losses give in steps of SGD, and what its evaluators measure.
import json
import shutil

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import evaluation, losses
from sentence_transformers.sentence_transformer.losses.triplet import TripletDistanceMetric
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, WordPiece

import golden_common as common

FOLDER = common.ROOT / "train" / "embedding"
MAKER = "tools/golden/golden_embedding.py"
STEPS, BATCH, RATE = 4, 6, 0.003
PROMPTS = {"query": "ask: ", "document": "say: "}
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789:.?"
TOPICS = ["rain", "bread", "trains", "moon", "chess", "tea", "rivers", "bees", "glass", "snow", "maps", "drums"]


def bert_tokenizer():
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + c for c in LETTERS)]
    tokenizer = Tokenizer(WordPiece({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.decoder = decoders.WordPiece()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_max_length=64,
    )  # fmt: skip


def qwen_tokenizer():
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(["<|end|>", *symbols])}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|end|>", pair="$A $B <|end|>", special_tokens=[("<|end|>", 0)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>", model_max_length=64
    )


def save_base(name):
    """The transformers folder that a module is made of."""
    torch.manual_seed(71)
    if name == "bert":
        tokenizer = bert_tokenizer()
        model = transformers.BertModel(
            transformers.BertConfig(
                vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
                intermediate_size=32, max_position_embeddings=64, hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0, initializer_range=0.2,
            )
        )  # fmt: skip
    else:
        tokenizer = qwen_tokenizer()
        model = transformers.Qwen3Model(
            transformers.Qwen3Config(
                vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=8, intermediate_size=32, max_position_embeddings=64,
                tie_word_embeddings=True, initializer_range=0.1, eos_token_id=0, pad_token_id=0, bos_token_id=None,
            )
        )  # fmt: skip
    base = FOLDER / f"{name}-base"
    model.save_pretrained(base)
    tokenizer.save_pretrained(base)
    return base


def make_folder(name):
    base = save_base(name)
    modules = [Transformer(str(base)), Pooling(24, "mean" if name == "bert" else "lasttoken")]
    if name == "bert":
        modules.append(Normalize())
    model = SentenceTransformer(modules=modules, prompts=PROMPTS if name == "bert" else None, device="cpu")
    model.max_seq_length = 48
    model.save(str(FOLDER / name))
    shutil.rmtree(base)
    (FOLDER / name / "README.md").unlink(missing_ok=True)
    for path in (FOLDER / name).rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def records():
    """Pairs, triplets and scored pairs; one text of two records is the same."""
    pairs = [{"query": f"what of {t}?", "positive": f"what of {t}: {i}"} for i, t in enumerate(TOPICS)]
    triplets = [{**p, "negative": f"what of {TOPICS[(i + 5) % 12]}??"} for i, p in enumerate(pairs)]
    scored = [
        {"sentence1": f"{t} now", "sentence2": f"{TOPICS[(i * 7) % 12]} then", "score": round(((i * 5) % 7) / 7, 3)}
        for i, t in enumerate(TOPICS)
    ]
    return {"pairs": pairs, "triplets": triplets, "scored": scored}


RUNS = {  # hone's options, and what makes the same loss
    "ranking": ("pairs", {}, lambda m: losses.MultipleNegativesRankingLoss(m)),
    "ranking_others": ("triplets", {"temperature": 0.2}, lambda m: losses.MultipleNegativesRankingLoss(m, scale=5.0)),
    "matryoshka": (
        "pairs",
        {"matryoshka_dims": [24, 8], "matryoshka_weights": [1, 0.5]},
        lambda m: losses.MatryoshkaLoss(m, losses.MultipleNegativesRankingLoss(m), [24, 8], [1, 0.5]),
    ),
    "triplet": (
        "triplets",
        {"loss_type": "triplet", "margin": 0.5},
        lambda m: losses.TripletLoss(m, TripletDistanceMetric.COSINE, 0.5),
    ),
    "triplet_euclidean": (
        "triplets",
        {"loss_type": "triplet", "distance": "euclidean", "margin": 5},
        lambda m: losses.TripletLoss(m, TripletDistanceMetric.EUCLIDEAN, 5),
    ),
    "triplet_manhattan": (
        "triplets",
        {"loss_type": "triplet", "distance": "manhattan", "margin": 2},
        lambda m: losses.TripletLoss(m, TripletDistanceMetric.MANHATTAN, 2),
    ),
    "cosent": ("scored", {"loss_type": "cosent"}, lambda m: losses.CoSENTLoss(m)),
    "cosine": ("scored", {"loss_type": "cosine_similarity"}, lambda m: losses.CosineSimilarityLoss(m)),
}


def run(model, make_loss, rows):
    """Losses and norms of gradients of steps with SGD, on the rows in their order."""
    loss_of = make_loss(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    names = [name for name in rows[0] if name != "score"]
    history = {"loss": [], "grad_norm": []}
    model.train()
    for step in range(STEPS):
        batch = [rows[(step * BATCH + i) % len(rows)] for i in range(BATCH)]
        features = []
        for name in names:
            prompt = model.prompts.get("query" if name in ("query", "sentence1") else "document") or ""
            features.append(model.preprocess([prompt + row[name] for row in batch]))
        labels = torch.tensor([row.get("score", 0.0) for row in batch])
        loss = loss_of(features, labels)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        history["loss"].append(loss.item())
        history["grad_norm"].append(norm.item())
        optimizer.step()
    return history


def open_folder(name):
    model = SentenceTransformer(str(FOLDER / name), device="cpu")
    model[0].auto_model.config._attn_implementation = "eager"
    return model


def measured(name, data):
    model = open_folder(name)
    pairs, triplets, scored = data["pairs"], data["triplets"], data["scored"]
    queries = {str(i): row["query"] for i, row in enumerate(triplets)}
    texts = sorted({row[key] for row in triplets for key in ("positive", "negative")})
    corpus = {text: text for text in texts}
    prompts = {"query_prompt": model.prompts.get("query") or "", "corpus_prompt": model.prompts.get("document") or ""}
    retrieval = evaluation.InformationRetrievalEvaluator(
        queries, corpus, {str(i): {row["positive"]} for i, row in enumerate(triplets)}, **prompts
    )(model)
    names = {"query": "query_prompt", "positive": "corpus_prompt", "negative": "corpus_prompt"}
    query, near, far = (
        torch.tensor(model.encode([row[name] for row in triplets], prompt=prompts[prompt]))
        for name, prompt in names.items()
    )
    cosine = torch.nn.functional.cosine_similarity
    one = model.encode([row["sentence1"] for row in scored], prompt=prompts["query_prompt"])
    other = model.encode([row["sentence2"] for row in scored], prompt=prompts["corpus_prompt"])
    from scipy.stats import spearmanr

    cosines = cosine(torch.tensor(one), torch.tensor(other)).numpy()
    return {
        "accuracy@1": retrieval["cosine_accuracy@1"],
        "mrr@10": retrieval["cosine_mrr@10"],
        "ndcg@10": retrieval["cosine_ndcg@10"],
        "triplet_accuracy": (cosine(query, near) > cosine(query, far)).float().mean().item(),
        "spearman_cosine": float(spearmanr(cosines, [row["score"] for row in scored]).statistic),
    }


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = records()
    for name, rows in data.items():
        (FOLDER / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = {"settings": {k: {"data": d, "options": o} for k, (d, o, _) in RUNS.items()}, "batch": BATCH, "rate": RATE}
    texts = ["rain", "what about the rain and the moon?", "z" * 80, "bees: 12. 13?"]
    report["texts"] = texts
    for name in ("bert", "qwen3"):
        make_folder(name)
        model = open_folder(name)
        one = {
            "vectors": model.encode(texts).tolist(),
            "query_vectors": model.encode(texts, prompt_name="query").tolist() if name == "bert" else None,
            "short_vectors": model.encode(texts, truncate_dim=8, normalize_embeddings=name == "bert").tolist(),
            "runs": {key: run(open_folder(name), make, data[d]) for key, (d, _, make) in RUNS.items()},
            "measured": measured(name, data),
        }
        report[name] = one
    common.write_json(FOLDER / "embedding.json", report, MAKER)


if __name__ == "__main__":
    main()
