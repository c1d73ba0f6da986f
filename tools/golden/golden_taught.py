#!/usr/bin/env python3
# Losses of texts with labels, with a teacher's scores, and of lists, as sentence-transformers has them:
# golden_taught.py -> tests/golden/train/embedding/{taught,margins,classes}.jsonl and taught.json,
# train/sparse/taught.json and train/cross_encoder/{lists.jsonl,lists.json}. Needs that package, and the folders that
# golden_embedding.py, golden_sparse.py and golden_cross_encoder.py have made. Steps of SGD, in the files' order.
import json
import math

import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import losses as cross
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.losses import BatchHardTripletLossDistanceFunction as Far
from sentence_transformers.sparse_encoder import losses as sparse

import golden_common as common
import golden_cross_encoder as lists
import golden_embedding as dense
import golden_sparse as splade

MAKER = "tools/golden/golden_taught.py"
RATE, CROSS_RATE = 0.003, 0.01
LABELS = [0, 1, 0, 1, 2, 0, 1, 1, 2, 2, 0, 2, 3, 0, 3, 1, 0, 1, 0, 0, 0, 1, 2, 1]


def records():
    topics = dense.TOPICS
    pairs = [{"query": f"what of {t}?", "positive": f"what of {t}: {i}"} for i, t in enumerate(topics)]
    others = [[f"what of {topics[(i * 3 + k) % 12]}?? {k}" for k in (1, 2)] for i in range(12)]
    taught = [
        {**pair, "negative_1": others[i][0], "negative_2": others[i][1],
         "scores": [round(1 + (i * 5 % 7) / 3, 3), round(0.4 + (i * 3 % 5) / 2, 3), round((i * 7 % 11) / 9 - 0.5, 3)]}
        for i, pair in enumerate(pairs)
    ]  # fmt: skip
    margins = [
        {**pair, "negative": others[i][0], "score": round((i * 5 % 7) / 5 - 0.3, 3)} for i, pair in enumerate(pairs)
    ]
    classes = [{"text": f"{topics[label * 3 + i % 3]} {i}", "label": label} for i, label in enumerate(LABELS)]
    return {"taught": taught, "margins": margins, "classes": classes}


def ranked():
    """Lists of two to four texts, each of another worth."""
    topics = dense.TOPICS
    rows = []
    for i, t in enumerate(topics):
        count = 2 + i % 3
        texts = [f"{topics[(i * 5 + k * 7) % 12]}: {k}" for k in range(count)]
        worth = [round((i * 3 + k * 5) % 7 * 0.5 + 0.1 * k, 2) for k in range(count)]
        rows.append({"query": f"what of {t}?", "documents": texts, "scores": worth})
    return rows


def far(distance, **options):
    return {"distance_metric": distance, **options}


EUCLIDEAN, COSINE = Far.euclidean_distance, Far.cosine_distance
SQUARED = lambda x: Far.euclidean_distance(x, squared=True)  # noqa: E731
DENSE = {  # data, hone's options, what makes the same loss
    "margin_mse": ("taught", {"loss_type": "margin_mse"}, lambda m: losses.MarginMSELoss(m)),
    "margin_mse_margins": ("margins", {"loss_type": "margin_mse"}, lambda m: losses.MarginMSELoss(m)),
    "distill": ("taught", {"loss_type": "distill_kl_div"}, lambda m: losses.DistillKLDivLoss(m)),
    "distill_temperatures": (
        "taught",
        {"loss_type": "distill_kl_div", "temperature": 0.3, "teacher_temperature": 2},
        lambda m: losses.DistillKLDivLoss(m, student_temperature=0.3, teacher_temperature=2),
    ),
    "batch_all": (
        "classes",
        {"loss_type": "batch_all_triplet", "margin": 0.3},
        lambda m: losses.BatchAllTripletLoss(m, **far(COSINE, margin=0.3)),
    ),
    "batch_all_euclidean": (
        "classes",
        {"loss_type": "batch_all_triplet", "distance": "euclidean", "margin": 0.2},
        lambda m: losses.BatchAllTripletLoss(m, **far(EUCLIDEAN, margin=0.2)),
    ),
    "batch_hard": (
        "classes",
        {"loss_type": "batch_hard_triplet", "distance": "euclidean", "margin": 5},
        lambda m: losses.BatchHardTripletLoss(m, **far(EUCLIDEAN, margin=5)),
    ),
    "batch_hard_squared": (
        "classes",
        {"loss_type": "batch_hard_triplet", "distance": "squared_euclidean", "margin": 0.5},
        lambda m: losses.BatchHardTripletLoss(m, **far(SQUARED, margin=0.5)),
    ),
    "batch_hard_soft": (
        "classes",
        {"loss_type": "batch_hard_soft_margin_triplet"},
        lambda m: losses.BatchHardSoftMarginTripletLoss(m, **far(COSINE)),
    ),
    "batch_semi_hard": (
        "classes",
        {"loss_type": "batch_semi_hard_triplet", "margin": 0.05},
        lambda m: losses.BatchSemiHardTripletLoss(m, **far(COSINE, margin=0.05)),
    ),
    "batch_semi_hard_euclidean": (
        "classes",
        {"loss_type": "batch_semi_hard_triplet", "distance": "euclidean", "margin": 2},
        lambda m: losses.BatchSemiHardTripletLoss(m, **far(EUCLIDEAN, margin=2)),
    ),
}
WEIGHTS = {"document_regularizer_weight": 0.001, "query_regularizer_weight": 0.0005}


