"""Checks what hone learns of real conversations against the messages themselves, without hone's own masking.

Usage: tools/compare/compare_chat_masks.py --program build/release/chat_lines --data DATA [--shapes FILE] [--count N] TEMPLATE...
PROGRAM is tools/compare/chat_lines.cc, built. DATA holds tokenizers/ and datasets/ as tests expect under HONE_TEST_DATA.
TEMPLATE: a .jinja file, a folder of them, or a tokenizer_config.json. All run on one tokenizer, to which the special
tokens are added that the templates write.

A record is exact when the tokens decode to the text that transformers renders, each turn of the assistant is one run of
learnt tokens that stands behind the generation prompt and holds the message's content, names and arguments of its calls,
and nothing of it or of another message lies on the wrong side. Where {% generation %} marks turns, they begin there.
FILE gets what else the runs hold (the template's own text in turns): one line for each shape, to be read by eye. Exit
status 1: something is wrong. Needs transformers.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["TZ"] = "UTC"

from tokenizers import AddedToken, Tokenizer  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

SPECIAL = re.compile(r"<\|[^|<>\n' ]{1,40}\|>|<｜[^｜\n]{1,40}｜>|\[/?[A-Z_]{3,30}\]|</?s>|<(?:start|end)_of_\w+>|"
                     r"<[|]?turn[|]?>|<SPECIAL_\d+>|\]~b\]|\[e~\[|\]~!b\[|<role>|</role>|<seed:\w+>|<\[[a-z_]+\]>|"
                     r"<extra_id_\d>|<\|[A-Z_]+\|>|<sep>|<eos>|<bos>")
ROLES = {"human": "user", "gpt": "assistant", "observation": "tool"}


class Frozen(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime(2024, 7, 26)


chat_template_utils.datetime = Frozen


def templates(paths):
    for path in map(pathlib.Path, paths):
        for file in sorted(path.rglob("*.jinja")) if path.is_dir() else [path]:
            source = file.read_text(encoding="utf-8")
            if file.suffix == ".json":
                source = json.loads(source)["chat_template"]
            yield (file.parent.name if file.suffix == ".json" else file.stem), source


def lines(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def share_gpt(turn):
    if turn["from"] != "function_call":
        return {"role": ROLES[turn["from"]], "content": turn["value"]}
    calls = json.loads(turn["value"])
    calls = calls if isinstance(calls, list) else [calls]
    for call in calls:
        if isinstance(call["arguments"], str):
            call["arguments"] = json.loads(call["arguments"])
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": c} for c in calls]}


# For each data set: the records as hone gets them, and the messages and tools that they mean.
def data_sets(data, count):
    demo = data / "datasets" / "llamafactory"

    def pair(user, answer):
        return [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]

    for name, path in (("glaive", demo / "glaive_toolcall_en_demo.json"),
                       ("fastchat", data / "datasets" / "fastchat" / "dummy_conversation.json")):
        rows = lines(path)[:count]
        yield name, [({key: row[key] for key in ("conversations", "tools") if key in row},
                      [share_gpt(turn) for turn in row["conversations"]],
                      json.loads(row.get("tools") or "null") or None) for row in rows]
    rows = lines(demo / "v1_sft_demo.jsonl")[:count]
    yield "v1_sft_demo", [({"messages": [{k: v for k, v in m.items() if k != "loss_weight"} for m in row["messages"]]},
                           [{"role": m["role"], "content": "".join(part["value"] for part in m["content"])}
                            for m in row["messages"]], None) for row in rows]
    rows = lines(demo / "alpaca_en_demo.json")[:count]
    yield "alpaca", [(row, pair(row["instruction"] + ("\n" + row["input"] if row["input"] else ""), row["output"]), None)
                     for row in rows]
    rows = lines(data / "datasets" / "dolly-hhrlhf" / "train_small.jsonl")[:count]
    yield "dolly", [({"messages": pair(row["prompt"], row["response"])}, pair(row["prompt"], row["response"]), None)
                    for row in rows]


def make_tokenizer(base, source, folder):
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    found = sorted(set(SPECIAL.findall(source)) | {"<s>", "</s>"})
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in found])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": source}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


class Wrong(Exception):
    pass


class Check:
    def __init__(self, tokenizer, source):
        self.tokenizer, self.source, self.shapes = tokenizer, source, collections.Counter()
        self.marked = re.search(r"{%[-+]?\s*generation\b", source)  # then the template says where turns begin

    def render(self, messages, tools, prompt):
        return self.tokenizer.apply_chat_template(messages, tools=tools, chat_template=self.source, tokenize=False,
                                                  add_generation_prompt=prompt)

    # Renders with each content as one list of parts, where the template takes those.
    def text(self, messages, tools, decoded):
        text = self.render(messages, tools, False)
        if text != decoded:
            parts = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]
            if decoded != self.render(parts, tools, False):
                raise Wrong(f"text: {decoded!r}, expected {text!r}")

    def prompt(self, messages, tools):
        try:
            before = self.render(messages, tools, False)
            with_prompt = self.render(messages, tools, True)
        except Exception:  # noqa: BLE001: a template may want more messages
            return ""
        return with_prompt[len(before):] if with_prompt.startswith(before) else ""

    def record(self, messages, tools, answer):
        ids, labels = answer["ids"], answer["labels"]
        decode = self.tokenizer.backend_tokenizer.decode
        self.text(messages, tools, decode(ids, skip_special_tokens=False))
        runs, rest, begins, at = [], [], [], 0
        while at < len(ids):
            end = at
            while end < len(ids) and (labels[end] == -100) == (labels[at] == -100):
                end += 1
            (rest if labels[at] == -100 else runs).append(decode(ids[at:end], skip_special_tokens=False))
            if labels[at] != -100:
                begins.append(decode(ids[:at], skip_special_tokens=False))
            at = end
        turns = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
        if len(runs) != len(turns):
            raise Wrong(f"{len(runs)} runs for {len(turns)} turns: {runs}")
        for run, begin, i in zip(runs, begins, turns):
            self.turn(messages, tools, i, run, begin)
        unlearnt = "\0".join(rest)
        for i in turns:
            content = visible(messages[i]["content"])
            others = sum(m["content"].count(content) for m in messages if m["role"] != "assistant") if content else 0
            literal = self.source.count(content) if content else 0
            if len(content) > 20 and unlearnt.count(content) > others + literal:
                raise Wrong(f"unlearnt: {content!r}")

    def turn(self, messages, tools, i, run, begin):
        asked = self.prompt(messages[:i], tools)
        if not self.marked and not begin.endswith(asked):
            raise Wrong(f"turn {i} begins behind {begin[-60:]!r}, expected {asked!r}")
        shape = run
        for text, name in own_texts(messages[i]):
            written = next((form for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
                            if form in shape), None)
            if written is None:
                raise Wrong(f"turn {i}: no {text!r} in {run!r}")
            if name:
                shape = shape.replace(written, name, 1)
        for m in messages:
            if m["role"] != "assistant" and len(m["content"]) > 15 and m["content"].strip() in shape:
                raise Wrong(f"turn {i}: another message's text in {run!r}")
        if messages[i].get("tool_calls"):  # what the arguments look like is the template's
            shape = re.sub(r"«name».*«end»", "«name» … ", shape.replace("«name»", "«name»", 1), flags=re.S)
        self.shapes[shape if len(shape) < 200 else shape[:90] + " … " + shape[-90:]] += 1


def visible(content):
    return content.split("</think>")[-1].strip()


def own_texts(message):
    if visible(message["content"]):
        yield visible(message["content"]), "«content»"
    for call in message.get("tool_calls") or []:
        yield call["function"]["name"], "«name»"
        yield from ((text, "") for text in leaves(call["function"]["arguments"]))


def leaves(value):
    if isinstance(value, str):
        yield value.strip()
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from leaves(item)


def reason(error):
    text = error.split("\n")[0]
    text = re.sub(r"^stdin:\d+: ", "", text)
    return re.sub(r"\[\d+\]|\d+", "[]", text)[:150]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--base", default="qwen3", help="the tokenizer in DATA to which special tokens are added")
    parser.add_argument("--shapes")
    parser.add_argument("--count", type=int)
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    sets = list(data_sets(options.data, options.count))
    shapes = open(options.shapes, "w", encoding="utf-8") if options.shapes else None
    totals, wrong_all = collections.Counter(), 0
    for name, source in templates(options.paths):
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = make_tokenizer(options.data / "tokenizers" / options.base, source, pathlib.Path(folder))
            questions = [{"tokenizer": folder}] + [record for _, records in sets for record, _, _ in records]
            done = subprocess.run([options.program], input="\n".join(map(json.dumps, questions)) + "\n",
                                  capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr}")
        answers = iter(done.stdout.splitlines())
        check = Check(tokenizer, source)
        for data_name, records in sets:
            counts, reasons = collections.Counter(), collections.Counter()
            for record, messages, tools in records:
                answer = json.loads(next(answers))
                try:
                    if "error" in answer:
                        reasons[reason(answer["error"])] += 1
                        counts["refused"] += 1
                        continue
                    check.record(messages, tools, answer)
                    counts["exact"] += 1
                except Exception as error:  # noqa: BLE001
                    counts["wrong"] += 1
                    if counts["wrong"] <= 2:
                        print(f"WRONG {name} {data_name}: {type(error).__name__} {str(error)[:1500]}")
            print(f"{name:45} {data_name:12} exact {counts['exact']:5} refused {counts['refused']:5} wrong "
                  f"{counts['wrong']:4}  " + "; ".join(f"{n} × {text}" for text, n in reasons.most_common(3)), flush=True)
            totals.update({(data_name, key): n for key, n in counts.items()})
            wrong_all += counts["wrong"]
        if shapes:
            for shape, count in check.shapes.most_common(12):
                shapes.write(f"{name}\t{count}\t{shape!r}\n")
            shapes.flush()
    for (data_name, key), n in sorted(totals.items()):
        print(f"total {data_name:12} {key:8} {n}")
    sys.exit(wrong_all > 0)


if __name__ == "__main__":
    main()
