#!/usr/bin/env python3
# Golden files of GPT-2: golden_gpt2.py -> tests/golden/gpt2/<name>/ (development time only).
#
# Each folder is a complete HF folder as save_pretrained writes it, plus golden.safetensors: a batch and what transformers
# computes from it. Seconds for all; the same bytes every time on the same versions.
import shutil

import torch
import transformers as hf

import golden_common as common
from golden import SETTINGS, batch_of, ten_steps
from golden_cases import Case

BODY = dict(vocab_size=64, n_embd=24, n_layer=2, n_head=4, n_positions=32, bos_token_id=1, eos_token_id=1)
CASES = [
    Case("gpt2", hf.GPT2Config, BODY),
    Case("gpt2-odd", hf.GPT2Config, dict(
        vocab_size=43, n_embd=18, n_layer=3, n_head=3, n_positions=24, n_inner=22, activation_function="relu",
        layer_norm_epsilon=1e-3, tie_word_embeddings=False, bos_token_id=2, eos_token_id=3)),
]


def random_model(case):
    """Nothing is zero, one or small enough to hide a missing term."""
    config = case.config(**case.options)
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation=common.ATTENTION, dtype=torch.float32)
    generator = torch.Generator().manual_seed(case.seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            wide = 0.4 if config.tie_word_embeddings else 1.0
            noise = torch.randn(weight.shape, generator=generator) * (wide if ".wte" in name or ".wpe" in name else 0.2)
            weight.copy_(1 + noise if "ln_" in name and name.endswith(".weight") else noise)
    return model.eval()


def make(case):
    folder = common.ROOT / "gpt2" / case.name
    shutil.rmtree(folder, ignore_errors=True)
    random_model(case).save_pretrained(folder)
    model, batch = common.load_model(folder), batch_of(case)
    output = model(**batch, use_cache=False)
    output.loss.backward()
    gradients = {f"grad.{name}": weight.grad.clone() for name, weight in model.named_parameters()}
    losses, norms, groups = ten_steps(common.load_model(folder), {**batch, "use_cache": False})
    tensors = {
        **batch,
        "logits": output.logits.detach() * batch["attention_mask"].unsqueeze(-1),
        "loss": output.loss,
        "ten_losses": losses,
        "ten_grad_norms": norms,
        **gradients,
    }
    about = {"name": case.name, "seed": case.seed, "optimizer": {"type": "adamw", **SETTINGS}, **groups}
    common.write_safetensors(folder / "golden.safetensors", tensors, about, "tools/golden/golden_gpt2.py")
    print(f"{case.name:12} loss {float(output.loss.detach()):.6f} -> {float(losses[-1]):.6f}")


if __name__ == "__main__":
    for number, one in enumerate(CASES):
        one.seed = number
        make(one)
