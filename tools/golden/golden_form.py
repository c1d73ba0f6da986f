"""Patterns and schemas, and texts that are of their form or not: tests/golden/text/{regex_forms,schema_forms}.jsonl.

Usage: tools/golden/golden_form.py    (Python 3.11, jsonschema 4.26)
Each line: {"pattern" or "schema", "yes": texts that match as a whole, "no": texts that do not}. What is a "yes" of a
schema is written as hone lets answers be written, in one of three layouts; "no" is what Python's json cannot read, or
jsonschema refuses.
"""

import json
import pathlib
import random
import re

import jsonschema

OUT = pathlib.Path(__file__).parent.parent.parent / "tests/golden/text"
ALPHABET = list('ab1_ -.\n\t"\\/{}[]:,A0\r') + list("é日😀\u00a0\u2028٣ß\x1c²\u0301")

PATTERNS = [
    "",
    "a",
    "abc",
    "a*",
    "a+",
    "a?",
    "a{3}",
    "a{2,4}",
    "a{2,}",
    "a{,3}",
    "a{0}",
    "(ab)*",
    "(a|b)*abb",
    "(?:a|b){2,3}",
    "a|b|cd",
    "a||b",
    "(|a)b",
    "()",
    "[abc]+",
    "[^abc]",
    "[a-c1-3]*",
    "[]a]+",
    "[^]a]+",
    "[a-]+",
    "[-a]",
    "[a\\-c]",
    ".",
    ".*",
    "(?s).",
    "(?s:.)a",
    ".a",
    "\\d+",
    "\\D",
    "\\w+",
    "\\W",
    "\\s*",
    "\\S+",
    "[\\d_]+",
    "[^\\w]+",
    "[\\s\\S]{2}",
    "(?a)\\w+",
    "(?a)\\d",
    "(?a)[^\\s]",
    "^a$",
    "^(a|b)$",
    "^a|b$",
    "\\Aa\\Z",
    "(^a)(b$)",
    "a*?",
    "a+?b",
    "a??b",
    "a{1,2}?a",
    "\\.",
    "\\\\",
    "\\[\\]",
    "\\{2\\}",
    "a{x",
    "a{",
    "a{,}",
    "{",
    "x{1",
    "a{1,2",
    "\\x41",
    "\\u00e9",
    "\\U0001F600",
    "\\n\\t",
    "[\\n\\x00-\\x1f]",
    "é+",
    "[é-ü]",
    "[日-月]*",
    "[^é]",
    "😀{2}",
    "(?P<name>a)b",
    "(?#note)a",
    "(?:(?:a{2}){2}){2}",
    "(a*)*",
    "(a*)+b",
    "(a|aa)+",
    "(a?){6}a{6}",
    "(a|b)*a(a|b){8}",
    "(.*)(.*)(.*)a",
    "(a+)+b",
    "[ab]{0,40}",
    "\\d{4}-\\d{2}-\\d{2}",
    "(25[0-5]|2[0-4]\\d|1?\\d?\\d)(\\.(25[0-5]|2[0-4]\\d|1?\\d?\\d)){3}",
    "yes|no|maybe",
    "[A-Z][a-z]+( [A-Z][a-z]+)*",
    "-?(0|[1-9]\\d*)(\\.\\d+)?",
    "<b>.*</b>",
    "\\w+@\\w+\\.(com|org)",
    "[\\0-\\x7f]+",
    "\\07",
    "[\\b]",
    "\\/",
    "\\-",
    "[.]",
    "[*+?]",
    "(?s)a.*b",
    "(a(b(c(d)?)?)?)?",
    "((((a))))",
    "[a-zA-Z_]\\w{0,3}",
    "(?:)",
    "a(?:|b)c",
    "\\@\\!",
    "[\\]]",
    "[[]",
    "\\S*\\s\\S*",
]
BAD_PATTERNS = [
    "(",
    ")",
    "[",
    "[b-a]",
    "a**",
    "a{2}{3}",
    "*",
    "+a",
    "(?=a)",
    "(?!a)",
    "(?<=a)b",
    "(?<!a)b",
    "(a)\\1",
    "(?P<x>a)(?P=x)",
    "a{3,2}",
    "\\",
    "\\q",
    "(?i)a",
    "a\\bb",
    "\\Ba",
    "(?>a)",
    "a++",
    "a*+",
    "(?x)a",
    "(?z)",
    "[\\d-x]",
    "(?P<x",
    "a^b",
    "a$b",
    "\\N{DASH}",
    "(?(1)a|b)",
    "\\x4",
    "\\u12",
    "[\\777]",
    "^*",
    "(?s",
    "a|*",
    "(*)",
    "{2}",
]