def around(make):
    return lambda m: sparse.SpladeLoss(m, make(m), 0.001, 0.0005)


SPARSE = {
    "margin_mse": ("taught", {"loss_type": "margin_mse"}, around(lambda m: sparse.SparseMarginMSELoss(m))),
    "distill": ("taught", {"loss_type": "distill_kl_div"}, around(lambda m: sparse.SparseDistillKLDivLoss(m))),
    "distill_temperatures": (
        "taught",
        {"loss_type": "distill_kl_div", "temperature": 5, "teacher_temperature": 0.5},
        around(lambda m: sparse.SparseDistillKLDivLoss(m, student_temperature=5, teacher_temperature=0.5)),
    ),
}


def scheme(make, **options):
    return lambda m: cross.LambdaLoss(m, weighting_scheme=make, **options)


CROSS = {
    "lambda": ("lists", {}, lambda m: cross.LambdaLoss(m)),
    "lambda_mu": ("lists", {"mu": 3, "sigma": 2}, scheme(cross.NDCGLoss2PPScheme(3.0), sigma=2.0)),
    "ndcg_loss1": ("lists", {"weighting_scheme": "ndcg_loss1"}, scheme(cross.NDCGLoss1Scheme())),
    "ndcg_loss2": ("lists", {"weighting_scheme": "ndcg_loss2"}, scheme(cross.NDCGLoss2Scheme())),
    "lambda_rank": ("lists", {"weighting_scheme": "lambda_rank"}, scheme(cross.LambdaRankScheme())),
    "rank_net": ("lists", {"loss_type": "rank_net"}, lambda m: cross.RankNetLoss(m)),
    "list_net": ("lists", {"loss_type": "list_net"}, lambda m: cross.ListNetLoss(m)),
    "list_mle": ("lists", {"loss_type": "list_mle"}, lambda m: cross.ListMLELoss(m, respect_input_order=False)),
    "plist_mle": ("lists", {"loss_type": "plist_mle"}, lambda m: cross.PListMLELoss(m, respect_input_order=False)),
    "adr_mse": ("lists", {"loss_type": "adr_mse", "alpha": 2}, lambda m: cross.ADRMSELoss(m, alpha=2.0)),
    "margin_mse": ("taught", {"loss_type": "margin_mse"}, lambda m: cross.MarginMSELoss(m)),
}  # fmt: skip


