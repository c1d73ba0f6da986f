#!/usr/bin/env python3
# Folders with weights in few bits, and what transformers makes of them: golden_packed.py -> tests/golden/packed/<name>/
# (development time only; needs compressed-tensors 0.20.1 beside transformers).
#
# Each folder is one as it is published, of a small model, quantized here: fp8-* as transformers' FineGrainedFP8Config
# reads it, ct-* as compressed-tensors does, gptq-* and awq as AutoGPTQ, GPTQModel and AutoAWQ write them.
# golden.safetensors has ids, logits of transformers for them and, in whole/, each weight that was quantized, in full.
# Of fp8-ragged, fp8-stacked, ct-mixed, gptq-* and awq, which transformers does not read (on CPUs), the logits are those
# of the weights as they are computed here.
import json
import sys

import safetensors.torch
import torch
import transformers as hf

import golden_common as common

MAKER = "tools/golden/golden_packed.py"
FLOAT8 = torch.float8_e4m3fn
SIZES = dict(vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=False)
MOE = {**SIZES, "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}
SKIPPED = ["lm_head", "embed_tokens", ".gate."]


def expand(grid, shape, block):
    """Each of the grid's numbers for the block that it is of."""
    rows, columns = (size or shape[i] for i, size in enumerate(block))
    return grid.repeat_interleave(rows, 0)[: shape[0]].repeat_interleave(columns, 1)[:, : shape[1]]


def largest(weight, block):
    """The largest sizes of a matrix's blocks; 0: all rows, or columns."""
    rows, columns = (size or weight.shape[i] for i, size in enumerate(block))
    parts = [[part.abs().amax() for part in band.split(columns, 1)] for band in weight.split(rows, 0)]
    return torch.stack([torch.stack(band) for band in parts])


def to_float8(weight, block, scale_type=torch.float32, power=False):
    scales = largest(weight, block) / torch.finfo(FLOAT8).max
    scales = (scales.log2().ceil().exp2() if power else scales).to(scale_type)
    codes = (weight / expand(scales.float(), weight.shape, block)).clamp(-448, 448).to(FLOAT8)
    return codes, scales, codes.float() * expand(scales.float(), weight.shape, block)


def to_integers(weight, block, bits, scale_type, symmetric):
    """Codes from -2^(bits-1) on, scales, zeros."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if symmetric:
        scales = (largest(weight, block) / high).to(scale_type)
        zeros = torch.zeros(scales.shape)
    else:
        least, most = -largest((-weight).clamp(min=0), block), largest(weight.clamp(min=0), block)
        scales = ((most - least) / (high - low)).to(scale_type)
        zeros = (low - least / scales.float()).round().clamp(low, high)
    wide_scales, wide_zeros = expand(scales.float(), weight.shape, block), expand(zeros, weight.shape, block)
    codes = (weight / wide_scales + wide_zeros).round().clamp(low, high).to(torch.int8)
    return codes, scales, zeros.to(torch.int8), (codes.float() - wide_zeros) * wide_scales


def pack(codes, bits):
    """Rows of codes from 0 on in words of 32 bits, the first one lowest."""
    in_word = 32 // bits
    columns = -(-codes.shape[1] // in_word) * in_word
    padded = torch.zeros(codes.shape[0], columns, dtype=torch.int64)
    padded[:, : codes.shape[1]] = codes
    words = (padded.view(codes.shape[0], -1, in_word) << (bits * torch.arange(in_word))).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


class Folder:
    """A model's weights in bf16; those of blocks are given to `quantize`, which writes tensors of its own."""

    def __init__(self, name, config, quantization, quantize, dtype=torch.bfloat16, stacked=False):
        self.path, self.whole, self.stacked = common.ROOT / "packed" / name, {}, {}
        generator = torch.Generator().manual_seed(sum(name.encode()))
        model = hf.AutoModelForCausalLM.from_config(config)
        self.tensors = {}
        for key, weight in sorted(model.state_dict().items()):
            noise = 0.2 * torch.randn(weight.shape, generator=generator)
            made = (1 + noise if key.endswith("norm.weight") else noise).to(dtype)
            if weight.ndim < 2 or any(part in key for part in SKIPPED):
                self.tensors[key] = made
            elif weight.ndim == 3:
                self.experts(key, made.float(), quantize, stacked)
            else:
                self.whole[key] = quantize(self.tensors, key, made.float())
        self.path.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_file(self.tensors, self.path / "model.safetensors", metadata={"format": "pt"})
        (self.path / "model.safetensors").chmod(0o644)
        written = json.loads(model.config.to_json_string())
        written |= {"architectures": [type(model).__name__], "dtype": str(dtype).removeprefix("torch."),
                    "quantization_config": quantization}
        (self.path / "config.json").write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
        self.ids = torch.randint(0, SIZES["vocab_size"], (2, 12), generator=generator)

    def experts(self, key, weight, quantize, stacked):
        """Each expert's matrices by themselves, or, as transformers has them in memory, in one tensor."""
        stem, names = key.rsplit(".", 1)
        parts = ["down_proj"] if names == "down_proj" else ["gate_proj", "up_proj"]
        single = [{} for _ in weight]
        for expert, matrix in enumerate(weight):
            if stacked:
                whole = quantize(single[expert], key, matrix)
                self.whole |= {f"{stem}.{expert}.{part}.weight": half
                               for part, half in zip(parts, whole.chunk(len(parts)))}
                self.stacked.setdefault(key, []).append(whole)
                continue
            for part, half in zip(parts, matrix.chunk(len(parts))):
                name = f"{stem}.{expert}.{part}.weight"
                self.whole[name] = quantize(self.tensors, name, half)
        if stacked:
            self.tensors |= {name: torch.stack([one[name] for one in single]) for name in single[0]}

    def write(self, **how):
        """`how`: what transformers is told; without it, it reads the weights as they are here."""
        if how:
            model = common.load_model(self.path, **how)
        else:
            model = self.model_in_full()
        logits = model(input_ids=self.ids, use_cache=False).logits
        tensors = {"input_ids": self.ids, "logits": logits} | {"whole/" + k: v for k, v in self.whole.items()}
        common.write_safetensors(self.path / "golden.safetensors", tensors, {}, MAKER)
        return model

    def model_in_full(self):
        config = hf.AutoConfig.from_pretrained(self.path)
        del config.quantization_config
        state = {k: v for k, v in self.tensors.items() if v.dtype in (torch.bfloat16, torch.float16)
                 and k.endswith("weight")}
        state |= {k: v for k, v in self.whole.items() if ".experts." not in k}
        state |= {k: torch.stack(v) for k, v in self.stacked.items()}
        model = hf.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=common.ATTENTION)
        model.load_state_dict({k: v.float() for k, v in state.items()})
        return model.eval()