class Random(random.Random):
    # Python's matching is exponential in repetitions of repetitions: there are none here.
    def pattern(self, depth=0, repeated=False):
        kind = self.randrange((8 if repeated else 9) if depth < 3 else 5)
        if kind < 2:
            return re.escape(self.choice(ALPHABET))
        if kind == 2:
            inside = "".join(
                self.choice(["a", "b", "0-9", "a-c", "\\d", "\\w", "\\s", "é", "\\n", "_", "日", "\\W"])
                for _ in range(self.randint(1, 3))
            )
            return f"[{self.choice(['', '', '^'])}{inside}]"
        if kind == 3:
            return self.choice([".", "\\d", "\\w", "\\s", "\\S", "\\D", "\\W"])
        if kind == 4:
            return self.choice(["a", "b", "ab", "1", "_"])
        if kind == 5:
            return "(" + "|".join(self.pattern(depth + 1, repeated) for _ in range(self.randint(1, 3))) + ")"
        if kind in (6, 7):
            return "".join(self.pattern(depth + 1, repeated) for _ in range(self.randint(2, 3)))
        times = self.choice(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?"])
        return f"(?:{self.pattern(depth + 1, True)}){times}"

    def text(self, most=8):
        return "".join(self.choice(ALPHABET) for _ in range(self.randint(0, most)))

    def damaged(self, text):
        at, more = self.randint(0, len(text)), self.choice(ALPHABET)
        kind = self.randrange(4)
        if kind == 0:
            return text[:at] + more + text[at:]
        if kind == 1:
            return text[:at] + text[at + 1 :]
        if kind == 2:
            return text[:at] + more + text[at + 1 :]
        return text[:at]


# A member of the pattern's language, from Python's own parse of it.
def member(random, parsed):
    import re._constants as c

    out = []
    for op, value in parsed:
        if op is c.LITERAL:
            out.append(chr(value))
        elif op is c.MAX_REPEAT or op is c.MIN_REPEAT:
            least, most, inner = value
            for _ in range(random.randint(least, min(most, least + 3))):
                out.append(member(random, inner))
        elif op is c.SUBPATTERN:
            out.append(member(random, value[3]))
        elif op is c.BRANCH:
            out.append(member(random, random.choice(value[1])))
        elif op is c.AT:
            pass
        elif op is c.IN and value[0][0] is not c.NEGATE:
            kind, one = random.choice(value)
            out.append(
                chr(one)
                if kind is c.LITERAL
                else chr(random.randint(*one)) if kind is c.RANGE else random.choice("7k \n-é٣日")
            )
        else:  # a set of characters: some that may be in it
            out.append(random.choice(ALPHABET))
    return "".join(out)


def regexes():
    random = Random(1)
    patterns = list(PATTERNS)
    while len(patterns) < len(PATTERNS) + 250:
        pattern = random.pattern()
        if len(pattern) < 60:
            patterns.append(pattern)
    for pattern in patterns:
        compiled, parsed = re.compile(pattern), re._parser.parse(pattern)
        yes, no = set(), set()
        for _ in range(60):
            text = random.choice([random.text, lambda: member(random, parsed)])()
            for one in (text, random.damaged(text)):
                if len(one) > 16:
                    continue
                (yes if compiled.fullmatch(one) else no).add(one)
        pick = lambda texts: random.sample(sorted(texts), min(len(texts), 12))
        yield {"pattern": pattern, "yes": pick(yes), "no": pick(no)}
    for pattern in BAD_PATTERNS:
        yield {"pattern": pattern, "bad": True}


POINT = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"]}
SCHEMAS = [
    True,
    {},
    {"type": "object"},
    {"type": "array"},
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["string", "null"]},
    {"type": ["integer", "array"]},
    {"const": 'a"b\\c\nd'},
    {"const": {"a": [1, 2.5, None], "b": {}}},
    {"enum": ["red", "green", 3, None, [1]]},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "maxLength": 3},
    {"type": "string", "minLength": 3},
    {"type": "string", "pattern": "^[a-z]{2,5}$"},
    {"type": "string", "pattern": "\\d"},
    {"type": "string", "pattern": "^a"},
    {"type": "string", "pattern": '^(a|"b\\\\)$'},
    {"type": "string", "pattern": "a$|^b"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "email"},
    {"type": "integer", "minimum": 0},
    {"type": "integer", "maximum": 12},
    {"type": "integer", "minimum": -37, "maximum": 152},
    {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 8},
    {"type": "integer", "minimum": 990, "maximum": 10010},
    {"type": "integer", "maximum": -5},
    {"type": "integer", "minimum": -120, "maximum": -7},
    {"type": "integer", "minimum": 0, "maximum": 0},
    {"type": "number", "minimum": 0},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": "number", "minimum": -10, "exclusiveMaximum": 10},
    {"type": "number", "maximum": -2},
    {"type": "number", "minimum": -3, "maximum": -1},
    {"type": "number", "exclusiveMinimum": 3, "maximum": 12},
    POINT,
    {**POINT, "additionalProperties": False},
    {**POINT, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "null"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "ab": {"type": "integer"}},
        "additionalProperties": True,
    },
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"type": "object", "properties": {'k"ey': {"type": "null"}}, "required": ['k"ey']},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2},
    {"type": "array", "items": POINT, "maxItems": 2},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
    {"type": "array", "items": False},
    {"type": "array", "maxItems": 0},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}, POINT]},
    {"oneOf": [{"type": "integer"}, {"type": "null"}]},
    {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}},
                "required": ["kind", "n"],
            },
            {"type": "object", "properties": {"kind": {"const": "b"}, "s": {"type": "string"}}, "required": ["kind"]},
        ]
    },
    {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "string"}}, "required": ["b"]},
        ]
    },
    {"allOf": [{"type": "integer", "minimum": 3}, {"minimum": 1, "maximum": 20}]},
    {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "v": {"type": "integer"},
                    "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                },
                "required": ["v", "next"],
            }
        },
    },
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    },
    {
        "type": "object",
        "title": "Answer",
        "properties": {
            "steps": {"type": "array", "items": {"$ref": "#/definitions/Step"}, "minItems": 1},
            "final": {"type": ["string", "null"]},
            "score": {"type": "number", "minimum": 0, "maximum": 10},
        },
        "required": ["steps", "final", "score"],
        "additionalProperties": False,
        "definitions": {
            "Step": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "kind": {"enum": ["think", "act"]}},
                "required": ["text", "kind"],
                "additionalProperties": False,
            }
        },
    },
    {
        "properties": {"a": {"$ref": "#/$defs/x", "maxLength": 2}},
        "required": ["a"],
        "$defs": {"x": {"type": "string", "minLength": 1}},
    },
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "additionalProperties": False,
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    {
        "type": "object",
        "properties": {"a": True, "b": False, "c": {}},
        "required": ["a"],
        "additionalProperties": False,
    },
    {"type": "object", "required": ["z"]},
]
BAD_SCHEMAS = [
    "{",
    "[]",
    "3",
    '{"type": "object", "patternProperties": {}}',
    '{"not": {}}',
    '{"type": "strange"}',
    '{"if": {}, "then": {}}',
    '{"type": "array", "uniqueItems": true}',
    '{"type": "number", "multipleOf": 0.5}',
    '{"type": "number", "minimum": 0.5}',
    '{"type": "string", "pattern": "(a)\\\\1"}',
    '{"type": "string", "format": "color"}',
    '{"type": "string", "pattern": "a", "maxLength": 3}',
    '{"$ref": "#/$defs/none"}',
    '{"$ref": "http://x/y"}',
    '{"$ref": "#"}',
    '{"anyOf": [{"$ref": "#"}, {"type": "null"}]}',
    '{"oneOf": [{"type": "integer"}, {"type": "number"}]}',
    '{"type": "object", "properties": {"a": {"type": "integer", "frob": 1}}}',
    '{"enum": []}',
    '{"allOf": [{"pattern": "a"}, {"pattern": "b"}]}',
    '{"type": "object", "minProperties": 2}',
    '{"type": "string", "minLength": -1}',
    '{"contains": {}}',
    '{"type": "object", "dependentRequired": {}}',
    '{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}',
]


