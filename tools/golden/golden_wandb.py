"""Makes tests/golden/trackers/wandb.log: records as wandb's own DataStore writes them, at all places of a block.

Long runs of the letter x, which fill up blocks, are cut to 64 of them in it. Written with wandb 0.16.6 (and numpy below
2): newer versions have no writer in Python.
"""
import pathlib
import re
import tempfile

import wandb
from wandb.proto import wandb_internal_pb2 as pb
from wandb.sdk.internal import datastore

FILE = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/trackers/wandb.log"
BLOCK, HEAD = datastore.LEVELDBLOG_BLOCK_LEN, datastore.LEVELDBLOG_HEADER_LEN


def add_items(items, values):
    for key, value in values.items():
        item = items.add()
        item.key, item.value_json = key, value


def run():
    record = pb.Record()
    its = record.run
    record.control.mailbox_slot = "answer"
    its.run_id, its.entity, its.project, its.run_group = "abcd1234", "team", "hone", "sweep"
    its.display_name, its.notes, its.host = "sft größe", "a note", "host"
    its.tags.extend(["x", "y"])
    add_items(its.config.update, {"model": '{"path":"m","layers":[1,2.5,null,true]}', "run": '{"seed":1}'})
    its.start_time.seconds = 1700000000
    return record


def metrics():
    step, others = pb.Record(), pb.Record()
    step.metric.name = "train/global_step"
    step.metric.options.defined = True
    others.metric.glob_name, others.metric.step_metric = "*", "train/global_step"
    others.metric.options.step_sync = others.metric.options.defined = True
    return [step, others]


def summary(values):
    record = pb.Record()
    add_items(record.summary.update, values)
    return record


def history(values, line):
    record = pb.Record()
    add_items(record.history.item, values)
    record.history.step.num = line
    record.history.step.SetInParent()
    return record


def leave(write, store, number, left):
    """Writes a summary behind which so much of a block is left."""
    text = ""
    while True:
        record = summary({"text": f'"{text}"'})
        record.num = number
        at, size = store._index, record.ByteSize() + HEAD
        end = at + size + (HEAD if size > BLOCK - at % BLOCK else 0)
        missing = -(end + left) % BLOCK
        if missing == 0:
            return write(record)
        text += "x" * (missing - 16 if missing > 16 else 1)


def main():
    wandb._assert_is_internal_process = True
    store = datastore.DataStore()
    count = 0

    def write(record):
        nonlocal count
        count += 1
        record.num = count
        store.write(record)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.wandb"
        store.open_for_write(str(path))
        line = {"_step": "0", "train/global_step": "1", "train/loss": "NaN"}
        for record in [run(), *metrics(), summary(line), history(line, 0), history({"eval/loss": "1.25"}, 300)]:
            write(record)
        for left in [0, 3, 6, 7, 8, 20]:
            leave(write, store, count + 1, left)
            write(history({"eval/loss": "1.25"}, 1))
        write(summary({"text": '"' + "x" * (3 * BLOCK) + '"'}))
        last = pb.Record()
        last.exit.runtime = 12
        write(last)
        store.close()
        FILE.write_bytes(re.sub(b"x{64}x+", b"x" * 64, path.read_bytes()))


if __name__ == "__main__":
    main()
