#!/usr/bin/env python3
# Sparse encoders and further losses as sentence-transformers has them: golden_sparse.py -> tests/golden/train/sparse/*
# and tests/golden/train/embedding/losses.json. Needs that package, and what golden_embedding.py has made. A folder that
# SparseEncoder has written, its vectors, what SpladeLoss gives around its losses in steps of SGD, what its evaluators
# measure; and steps of losses of dense vectors.
import json
import shutil

import torch
import transformers
from sentence_transformers import SparseEncoder
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.losses.triplet import TripletDistanceMetric
from sentence_transformers.sparse_encoder import evaluation
from sentence_transformers.sparse_encoder import losses as sparse
from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling

import golden_common as common
import golden_embedding as dense

FOLDER = common.ROOT / "train" / "sparse"
MAKER = "tools/golden/golden_sparse.py"
RATE = 0.003
STATISTICS = ("active_dims", "sparsity_ratio")
ALL = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
BOTH = ("query_to_doc", "doc_to_query")


def read(data):
    return [json.loads(line) for line in (dense.FOLDER / f"{data}.jsonl").read_text().splitlines()]


def save_folder():
    torch.manual_seed(73)
    tokenizer = dense.bert_tokenizer()
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=32, max_position_embeddings=64, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, initializer_range=0.2,
        )
    )  # fmt: skip
    with torch.no_grad():
        model.cls.predictions.bias.normal_(-1.0, 0.5)
    base = FOLDER / "base"
    model.save_pretrained(base)
    tokenizer.save_pretrained(base)
    made = SparseEncoder(modules=[MLMTransformer(str(base)), SpladePooling("max")], prompts=dense.PROMPTS, device="cpu")
    made.max_seq_length = 48
    made.save(str(FOLDER / "bert"))
    shutil.rmtree(base)
    (FOLDER / "bert" / "README.md").unlink(missing_ok=True)
    for path in FOLDER.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def open_folder(strategy="max", activation="relu"):
    model = SparseEncoder(str(FOLDER / "bert"), device="cpu")
    model[0].auto_model.config._attn_implementation = "eager"
    model[1] = SpladePooling(strategy, activation)
    return model


def splade(make, document=0.1, query=0.05, **more):
    return lambda m: sparse.SpladeLoss(m, make(m), document, query, **more)


def ranking(**options):
    return lambda m: sparse.SparseMultipleNegativesRankingLoss(m, **options)


WEIGHTS = {"document_regularizer_weight": 0.1, "query_regularizer_weight": 0.05}
RUNS = {  # data, hone's options, what makes the same loss, and of SpladePooling
    "ranking": ("pairs", WEIGHTS, splade(ranking()), {}),
    "ranking_others": ("triplets", {**WEIGHTS, "temperature": 2.0}, splade(ranking(scale=0.5)), {}),
    "directions": ("triplets", {**WEIGHTS, "directions": ALL}, splade(ranking(directions=ALL)), {}),
    "sum": (
        "pairs",
        {
            "document_regularizer_weight": 0.001, "query_regularizer_weight": 0.0005, "temperature": 20.0,
            "pooling_strategy": "sum", "activation_function": "log1p_relu",
        },
        splade(ranking(scale=0.05), 0.001, 0.0005),
        {"strategy": "sum", "activation": "log1p_relu"},
    ),
    "max_twice": (
        "pairs", {**WEIGHTS, "activation_function": "log1p_relu"}, splade(ranking()), {"activation": "log1p_relu"}
    ),
    "thresholds": (
        "triplets",
        {**WEIGHTS, "document_regularizer_threshold": 33, "query_regularizer_threshold": 31},
        splade(ranking(), document_regularizer_threshold=33, query_regularizer_threshold=31),
        {},
    ),
    "documents_only": (
        "triplets",
        {"document_regularizer_weight": 0.1, "use_document_regularizer_only": True},
        splade(ranking(), query=None, use_document_regularizer_only=True),
        {},
    ),
    "triplet": (
        "triplets", {**WEIGHTS, "loss_type": "triplet"}, splade(lambda m: sparse.SparseTripletLoss(m)), {}
    ),
    "triplet_cosine": (
        "triplets",
        {**WEIGHTS, "loss_type": "triplet", "distance": "cosine", "margin": 0.5},
        splade(lambda m: sparse.SparseTripletLoss(m, TripletDistanceMetric.COSINE, 0.5)),
        {},
    ),
    "cosent": ("scored", {**WEIGHTS, "loss_type": "cosent"}, splade(lambda m: sparse.SparseCoSENTLoss(m)), {}),
    "angle": ("scored", {**WEIGHTS, "loss_type": "angle"}, splade(lambda m: sparse.SparseAnglELoss(m)), {}),
    "cosine": (
        "scored",
        {**WEIGHTS, "loss_type": "cosine_similarity"},
        splade(lambda m: sparse.SparseCosineSimilarityLoss(m)),
        {},
    ),
}  # fmt: skip


def mnr(**options):
    return lambda m: losses.MultipleNegativesRankingLoss(m, **options)


def gist(**options):
    return lambda m: losses.GISTEmbedLoss(m, dense.open_folder("bert"), **options)


