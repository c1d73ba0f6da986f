"""Makes tests/golden/trackers/mlflow.json: what MLflow's file store writes for a run, and for experiments' names.

`run`: the files of a run by their paths, at a fixed time, with ROOT for the store, EXPERIMENT and RUN for their ids.
`experiments`: [name, its meta.yaml]. Written with mlflow 3.17.2, which has file stores where MLFLOW_ALLOW_FILE_STORE is
set.
"""
import json
import math
import os
import pathlib
import tempfile
import time

os.environ.update(MLFLOW_ALLOW_FILE_STORE="true", LOGNAME="someone", USER="someone")

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/trackers/mlflow.json"
START = 1700000000.25
NAMES = ["Default", "a: b", "größe", 'say "so"', "long words " * 13 + "end", "word" * 40, "123", "1e3",
         "null", "- x", "tab\there", "a smile \U0001f600", "yes", "#x", "x # y", " x", "x ", "a\nb", "[a]", "{a}", "%a",
         "@a", "*a",
         "größe: " + "wörter und wörter, " * 8]
METRICS = [("loss", 2.5, 1), ("loss", 0.1, 2), ("rewards/margins", -1e300, 2), ("eval_loss", math.nan, 2),
           ("grad_norm", math.inf, 2), ("grad_norm", -math.inf, 3)]


def main():
    from mlflow import MlflowClient

    time.time = lambda: START
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "my runs"
        client = MlflowClient(root.as_uri())
        ids = {name: "0" if name == "Default" else client.create_experiment(name) for name in NAMES}
        experiment = ids["größe"]
        tags = {"mlflow.user": "someone", "mlflow.source.name": "hone train", "mlflow.source.type": "LOCAL", "x": "ä b",
                "mlflow.note.content": "a text"}
        run = client.create_run(experiment, run_name="sft: größe", tags=tags).info.run_id
        for name, value in {"model.path": "m", "trainer.steps": "4"}.items():
            client.log_param(run, name, value)
        for name, value, step in METRICS:
            client.log_metric(run, name, value, step=step)
        client.set_terminated(run)
        masks = [(root.as_uri(), "ROOT"), (experiment, "EXPERIMENT"), (run, "RUN")]

        def masked(text):
            for what, mask in masks:
                text = text.replace(what, mask)
            return text

        place = root / experiment / run
        paths = [path for path in sorted(place.rglob("*")) if path.is_file()]
        files = {str(path.relative_to(place)): masked(path.read_text()) for path in paths}
        metas = []
        for name in NAMES:
            meta = (root / ids[name] / "meta.yaml").read_text().replace(root.as_uri(), "ROOT")
            metas.append([name, meta if ids[name] == "0" else meta.replace(ids[name], "EXPERIMENT")])
    FILE.write_text(json.dumps({"run": files, "experiments": metas}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
