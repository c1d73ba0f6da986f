#!/usr/bin/env python3
"""A small Llama as bitsandbytes quantizes it: golden_quantized.py -> tests/golden/quantized/.

`whole` is the model in fp32; `nf4`, `nf4-double`, `fp4` and `int8` are what transformers saves of it, read with such
a BitsAndBytesConfig. numbers.json has, of each, the logits of the weights that are then there (dequantized, in fp32),
and what bitsandbytes makes of two matrices whose rows are no multiple of a block.
"""
import shutil
from importlib.metadata import version

import bitsandbytes.functional as bnb
import golden_common as common
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

MAKER = "tools/golden/golden_quantized.py"
FOLDER = common.ROOT / "quantized"
IDS = [[1, 5, 9, 60, 33, 2, 71, 8, 14, 3], [7, 7, 90, 12, 45, 46, 47, 5, 1, 0]]
KINDS = {
    "nf4": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    "nf4-double": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
    "fp4": dict(load_in_4bit=True, bnb_4bit_quant_type="fp4"),
    "int8": dict(load_in_8bit=True),
}


def whole():
    torch.manual_seed(11)
    config = LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         tie_word_embeddings=False)
    model = LlamaForCausalLM(config).float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.mul_(6)
    model.save_pretrained(FOLDER / "whole")


def dequantized(model):
    """The weights that a quantized model stands for, by name, in fp32."""
    made = {}
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if weight is None:
            continue
        state = getattr(weight, "quant_state", None)
        if state is not None:
            state.dtype = torch.float32
            made[name + ".weight"] = bnb.dequantize_4bit(weight.data, state)
        elif getattr(weight, "SCB", None) is not None:
            made[name + ".weight"] = weight.data.float() * weight.SCB.view(-1, 1) / 127
        else:
            made[name + ".weight"] = weight.data.float()
    return made


def case(name, options):
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    quantized = AutoModelForCausalLM.from_pretrained(
        FOLDER / "whole", quantization_config=BitsAndBytesConfig(**options), dtype=torch.float32, device_map="cpu")
    quantized.save_pretrained(FOLDER / name)
    model = LlamaForCausalLM.from_pretrained(FOLDER / "whole", dtype=torch.float32)
    model.load_state_dict(dequantized(quantized))
    with torch.no_grad():
        logits = model(torch.tensor(IDS)).logits
    return {"name": name, "logits": logits.tolist()}


def matrix(rows, columns, kind):
    torch.manual_seed(rows)
    x = torch.randn(rows, columns) * 0.3
    codes, state = bnb.quantize_4bit(x, blocksize=64, quant_type=kind)
    return {"type": kind, "shape": [rows, columns], "x": x.flatten().tolist(), "codes": codes.flatten().tolist(),
            "absmax": state.absmax.tolist(), "back": bnb.dequantize_4bit(codes, state).flatten().tolist()}


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    whole()
    cases = [case(name, options) for name, options in KINDS.items()]
    common.write_json(FOLDER / "numbers.json", {
        "bitsandbytes": version("bitsandbytes"),
        "ids": IDS,
        "cases": cases,
        "matrices": [matrix(5, 30, "nf4"), matrix(3, 86, "fp4")],
    }, MAKER)


if __name__ == "__main__":
    main()
