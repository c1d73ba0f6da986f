#!/usr/bin/env python3
"""Where a GPU's time went: one step of what kernel_times.cc recorded, by kernel.

  bench/cuda/kernel_times.py times.csv [--mark update] [--step 3] [--rows 40]

A step ends with the last of the kernels whose names hold --mark, as the update's; --step counts from the first one
that ends after it. Prints for each kernel its launches, its milliseconds and its share of the step; then what no kernel
took.
"""
import argparse
import collections
import re


def short(name):
    """A kernel's name without its parameters, templates of LibTorch shortened."""
    name = re.sub(r"^void ", "", name)
    functor = re.search(r"(\w+(?:_kernel_cuda|Functor|_kernel_impl)\w*)", name[20:])
    plain = re.sub(r"<.*", "", name)
    plain = re.sub(r"\(.*", "", plain)
    return (plain + (f" [{functor.group(1)}]" if functor and plain.startswith("at::") else ""))[:110]


def demangled(names):
    import subprocess
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True)
    return dict(zip(names, done.stdout.split("\n"))) if done.returncode == 0 else {name: name for name in names}


def steps_of(rows, mark):
    """Index ranges of whole steps: what lies between the ends of two runs of marked kernels."""
    marked = [i for i, row in enumerate(rows) if mark in row[3]]
    ends = [a for a, b in zip(marked, marked[1:] + [len(rows) + 10**6]) if b - a > 50]
    return list(zip(ends, ends[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times")
    parser.add_argument("--mark", default="update")
    parser.add_argument("--step", type=int, default=3)
    parser.add_argument("--rows", type=int, default=40)
    options = parser.parse_args()
    rows = []
    for line in open(options.times):
        start, took, stream, name = line.rstrip("\n").split(",", 3)
        rows.append((float(start), float(took), stream, name))
    rows.sort()
    steps = steps_of(rows, options.mark)
    print(f"{len(rows)} records, {len(steps)} steps of (ms):",
          *(f"{(rows[e][0] + rows[e][1] - rows[b][0] - rows[b][1]) / 1e3:.1f}" for b, e in steps))
    begin, end = steps[options.step]
    chosen = rows[begin + 1:end + 1]
    whole = rows[end][0] + rows[end][1] - rows[begin][0] - rows[begin][1]
    names = demangled(sorted({row[3] for row in chosen}))
    sums = collections.defaultdict(lambda: [0, 0.0])
    busy, until = 0.0, rows[begin][0] + rows[begin][1]
    for start, took, _, name in chosen:
        each = sums[short(names[name])]
        each[0] += 1
        each[1] += took
        busy += max(0.0, start + took - max(start, until))
        until = max(until, start + took)
    for name, (count, total) in sorted(sums.items(), key=lambda item: -item[1][1])[:options.rows]:
        print(f"{count:6} {total / 1e3:9.3f} ms {100 * total / whole:5.1f} %  {name}")
    print(f"{len(chosen):6} {busy / 1e3:9.3f} ms {100 * busy / whole:5.1f} %  all; nothing ran for "
          f"{(whole - busy) / 1e3:.3f} ms")


if __name__ == "__main__":
    main()