def qwen3(**more):
    return hf.Qwen3Config(**{**SIZES, **more})


def fp8(name, block, config, scale_type=torch.float32, power=False, static=False, stacked=False, **more):
    told = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "static" if static else "dynamic",
            "weight_block_size": list(block) if block else None, "modules_to_not_convert": ["lm_head"], **more}

    def quantize(tensors, key, weight):
        codes, scales, whole = to_float8(weight, block or (0, 0), scale_type, power)
        tensors[key] = codes
        tensors[key + "_scale_inv"] = scales if block else scales.reshape(())
        if static:
            tensors[key.removesuffix("weight") + "activation_scale"] = torch.tensor(0.5, dtype=scale_type)
        return whole

    return Folder(name, config, told, quantize, stacked=stacked)


def check(folder, model):
    """What transformers holds is what stands here, to the bit."""
    held = model.state_dict()
    for key, whole in folder.whole.items():
        if key in held:
            assert torch.equal(held[key], whole), key


def make_fp8():
    how = {"quantization_config": hf.FineGrainedFP8Config(dequantize=True)}
    exact = [fp8("fp8", (16, 16), qwen3(num_hidden_layers=2)),
             fp8("fp8-bf16-scales", (16, 8), qwen3(), torch.bfloat16),
             fp8("fp8-powers", (1, 16), qwen3(), torch.float8_e8m0fnu, power=True, scale_fmt="ue8m0"),
             fp8("fp8-one-scale", None, hf.LlamaConfig(**SIZES), torch.bfloat16, static=True),
             fp8("fp8-experts", (8, 16), hf.Qwen3MoeConfig(**MOE))]
    for folder in exact:
        check(folder, folder.write(**how))
    fp8("fp8-ragged", (20, 18), qwen3()).write()  # which transformers refuses, and DeepSeek's own code reads
    fp8("fp8-stacked", (12, 16), hf.Qwen3MoeConfig(**MOE), stacked=True).write()


