#!/usr/bin/env python3
"""hone's tokenizers against the `tokenizers` library, by turns: MB/s of encode on one thread and of encode_batch on two.

  bench/tokenizers_by_turns.py PROGRAM DATA [KIND...]

PROGRAM is bench/tokenizers.cc, built (`ninja bench_tokenizers`); DATA as tests expect under HONE_TEST_DATA.
"""
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

os.environ["RAYON_NUM_THREADS"] = "2"
os.environ["TOKENIZERS_PARALLELISM"] = "true"
from tokenizers import Tokenizer  # noqa: E402

KINDS = {"byte-level BPE (gpt2)": "gpt2", "byte-level BPE (qwen3)": "qwen3", "byte-fallback BPE (mistral)": "mistral-7b-instruct", "WordPiece (bert)": "bert-base-uncased",
         "Unigram (t5)": "t5-small"}
BYTES, ROUNDS = 600_000, 3


def cut(text, size=2000):
    return [text[i:i + size] for i in range(0, len(text), size)]


def texts(data):
    sets = data / "datasets"
    stories = [r if isinstance(r, str) else r.get("story") or r["text"] for r in json.loads((sets / "tinystories/tinystories_1000.json").read_text())]
    code = "".join(p.read_text(errors="ignore") for p in sorted(Path(os.__file__).parent.glob("*.py"))[:60])
    rng = random.Random(1)
    # No large Chinese text is at hand: words of common characters, as long as in real text, with its punctuation.
    common = "的一是不了在人有我他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从"
    chinese = "".join("".join(rng.choice(common) for _ in range(rng.choice((1, 2, 2, 2, 3, 4)))) + rng.choice(["", "", "", "", "，", "。"]) for _ in range(90_000))
    emoji = ["🎉", "👩‍👩‍👧", "👍🏽", "😀", "🚀", "❤️", "🇩🇪", "🤷‍♀️"]
    words = " ".join(stories).split()[:60_000]
    mixed = " ".join(w + (" " + rng.choice(emoji) if rng.random() < 0.15 else "") + (" café naïve größe" if rng.random() < 0.02 else "") for w in words)
    return {"English": stories, "code": cut(code), "Chinese": cut(chinese, 700), "mixed emoji": cut(mixed)}


def limited(docs):
    out, size = [], 0
    for d in docs:
        d = d.replace("\0", " ")
        out.append(d)
        size += len(d.encode())
        if size > BYTES:
            break
    return out, size


def main():
    program, data = sys.argv[1], Path(sys.argv[2])
    corpora = {name: limited(docs) for name, docs in texts(data).items()}
    print("| tokenizer | text | threads | tokenizers MB/s | hone MB/s | ratio |\n|---|---|---:|---:|---:|---:|")
    for kind, folder in KINDS.items():
        if sys.argv[3:] and folder not in sys.argv[3:]:
            continue
        path = data / "tokenizers" / folder / "tokenizer.json"
        start = time.perf_counter()
        theirs = Tokenizer.from_file(str(path))
        their_load = time.perf_counter() - start
        theirs.no_truncation()
        theirs.no_padding()
        ours = subprocess.Popen([program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ask(line):
            ours.stdin.write(line + "\n")
            ours.stdin.flush()
            return ours.stdout.readline().split()

        load, peak = map(float, ask("load"))
        for name, (docs, size) in corpora.items():
            file = Path("/tmp/bench_tokenizers.txt")
            file.write_bytes("\0".join(docs).encode())
            for threads in (1, 2):
                best = [1e9, 1e9]
                for _ in range(ROUNDS):
                    start = time.perf_counter()
                    if threads == 1:
                        n = sum(len(theirs.encode(d)) for d in docs)
                    else:
                        n = sum(len(e) for e in theirs.encode_batch(docs))
                    best[0] = min(best[0], time.perf_counter() - start)
                    count, seconds = ask("%s %d 1" % (file, threads))
                    assert int(count) == n, (kind, name, count, n)
                    best[1] = min(best[1], float(seconds))
                mb = size / 1e6
                print("| %s | %s | %d | %.1f | %.1f | %.1f |" % (kind, name, threads, mb / best[0], mb / best[1], best[0] / best[1]), flush=True)
        print("| %s | load | | %.3f s | %.3f s, %.0f MB peak | |" % (kind, their_load, load, peak), flush=True)
        ours.stdin.close()
        ours.wait()


main()
