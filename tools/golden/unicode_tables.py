#!/usr/bin/env python3
"""Writes src/text/unicode/unicode_{probed,forms}.inc: what the `tokenizers` library (0.23.3) makes of every code point.

Its parts carry tables of different Unicode versions, so each table here is asked from the part that uses it:
BertNormalizer's cleaning and accents, the scripts of UnicodeScripts and those of its regular expressions, and the
grapheme clusters of Precompiled, Lowercase and the normal forms. Categories and the rest are in unicode_data.inc (tools/golden/golden_tokenizers.py unicode).
"""
import sys
import unicodedata
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

from charsmap import charsmap

ROOT = Path(__file__).resolve().parent.parent.parent
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo
Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic
Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic
Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul
Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian
Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin
Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi
Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar
Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal Old_Hungarian
Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya
Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian
Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le
Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri Toto Tulu_Tigalari Ugaritic
Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square""".split()


def ranges(points):
    out = []
    for c in sorted(points):
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def chunks(points, size):
    return [points[i:i + size] for i in range(0, len(points), size)]


# ------------------------------------------------------------------------------------------------------ BertNormalizer
def bert():
    bert = lambda **on: normalizers.BertNormalizer(**dict(dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False), **on))
    clean, accents = bert(clean_text=True), bert(strip_accents=True)
    cleaned = {c: clean.normalize_str(chr(c)) for c in CODE_POINTS}
    yield "kBertDroppedRanges", "removed by BertNormalizer's clean_text", {c for c, to in cleaned.items() if to == ""}
    yield "kBertBlankRanges", "a blank after BertNormalizer's clean_text", {c for c, to in cleaned.items() if to == " "}
    yield "kBertMarkRanges", "removed by BertNormalizer's strip_accents", {c for c in CODE_POINTS if accents.normalize_str(chr(c)) == ""}


# ------------------------------------------------------------------------------------------------------ scripts
def script_groups():
    """{code point: group}; 0: belongs to every script. Groups are found by whether UnicodeScripts cuts between two characters."""
    cutter = pre_tokenizers.UnicodeScripts()
    pieces = lambda text: cutter.pre_tokenize_str(text)
    group, members = {}, []  # members[g]: a character of group g + 1
    last = None
    for c in CODE_POINTS:
        text = chr(c)
        if not pieces(text):
            group[c] = 0
            continue
        if last is not None and group[last] and len(pieces(chr(last) + text)) == 1:
            group[c] = group[last]
        else:
            for g, known in enumerate(members):
                if len(pieces(known + text)) == 1:
                    group[c] = g + 1
                    break
            else:
                members.append(text)
                group[c] = len(members)
        last = c
    return group


def regex_scripts():
    for name in SCRIPTS:
        try:
            split = pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed", invert=True)
        except Exception:
            continue
        found = set()
        for chunk in chunks(CODE_POINTS, 65536):
            for _, (begin, end) in split.pre_tokenize_str("".join(map(chr, chunk))):
                found.update(chunk[begin:end])
        yield name, found


# ------------------------------------------------------------------------------------------------------ graphemes
def precompiled(replacements):
    return normalizers.Precompiled(charsmap(replacements))


def batches(points, other):
    """(normalizer, code points): each maps its code points to Q and what `other` says."""
    for chunk in chunks([c for c in points if c > 0], 1500):
        yield precompiled(dict({chr(c): "Q" for c in chunk}, **other)), chunk


def graphemes():
    x = precompiled({"x": "A"})
    joins = {c for c in CODE_POINTS if c and x.normalize_str("x" + chr(c)) == "A"}
    yield "kJoinsRanges", "stays with the character before it (Extend, SpacingMark, ZWJ)", joins
    prepend = set()
    for n, chunk in batches(CODE_POINTS, {}):
        prepend |= {c for c in chunk if n.normalize_str(chr(c) + "y") == "Q"}
    yield "kPrependRanges", "stays with the character after it", prepend
    acute = precompiled({"\u0301": "Q"})  # takes all of a cluster of two accents, but not of a longer one
    control = {c for c in CODE_POINTS if acute.normalize_str(chr(c) + "\u0301\u031b") == chr(c) + "Q"}
    yield "kControlRanges", "stands alone, whatever follows", control
    emoji = precompiled({"©": "Q"})
    yield "kPictureRanges", "an emoji: stays behind an emoji and ZWJ", {c for c in CODE_POINTS if emoji.normalize_str("©\u200d" + chr(c)).startswith("Q\u200d") and c not in joins}
    yield "kSpacingRanges", "joins, but ends what ties emoji or consonants together", {c for c in joins - {0x200D} if not emoji.normalize_str("©" + chr(c) + "\u200d©\u0301").endswith("Q\u0301")}
    ka = precompiled({"क": "Q"})
    consonant = {c for c in CODE_POINTS if ka.normalize_str(chr(c) + "्क\u0301").endswith("Q\u0301") and c not in joins}
    yield "kConsonantRanges", "an Indic consonant: stays behind another and a virama", consonant
    yield "kViramaRanges", "a virama that joins consonants", {c for c in joins if c >= 0x800 and ka.normalize_str("क" + chr(c) + "क\u0301").endswith("Q\u0301")}


# ------------------------------------------------------------------------------------------------------ writing
def rows(items):
    row = "   "
    for item in items:
        if len(row) + len(item) + 1 > 120:
            yield row
            row = "   "
        row += " " + item
    yield row


def table(name, what, points):
    return ["", "// %s." % (what[0].upper() + what[1:]), "constexpr Range %s[] = {" % name,
            *rows("{0x%X, 0x%X}," % tuple(r) for r in ranges(points)), "};"]


# ------------------------------------------------------------------------------------------------------ case, normal forms
def quoted(items, width=112):
    """A string literal of items that end with ';', over several lines."""
    line, out = "", []
    for item in items:
        if len(line) + len(item) > width:
            out.append(line)
            line = ""
        line += item
    return ['    "%s"' % row for row in [*out, line]]


def lower_case():
    """first-last+difference/step; of characters whose lower case is one other."""
    lower, runs = normalizers.Lowercase(), []
    for c in CODE_POINTS:
        to = lower.normalize_str(chr(c))
        if to == chr(c):
            continue
        if len(to) > 1:
            assert c == 0x130 and to == "i\u0307", hex(c)
            continue
        difference = ord(to) - c
        if runs and runs[-1][2] == difference and c - runs[-1][1] in (1, 2) and (runs[-1][3] in (0, c - runs[-1][1])):
            runs[-1][1], runs[-1][3] = c, c - runs[-1][1]
        else:
            runs.append([c, c, difference, 0])
    return ["%X-%X%+d/%d;" % (a, b, d, step or 1) for a, b, d, step in runs]


def decompositions():
    """code point, '=' (canonical, and what NFC makes of its parts), '-' (canonical only) or '~' (compatibility), the parts."""
    nfc, nfd, nfkd = normalizers.NFC(), normalizers.NFD(), normalizers.NFKD()
    for c in CODE_POINTS:
        if 0xAC00 <= c < 0xAC00 + 11172:
            continue
        char = chr(c)
        canonical, compatible = nfd.normalize_str(char), nfkd.normalize_str(char)
        parts = lambda text: " ".join("%X" % ord(p) for p in text)
        if canonical != char:
            yield "%X%s%s;" % (c, "=" if nfc.normalize_str(char) == char else "-", parts(canonical))
        if compatible != canonical:
            yield "%X~%s;" % (c, parts(compatible))


def orders():
    """first-last:combining class, from Python's tables, checked against the library with one mark of every class."""
    strip, nfd = normalizers.StripAccents(), normalizers.NFD()
    classes = {c: unicodedata.combining(chr(c)) for c in CODE_POINTS if strip.normalize_str(chr(c)) == "" and unicodedata.combining(chr(c))}
    samples = {}
    for c, order in classes.items():
        if nfd.normalize_str(chr(c)) == chr(c):
            samples.setdefault(order, chr(c))
    for c, order in classes.items():
        if nfd.normalize_str(chr(c)) != chr(c):
            continue
        for other, sample in samples.items():
            pair = chr(c) + sample
            assert (nfd.normalize_str("a" + pair) == "a" + (sample + chr(c) if other < order else pair)), (hex(c), order, other)
    runs = []
    for c, order in sorted(classes.items()):
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == order:
            runs[-1][1] = c
        else:
            runs.append([c, c, order])
    return ["%X-%X:%d;" % tuple(r) for r in runs]


