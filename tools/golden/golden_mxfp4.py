#!/usr/bin/env python3
# Weights in MXFP4, and what transformers makes of them: golden_mxfp4.py -> tests/golden/mxfp4/values.safetensors.
# `some`: each byte of two codes, with scales as models have them; `far`: each scale that keeps all codes finite.
# tests/golden/mxfp4/gpt_oss is a folder as gpt-oss is published, with logits of transformers for some ids.
import json

import safetensors.torch
import torch
import transformers as hf
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import golden_common as common

MAKER = "tools/golden/golden_mxfp4.py"
EXPERTS, INPUTS, OUTPUTS = 3, 64, 6
FAR = 253  # scales from 2^-127 to 2^125: with the next one 6 is beyond bf16 and fp32


def some(generator):
    groups = INPUTS // 32
    codes = torch.randperm(EXPERTS * OUTPUTS * groups * 16, generator=generator) % 256
    scales = torch.randint(110, 131, (EXPERTS, OUTPUTS, groups), generator=generator)
    return codes.view(EXPERTS, OUTPUTS, groups, 16).to(torch.uint8), scales.to(torch.uint8)


def far(generator):
    codes = torch.randint(0, 256, (1, FAR, 1, 16), generator=generator)
    return codes.to(torch.uint8), torch.arange(FAR).view(1, FAR, 1).to(torch.uint8)


SIZES = dict(vocab_size=40, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, num_local_experts=3, num_experts_per_tok=2, sliding_window=4,
             max_position_embeddings=64, rope_parameters=dict(rope_type="default", rope_theta=100.0))


def packed(generator, experts, rows, columns):
    groups = (experts, rows, columns // 32)
    codes = torch.randint(0, 256, (*groups, 16), generator=generator)
    return codes.to(torch.uint8), torch.randint(121, 124, groups, generator=generator).to(torch.uint8)


def write_folder(generator):
    folder = common.ROOT / "mxfp4" / "gpt_oss"
    model = hf.GptOssForCausalLM(hf.GptOssConfig(**SIZES))
    tensors = {}
    for name, weight in sorted(model.state_dict().items()):
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, columns, rows = weight.shape
            tensors[name + "_blocks"], tensors[name + "_scales"] = packed(generator, experts, rows, columns)
        else:
            noise = 0.3 * torch.randn(weight.shape, generator=generator)
            tensors[name] = (1 + noise if name.endswith("norm.weight") else noise).to(torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    config = json.loads(model.config.to_json_string())
    config |= {"architectures": ["GptOssForCausalLM"], "dtype": "bfloat16",
               "quantization_config": {"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"}}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    how = {"quantization_config": hf.Mxfp4Config(dequantize=True), "experts_implementation": "eager"}
    read = common.load_model(folder, **how)
    ids = torch.randint(0, SIZES["vocab_size"], (2, 12), generator=generator)
    logits = read(input_ids=ids, use_cache=False).logits
    common.write_safetensors(folder / "golden.safetensors", {"input_ids": ids, "logits": logits}, {}, MAKER)


def main():
    generator = torch.Generator().manual_seed(4)
    write_folder(torch.Generator().manual_seed(5))
    tensors = {}
    for name, (blocks, scales) in {"some": some(generator), "far": far(generator)}.items():
        tensors[name + "_blocks"], tensors[name + "_scales"] = blocks, scales
        whole = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)
        for dtype in (torch.float32, torch.float64):  # which hold the same numbers
            assert torch.equal(whole.to(dtype), convert_moe_packed_tensors(blocks, scales, dtype=dtype)), dtype
        assert whole.isfinite().all()
        tensors[name + ".bits"] = whole.view(torch.int16)
    common.write_safetensors(common.ROOT / "mxfp4" / "values.safetensors", tensors, {}, MAKER)
    print({name: tuple(value.shape) for name, value in tensors.items()})


if __name__ == "__main__":
    main()
