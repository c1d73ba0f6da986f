# What the makers of models share: weights, a batch of token ids, ten steps, and golden.safetensors of a folder.
import shutil

import torch
from transformers import AutoModelForCausalLM

import golden_common as common

ROWS, IGNORE = 3, -100
SETTINGS = {"learning_rate": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0}


def causal_lm(case):
    config = case.config(**case.options)
    return AutoModelForCausalLM.from_config(config, attn_implementation=common.ATTENTION, dtype=torch.float32)


def fill(model, seed, is_table, is_norm, wide=1.0):
    """Weights no initialiser makes: nothing is zero, one or small enough to hide a missing term, and yet well
    conditioned: fp32 stays within 3e-6 of an fp64 run, logits and gradients."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=generator) * (wide if is_table(name) else 0.2)
            weight.copy_(1 + noise if is_norm(name) else noise)
    return model.eval()


def tied_scale(model):
    """Of the embedding table: a tied head must not make one token certain."""
    return 0.4 if model.config.tie_word_embeddings else 1.0


def random_model(case):
    model = causal_lm(case)
    is_norm = lambda name: name.endswith("norm.weight")
    return fill(model, case.seed, lambda name: "embed" in name, is_norm, tied_scale(model))


def save_anew(folder, model, **options):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **options)


def batch_of(case):
    """Row 0: a prompt without loss. Row 1: holes in the labels. Row 2: padded on the right (with a valid id)."""
    generator = torch.Generator().manual_seed(case.seed + 1_000_000)
    vocabulary, length = case.options["vocab_size"], case.length
    ids = torch.randint(3, vocabulary, (ROWS, length), generator=generator)
    if "pad_token_id" in case.options:  # real tokens with that id, as input and as target
        ids[0, length // 2], ids[1, 3], ids[1, length - 2] = (case.options["pad_token_id"],) * 3
    real = length * 2 // 3
    mask = torch.ones_like(ids)
    mask[2, real:], ids[2, real:] = 0, case.options.get("pad_token_id", 0)
    labels = ids.clone()
    labels[mask == 0] = IGNORE
    labels[0, : length // 3] = IGNORE
    labels[1, torch.randperm(length, generator=generator)[: length // 4]] = IGNORE
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def labels_of(config, documents, generator):
    """Of a classification head: one label of each document, a 0 or 1 for each label, or numbers."""
    if config.problem_type == "regression":
        shape = (documents, config.num_labels) if config.num_labels > 1 else (documents,)
        return 2 * torch.randn(shape, generator=generator)
    if config.problem_type == "multi_label_classification":
        return torch.randint(0, 2, (documents, config.num_labels), generator=generator).float()
    return torch.randint(0, config.num_labels, (documents,), generator=generator)


def ten_steps(model, inputs):
    """Loss before each of ten AdamW updates on the same inputs, and the gradient norm before clipping."""
    groups = {True: [], False: []}
    for name, weight in model.named_parameters():
        groups[common.decays(name)].append((name, weight))
    optimizer = torch.optim.AdamW(
        [
            {"params": [w for _, w in groups[True]], "weight_decay": SETTINGS["weight_decay"]},
            {"params": [w for _, w in groups[False]], "weight_decay": 0.0},
        ],
        lr=SETTINGS["learning_rate"],
        betas=tuple(SETTINGS["betas"]),
        eps=SETTINGS["eps"],
        foreach=False,
        fused=False,
    )
    losses, norms = [], []
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["max_grad_norm"], foreach=False))
        optimizer.step()
        losses.append(loss.detach())
    about = {"decayed": [n for n, _ in groups[True]], "not_decayed": [n for n, _ in groups[False]]}
    return torch.stack(losses), torch.stack(norms).detach(), about


def gradients_of(model):
    return ((name, weight.grad) for name, weight in model.named_parameters())


def write_golden(folder, seed, batch, maker, load=common.load_model, options={"use_cache": False},
                 gradients=gradients_of, more=lambda model, output: {}):
    """golden.safetensors of a folder: a batch and what transformers computes from it, logits 0 at padded places. `more`
    gives further tensors, or others instead of these; `options` are of forward() and not of the batch. Returns the
    model, with gradients, and its output."""
    model = load(folder)
    output = model(**batch, **options)
    output.loss.backward()
    losses, norms, groups = ten_steps(load(folder), {**batch, **options})
    tensors = {**batch, "loss": output.loss, "ten_losses": losses, "ten_grad_norms": norms}
    tensors |= {f"grad.{name}": grad.clone() for name, grad in gradients(model)}
    special = more(model, output)
    if "logits" not in special:
        tensors["logits"] = output.logits.detach() * batch["attention_mask"].unsqueeze(-1)
    about = {"name": folder.name, "seed": seed, "optimizer": {"type": "adamw", **SETTINGS}, **groups}
    common.write_safetensors(folder / "golden.safetensors", {**tensors, **special}, about, f"tools/golden/{maker}")
    size = sum(file.stat().st_size for file in folder.iterdir())
    loss = float(output.loss.detach())
    print(f"{folder.name:32} {size / 1000:7.1f} kB  loss {loss:.6f} -> {float(losses[-1]):.6f}")
    return model, output