def write_forms():
    lines = ["// Lower case and normal forms as Hugging Face's tokenizers 0.23.3 has them. Made by tools/golden/unicode_tables.py."]
    for name, what, items in [("kLowerCase", "First-last+difference/step, numbers of characters hexadecimal", lower_case()),
                              ("kOrders", "First-last:canonical combining class", orders()),
                              ("kDecompositions", "Character, = - or ~, parts: canonical and composed again, canonical only, compatibility", list(decompositions()))]:
        lines += ["", "// %s." % what, "constexpr char %s[] =" % name, *quoted(items)]
        lines[-1] += ";"
        print(name, len(items), flush=True)
    (ROOT / "src" / "text" / "unicode" / "unicode_forms.inc").write_text("\n".join(lines) + "\n")


def main():
    lines = ["// What Hugging Face's tokenizers 0.23.3 makes of every code point. Made by tools/golden/unicode_tables.py."]
    for name, what, points in [*bert(), *graphemes()]:
        lines += table(name, what, points)
        print(name, len(points), flush=True)
    groups, runs = script_groups(), []
    for c in CODE_POINTS:
        if not runs or runs[-1][1] != groups[c]:
            runs.append((c, groups[c]))
    lines += ["", "// UnicodeScripts' groups: {first code point, group}; each run goes on until the next; 0: in every group.",
              "constexpr GroupRun kScriptGroups[] = {", *rows("{0x%X, %d}," % r for r in runs), "};"]
    print("groups", len(set(groups.values())), len(runs), flush=True)
    names = []
    for name, points in regex_scripts():
        lines += table("k" + name.replace("_", ""), "script " + name, points)
        names.append(name)
    lines += ["", "constexpr NamedRanges kScripts[] = {", *rows('{"%s", k%s},' % (n.replace("_", "").lower(), n.replace("_", "")) for n in names), "};"]
    (ROOT / "src" / "text" / "unicode" / "unicode_probed.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_forms()
    if "forms" not in sys.argv:
        main()
