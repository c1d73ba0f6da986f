# What makers share that run TRL 0.21 (golden_xpo_nash.py, golden_ppo.py), whose trainers later versions have not. Of
# newer versions of transformers it misses names that these trainers do not use, and takes a pair for an answer.
import torch
from transformers.models.auto import modeling_auto
from transformers.utils import import_utils

import golden_common as common

now = import_utils._is_package_available


def is_available(name, return_version=False):
    found = now(name, return_version)
    return found[0] if isinstance(found, tuple) and not return_version else found


import_utils._is_package_available = is_available
import trl.import_utils  # noqa: E402, F401

import_utils._is_package_available = now
for name in ("MODEL_FOR_VISION_2_SEQ_MAPPING_NAMES",):
    if not hasattr(modeling_auto, name):
        setattr(modeling_auto, name, {})

# Those of golden_dpo.py, which imports trainers of newer versions.
MODEL = common.ROOT / "train" / "dpo"
EOS, PAD = 257, 258
SETTINGS = {"learning_rate": 1e-3, "weight_decay": 0.1, "max_grad_norm": 1.0}


def padded(rows, left=False, to=0):
    longest = max([to] + [len(row) for row in rows])
    ids = [[PAD] * (longest - len(row)) + row if left else row + [PAD] * (longest - len(row)) for row in rows]
    return torch.tensor(ids)
