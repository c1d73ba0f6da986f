#!/usr/bin/env python3
# Late-interaction (ColBERT) models as sentence-transformers has them: golden_late_interaction.py ->
# tests/golden/train/late_interaction/*. Needs that package, and what golden_embedding.py and golden_taught.py have
# made. Folders that MultiVectorEncoder has written, the vectors and scores that it makes, what its losses give in steps
# of SGD, and what its evaluators measure.
import json
import shutil
import string

import torch
import transformers
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.multi_vector_encoder import evaluation, losses, scoring
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

import golden_common as common
import golden_embedding as dense

FOLDER = common.ROOT / "train" / "late_interaction"
MAKER = "tools/golden/golden_late_interaction.py"
RATE, DIM = 0.003, 8
TEXTS = ["rain", "what about the rain and the moon?", "z" * 80, "bees: 12. 13?"]
NAMES = ("bert", "modernbert")


def modern_base():
    tokenizer = dense.bert_tokenizer()
    torch.manual_seed(79)
    model = transformers.ModernBertModel(
        transformers.ModernBertConfig(
            vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=3, num_attention_heads=4,
            intermediate_size=32, max_position_embeddings=64, local_attention=32, initializer_range=0.2,
            initializer_cutoff_factor=3.0, pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2,
            eos_token_id=3, attention_dropout=0.0, embedding_dropout=0.0, mlp_dropout=0.0, reference_compile=False,
        )
    )  # fmt: skip
    base = FOLDER / "modernbert-base"
    model.save_pretrained(base)
    tokenizer.save_pretrained(base)
    return base


def save_folder(name):
    base = dense.save_base("bert") if name == "bert" else modern_base()
    torch.manual_seed(75)
    expansion = (
        {"strategy": "fixed", "length": 20} if name == "bert" else {"strategy": "min", "attend": True, "length": 22}
    )
    lengths = {"document_length": 24} if name == "bert" else {"query_length": 26}
    modules = [
        Transformer(str(base), query_expansion=expansion, **lengths),
        Dense(24, DIM, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"),
        MultiVectorMask(skiplist_words=list(string.punctuation) if name == "bert" else ["?"],
                        skiplist_tasks=None if name == "bert" else ["query", "document"]),
        Normalize(module_input_name="token_embeddings"),
    ]  # fmt: skip
    model = MultiVectorEncoder(modules=modules, prompts=dense.PROMPTS, device="cpu")
    model.max_seq_length = 48
    model.save(str(FOLDER / name))
    shutil.rmtree(base)
    (FOLDER / name / "README.md").unlink(missing_ok=True)


def open_folder(name="bert"):
    model = MultiVectorEncoder(str(FOLDER / name), device="cpu")
    model[0].auto_model.config._attn_implementation = "eager"
    return model


def ranking(**options):
    return lambda m: losses.MultiVectorMultipleNegativesRankingLoss(m, **options)


def distill(**options):
    return lambda m: losses.MultiVectorDistillKLDivLoss(m, **options)


def margin(**options):
    return lambda m: losses.MultiVectorMarginMSELoss(m, **options)


MEAN = {"similarity_fn_name": "meanmaxsim"}
RUNS = {  # folder, data, hone's options, what makes the same loss
    "ranking": ("bert", "pairs", {}, ranking()),
    "ranking_others": ("bert", "triplets", {"temperature": 2.0}, ranking(scale=0.5)),
    "ranking_mean": (
        "bert", "triplets", {**MEAN, "temperature": 0.1},
        ranking(scale=10.0, similarity_fct=scoring.mean_colbert_scores),
    ),
    "cached": (
        "bert", "triplets", {}, lambda m: losses.CachedMultiVectorMultipleNegativesRankingLoss(m, mini_batch_size=3)
    ),
    "distill": ("bert", "taught", {"loss_type": "distill_kl_div"}, distill()),
    "distill_temperatures": (
        "bert", "taught", {"loss_type": "distill_kl_div", "temperature": 0.5, "teacher_temperature": 2},
        distill(student_temperature=0.5, teacher_temperature=2),
    ),
    "margin_mse": ("bert", "taught", {"loss_type": "margin_mse"}, margin()),
    "margin_mse_mean": (
        "bert", "margins", {"loss_type": "margin_mse", **MEAN},
        margin(similarity_fct=scoring.mean_colbert_scores_pairwise),
    ),
    "modernbert": ("modernbert", "triplets", {}, ranking()),
    "modernbert_distill": ("modernbert", "taught", {"loss_type": "distill_kl_div"}, distill()),
}  # fmt: skip


def run(model, make_loss, rows):
    """What steps of SGD give, on the rows in their order."""
    loss_of = make_loss(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    names = [name for name in rows[0] if name not in ("score", "scores")]
    history = {"loss": [], "grad_norm": []}
    model.train()
    for step in range(dense.STEPS):
        batch = [rows[(step * dense.BATCH + i) % len(rows)] for i in range(dense.BATCH)]
        features = []
        for i, name in enumerate(names):
            task = "document" if i else "query"
            made = model.preprocess([row[name] for row in batch], prompt=model.prompts[task], task=task)
            features.append({**made, "task": task})
        loss = loss_of(features, torch.tensor([row.get("scores", row.get("score", 0.0)) for row in batch]))
        optimizer.zero_grad()
        loss.backward()
        given = [p.grad for p in model.parameters() if p.grad is not None]
        history["loss"].append(loss.item())
        history["grad_norm"].append(torch.nn.utils.get_total_norm(given).item())
        optimizer.step()
    return history


def read(data):
    return [json.loads(line) for line in (dense.FOLDER / f"{data}.jsonl").read_text().splitlines()]


def measured(name):
    model, triplets = open_folder(name), read("triplets")
    queries = {str(i): row["query"] for i, row in enumerate(triplets)}
    corpus = {text: text for text in sorted({row[key] for row in triplets for key in ("positive", "negative")})}
    right = {str(i): {row["positive"]} for i, row in enumerate(triplets)}
    found = evaluation.MultiVectorInformationRetrievalEvaluator(queries, corpus, right)(model)
    made = {key: found[f"maxsim_{key}"] for key in ("accuracy@1", "mrr@10", "ndcg@10")}
    columns = [[row[key] for row in triplets] for key in ("query", "positive", "negative")]
    triplet = evaluation.MultiVectorTripletEvaluator(*columns)(model)
    made["triplet_accuracy"] = triplet["maxsim_accuracy"]
    return made


def embedded(name):
    model = open_folder(name)
    query, document = model.encode_query(TEXTS), model.encode_document(TEXTS)
    return {
        "query": [one.tolist() for one in query],
        "document": [one.tolist() for one in document],
        "scores": model.similarity(query, document).tolist(),
        "mean_scores": model.similarity(query, document, length_normalize=True).tolist(),
    }


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        save_folder(name)
    for path in FOLDER.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    report = {"batch": dense.BATCH, "rate": RATE, "texts": TEXTS}
    report["embedded"] = {name: embedded(name) for name in NAMES}
    report["measured"] = {name: measured(name) for name in NAMES}
    report["settings"] = {name: {"model": f, "data": d, "options": o} for name, (f, d, o, _) in RUNS.items()}
    report["runs"] = {name: run(open_folder(f), make, read(d)) for name, (f, d, _, make) in RUNS.items()}
    common.write_json(FOLDER / "late_interaction.json", report, MAKER)


if __name__ == "__main__":
    main()