class Member:
    """A value by a schema, with its keys in the order in which answers have them."""

    def __init__(self, root, random):
        self.root, self.random = root, random

    def any(self, depth):
        kind = self.random.randrange(6 if depth < 2 else 4)
        if kind == 0:
            return self.random.choice([None, True, False])
        if kind == 1:
            return self.random.choice([0, -1, 17, 2.5, -0.125, 1e21, 1e-7, 123456789])
        if kind < 4:
            return self.random.text(5)
        if kind == 4:
            return [self.any(depth + 1) for _ in range(self.random.randint(0, 3))]
        return {self.random.text(4): self.any(depth + 1) for _ in range(self.random.randint(0, 3))}

    def of(self, schema, depth=0):
        r = self.random
        if schema is True or schema == {}:
            return self.any(depth)
        if "$ref" in schema:
            target = self.root
            for part in schema["$ref"][1:].split("/")[1:]:
                target = target[part]
            return self.of(
                {**target, **{k: v for k, v in schema.items() if k != "$ref"}} if target is not self.root else target,
                depth,
            )
        if "allOf" in schema:
            merged = {}
            for one in schema["allOf"]:
                for key, value in one.items():
                    if key == "properties":
                        merged.setdefault(key, {}).update(value)
                    elif key == "required":
                        merged.setdefault(key, []).extend(value)
                    else:
                        merged[key] = max(merged[key], value) if key in merged else value
            return self.of(merged, depth)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                base = {k: v for k, v in schema.items() if k != key and k != "$defs"}
                return self.of({**base, **r.choice(schema[key][1:] if depth > 4 else schema[key])}, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return r.choice(schema["enum"])
        kind = schema.get("type", "object" if "properties" in schema else None)
        kind = r.choice(kind) if isinstance(kind, list) else kind
        return getattr(self, "of_" + kind)(schema, depth) if kind else self.any(depth)

    def of_object(self, schema, depth):
        made, properties = {}, schema.get("properties", {})
        needed = schema.get("required", [])
        for name, inner in properties.items():
            if inner is not False and (name in needed or (self.random.random() < 0.6 and depth < 4)):
                made[name] = self.of(inner, depth + 1)
        others = schema.get("additionalProperties", not properties)
        for name in needed:
            if name not in made and others:
                made[name] = self.any(depth + 1)
        if others and not (needed and not properties):
            for _ in range(self.random.randint(0, 2)):
                name = "".join(c for c in self.random.text(4) if c >= " " and c not in '"\\')
                if name not in properties:
                    made[name] = self.of(others, depth + 1)
        return made

    def of_array(self, schema, depth):
        prefix, rest = schema.get("prefixItems", []), schema.get("items", True)
        least = schema.get("minItems", 0)
        most = schema.get("maxItems", least + 3)
        count = self.random.randint(least, most)
        if depth > 4:
            count = least
        if rest is False:
            count = min(count, len(prefix))
        return [self.of(prefix[i] if i < len(prefix) else rest, depth + 1) for i in range(count)]

    def of_string(self, schema, depth):
        r = self.random
        known = {
            "date": "2024-02-28",
            "ipv4": "192.168.0.255",
            "uuid": "123e4567-e89b-12d3-a456-426614174000",
            "email": "ann.b@example.org",
        }
        if "format" in schema:
            return known[schema["format"]]
        if "pattern" in schema:
            while True:
                text = r.choice(
                    [r.text(5), "a" + r.text(2), "b" + r.text(2), r.text(2) + "a", "abc", "ab", "a", '"b\\']
                )
                if re.search(schema["pattern"], text) and not text.endswith("\n") and not set(text) & set("٣\u2028"):
                    return text
        while True:
            text = r.text(schema.get("maxLength", schema.get("minLength", 0) + 4))
            if len(text) >= schema.get("minLength", 0):
                return text

    def of_integer(self, schema, depth):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -20001) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", 20001) - 1)
        return self.random.choice([low, high, self.random.randint(low, high)])

    def of_number(self, schema, depth):
        low, high = schema.get("minimum", schema.get("exclusiveMinimum", -300)), schema.get(
            "maximum", schema.get("exclusiveMaximum", 300)
        )
        made = round(self.random.uniform(low, high), self.random.randint(1, 4))
        return made if "exclusiveMinimum" not in schema or made > low else low + 0.5

    def of_boolean(self, schema, depth):
        return self.random.random() < 0.5

    def of_null(self, schema, depth):
        return None