def steps(model, loss_of, rate, rows, inputs_of):
    """What steps of SGD give; inputs_of: of a batch, what the loss takes."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    history = {}
    model.train()
    for step in range(dense.STEPS):
        terms = loss_of(*inputs_of([rows[(step * dense.BATCH + i) % len(rows)] for i in range(dense.BATCH)]))
        terms = {**terms, "loss": sum(terms.values())} if isinstance(terms, dict) else {"loss": terms}
        optimizer.zero_grad()
        terms["loss"].backward()
        given = [p.grad for p in model.parameters() if p.grad is not None]
        terms["grad_norm"] = torch.nn.utils.get_total_norm(given)
        for name, value in terms.items():
            history.setdefault(name, []).append(value.item())
        optimizer.step()
    return history


def embedded(model, make, rows):
    names = [name for name in rows[0] if name not in ("score", "scores", "label")]
    said = next(name for name in ("score", "scores", "label") if name in rows[0])

    def inputs(batch):
        features = []
        for name in names:
            prompt = model.prompts.get("query" if name in ("query", "text") else "document") or ""
            features.append(model.preprocess([prompt + row[name] for row in batch]))
        return features, torch.tensor([row[said] for row in batch])

    return steps(model, make(model), RATE, rows, inputs)


def crossed(make, rows):
    model = CrossEncoder(str(lists.FOLDER / "model"), device="cpu")

    def inputs(batch):
        if "documents" in rows[0]:
            texts = [[row["query"] for row in batch], [row["documents"] for row in batch]]
        else:
            texts = [[row[name] for row in batch] for name in rows[0] if name != "scores"]
        return texts, [torch.tensor(row["scores"]) for row in batch]

    return steps(model, make(model), CROSS_RATE, rows, inputs)


def standing(order):
    """Of one query: whether each text, the nearest first, is a right one."""
    gain = [1 / math.log2(i + 2) for i in range(10)]
    right = sum(order)
    first = next(i for i, one in enumerate(order) if one)
    return {
        "accuracy@1": float(order[0]), "mrr@10": 1 / (first + 1) if first < 10 else 0.0,
        "ndcg@10": sum(g for g, one in zip(gain, order) if one) / sum(gain[:right]),
        "map": sum(sum(order[: i + 1]) / (i + 1) for i, one in enumerate(order) if one) / right,
    }  # fmt: skip


def means(queries, names):
    return {name: sum(one[name] for one in queries) / len(queries) for name in names}


def of_classes(folder, rows):
    """All other texts are candidates for each; of those whose label another one has."""
    model = dense.open_folder(folder)
    vectors = torch.tensor(model.encode([row["text"] for row in rows], prompt=model.prompts.get("query") or ""))
    vectors = torch.nn.functional.normalize(vectors.double(), dim=1)
    found = []
    for i, row in enumerate(rows):
        order = [int(j) for j in (vectors @ vectors[i]).argsort(descending=True) if j != i]
        same = [rows[j]["label"] == row["label"] for j in order]
        if any(same):
            found.append(standing(same))
    return means(found, ("accuracy@1", "mrr@10", "ndcg@10"))


def of_lists(rows):
    """The best of a query's own texts are the right ones."""
    model = CrossEncoder(str(lists.FOLDER / "model"), device="cpu")
    found = []
    for row in rows:
        scores = model.predict([(row["query"], text) for text in row["documents"]])
        order = sorted(range(len(scores)), key=lambda j: -scores[j])
        found.append(standing([row["scores"][j] == max(row["scores"]) for j in order]))
    return means(found, ("accuracy@1", "mrr@10", "ndcg@10", "map"))


def write_rows(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def main():
    data = records()
    for name, rows in data.items():
        write_rows(dense.FOLDER / f"{name}.jsonl", rows)
    data["lists"] = ranked()
    write_rows(lists.FOLDER / "lists.jsonl", data["lists"])

    def report(table):
        settings = {name: {"data": d, "options": o} for name, (d, o, _) in table.items()}
        return {"batch": dense.BATCH, "rate": RATE, "settings": settings}

    made = report(DENSE)
    for folder in ("bert", "qwen3"):
        runs = {name: embedded(dense.open_folder(folder), make, data[d]) for name, (d, _, make) in DENSE.items()}
        made[folder] = {"runs": runs, "measured": of_classes(folder, data["classes"])}
    common.write_json(dense.FOLDER / "taught.json", made, MAKER)
    made = report({name: (d, {**WEIGHTS, **o}, m) for name, (d, o, m) in SPARSE.items()})
    made["runs"] = {name: embedded(splade.open_folder(), make, data[d]) for name, (d, _, make) in SPARSE.items()}
    common.write_json(splade.FOLDER / "taught.json", made, MAKER)
    made = report(CROSS) | {"rate": CROSS_RATE}
    made["runs"] = {name: crossed(make, data[d]) for name, (d, _, make) in CROSS.items()}
    made["measured"] = of_lists(data["lists"])
    common.write_json(lists.FOLDER / "lists.json", made, MAKER)


if __name__ == "__main__":
    main()
