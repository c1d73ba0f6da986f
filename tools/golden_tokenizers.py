#!/usr/bin/env python3
"""Makes the goldens of tests/text and the Unicode tables of src/text from the `tokenizers` library (0.23.3).

  golden_tokenizers.py unicode           writes src/text/unicode_data.inc: the character classes the library really uses
  golden_tokenizers.py made              writes tests/golden/text/<case>.json: small tokenizers of our own, each with texts, ids,
                                         byte offsets and decoded text
  golden_tokenizers.py real DATA         writes tests/golden/text/real.json: ids of real tokenizers below DATA (a folder
                                         laid out as tests expect under HONE_TEST_DATA); only ids and hashes are kept
  golden_tokenizers.py compare DATA PROGRAM [N]
                                         N random texts per tokenizer through the library and PROGRAM, which reads lines
                                         {"tokenizer": path, "text": ...} and answers {"ids", "offsets", "decoded", "plain"}
"""
import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "text"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = "Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Thai Devanagari".split()


# ------------------------------------------------------------------------------------------------------ Unicode tables
def matched_by(pattern):
    """Code points that the library's regular expressions match alone."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for i in range(0, len(CODE_POINTS), 65536):
        chunk = CODE_POINTS[i:i + 65536]
        for _, (begin, end) in split.pre_tokenize_str("".join(map(chr, chunk))):
            found.update(chunk[begin:end])
    return found


def isolated_by(pre_tokenizer):
    """Code points that a pre-tokenizer cuts off from the letters around them."""
    found = set()
    for i in range(0, len(CODE_POINTS), 32768):
        chunk = CODE_POINTS[i:i + 32768]
        pieces = {span for _, span in pre_tokenizer.pre_tokenize_str("a" + "a".join(map(chr, chunk)) + "a")}
        found.update(c for k, c in enumerate(chunk) if (2 * k + 1, 2 * k + 2) in pieces)
    return found


def ranges(points):
    out = []
    for c in sorted(points):
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def write_unicode():
    category = {}
    for name in CATEGORIES:
        for c in matched_by(r"\p{%s}" % name) if name != "Cs" else range(0xD800, 0xE000):
            category[c] = name
    of = lambda *heads: {c for c, name in category.items() if name.startswith(heads)}
    runs = []
    for c in range(0x110000):
        if not runs or runs[-1][1] != category[c]:
            runs.append((c, category[c]))
    ascii_punctuation = {c for c in range(128) if chr(c) in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"}
    word = matched_by("[[:word:]]")
    strip = normalizers.StripAccents()
    marks = {c for c in CODE_POINTS if strip.normalize_str(chr(c)) == ""}
    lists = {  # name: what, code points
        "kWordExtra": ("word characters that are no L, M, Nd, Nl or Pc", word - of("L", "M", "Nd", "Nl", "Pc")),
        "kNumberExtra": ("numbers for Digits that are no N here (its table is newer)", isolated_by(pre_tokenizers.Digits(True)) - of("N")),
        "kNotPunctuation": ("P that Punctuation does not know (its table is older)",
                            of("P") - isolated_by(pre_tokenizers.Punctuation())),
        "kPunctuationExtra": ("no P, but Punctuation cuts there", isolated_by(pre_tokenizers.Punctuation()) - of("P") - ascii_punctuation),
        "kNotMark": ("M that the normalizers do not know (their table is Unicode 9)", of("M") - marks),
        "kMarkExtra": ("no M, but a combining mark for StripAccents", marks - of("M")),
    }
    assert not word ^ (matched_by(r"\w") - {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}), "\\w"
    lines = [
        "// Character classes as Hugging Face's tokenizers 0.23.3 has them. Made by tools/golden_tokenizers.py unicode.", "",
        "// General categories: {first code point, category}; each run goes on until the next.",
        "constexpr Run kCategories[] = {"]
    row = "    "
    for first, name in runs:
        item = "{0x%X,%s}," % (first, name)
        if len(row) + len(item) > 120:
            lines.append(row)
            row = "    "
        row += item
    lines += [row, "};"]
    for script in SCRIPTS:
        lists["k" + script] = ("script " + script, matched_by(r"\p{%s}" % script))
    for name, (what, points) in lists.items():
        lines += ["", "// %s." % (what[0].upper() + what[1:]), "constexpr Range %s[] = {" % name]
        row = "    "
        for first, last in ranges(points):
            item = "{0x%X,0x%X}," % (first, last)
            if len(row) + len(item) > 120:
                lines.append(row)
                row = "    "
            row += item
        lines += [row, "};"]
    (ROOT / "src" / "text" / "unicode_data.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_unicode()
