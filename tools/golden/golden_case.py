"""Case mappings of Python's str methods, probed over all code points: writes src/text/jinja/case_data.inc.

Usage: tools/golden/golden_case.py    (any Python 3.11; other versions know other characters)
"""

import pathlib
import sys
import unicodedata

OUT = pathlib.Path(__file__).parent.parent.parent / "src/text/jinja/case_data.inc"
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def runs(pairs):
    """(code point, delta) in order -> (first, last, stride, delta), strides of 1 and 2."""
    made = []
    for c, delta in pairs:
        if made:
            first, last, stride, d = made[-1]
            step = c - last
            if d == delta and step in (1, 2) and (stride == step or first == last):
                made[-1] = (first, c, step, d)
                continue
        made.append((c, c, 1, delta))
    return made


def emit(lines, comment, declaration, items):
    lines += ["", f"// {comment}", f"constexpr {declaration}[] = {{"]
    row = "   "
    for item in items:
        if len(row) + len(item) + 2 > 119:
            lines.append(row)
            row = "   "
        row += " " + item + ","
    lines += [row, "};"]


def mapping(lines, name, change, what):
    simple, special = [], []
    for c in ALL:
        to = change(chr(c))
        if to == chr(c):
            continue
        (simple if len(to) == 1 else special).append((c, to))
    emit(lines, f"{what}: first, last, stride, what is added.", f"CaseRun k{name}Runs",
         ["{0x%X,0x%X,%d,%d}" % run for run in runs([(c, ord(to) - c) for c, to in simple])])
    emit(lines, f"{what}, where it becomes several characters.", f"CaseSpecial k{name}Specials",
         ["{0x%X,{%s}}" % (c, ",".join("0x%X" % ord(x) for x in to)) for c, to in special] or ["{0,{}}"])


def ranges(lines, name, what, holds):
    made = []
    for c in ALL:
        if not holds(chr(c)):
            continue
        if made and made[-1][1] == c - 1:
            made[-1][1] = c
        else:
            made.append([c, c])
    emit(lines, what, f"text::Range k{name}", ["{0x%X,0x%X}" % tuple(r) for r in made])


def main():
    cat = unicodedata.category
    lines = [f"// Case mappings as Python {sys.version_info[0]}.{sys.version_info[1]} has them (Unicode "
             f"{unicodedata.unidata_version}). Made by tools/golden/golden_case.py."]
    mapping(lines, "Upper", str.upper, "Upper case")
    mapping(lines, "Lower", str.lower, "Lower case")
    mapping(lines, "Title", str.title, "Title case")
    mapping(lines, "Fold", str.casefold, "Case folding")
    ranges(lines, "OtherLower", "Lower-case characters that are no Ll.", lambda x: x.islower() and cat(x) != "Ll")
    ranges(lines, "OtherUpper", "Upper-case characters that are no Lu.", lambda x: x.isupper() and cat(x) != "Lu")
    ignorable = lambda x: (x + "Σ").lower()[-1] == "σ" and ("A" + x + "Σ").lower()[-1] == "ς"
    ranges(lines, "OtherIgnorable", "Case-ignorable characters that are no Mn, Me, Cf, Lm or Sk.",
           lambda x: ignorable(x) and cat(x) not in ("Mn", "Me", "Cf", "Lm", "Sk"))
    missing = [c for c in ALL if cat(chr(c)) in ("Mn", "Me", "Cf", "Lm", "Sk") and not ignorable(chr(c))]
    assert not missing, missing
    ranges(lines, "OtherDigit", "Digits that are no Nd.", lambda x: x.isdigit() and cat(x) != "Nd")
    ranges(lines, "OtherNumeric", "Numeric characters that are no Nd, Nl or No.",
           lambda x: x.isnumeric() and cat(x) not in ("Nd", "Nl", "No"))
    OUT.write_text("\n".join(lines) + "\n")
    print(OUT, len(lines), "lines")


main()
