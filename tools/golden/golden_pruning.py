"""Masks of torch.nn.utils.prune and the shares of Zhu & Gupta's schedule, for tests/callbacks/pruning_golden_test.cc.

python tools/golden/golden_pruning.py  (torch, safetensors) writes tests/golden/train/pruning.safetensors.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune


def module(weight):
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    made.weight = nn.Parameter(weight.clone())
    return made


def main():
    torch.manual_seed(1)
    a, b = torch.randn(12, 16), torch.randn(8, 20) * 0.5
    tensors = {"a": a, "b": b}
    for share in (0.25, 0.6):
        for name, weight in (("a", a), ("b", b)):
            pruned = prune.l1_unstructured(module(weight), "weight", amount=share)
            tensors[f"element.{share}.{name}"] = pruned.weight_mask.bool()
            for dim, by in ((0, "row"), (1, "column")):
                pruned = prune.ln_structured(module(weight), "weight", amount=share, n=2, dim=dim)
                tensors[f"{by}.{share}.{name}"] = pruned.weight_mask.bool()
        modules = [module(a), module(b)]
        prune.global_unstructured(
            [(one, "weight") for one in modules], pruning_method=prune.L1Unstructured, amount=share
        )
        tensors[f"global.{share}.a"] = modules[0].weight_mask.bool()
        tensors[f"global.{share}.b"] = modules[1].weight_mask.bool()
    file = Path(__file__).parents[2] / "tests/golden/train/pruning.safetensors"
    save_file(tensors, file, metadata={"torch": torch.__version__})


if __name__ == "__main__":
    main()
