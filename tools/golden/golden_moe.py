#!/usr/bin/env python3
# Golden files of models with routed experts: golden_moe.py -> tests/golden/experts/<name>/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus config-transformers4.json (the same model as
# transformers 4 would describe it) and golden.safetensors: a batch and what transformers computes from it, with
# gradients under the names that the weights have in the file. Seconds for all; the
# same bytes every time on the same versions.
import json
import shutil

import transformers as hf

import golden_common as common
from golden import SETTINGS, batch_of, random_model, ten_steps, transformers4
from golden_cases import Case

BODY = dict(
    vocab_size=43,
    hidden_size=18,
    intermediate_size=22,
    num_hidden_layers=3,
    num_attention_heads=3,
    num_key_value_heads=1,
    max_position_embeddings=64,
    rms_norm_eps=1e-5,
)
CASES = [
    # Every layer has experts; the weights of three are made to sum to 1; the balancing loss counts.
    Case("qwen3-moe", hf.Qwen3MoeConfig, dict(
        **BODY, head_dim=8, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=7, norm_topk_prob=True,
        output_router_logits=True, router_aux_loss_coef=0.05)),
    # One expert a token, some experts without any; the first layer has an MLP, the others slide.
    Case("qwen3-moe-top1", hf.Qwen3MoeConfig, dict(
        **BODY, num_experts=23, num_experts_per_tok=1, moe_intermediate_size=3, mlp_only_layers=[0],
        use_sliding_window=True, sliding_window=5, tie_word_embeddings=True, output_router_logits=True,
        router_aux_loss_coef=0.3)),
    # Every second layer has experts; no balancing loss.
    Case("qwen3-moe-step", hf.Qwen3MoeConfig, dict(
        **BODY, head_dim=6, num_experts=7, num_experts_per_tok=2, moe_intermediate_size=9, decoder_sparse_step=2,
        attention_bias=True, hidden_act="gelu", pad_token_id=4)),
]


def load(folder):
    # The plain loop over experts: grouped products want sizes that are multiples of four.
    return common.load_model(folder, experts_implementation="eager")


def gradients(model):
    """By the names of the file, which keeps every expert's matrices apart."""
    for name, weight in model.named_parameters():
        if not name.endswith(("gate_up_proj", "down_proj")):
            yield name, weight.grad
            continue
        for expert, grad in enumerate(weight.grad):
            stem = f"{name.rsplit('.', 1)[0]}.{expert}"
            if name.endswith("down_proj"):
                yield f"{stem}.down_proj.weight", grad
            else:
                yield from zip((f"{stem}.gate_proj.weight", f"{stem}.up_proj.weight"), grad.chunk(2))


def write_old_config(folder, case):
    new = json.loads((folder / "config.json").read_text())
    old = transformers4(new, case)
    old["num_experts"] = old.pop("num_local_experts")
    old["max_window_layers"] = 3
    file = folder / "config-transformers4.json"
    file.write_text(json.dumps(old, indent=2, sort_keys=True) + "\n")
    read = hf.Qwen3MoeConfig.from_dict(json.loads(file.read_text())).to_dict()
    different = {key for key, value in new.items() if read.get(key) != value}
    if different - {"transformers_version"}:
        raise SystemExit(f"{case.name}: transformers reads another model from {file.name}: {sorted(different)}")


def make(case):
    folder = common.ROOT / "experts" / case.name
    shutil.rmtree(folder, ignore_errors=True)
    random_model(case).save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    write_old_config(folder, case)
    batch = {**batch_of(case), "use_cache": False}
    model = load(folder)
    output = model(**batch)
    output.loss.backward()
    losses, norms, groups = ten_steps(load(folder), batch)
    del batch["use_cache"]
    tensors = {
        **batch,
        "logits": output.logits * batch["attention_mask"].unsqueeze(-1),
        "loss": output.loss,
        "ten_losses": losses,
        "ten_grad_norms": norms,
        **{f"grad.{name}": grad.clone() for name, grad in gradients(model)},
    }
    if output.aux_loss is not None:
        tensors["aux_loss"] = output.aux_loss
    about = {"name": case.name, "seed": case.seed, "optimizer": {"type": "adamw", **SETTINGS}, **groups}
    common.write_safetensors(folder / "golden.safetensors", tensors, about, "tools/golden/golden_moe.py")
    unused = sum(not grad.any() for _, grad in gradients(model))
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{case.name:16} {size / 1000:6.1f} kB  loss {float(output.loss.detach()):.6f} -> {float(losses[-1]):.6f}  "
          f"weights without gradient {unused}")


if __name__ == "__main__":
    for number, one in enumerate(CASES):
        one.seed = 2000 + number
        make(one)
