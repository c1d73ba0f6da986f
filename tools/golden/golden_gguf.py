#!/usr/bin/env python3
# Golden files of `hone export --gguf`: golden_gguf.py -> tests/golden/gguf/ (development time only).
#
# families.json: for goldens of models, what llama.cpp's convert_hf_to_gguf.py makes of their folders: the keys of the
# architecture, and each tensor's shape, type and hash (64 bits, FNV-1a). types.json: which type llama-quantize gives
# each tensor of some models. blocks.json: hashes of ggml's blocks of given numbers. vocabularies.json: the keys of
# tokenizers in HONE_TEST_DATA.
#
# LLAMA_CPP: llama.cpp's source folder, as the sdist of llama-cpp-python 0.3.36 has it (vendor/llama.cpp). Needs
# `pip install gguf llama-cpp-python`, transformers and torch. The converter cannot do what transformers 5 calls
# otherwise; its reading of config.json is patched for that. Tokenizers of goldens are left out.
import ctypes
import json
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import golden_common as common

LLAMA_CPP = os.environ.get("LLAMA_CPP", "")
sys.path[0:0] = [LLAMA_CPP, LLAMA_CPP + "/gguf-py"]
logging.disable(logging.WARNING)
import conversion  # noqa: E402
import gguf  # noqa: E402
from conversion.base import ModelBase, ModelType, get_model_architecture  # noqa: E402

OUT = common.ROOT / "gguf"
FAMILIES = """
models/llama models/llama-bias models/llama-head-dim models/llama-tied models/rope-linear models/rope-llama3
models/rope-yarn models/rope-yarn-betas models/mistral-full models/qwen2 models/qwen2-tied-head-dim models/qwen3
models/qwen3-yarn decoders/arcee decoders/exaone4 decoders/gemma decoders/gemma2 decoders/gemma3 decoders/gemma3-capped
decoders/gemma4 decoders/gemma4-global decoders/gemma4-moe decoders/gpt_neox decoders/gpt_oss
decoders/granite decoders/lfm2-adjusted decoders/ministral3 decoders/mixtral decoders/olmo2 decoders/olmo3 decoders/phi3
decoders/phi3-longrope decoders/phi3-partial decoders/qwen2-moe decoders/qwen3_5 decoders/qwen3_5-tied decoders/seed_oss
decoders/smollm3 decoders/stablelm-serial decoders/starcoder2 experts/qwen3-moe gpt2/gpt2
""".split()
TOKENIZERS = ["gpt2", "qwen3", "minimind", "mistral-7b-instruct", "stories260K"]

load_hparams = ModelBase.load_hparams


def patched_hparams(folder, is_mistral_format):
    config = load_hparams(folder, is_mistral_format)
    if config.get("model_type") == "gpt2":
        config["n_ctx"] = config["n_positions"]
    if config.get("model_type") == "gpt_neox":
        config["rotary_pct"] = config["rope_parameters"]["partial_rotary_factor"]
    return config


ModelBase.load_hparams = staticmethod(patched_hparams)
ModelBase.no_mtp = True


def fnv(data):
    """64 bits, FNV-1a, of bytes."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def convert(folder, out, file_type, with_vocabulary=False):
    architecture = get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT)
    made = conversion.get_model_class(architecture)
    with torch.inference_mode():
        model = made(folder, gguf.LlamaFileType[file_type], out, eager=True)
        for one in (model, getattr(model, "impl", None)):
            if one is not None and not with_vocabulary:
                one.set_vocab = lambda: None
        model.write()


def value_of(field):
    value = field.contents()
    if isinstance(value, str) and len(value) > 64:
        return {"hash": fnv(value.encode())}
    return value if not isinstance(value, list) or len(value) < 64 else {"count": len(value), "hash": fnv_list(value)}


def fnv_list(values):
    """Of a list's entries, texts with a zero behind each, numbers as the file has them."""
    if isinstance(values[0], str):
        return fnv(b"".join(v.encode() + b"\0" for v in values))
    kind = np.float32 if isinstance(values[0], float) else np.int32
    return fnv(np.array(values, kind).tobytes())


