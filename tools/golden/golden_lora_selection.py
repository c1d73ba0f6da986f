"""Which factors of a file PEFT takes, and how much they count: tests/golden/train/adapter_selection.json.

Usage: tools/golden/golden_lora_selection.py    (peft 0.21)
The file is that of tests/golden/adapters/linear, with factors for all linear layers. Each line: what its
adapter_config.json says otherwise (`config`, whose order counts), and by module `scaling`: what B (A x) is multiplied
with.
"""
import json
import shutil
import tempfile
import warnings
from pathlib import Path

import peft

from golden_common import ROOT, load_model, write_lines

ENDS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
WHOLE = [f"model.layers.{i}.self_attn.q_proj" for i in range(2)]
CASES = [
    {"target_modules": ENDS},
    {"target_modules": ["q_proj", "mlp.up_proj"]},
    {"target_modules": WHOLE},
    {"target_modules": ["proj"]},
    {"target_modules": [".*q_proj", "v_proj"]},
    {"target_modules": ".*layers\\.1\\.(self_attn|mlp)\\.(q_proj|up_proj)"},
    {"target_modules": "q_proj|.*v_proj"},
    {"exclude_modules": ["q_proj", "layers.0.mlp.up_proj"]},
    {"exclude_modules": ".*self_attn.*"},
    {"exclude_modules": "q_proj"},
    {"target_modules": ENDS, "exclude_modules": ["self_attn.q_proj"]},
    {"target_modules": ENDS, "layers_to_transform": [0]},
    {"target_modules": ENDS, "layers_to_transform": 1},
    {"target_modules": ENDS, "layers_to_transform": []},
    {"target_modules": [*WHOLE, "v_proj"], "layers_to_transform": [1]},
    {"target_modules": ENDS, "layers_to_transform": [1], "layers_pattern": "layers"},
    {"target_modules": ENDS, "layers_to_transform": [1], "layers_pattern": ["h", "lay.*"]},
    {"target_modules": ENDS, "layers_to_transform": [0], "layers_pattern": []},
    {"target_modules": ["q_proj"], "target_parameters": ["mlp.down_proj.weight"]},
    {"target_modules": ["q_proj"], "target_parameters": ["down_proj.weight"], "exclude_modules": ["down_proj"],
     "layers_to_transform": [1]},
    {"target_modules": ["q_proj"], "target_parameters": ["model.layers.1.mlp.up_proj.weight", "down_proj"]},
    {"alpha_pattern": {"v_proj": 3, ".*proj": 5, "layers.0.self_attn.v_proj": 7}},
    {"alpha_pattern": {"layers.0.self_attn.v_proj": 7, "v_proj": 3, "model.*": 2}},
    {"alpha_pattern": {"v_proj": 3, "layers.0.self_attn.v_proj": 7, "q_proj": 1}},
    {"alpha_pattern": {"v_proj": 3}, "rank_pattern": {"z.*": 7, ".*": 4}},
]


def case(changes):
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        shutil.copytree(ROOT / "adapters" / "linear", made)
        config = json.loads((made / "adapter_config.json").read_text())
        (made / "adapter_config.json").write_text(json.dumps(config | changes))
        try:
            model = peft.PeftModel.from_pretrained(load_model(ROOT / "models" / "llama"), made)
        except ValueError:
            return {"config": changes, "scaling": {}}
    found = {name.removeprefix("base_model.model."): module.scaling["default"] for name, module in model.named_modules()
             if hasattr(module, "lora_A")}
    return {"config": changes, "scaling": dict(sorted(found.items()))}


def main():
    warnings.simplefilter("ignore")
    write_lines(ROOT / "train" / "adapter_selection.json", [case(changes) for changes in CASES])


if __name__ == "__main__":
    main()
