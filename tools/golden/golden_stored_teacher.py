#!/usr/bin/env python3
# Distillation from a teacher's stored log-probabilities, as Axolotl's plugin kd means it: golden_stored_teacher.py ->
# tests/golden/train/distillation/{stored.jsonl, stored.json}. Written straight from its README and its formulas (data:
# chat_template.py transform_logprobs; loss: kernels/liger.py), in fp64, as its kernels need a GPU. What is told of a
# token is compared with what the model says of that token; the gradient is that of the loss that is reported, of which
# Axolotl's own leaves the temperature's square out. The models are those of golden_dpo.py and golden_distillation.py.
import json

import torch
from golden_distillation import FOLDER
from golden_dpo import FOLDER as STUDENT

import golden_common as common

MAKER = "tools/golden/golden_stored_teacher.py"
FIELD, TOP_K, BATCH, STEPS, EOS = "llm_text_generation_vllm_logprobs", 5, 4, 6, 257
# hone's options.
RUNS = {
    "plain": {},
    "hinton": {"temperature": 2.0, "alpha": 0.7},
    "warm": {"temperature": 1.5, "teacher_temperature": 2.0, "alpha": 0.5},
    "among": {"temperature": 2.0, "normalize_topk": True},
    "three": {"top_k": 3, "alpha": 0.4},
}


def tokens_of(record):
    prompt = list(record["prompt"].encode())
    ids = prompt + list(record["completion"].encode()) + [EOS]
    return ids, [-100] * len(prompt) + ids[len(prompt):]


def make_records():
    teacher = common.load_model(FOLDER / "teacher").double()
    texts = [json.loads(line) for line in (FOLDER / "texts.jsonl").read_text().splitlines()]
    records = [text for text in texts if len(text["completion"]) < 40][: 2 * BATCH]
    for number, record in enumerate(records):
        ids, labels = tokens_of(record)
        with torch.no_grad():
            likeliest = teacher(torch.tensor([ids])).logits[0].log_softmax(-1).topk(TOP_K)
        said = [
            [{"token": f"token_id:{id}", "logprob": round(log_prob, 4)} for log_prob, id in zip(*place)]
            for place in zip(likeliest.values.tolist(), likeliest.indices.tolist())
        ]
        record[FIELD] = [said[i - 1] for i, label in enumerate(labels) if label != -100]
        if number % 3 == 1:
            record[FIELD][0] = None
    (FOLDER / "stored.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return records


# Log-probabilities of the k tokens at kd's temperature, of one place (transform_logprobs).
def brought_to(log_probs, made_with, temperature):
    p = torch.tensor(log_probs, dtype=torch.float32).double().exp()
    p = (p / p.sum()) ** (made_with / temperature)
    return (p / p.sum()).log()


def loss_of(model, records, temperature=1.0, alpha=1.0, teacher_temperature=1.0, normalize_topk=False, top_k=TOP_K):
    divergence, label_loss, learnt, taught = 0.0, 0.0, 0, 0
    for record in records:
        ids, labels = tokens_of(record)
        logits = model(torch.tensor([ids])).logits[0]
        said = [None] * (len(ids) - len(record[FIELD])) + record[FIELD]
        for i, label in enumerate(labels):
            if label == -100:
                continue
            learnt += 1
            label_loss = label_loss - logits[i - 1].log_softmax(-1)[label]
            if said[i] is None:
                continue
            taught += 1
            target = brought_to([one["logprob"] for one in said[i][:top_k]], teacher_temperature, temperature)
            index = torch.tensor([int(one["token"].split(":")[1]) for one in said[i][:top_k]])
            student = (logits[i - 1] / temperature).log_softmax(-1)[index]
            if normalize_topk:
                student = student - student.logsumexp(-1)
            divergence = divergence + temperature**2 * (target.exp() * (target - student)).sum()
    parts = {"divergence_loss": float(divergence.detach()) / taught, "nll_loss": float(label_loss.detach()) / learnt}
    return (alpha * divergence + (1 - alpha) * label_loss) / learnt, parts


def run(records, options):
    model = common.load_model(STUDENT).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    history = {"loss": [], "divergence_loss": [], "nll_loss": [], "grad_norm": []}
    for step in range(STEPS):
        begin = step * BATCH % len(records)
        optimizer.zero_grad()
        loss, parts = loss_of(model, records[begin : begin + BATCH], **options)
        loss.backward()
        norm = torch.stack([weight.grad.norm() for weight in model.parameters()]).norm()
        for name, value in {"loss": loss.item(), "grad_norm": norm.item(), **parts}.items():
            history[name].append(value)
        optimizer.step()
    return history


def main():
    records = make_records()
    runs = {name: run(records, options) for name, options in RUNS.items()}
    common.write_json(FOLDER / "stored.json", {"settings": RUNS, "runs": runs}, MAKER)


if __name__ == "__main__":
    main()