def copied(golden, into):
    folder = into / "model"
    shutil.copytree(golden, folder, ignore=shutil.ignore_patterns("golden*", "packing*"))
    rows = json.loads((folder / "config.json").read_text()).get("vocab_size", 0)
    vocab = {"model": {"vocab": {str(i): i for i in range(rows)}}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(vocab))  # as many as Gemma's converter leaves rows
    return folder


def family(name, file_type="ALL_F32"):
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "out.gguf"
        convert(copied(common.ROOT / name, Path(temporary)), out, file_type)
        reader = gguf.GGUFReader(out)
        keys = {
            key: value_of(field)
            for key, field in reader.fields.items()
            if not key.startswith(("GGUF.", "general.name", "general.finetune", "general.basename"))
        }
        tensors = {
            t.name: [t.tensor_type.name, [int(n) for n in reversed(t.shape)], fnv(t.data.tobytes())]
            for t in reader.tensors
        }
        return {"keys": keys, "tensors": tensors}


def families():
    made = {name: family(name) for name in FAMILIES}
    for file_type in ("MOSTLY_F16", "MOSTLY_BF16", "MOSTLY_Q8_0"):
        made[f"models/llama {file_type}"] = family("models/llama", file_type)
    return made


# --- Blocks


def numbers(kind, count=1024):
    """Numbers that C++ makes in the same way, from integers."""
    i = np.arange(count, dtype=np.uint64)
    bits = (i * np.uint64(2654435761) + np.uint64(12345)) % np.uint64(1 << 32)
    x = ((bits >> np.uint64(8)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)).astype(np.float32)
    if kind == "cubed":
        x = x * x * x
    if kind == "mostly zeros":
        x = np.where(i % np.uint64(5) == 0, x, np.float32(0))
    if kind == "groups of all sizes":
        x = x * np.exp2(-(i // np.uint64(16) % np.uint64(24)).astype(np.float32)).astype(np.float32)
    return np.ascontiguousarray(x, dtype=np.float32)


def blocks(ggml):
    types = {"F16": 1, "BF16": 30, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8}
    types |= {"Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14}
    made = {}
    for kind in ("even", "cubed", "mostly zeros", "groups of all sizes"):
        x = numbers(kind)
        for name, number in types.items():
            size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
            out = np.zeros(len(x) // size[0] * size[1], np.uint8)
            ggml.ggml_quantize_chunk(number, x.ctypes.data, out.ctypes.data, 0, len(x) // 256, 256, None)
            made[f"{kind} {name}"] = fnv(out.tobytes())
    return made


# --- Types of mixtures


MODELS = {
    "llama, 16 layers": dict(arch="llama", layers=16, heads=4, kv_heads=1, width=256, inner=512),
    "llama, tied": dict(arch="llama", layers=8, heads=4, kv_heads=4, width=256, inner=256, tied=True),
    "llama, rows of 96": dict(arch="llama", layers=3, heads=4, kv_heads=2, width=96, inner=256),
    "llama, 8 experts": dict(arch="llama", layers=8, heads=4, kv_heads=2, width=256, inner=256, experts=8),
    "gptneox": dict(arch="gptneox", layers=9, heads=4, kv_heads=4, width=256, inner=512, joined=True),
}


def shapes(m):
    width, inner, kv = m["width"], m["inner"], m["width"] // m["heads"] * m["kv_heads"]
    made = {"token_embd.weight": [64, width], "output_norm.weight": [width]}
    for i in range(m["layers"]):
        layer = {"attn_norm.weight": [width], "ffn_norm.weight": [width], "attn_output.weight": [width, width]}
        if m.get("joined"):
            layer |= {"attn_qkv.weight": [3 * width, width], "attn_qkv.bias": [3 * width]}
        else:
            layer |= {"attn_q.weight": [width, width], "attn_k.weight": [kv, width], "attn_v.weight": [kv, width]}
        if n := m.get("experts"):
            layer |= {"ffn_gate_inp.weight": [n, width], "ffn_gate_exps.weight": [n, inner, width]}
            layer |= {"ffn_up_exps.weight": [n, inner, width], "ffn_down_exps.weight": [n, width, inner]}
        else:
            layer |= {"ffn_up.weight": [inner, width], "ffn_down.weight": [width, inner]}
            if not m.get("joined"):
                layer["ffn_gate.weight"] = [inner, width]
        made |= {f"blk.{i}.{name}": shape for name, shape in layer.items()}
    if not m.get("tied"):
        made["output.weight"] = [64, width]
    return made


def write_model(m, out):
    writer = gguf.GGUFWriter(out, m["arch"])
    writer.add_block_count(m["layers"])
    writer.add_context_length(64)
    writer.add_embedding_length(m["width"])
    writer.add_feed_forward_length(m["inner"])
    writer.add_head_count(m["heads"])
    writer.add_head_count_kv(m["kv_heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_layer_norm_eps(1e-5)
    writer.add_rope_dimension_count(m["width"] // m["heads"])
    writer.add_vocab_size(64)
    writer.add_parallel_residual(True)
    if "experts" in m:
        writer.add_expert_count(m["experts"])
        writer.add_expert_used_count(2)
    writer.add_tokenizer_model("none")
    for name, shape in shapes(m).items():
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


FILE_TYPES = {"Q8_0": 7, "Q6_K": 18, "Q5_K_M": 17, "Q5_K_S": 16, "Q5_1": 9, "Q5_0": 8, "Q4_K_M": 15, "Q4_K_S": 14}
FILE_TYPES |= {"Q4_1": 3, "Q4_0": 2, "Q3_K_L": 13, "Q3_K_M": 12, "Q3_K_S": 11, "Q2_K": 10}


def types():
    import llama_cpp

    made = {}
    for name, model in MODELS.items():
        with tempfile.TemporaryDirectory() as temporary:
            whole, quantized = Path(temporary) / "whole.gguf", Path(temporary) / "quantized.gguf"
            write_model(model, whole)
            facts = {key: model.get(key, 0) for key in ("arch", "layers", "heads", "kv_heads", "experts")}
            made[name] = {"facts": facts, "shapes": shapes(model), "types": {}}
            for file_type, number in FILE_TYPES.items():
                params = llama_cpp.llama_model_quantize_default_params()
                params.ftype = number
                files = (str(whole).encode(), str(quantized).encode())
                code = llama_cpp.llama_model_quantize(*files, ctypes.byref(params))
                if code != 0:
                    raise SystemExit(f"{name} {file_type}: llama-quantize failed")
                made[name]["types"][file_type] = {
                    t.name: t.tensor_type.name
                    for t in gguf.GGUFReader(quantized).tensors
                    if t.tensor_type.name != "F32"
                }
    return made


# --- Tokenizers


def vocabulary(name):
    data = Path(os.environ["HONE_TEST_DATA"])
    source = data / "models" / name if name == "stories260K" else data / "tokenizers" / name
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        folder.mkdir()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(source / file, folder / file)
        if name == "mistral-7b-instruct":
            shutil.copy(source / "tokenizer.model.v1", folder / "tokenizer.model")
        tokens = json.loads((folder / "tokenizer.json").read_text())
        rows = max([*tokens["model"]["vocab"].values(), *(t["id"] for t in tokens["added_tokens"])]) + 8
        config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": rows, "hidden_size": 8}
        config |= {"num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "eos_token_id": None}
        config |= {"bos_token_id": None}
        (folder / "config.json").write_text(json.dumps(config))
        made = conversion.get_model_class("LlamaForCausalLM")
        pre = made.get_vocab_base_pre
        made.get_vocab_base_pre = lambda self, t: "gpt-2" if name == "minimind" else pre(self, t)
        try:
            out = Path(temporary) / "out.gguf"
            from safetensors.numpy import save_file

            save_file({"model.norm.weight": np.ones(8, np.float32)}, folder / "model.safetensors")
            convert(folder, out, "ALL_F32", with_vocabulary=True)
        finally:
            made.get_vocab_base_pre = pre
        fields = gguf.GGUFReader(out).fields
        return {"rows": rows} | {key: value_of(f) for key, f in fields.items() if key.startswith("tokenizer.")}


def write(name, value):
    OUT.mkdir(exist_ok=True)
    (OUT / name).write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def main():
    import llama_cpp

    ggml = ctypes.CDLL(str(next(Path(llama_cpp.__file__).parent.glob("lib/libggml-base.so"))))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
    ]
    write("families.json", families())
    write("blocks.json", blocks(ggml))
    write("types.json", types())
    if os.environ.get("HONE_TEST_DATA"):
        write("vocabularies.json", {name: vocabulary(name) for name in TOKENIZERS})


if __name__ == "__main__":
    main()
