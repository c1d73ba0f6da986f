#!/usr/bin/env python3
# Adapters as PEFT makes them: golden_lora.py -> tests/golden/adapters/<case>/{adapter_config.json,
# adapter_model.safetensors, golden.safetensors}, each on one of the other golden models. Weights are noise, so that
# nothing is zero; golden.safetensors has logits, gradients of what is trained and ten AdamW losses for the batch of the
# base's own golden.safetensors, and the base with the adapter merged. PiSSA's and OLoRA's cases keep what PEFT begins
# with.
import json
import shutil
import sys
from dataclasses import dataclass, field

import peft
import torch
from peft.optimizers import create_loraplus_optimizer
from safetensors.torch import load_file

import golden_common as common
from golden_model import SETTINGS, ten_steps

FOLDER = common.ROOT / "adapters"
MAKER = "tools/golden/golden_lora.py"


@dataclass
class Case:
    name: str
    base: str  # below tests/golden
    options: dict = field(default_factory=dict)
    seed: int = 1
    keep_start: bool = False
    ratio: float = 1.0  # LoRA+
    tables: float | None = None  # its learning rate of tables


CASES = [
    Case("linear", "models/llama", {"target_modules": "all-linear"}),
    Case("names", "models/qwen2", {
        "target_modules": ["q_proj", "v_proj", "down_proj"], "r": 3, "lora_alpha": 7, "use_rslora": True,
        "rank_pattern": {"down_proj": 5, "layers.1.self_attn.q_proj": 2}, "alpha_pattern": {"v_proj": 3},
    }),
    Case("dora", "models/qwen2", {"target_modules": "all-linear", "use_dora": True}),
    Case("tables", "models/llama", {"target_modules": ["embed_tokens", "lm_head", "k_proj"]}),
    Case("tied", "models/llama-tied", {"target_modules": ["embed_tokens", "o_proj"]}),
    Case("dora-tables", "models/llama", {"target_modules": ["embed_tokens", "o_proj"], "use_dora": True}),
    Case("saved", "models/llama", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]}),
    Case("conv1d", "gpt2/gpt2", {"target_modules": ["c_attn", "mlp.c_proj"], "fan_in_fan_out": True}),
    Case("conv1d-dora", "gpt2/gpt2", {"target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True, "use_dora": True}),
    Case("pissa", "models/llama", {"target_modules": ["q_proj", "up_proj"], "init_lora_weights": "pissa"},
         keep_start=True),
    Case("olora", "models/llama", {"target_modules": ["q_proj", "up_proj"], "init_lora_weights": "olora"},
         keep_start=True),
    Case("plus", "models/llama", {"target_modules": ["q_proj", "up_proj"]}, ratio=8.0),
    Case("plus-tables", "models/llama", {"target_modules": ["embed_tokens", "q_proj"]}, ratio=8.0, tables=5e-3),
    Case("experts", "experts/qwen3-moe", {
        "target_modules": ["q_proj"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
    }),
    Case("one-expert-weight", "experts/qwen3-moe", {
        "target_modules": [], "target_parameters": ["mlp.experts.down_proj"],
    }),
    Case("tokens", "models/llama", {"target_modules": ["q_proj"], "trainable_token_indices": [7, 3, 12]}),
    Case("tokens-tied", "models/llama-tied", {
        "target_modules": ["q_proj"], "trainable_token_indices": [7, 3, 12], "ensure_weight_tying": True,
    }),
    Case("tokens-tied-scaled", "decoders/gemma2", {
        "target_modules": ["q_proj"], "trainable_token_indices": {"embed_tokens": [9, 4]}, "ensure_weight_tying": True,
    }),
]  # fmt: skip


def adapted(case):
    options = {"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM"} | case.options
    overrides = {"experts_implementation": "eager"} if case.base.startswith("experts") else {}
    model = peft.get_peft_model(common.load_model(common.ROOT / case.base, **overrides), peft.LoraConfig(**options))
    generator = torch.Generator().manual_seed(case.seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if not weight.requires_grad or case.keep_start:
                continue
            noise = torch.randn(weight.shape, generator=generator) * 0.1
            weight.copy_(weight * (1 + noise) if "magnitude" in name or "lora_" not in name else noise)
    return model.eval()


def own_name(name):
    """As files have it."""
    return name.replace(".default", "").replace(".modules_to_save", "")


def steps(model, batch, ratio, tables):
    trained = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]

    class Trained:  # what ten_steps() asks of a model
        def named_parameters(self):
            return trained

        def parameters(self):
            return [weight for _, weight in trained]

        def __call__(self, **inputs):
            return model(**inputs)

    if ratio == 1:
        return ten_steps(Trained(), batch)
    optimizer = create_loraplus_optimizer(
        model, torch.optim.AdamW, lr=SETTINGS["learning_rate"], loraplus_lr_ratio=ratio,
        loraplus_weight_decay=SETTINGS["weight_decay"], loraplus_lr_embedding=tables, betas=tuple(SETTINGS["betas"]),
        eps=SETTINGS["eps"], foreach=False,
    )  # fmt: skip
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([w for _, w in trained], SETTINGS["max_grad_norm"], foreach=False)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), None, None


def make(case):
    folder = FOLDER / case.name
    shutil.rmtree(folder, ignore_errors=True)
    golden = load_file(common.ROOT / case.base / "golden.safetensors")
    batch = {name: golden[name] for name in ("input_ids", "attention_mask", "labels")}
    model = adapted(case)
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    (folder / "adapter_model.safetensors").chmod(0o644)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = f"../../{case.base}"
    for key in ("target_modules", "target_parameters", "modules_to_save"):
        if isinstance(config.get(key), list):
            config[key] = sorted(config[key])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    output = model(**batch, use_cache=False)
    output.loss.backward()
    tensors = {"loss": output.loss, "logits": output.logits.detach() * batch["attention_mask"].unsqueeze(-1)}
    for name, weight in model.named_parameters():
        if weight.requires_grad and weight.grad is not None:
            tensors["grad." + own_name(name)] = weight.grad.clone()
    model.zero_grad()
    losses, _, _ = steps(adapted(case), {**batch, "use_cache": False}, case.ratio, case.tables)
    tensors["ten_losses"] = losses
    merged = adapted(case).merge_and_unload()
    with torch.no_grad():
        logits = merged(**batch, use_cache=False).logits * batch["attention_mask"].unsqueeze(-1)
    tensors["merged_logits"] = logits
    about = {"name": case.name, "base": case.base, "peft": peft.__version__, "optimizer": SETTINGS, "ratio": case.ratio}
    common.write_safetensors(folder / "golden.safetensors", tensors, about, MAKER)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{case.name:20} {size / 1000:7.1f} kB  loss {float(output.loss):.6f} -> {float(losses[-1]):.6f}")


if __name__ == "__main__":
    for one in CASES:
        if len(sys.argv) == 1 or one.name in sys.argv[1:]:
            make(one)
