#!/usr/bin/env python3
# Training for fewer bits as torchao has it: golden_qat.py -> tests/golden/train/qat/{ops, llama}.safetensors
# (development time only; needs torchao 0.18 beside transformers).
#
# ops: matrices, what torchao's fake quantizers make of them, and gradients of a sum with other numbers; of float8
# without these, which torchao rounds to float8 on the way back. llama: logits, gradients and ten AdamW losses of
# tests/golden/models/llama for its batch, with linear layers of blocks prepared for each grid.
#
# What one would not guess of torchao: a symmetric scale is the largest value by 7.5 (127.5), so that the largest number
# of a group, where it is positive, lies beyond the last code and gets no gradient; scales have none. Of bf16 it makes
# codes in bf16, as no quantizer of files does: all here is in fp32.
import torch
from safetensors.torch import load_file
from torchao.quantization import quantize_
from torchao.quantization.qat import Float8FakeQuantizeConfig, IntxFakeQuantizeConfig, QATConfig
from torchao.quantization.qat.fake_quantizer import FakeQuantizerBase

import golden_common as common
from golden_model import ten_steps

FOLDER = common.ROOT / "train" / "qat"
MAKER = "tools/golden/golden_qat.py"
TOKENS = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)


def weights(bits, group):
    kind = torch.int4 if bits == 4 else torch.int8
    return IntxFakeQuantizeConfig(kind, **({"group_size": group} if group else {"granularity": "per_channel"}))


CONFIGS = {
    "int4.16": weights(4, 16), "int4.0": weights(4, 0), "int8.16": weights(8, 16), "int8.0": weights(8, 0),
    "rows.int8": TOKENS, "float8": Float8FakeQuantizeConfig(),
}  # fmt: skip


def ops():
    generator = torch.Generator().manual_seed(1)
    x, direction = (torch.randn(6, 48, generator=generator) for _ in range(2))
    x[1] *= 1e-3
    x[2, 16:32] = 0
    x[3] = x[3].abs()
    tensors = {"x": x, "direction": direction}
    for what, config in CONFIGS.items():
        given = x.clone().requires_grad_(True)
        made = FakeQuantizerBase.from_config(config)(given)
        (made * direction).sum().backward()
        tensors[what] = made.detach()
        if what != "float8":
            tensors[f"{what}.grad"] = given.grad
    return tensors


MODELS = {
    "int4": (weights(4, 8), None),
    "int4.rows": (weights(4, 8), TOKENS),
    "int8": (weights(8, 0), TOKENS),
    "float8": (Float8FakeQuantizeConfig(), Float8FakeQuantizeConfig()),
}


def llama():
    folder = common.ROOT / "models" / "llama"
    golden = load_file(folder / "golden.safetensors")
    batch = {name: golden[name] for name in ("input_ids", "attention_mask", "labels")}
    tensors = {}
    for name, (weight, activation) in MODELS.items():
        def made():
            model = common.load_model(folder)
            quantize_(model.model.layers, QATConfig(weight_config=weight, activation_config=activation, step="prepare"))
            return model

        model = made()
        output = model(**batch, use_cache=False)
        output.loss.backward()
        tensors[f"{name}.logits"] = output.logits.detach() * batch["attention_mask"].unsqueeze(-1)
        if name != "float8":
            tensors |= {f"{name}.grad.{own}": weight.grad.clone() for own, weight in model.named_parameters()}
            tensors[f"{name}.ten_losses"] = ten_steps(made(), {**batch, "use_cache": False})[0]
    return tensors


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    common.write_safetensors(FOLDER / "ops.safetensors", ops(), {}, MAKER)
    common.write_safetensors(FOLDER / "llama.safetensors", llama(), {}, MAKER)


if __name__ == "__main__":
    main()