DENSE = {  # the guide is the model as it was
    "symmetric": (
        "pairs",
        {"directions": BOTH, "partition_mode": "per_direction"},
        mnr(directions=BOTH, partition_mode="per_direction"),
    ),
    "all_directions": ("triplets", {"directions": ALL, "temperature": 0.2}, mnr(directions=ALL, scale=5.0)),
    **{
        mode: (
            "triplets",
            {"hardness_mode": mode, "hardness_strength": 5.0},
            mnr(hardness_mode=mode, hardness_strength=5.0),
        )
        for mode in ("in_batch_negatives", "hard_negatives", "all_negatives")
    },
    "gist": ("pairs", {"loss_type": "gist"}, gist()),
    "gist_others": (
        "triplets",
        {"loss_type": "gist", "margin": 0.005, "temperature": 0.1},
        gist(margin=0.005, temperature=0.1),
    ),
    "gist_relative": (
        "triplets",
        {
            "loss_type": "gist", "margin": 0.005, "margin_strategy": "relative", "temperature": 0.1,
            "contrast_anchors": False, "contrast_positives": False,
        },
        gist(
            margin=0.005, margin_strategy="relative", temperature=0.1, contrast_anchors=False, contrast_positives=False
        ),
    ),
    "angle": ("scored", {"loss_type": "angle"}, lambda m: losses.AnglELoss(m)),
}  # fmt: skip


def run(model, make_loss, rows):
    """What steps of SGD give, on the rows in their order."""
    loss_of = make_loss(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    names = [name for name in rows[0] if name != "score"]
    history = {}
    model.train()
    for step in range(dense.STEPS):
        batch = [rows[(step * dense.BATCH + i) % len(rows)] for i in range(dense.BATCH)]
        features = []
        for name in names:
            prompt = model.prompts.get("query" if name in ("query", "sentence1") else "document") or ""
            features.append(model.preprocess([prompt + row[name] for row in batch]))
        terms = loss_of(features, torch.tensor([row.get("score", 0.0) for row in batch]))
        terms = {**terms, "loss": sum(terms.values())} if isinstance(terms, dict) else {"loss": terms}
        optimizer.zero_grad()
        terms["loss"].backward()
        given = [p.grad for p in model.parameters() if p.grad is not None]
        terms["grad_norm"] = torch.nn.utils.get_total_norm(given)
        for name, value in terms.items():
            history.setdefault(name, []).append(value.item())
        optimizer.step()
    return history


def measured():
    model = open_folder()
    triplets, scored = read("triplets"), read("scored")
    queries = {str(i): row["query"] for i, row in enumerate(triplets)}
    corpus = {text: text for text in sorted({row[key] for row in triplets for key in ("positive", "negative")})}
    prompts = {"query_prompt": model.prompts["query"], "corpus_prompt": model.prompts["document"]}
    right = {str(i): {row["positive"]} for i, row in enumerate(triplets)}
    found = evaluation.SparseInformationRetrievalEvaluator(queries, corpus, right, **prompts)(model)
    made = {name.removeprefix("dot_"): found[name] for name in ("dot_accuracy@1", "dot_mrr@10", "dot_ndcg@10")}
    made |= {f"{of}_{name}": found[f"{of}_{name}"] for of in ("query", "corpus") for name in STATISTICS}
    made["avg_flops"] = found["avg_flops"]
    query, near, far = (
        model.encode([row[name] for row in triplets], prompt=prompts[prompt], convert_to_sparse_tensor=False)
        for name, prompt in (("query", "query_prompt"), ("positive", "corpus_prompt"), ("negative", "corpus_prompt"))
    )
    made["triplet_accuracy"] = ((query * near).sum(1) > (query * far).sum(1)).float().mean().item()
    one = model.encode([row["sentence1"] for row in scored], prompt=prompts["query_prompt"])
    other = model.encode([row["sentence2"] for row in scored], prompt=prompts["corpus_prompt"])
    from scipy.stats import spearmanr

    scores = [row["score"] for row in scored]
    made["spearman_dot"] = float(spearmanr((one.to_dense() * other.to_dense()).sum(1).numpy(), scores).statistic)
    stats = SparseEncoder.sparsity(torch.cat([one.to_dense(), other.to_dense()]))
    made["active_dims"], made["sparsity_ratio"] = stats["active_dims"], stats["sparsity_ratio"]
    return made


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_folder()
    texts = ["rain", "what about the rain and the moon?", "z" * 80, "bees: 12. 13?"]
    report = {"batch": dense.BATCH, "rate": RATE, "texts": texts, "measured": measured(), "vectors": {}}
    for strategy in ("max", "sum"):
        for activation in ("relu", "log1p_relu"):
            rows = open_folder(strategy, activation).encode(texts, convert_to_sparse_tensor=False)
            report["vectors"][f"{strategy} {activation}"] = rows.tolist()
    model = open_folder()
    report["largest"] = [
        [[token, weight] for token, weight in one] for one in model.decode(model.encode(texts, max_active_dims=5))
    ]
    report["query"] = model.encode_query(texts, convert_to_sparse_tensor=False).tolist()
    report["settings"] = {name: {"data": d, "options": o} for name, (d, o, *_) in RUNS.items()}
    report["runs"] = {name: run(open_folder(**form), make, read(d)) for name, (d, _, make, form) in RUNS.items()}
    common.write_json(FOLDER / "sparse.json", report, MAKER)
    more = {"batch": dense.BATCH, "rate": RATE, "guide": "bert"}
    more["settings"] = {name: {"data": d, "options": o} for name, (d, o, _) in DENSE.items()}
    more["runs"] = {name: run(dense.open_folder("bert"), make, read(d)) for name, (d, _, make) in DENSE.items()}
    common.write_json(dense.FOLDER / "losses.json", more, MAKER)


if __name__ == "__main__":
    main()
