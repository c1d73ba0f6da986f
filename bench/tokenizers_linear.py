#!/usr/bin/env python3
"""Processor time and memory of encode() on texts of one repeated character, of 250 kB and of 1 MB: linear means 4 times.

  bench/tokenizers_linear.py PROGRAM [--made] TOKENIZER...

PROGRAM is bench/tokenizers.cc, built (`ninja bench_tokenizers`); a TOKENIZER is a tokenizer.json; --made adds all those of
tools/golden/made_tokenizers.py. Counts processor time, so it may run beside other work. Exits 1 when a text of 1 MB takes more
than 8 times the time of the small one (and 0.1 s or more), 1 s, or 400 bytes of memory for each byte of text.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CHARACTERS = ["a", " ", "\n", "1", ".", "<", "'", "_", "▁", "é", "\u0301", "İ", "你", "🎉", "\u1100", "ﷺ", "\r\n", "e\u0301", "aB", "a ", "क्", "👩\u200d", "<s>"]
LARGE = 1_000_000
WORK = Path(tempfile.mkdtemp(prefix="tokenizers_linear"))


class Measured:
    """One process of hone with one tokenizer, measured from outside."""

    def __init__(self, program, path):
        self.process = subprocess.Popen([program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.ask("load")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def of(self, text):
        """Seconds of the processor, and bytes of memory above what was there before."""
        (WORK / "text").write_text(text)
        proc = Path("/proc/%d" % self.process.pid)
        (proc / "clear_refs").write_text("5")
        memory, before = self.memory(proc, "VmRSS"), int((proc / "schedstat").read_text().split()[0])
        if not self.ask("%s 1 1" % (WORK / "text")):
            return None
        return (int((proc / "schedstat").read_text().split()[0]) - before) / 1e9, max(0, self.memory(proc, "VmHWM") - memory)

    def memory(self, proc, name):
        return next(int(line.split()[1]) * 1024 for line in (proc / "status").read_text().splitlines() if line.startswith(name))


def measure(program, name, path):
    hone, rows = Measured(program, path), []
    for char in CHARACTERS:
        text = char * (LARGE // len(char.encode()))
        first = hone.of(text[:len(text) // 4])
        if not first:  # a tokenizer that knows no such character says so
            hone = Measured(program, path)
            continue
        small, (large, memory) = first[0], hone.of(text)
        rows.append((large, large / small, memory / LARGE, char))
    hone.process.stdin.close()
    hone.process.wait()
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("tokenizers", type=Path, nargs="*")
    parser.add_argument("--made", action="store_true")
    args = parser.parse_intermixed_args()
    paths = {p.parent.name if p.stem == "tokenizer" else p.stem: p for p in args.tokenizers}
    if args.made:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
        import made_tokenizers
        for name, config in made_tokenizers.all_tokenizers():
            paths[name] = WORK / (name + ".json")
            paths[name].write_text(json.dumps(config))
    rows = []
    for name, path in paths.items():
        found = measure(args.program, name, path)
        rows += found
        large, ratio, memory, char = max(found, default=(0, 0, 0, ""))
        print("%-36s %2d texts; longest %.3f s (x%.1f, %3.0f bytes a byte) of %r" % (name, len(found), large, ratio, memory, char), flush=True)
    print("%d texts of 1 MB, %d tokenizers; most: %.3f s, x%.1f where it takes 0.1 s or more, %.0f bytes a byte" % (
        len(rows), len(paths), max(r[0] for r in rows), max((r[1] for r in rows if r[0] >= 0.1), default=0), max(r[2] for r in rows)))
    sys.exit(any(r[0] > 1 or r[2] > 400 or (r[0] >= 0.1 and r[1] > 8) for r in rows))


if __name__ == "__main__":
    main()