def compressed(name, format, weights, quantize, dtype=torch.bfloat16, sizes={}, **more):
    told = {"quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed",
            "ignore": ["lm_head"], "kv_cache_scheme": None, "version": "0.20.1",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None,
                                          "output_activations": None}}, **more}
    return Folder(name, qwen3(**sizes), told, quantize, dtype)


def compressed_args(bits, kind, strategy, **more):
    return {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True, "dynamic": False,
            "group_size": None, "block_structure": None, "actorder": None, "observer": "minmax",
            "observer_kwargs": {}, **more}


def float8_of(block, scale_type=torch.float32):
    def quantize(tensors, key, weight):
        codes, scales, whole = to_float8(weight, block, scale_type)
        tensors[key] = codes
        tensors[key + "_scale"] = scales.reshape(1) if block == (0, 0) else scales
        return whole

    return quantize


def microscaled(tensors, key, weight):
    tensors[key], scales, whole = to_float8(weight, (1, 32), torch.float8_e8m0fnu, power=True)
    tensors[key + "_scale"] = scales.view(torch.uint8)
    return whole


def integers_of(symmetric):
    def quantize(tensors, key, weight):
        codes, scales, zeros, whole = to_integers(weight, (1, 0), 8, torch.float32, symmetric)
        tensors[key], tensors[key + "_scale"] = codes, scales
        if not symmetric:
            tensors[key + "_zero_point"] = zeros
        return whole

    return quantize


def words_of(bits, group, symmetric):
    def quantize(tensors, key, weight):
        codes, scales, zeros, whole = to_integers(weight, (1, group), bits, torch.float32, symmetric)
        half = 2 ** (bits - 1)
        tensors[key + "_packed"] = pack(codes.long() + half, bits)
        tensors[key + "_scale"], tensors[key + "_shape"] = scales, torch.tensor(weight.shape)
        if not symmetric:
            tensors[key + "_zero_point"] = pack(zeros.long().T + half, bits).T.contiguous()
        return whole

    return quantize


def make_compressed():
    args = compressed_args
    folders = [
        compressed("ct-float-tensor", "float-quantized", args(8, "float", "tensor"), float8_of((0, 0))),
        compressed("ct-float-channel", "float-quantized", args(8, "float", "channel"), float8_of((1, 0))),
        compressed("ct-float-block", "float-quantized", args(8, "float", "block", block_structure=[16, 8]),
                   float8_of((16, 8))),
        compressed("ct-microscaled", "mxfp8-quantized",
                   args(8, "float", "group", group_size=32, scale_dtype="torch.uint8"), microscaled,
                   sizes={"intermediate_size": 64}),
        compressed("ct-int", "int-quantized", args(8, "int", "channel"), integers_of(True)),
        compressed("ct-int-zeros", "int-quantized", args(8, "int", "channel", symmetric=False), integers_of(False)),
        compressed("ct-words", "pack-quantized", args(4, "int", "group", group_size=16), words_of(4, 16, True)),
        compressed("ct-words-zeros", "pack-quantized", args(4, "int", "group", group_size=8, symmetric=False),
                   words_of(4, 8, False)),
        compressed("ct-words-8", "pack-quantized", args(8, "int", "channel"), words_of(8, 0, True)),
    ]
    for folder in folders:
        model = folder.write(quantization_config=hf.CompressedTensorsConfig(dequantize=True))
        check(folder, model)


