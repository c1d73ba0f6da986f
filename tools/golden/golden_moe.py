#!/usr/bin/env python3
# Golden files of models with routed experts: golden_moe.py -> tests/golden/experts/<name>/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus config-transformers4.json (the same model as
# transformers 4 would describe it) and golden.safetensors: a batch and what transformers computes from it, with
# gradients under the names that the weights have in the file. Seconds for all; the
# same bytes every time on the same versions.
import json

import transformers as hf

import golden_common as common
from golden import transformers4
from golden_cases import Case
from golden_model import batch_of, random_model, save_anew, write_golden

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
    save_anew(folder, random_model(case))
    (folder / "model.safetensors").chmod(0o644)
    write_old_config(folder, case)
    more = lambda model, output: {} if output.aux_loss is None else {"aux_loss": output.aux_loss}
    model, _ = write_golden(folder, case.seed, batch_of(case), "golden_moe.py", load, gradients=gradients, more=more)
    print(f"  weights without gradient: {sum(not grad.any() for _, grad in gradients(model))}")


if __name__ == "__main__":
    for number, one in enumerate(CASES):
        one.seed = 2000 + number
        make(one)
