#!/usr/bin/env python3
# Linear layers with products in fp8 as torchao's recipes `tensorwise` and `rowwise` make them, by its emulation:
# golden_float8.py -> tests/golden/train/float8.safetensors. Inputs, weights and gradients are random numbers of many
# sizes, a row and a column of zeros among them; the layers are of bf16 and of fp32.
import torch
import torchao
from torchao.float8 import Float8LinearConfig
from torchao.float8.float8_linear import Float8Linear

import golden_common as common

MAKER = "tools/golden/golden_float8.py"
TOKENS, INPUTS, OUTPUTS = 37, 48, 32


def config_of(recipe):
    config = Float8LinearConfig.from_recipe_name(recipe)
    return Float8LinearConfig(
        cast_config_input=config.cast_config_input,
        cast_config_weight=config.cast_config_weight,
        cast_config_grad_output=config.cast_config_grad_output,
        round_scales_to_power_of_2=config.round_scales_to_power_of_2,
        emulate=True,
    )


def numbers():
    generator = torch.Generator().manual_seed(8)

    def made(rows, columns):
        sizes = torch.exp2(8 * torch.rand(rows, 1, generator=generator) - 4)
        return (torch.randn(rows, columns, generator=generator) * sizes).to(torch.bfloat16)

    x, weight, gradient = made(TOKENS, INPUTS), made(OUTPUTS, INPUTS), made(TOKENS, OUTPUTS)
    x[3], x[:, 5], gradient[7], gradient[:, 2] = 0, 0, 0, 0
    return x, weight, gradient * 2**-20


def products(recipe, dtype, x, weight, gradient):
    plain = torch.nn.Linear(INPUTS, OUTPUTS, bias=False, dtype=dtype)
    plain.weight = torch.nn.Parameter(weight.to(dtype))
    layer = Float8Linear.from_float(plain, config_of(recipe))
    x = x.to(dtype, copy=True).requires_grad_()
    y = layer(x)
    y.backward(gradient.to(dtype))
    return {"y": y, "dx": x.grad, "dweight": layer.weight.grad}


def main():
    x, weight, gradient = numbers()
    tensors = {"x": x.float(), "weight": weight.float(), "gradient": gradient.float()}
    for recipe in ("tensorwise", "rowwise"):
        for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
            for what, value in products(recipe, dtype, x, weight, gradient).items():
                tensors[f"{recipe}.{name}.{what}"] = value.detach().float()
    path = common.ROOT / "train" / "float8.safetensors"
    common.write_safetensors(path, tensors, {"torchao": torchao.__version__}, MAKER)
    print(len(tensors), "tensors")


if __name__ == "__main__":
    main()