def make_mixed():
    """Groups of modules with formats of their own, which transformers reads for experts alone."""
    attention, mlp = float8_of((1, 0)), words_of(4, 16, True)

    def quantize(tensors, key, weight):
        return (attention if "self_attn" in key else mlp)(tensors, key, weight)

    groups = {name: {"targets": [target], "format": format, "weights": weights, "input_activations": None,
                     "output_activations": None}
              for name, target, format, weights in [
                  ("group_0", "re:.*self_attn\\..*", "float-quantized", compressed_args(8, "float", "channel")),
                  ("group_1", "Linear", "pack-quantized", compressed_args(4, "int", "group", group_size=16))]}
    compressed("ct-mixed", "mixed-precision", None, quantize, config_groups=groups).write()


def gptq(name, bits, group, symmetric, order=False, second=False, biases=False):
    """Codes of inputs in words: qweight [inputs / in_word, outputs], scales [groups, outputs], zeros often less 1."""
    told = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": order, "sym": symmetric,
            "lm_head": False, "true_sequential": True, "checkpoint_format": "gptq_v2" if second else "gptq",
            "damp_percent": 0.01, "static_groups": False, "model_name_or_path": None}
    half = 2 ** (bits - 1)

    def quantize(tensors, key, weight):
        inputs, module = weight.shape[1], key.removesuffix("weight")
        order_of = torch.arange(inputs)
        if order:
            order_of = torch.randperm(inputs, generator=torch.Generator().manual_seed(len(key)))
        size = inputs if group == -1 else group
        codes, scales, zeros, whole = to_integers(weight[:, order_of], (1, size), bits, torch.float16, symmetric)
        back = order_of.argsort()
        tensors[module + "qweight"] = pack(codes[:, back].long() + half, bits).T.contiguous()
        tensors[module + "scales"] = scales.T.contiguous()
        words = pack(zeros.T.long() + half, bits)
        if not second:  # 1 of each code, taken from whole words
            words -= {4: 0x11111111, 8: 0x01010101}[bits]
        tensors[module + "qzeros"] = words
        tensors[module + "g_idx"] = (torch.arange(inputs) // size)[back].to(torch.int32)
        if biases:  # as AutoGPTQ wrote of modules that have none
            tensors[module + "bias"] = torch.zeros(weight.shape[0], dtype=torch.float16)
        return whole[:, back]

    Folder(name, qwen3(), told, quantize, torch.float16).write()


AWQ_OUTPUTS = [0, 2, 4, 6, 1, 3, 5, 7]  # of a word's codes, the lowest first


def awq(name, group):
    told = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True,
            "modules_to_not_convert": None}

    def words(codes):
        rows, columns = codes.shape
        return pack(codes.long().view(rows, columns // 8, 8)[:, :, AWQ_OUTPUTS].reshape(rows, columns), 4)

    def quantize(tensors, key, weight):
        codes, scales, zeros, whole = to_integers(weight, (1, group), 4, torch.float16, False)
        module = key.removesuffix("weight")
        tensors[module + "qweight"], tensors[module + "qzeros"] = words(codes.T + 8), words(zeros.T + 8)
        tensors[module + "scales"] = scales.T.contiguous()
        return whole

    Folder(name, qwen3(), told, quantize, torch.float16).write()


def make_words():
    gptq("gptq", 4, 16, symmetric=True, biases=True)
    gptq("gptq-order", 4, 8, symmetric=False, order=True)
    gptq("gptq-8-second", 8, -1, symmetric=False, second=True)
    awq("awq", 16)


def main():
    makers = {"fp8": make_fp8, "compressed": make_compressed, "mixed": make_mixed, "words": make_words}
    for name in sys.argv[1:] or makers:
        makers[name]()


if __name__ == "__main__":
    main()
