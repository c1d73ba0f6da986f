# How golden files of training with answers that are made meanwhile are written: golden_online_dpo.py and its like.
import json

import trl

import golden_common as common

FOLDER = common.ROOT / "train" / "online"


def layout(value, pad=""):
    if isinstance(value, dict):
        items = [f"{pad} {json.dumps(name)}: {layout(one, pad + ' ')}" for name, one in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{pad}}}" if items else "{}"
    return json.dumps(value)


def write(name, runs, maker, **more):
    FOLDER.mkdir(parents=True, exist_ok=True)
    about = {"maker": maker, **common.versions(), "trl": trl.__version__}
    (FOLDER / name).write_text(layout(about | more | {"runs": runs}) + "\n")
    (FOLDER / name).chmod(0o644)
