"""Makes tests/golden/trackers/tensorboard.tfevents: an event file as torch.utils.tensorboard writes it at fixed times.

Its records: the file's version (with the writer's name, which hone leaves out), the version again and the start of a
session at step 8 (purge_step), scalars, a text. Written with torch 2.13.0 and tensorboard 2.21.0.
"""
import math
import pathlib
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/trackers"
START = 1700000000.25


def main():
    real, time.time = time.time, lambda: START
    from torch.utils.tensorboard import SummaryWriter

    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder, purge_step=8)
        for step, (tag, value) in enumerate(
            [("train/loss", 2.5), ("eval/loss", 1 / 3), ("train/grad_norm", math.nan), ("train/loss", -math.inf),
             ("train/tokens", 1e300), ("train/größe", 0.0)]):
            writer.add_scalar(tag, value, step * 100, walltime=START + step)
        writer.add_text("config", "    run: {seed: 1}\n", 300, walltime=START + 0.5)
        writer.close()
        time.time = real
        [file] = pathlib.Path(folder).iterdir()
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / "tensorboard.tfevents").write_bytes(file.read_bytes())


if __name__ == "__main__":
    main()
