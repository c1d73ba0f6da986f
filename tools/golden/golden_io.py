"""Makes tests/golden/io: safetensors files written by the reference, and what the reference says to hostile ones.

Usage: python tools/golden/golden_io.py            writes the goldens (needs safetensors, torch, transformers, huggingface_hub)
       python tools/golden/golden_io.py --check F  reads every .safetensors below F with the reference and prints its tensors
"""

import base64
import json
import struct
import sys
from pathlib import Path

import safetensors
import safetensors.torch
import torch

OUT = Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "io"


def tensors():
    """A tensor of most dtypes, an empty one and a scalar; values are functions of the position."""
    made = {}
    dtypes = {
        "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
        "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
        "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
    }
    for name, dtype in dtypes.items():
        values = torch.arange(6) % 2 if dtype == torch.bool else torch.arange(6)
        made[f"t.{name}"] = values.to(torch.float32).to(dtype).reshape(2, 3)
    made["empty"] = torch.zeros(0, 4)
    made["scalar"] = torch.tensor(3.5)
    made["name with \"quotes\" and \u00fc"] = torch.tensor([1.0])
    return made


def entry(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def hostile():
    """name -> (header as text or object, number of data bytes)."""
    big = 2**64 - 1
    many = {f"t{i}": entry(shape=(0,), offsets=(0, 0)) for i in range(50)}
    return {
        "plain": ({"x": entry()}, 8),
        "no tensors": ({}, 0),
        "leading spaces": ('   {"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
        "trailing spaces": ('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}      ', 8),
        "leading newline": ('\n{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
        "NUL after the header": ('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}\0{', 8),
        "garbage after the header": ('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}{}', 8),
        "an array": ("[]", 0),
        "not JSON": ('{"x":', 0),
        "not UTF-8": (b'{"\xff":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
        "lone surrogate": ('{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
        "one byte short": ({"x": entry()}, 7),
        "one byte more": ({"x": entry()}, 9),
        "hole": ({"x": entry(), "y": entry(offsets=(12, 20))}, 20),
        "hole at the start": ({"x": entry(offsets=(4, 12))}, 12),
        "overlap": ({"x": entry(), "y": entry(offsets=(4, 12))}, 12),
        "the same bytes": ({"x": entry(), "y": entry()}, 8),
        "reversed offsets": ({"x": entry(offsets=(8, 0))}, 8),
        "other order": ({"y": entry(offsets=(8, 16)), "x": entry()}, 16),
        "empty tensors share an offset": (many, 0),
        "empty tensor on a boundary": ({"x": entry(), "e": entry(shape=(0,), offsets=(8, 8))}, 8),
        "empty tensor within another": ({"x": entry(), "e": entry(shape=(0,), offsets=(4, 4))}, 8),
        "size too large for the shape": ({"x": entry(shape=(3,))}, 8),
        "product wraps to 8 bytes": ({"x": entry("U8", (4194305, 4194305, 211106198978564), (0, 4))}, 4),
        "product overflows": ({"x": entry(shape=(2**62, 16))}, 8),
        "zero times the largest": ({"x": entry(shape=(0, big, big, big), offsets=(0, 0))}, 0),
        "zero first": ({"x": entry(shape=(0, 2**40, 7), offsets=(0, 0))}, 0),
        "above 64 bits": ('{"x":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]}}', 8),
        "rank 65": ({"x": entry(shape=[1] * 64 + [2])}, 8),
        "rank 64": ({"x": entry(shape=[1] * 63 + [2])}, 8),
        "negative size": ({"x": entry(shape=(-2,))}, 8),
        "float size": ('{"x":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}', 8),
        "1e400": ('{"x":{"dtype":"F32","shape":[1e400],"data_offsets":[0,8]}}', 8),
        "text size": ({"x": entry(shape=("2",))}, 8),
        "three offsets": ('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}}', 8),
        "one offset": ('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}}', 8),
        "no shape": ('{"x":{"dtype":"F32","data_offsets":[0,8]}}', 8),
        "null shape": ('{"x":{"dtype":"F32","shape":null,"data_offsets":[0,8]}}', 8),
        "unknown dtype": ({"x": entry("F33")}, 8),
        "lower case dtype": ({"x": entry("f32")}, 8),
        "half a byte": ({"x": entry("F4", (3,), (0, 1))}, 1),
        "four bits": ({"x": entry("F4", (4,), (0, 2))}, 2),
        "unknown inner key": ({"x": entry(extra={"a": [1, {"b": None}]})}, 8),
        "a scalar": ({"x": entry(shape=(), offsets=(0, 4))}, 4),
        "entry is a number": ({"x": 7}, 0),
        "entry is a list": ({"x": [1]}, 0),
        "metadata": ({"__metadata__": {"format": "pt"}, "x": entry()}, 8),
        "metadata null": ({"__metadata__": None, "x": entry()}, 8),
        "metadata number": ({"__metadata__": {"a": 1}, "x": entry()}, 8),
        "metadata nested": ({"__metadata__": {"a": {}}, "x": entry()}, 8),
        "metadata text": ({"__metadata__": "x"}, 0),
        "duplicate tensor": ('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
        "duplicate inner key": ('{"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
        "duplicate metadata": ('{"__metadata__":{},"__metadata__":{},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
        "duplicate metadata key": ('{"__metadata__":{"a":"1","a":"2"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
        "empty name": ({"": entry()}, 8),
        "NUL in a name": ({"a\0b": entry()}, 8),
        "control character in a name": ({"a\x1bb": entry()}, 8),
        "path as a name": ({"../../x": entry()}, 8),
        "bidi name": ({"a\u202eb": entry()}, 8),
        "long name": ({"a" * 513: entry()}, 8),
        "deep nesting": ('{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"y":' + "[" * 5000 + "]" * 5000 + "}}", 8),
    }


def file_bytes(header, data_bytes):
    text = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data_bytes)


def verdict(content):
    try:
        safetensors.deserialize(content)
        return True
    except Exception:  # whatever it says: it refuses
        return False


def cases():
    made = {name: file_bytes(header, size) for name, (header, size) in hostile().items()}
    made["empty file"] = b""
    made["seven bytes"] = b"\x02\0\0\0\0\0\0"
    made["header length 0"] = struct.pack("<Q", 0)
    made["header length 2^63"] = struct.pack("<Q", 2**63) + b"{}"
    made["header longer than the file"] = struct.pack("<Q", 3) + b"{}"
    return [{"name": name, "file": base64.b64encode(content).decode(), "accepted": verdict(content)} for name, content in made.items()]


def sharded():
    """How huggingface_hub divides sizes into shards of at most 100 bytes: lists of places."""
    from huggingface_hub import split_torch_state_dict_into_shards

    made = []
    for sizes in ([60, 60, 20, 60, 20, 20], [10, 200, 10], [200, 10, 200], [100, 100], [0, 100, 0, 1], [10]):
        state = {f"{i:02}": torch.zeros(size, dtype=torch.uint8) for i, size in enumerate(sizes)}
        split = split_torch_state_dict_into_shards(state, max_shard_size=100, filename_pattern="model{suffix}.safetensors")
        made.append({"sizes": sizes, "files": split.filename_to_tensors})
    return made


def check(folder):
    for path in sorted(Path(folder).rglob("*.safetensors")):
        with safetensors.safe_open(path, "pt") as file:
            print(path, file.metadata(), {name: list(file.get_tensor(name).shape) for name in file.keys()})


def main():
    if sys.argv[1:2] == ["--check"]:
        return check(sys.argv[2])
    OUT.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors(), OUT / "dtypes.safetensors", metadata={"format": "pt"})
    made = {"safetensors": safetensors.__version__, "torch": torch.__version__.split("+")[0]}
    lines = ",\n".join(json.dumps(case) for case in cases())
    (OUT / "reference.json").write_text('{"made_with": %s,\n"sharded": %s,\n"cases": [\n%s\n]}\n' % (json.dumps(made), json.dumps(sharded()), lines))


if __name__ == "__main__":
    main()
