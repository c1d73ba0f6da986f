# What the golden makers share: determinism, where files go, how a golden file is written.
import json
import os
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import safetensors.numpy
import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

ROOT = Path(__file__).resolve().parent.parent.parent / "tests" / "golden"
ATTENTION = "eager"  # closer to an fp64 run of the same model than sdpa (tools/README.md)


def data_folder():
    """The folder with the real models and data sets; None when HONE_TEST_DATA is unset."""
    folder = os.environ.get("HONE_TEST_DATA")
    return Path(folder) if folder else None


def versions():
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "attention": ATTENTION,
        "dtype": "float32",
        "threads": 1,
    }


def write_safetensors(path, tensors, about, maker):
    """One metadata entry only: the library writes several in random order."""
    arrays = {name: np.ascontiguousarray(torch.as_tensor(value).detach().numpy()) for name, value in tensors.items()}
    about = {"maker": maker, **versions(), **about}
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(arrays, str(path), metadata={"golden": json.dumps(about, sort_keys=True)})
    path.chmod(0o644)


def write_json(path, value, maker, indent=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"maker": maker, **versions(), **value}, indent=indent, sort_keys=False)
    path.write_text(compact_lists(text) + "\n")


def write_lines(path, cases):
    """A list of cases, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in cases) + "\n]\n")


def compact_lists(text):
    """Puts lists of plain numbers on as few lines as 120 columns allow."""
    lines, numbers, lead = [], None, ""
    for line in text.split("\n"):
        item = line.strip().rstrip(",")
        plain = item and item[0] in "-0123456789" and not item.endswith(("[", "{"))
        if plain and numbers is None and lines and lines[-1].endswith("["):
            numbers, lead = [], lines.pop()
        if numbers is not None and plain:
            numbers.append(item)
        elif numbers is not None:
            lines += wrap(lead, numbers, line.strip())
            numbers = None
        else:
            lines.append(line)
    return "\n".join(lines)


def wrap(lead, numbers, close, width=118):
    out, row = [], lead
    pad = " " * (len(lead) - len(lead.lstrip()) + 1)
    for i, number in enumerate(numbers):
        piece = number + ("," if i + 1 < len(numbers) else "")
        if len(row) + 1 + len(piece) > width:
            out.append(row)
            row = pad + piece
        else:
            row += ("" if row.endswith("[") else " ") + piece
    out.append(row + close)
    return out


def load_model(folder, kind=transformers.AutoModelForCausalLM, **overrides):
    model = kind.from_pretrained(folder, attn_implementation=ATTENTION, dtype=torch.float32, **overrides)
    return model.eval()


def decays(name):
    """HF Trainer's rule: weight decay for everything but biases and norms."""
    import re

    # And norms that it does not know by their name: hone leaves these out, too.
    patterns = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)", r"(?:^|\.)ln_",
                r"(?:^|\.)norm_[f\d](?:$|\.)", r"(?:^|\.)ln(?:$|\.)"]
    return not any(re.search(pattern, name.lower()) for pattern in patterns)