def refuse(constant):
    raise ValueError(constant)


def schemas():
    random = Random(2)
    checker = jsonschema.FormatChecker(["date", "ipv4", "uuid", "email"])
    for schema in SCHEMAS:
        valid = jsonschema.Draft202012Validator(schema, format_checker=checker)

        def is_member(text):
            try:
                return valid.is_valid(json.loads(text, parse_constant=refuse))
            except ValueError:
                return False

        yes, no = set(), set()
        for _ in range(60):
            value = Member(schema, random).of(schema)
            style = random.choice([{"separators": (",", ":")}, {}, {"indent": 2}])
            text = json.dumps(
                value, ensure_ascii=random.random() < 0.3 and style == {} and not restricted(schema), **style
            )
            if is_member(text):
                yes.add(text)
            for one in (random.damaged(text), json.dumps(Member(True, random).any(0))):
                if not is_member(one):
                    no.add(one)
        pick = lambda texts: random.sample(sorted(texts), min(len(texts), 14))
        yield {"schema": json.dumps(schema), "yes": pick(yes), "no": pick(no)}
    for schema in BAD_SCHEMAS:
        yield {"schema": schema, "bad": True}


# Strings of these are written in one way only.
def restricted(schema):
    return any(key in json.dumps(schema) for key in ("pattern", "const", "enum", "format", "additional", "é"))


def main():
    for name, made in (("regex_forms", regexes()), ("schema_forms", schemas())):
        with open(OUT / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for one in made:
                file.write(json.dumps(one) + "\n")


if __name__ == "__main__":
    main()
