"""Small templates and what jinja2, set up as transformers does it, makes of them: tests/golden/text/jinja.jsonl.

Usage: tools/golden/golden_jinja.py    (transformers 5.23, jinja2 3.1.6)
Each line: {"template", "text"} or {"template", "error": its message}; all get the variables of the first line.
"""

import datetime
import json
import os
import pathlib

os.environ["TZ"] = "UTC"

from transformers.utils import chat_template_utils  # noqa: E402

OUT = pathlib.Path(__file__).parent.parent.parent / "tests/golden/text/jinja.jsonl"
NOW = 1_700_000_000

VARIABLES = {
    "n": 5, "x": 2.5, "big": 123456789012, "neg": -7, "t": True, "f": False, "none": None, "s": "Hello World",
    "u": "naïve ΣΊΣΥΦΟΣ straße ﬁn 你好 👍", "html": "<a href=\"x\">&'</a>", "blank": " \t pad\u00a0\n", "empty": "",
    "lines": "one\ntwo\n\n  three\r\nfour\u2028five", "l": [3, 1, 2], "words": ["b", "A", "c", "a", "B"],
    "mixed": [1, "a", 2.0, None, True, [1, 2], {"k": "v"}], "d": {"b": 1, "a": "two", "C": [1, 2], "items": "own"},
    "nested": {"a": {"b": [{"c": 1}, {"c": 2}]}},
    "users": [{"name": "Ann", "age": 31, "city": "Rome"}, {"name": "bob", "age": 25, "city": "rome"},
              {"name": "Cid", "age": 31, "city": "Oslo"}, {"name": "dan", "city": "Oslo"}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
}


def each(form, *parts):
    return [form.replace("@", part) for part in parts]


def templates():
    yield from each("{{ @ }}", "n", "x", "t", "none", "missing", "big * 100", "1e16", "1e15", "1.5e-5", "0.0001", "1e22",
                    "100.0", "-0.0", "1_000", "0x1F", "0b101", "0o17", "1.0e3", "7 // 2", "-7 // 2", "7 % -3", "-7 % 3",
                    "7.5 // 2", "-7.5 % 2", "7 / 2", "6 / 2", "2 ** 10", "2 ** -1", "2 ** 0.5", "-2 ** 2", "2 ** 3 ** 2",
                    "1 / 0", "1 // 0", "5 % 0", "1.0 / 0", "n + x", "n ~ x", "'a' ~ 1 ~ none ~ true", "'ab' * 3",
                    "3 * 'ab'", "'ab' * -1", "[1] * 2 + [3]", "(1,) + (2,)", "1 + '1'", "'1' + 1", "none + 1", "-s",
                    "not n", "+n", "-n", "- -n", "not not n", "t + t", "true and 5", "0 or 'x'", "'' and 1", "none or none",
                    "1 < 2 < 3", "1 < 3 < 2", "3 > 2 >= 2 != 1", "1 == 1.0", "1 == true", "'a' < 'b'", "[1, 2] < [1, 3]",
                    "(1, 2) == [1, 2]", "1 < 'a'", "none < 1", "none == missing", "missing == missing2", "'ell' in s",
                    "'x' not in s", "1 in l", "'a' in d", "'two' in d", "1 in s", "1 in 5", "1 in missing", "missing in l",
                    "[1, 2,]", "(1)", "(1,)", "()", "{}", "{'a': 1, 'b': [1]}", "{1: 2, 1.0: 3, true: 4}", "{[1]: 2}",
                    "mixed", "d", "users[0]", "'it\\'s'", "\"it's\"", "[\"it's\", 'say \"x\"', '\\'\"']", "['\\n\\t\\\\\\x07é\\u200b']",
                    "[u]", "'a' 'b'", "n if t else x", "n if f", "(n if f) is defined", "n if f else x if f else s",
                    "'\\x41\\u00e9\\U0001F600\\101\\q'", "l|length == 3 and 'yes' or 'no'", "n is number and x is float")
    yield from each("{{ @ }}", "s[0]", "s[-1]", "s[99]", "s[1:4]", "s[::-1]", "s[::2]", "s[-3:]", "s[:-3]", "s[10:2]", "u[6:13]",
                    "u[-1]", "u[::-1]", "l[0]", "l[-1]", "l[5]", "l[1:]", "l[::-1]", "l[:2]", "l['0']", "l[true]", "l[1.0]",
                    "l[::0]", "range(5)[1:3]", "range(10)[::-3]|list", "(1, 2, 3)[1:]", "d[1:2]", "n[0]", "missing[0]",
                    "missing[1:]", "missing.a", "missing.a.b", "none.a", "none.a.b", "d.a", "d.zzz", "d['a']", "d.items", "d['items']",
                    "d.b.c", "nested.a.b[1].c", "nested['a'].b.0.c", "users.0.name", "l.0", "d.keys()|list", "d.values()|list",
                    "d.items()|list", "d.keys()", "d.items()|length", "d.get('a')", "d.get('q')", "d.get('q', 7)", "d.get([1])",
                    "d.pop('a')", "d.update({})", "l.append(1)", "l.copy()", "l.index(2)", "l.index(9)", "l.count(1)", "l.sort()",
                    "(1, 2, 1).count(1)", "s.__class__", "s.__class__.__mro__", "d.__len__", "s.zzz", "s.upper", "n.real", "range(3).stop",
                    "range(100001)", "range(2, 10, 3)|list", "range(3)", "range(5, 0, -2)|list", "range()", "range(1, 2, 0)",
                    "dict(a=1, b=2)", "dict([('a', 1)], b=2)", "dict(d).a", "dict.fromkeys([1, 2], 'x')", "namespace(a=1).a",
                    "namespace(a=1)", "namespace(_a=1)", "missing()", "n()", "s()", "d.get(*['a'])", "d.get(**{'key': 'a'})")
    yield from each("{{ s.@ }}", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "center(21, '*')",
                    "ljust(15, '.')", "rjust(15)", "zfill(15)", "find('o')", "find('o', 5)", "find('zz')", "rfind('o')", "index('l')",
                    "index('zz')", "rindex('l')", "count('l')", "count('')", "count('l', 3, -1)", "startswith('He')", "startswith(('x', 'H'))",
                    "startswith('World', 6)", "endswith('ld')", "endswith('l', 0, -1)", "replace('l', 'L')", "replace('l', 'L', 2)",
                    "replace('', '-')", "split()", "split('o')", "split('l', 1)", "rsplit('l', 1)", "split('')", "partition(' ')",
                    "rpartition('o')", "partition('zz')", "splitlines()", "strip('Hd')", "lstrip('He')", "rstrip('dl')", "removeprefix('Hello ')",
                    "removesuffix('World')", "isalpha()", "isdigit()", "isspace()", "islower()", "isupper()", "istitle()", "isalnum()",
                    "isascii()", "join(['a', 'b'])", "join([1])", "format(1)", "expandtabs()", "strip(1)", "upper(1)", "isnumeric()")
    yield from each("{{ u.@ }}", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "find('你')", "center(40)", "split()")
    yield from ["{{ '[' ~ blank.strip() ~ ']' }}", "{{ '[' ~ blank.lstrip() ~ ']' }}", "{{ lines.splitlines() }}", "{{ lines.splitlines(true) }}",
                "{{ lines.split('\\n') }}", "{{ '  a  b '.split(' ') }}", "{{ '  a  b c '.split(None, 1) }}", "{{ '  a  b c '.rsplit(None, 1) }}",
                "{{ 'aaaa'.replace('aa', 'b') }}", "{{ 'abab'.rsplit('ab') }}", "{{ 'aaa'.rsplit('aa', 1) }}", "{{ '½²٣'.isdigit() }}",
                "{{ '+5'.zfill(4) }}", "{{ 'a\\tb'.expandtabs(4) }}", "{{ ''.join('abc') }}", "{{ 'ΑΣ ΑΣΑ Σ'.lower() }}", "{{ 'ǅ ß ŉ'.title() }}"]
    yield from each("{{ '@'.format(1, 2.5, 'x', k='v', d={'a': [7]}) }}", "{}-{}", "{0}{1}{0}", "{k}", "{d[a]}", "{d[a][0]}", "{:>5}|{:<6}|{:^5}",
                    "{0:05d}", "{0:+d}", "{1:.2f}", "{1:08.3f}", "{1:e}", "{1:g}", "{1:%}", "{2:*^7}", "{2!r}", "{{}}", "{", "}", "{9}", "{zz}",
                    "{0:x}{0:b}{0:#o}", "{0:c}", "{2:.0}", "{1:,.1f}", "{}{0}", "{0.real}", "{2.__class__}", "{0:>{1}}", "{:d}{:d}")
    yield from each("{{ @ }}", "'%s and %r' % (s, s)", "'%d%%' % n", "'%05.1f|%-6s|%+d' % (x, 'a', n)", "'%(a)s' % d", "'%s' % l", "'%d' % 'a'",
                    "'%s %s' % 1", "'%s' % (1, 2)", "'%x %X %o %e %g %c' % (255, 255, 8, x, x, 65)", "'%5.2s|' % 'abc'", "'%i' % 2.9",
                    "'%s'|format(1)", "'%s %s'|format('a', 2)", "'%(k)s'|format(k=1)", "'{:,}'.format(big)", "'{:_}'.format(big)", "'%.3d' % 5")
    yield from each("{{ s|@ }}", "upper", "lower", "title", "capitalize", "length", "count", "trim", "trim('Hd')", "reverse", "first", "last", "list",
                    "replace('l', 'x')", "replace('l', 'x', 1)", "center(15)", "wordcount", "string", "e", "truncate(8)", "truncate(8, true)",
                    "truncate(8, false, '~', 0)", "indent", "join('-')", "sort", "unique|list", "batch(4)|list", "slice(3)|list", "default('q')", "int",
                    "float", "tojson", "urlencode", "zzz", "upper|lower|title", "map('upper')|list", "format", "max", "min", "select('equalto', 'l')|list")
    yield from each("{{ l|@ }}", "sort", "sort(reverse=true)", "sort(true)", "reverse|list", "reverse", "first", "last", "length", "sum", "sum(start=10)", "min", "max",
                    "join", "join(', ')", "list", "map('string')|join", "select('odd')|list", "reject('odd')|list", "batch(2)|list",
                    "batch(2, 'x')|list", "slice(2)|list", "slice(2, 'x')|list", "tojson", "tojson(indent=2)", "unique|list", "map('pow')|list",
                    "select", "select|length", "map('upper')", "default([])", "int", "string", "first|string ~ '!'", "abs", "random2",
                    "select('greaterthan', 1)|list", "select('divisibleby', 2)|list", "select('in', [1, 2])|list", "reject|list")
    yield from each("{{ users|@ }}", "map(attribute='name')|list", "map(attribute='name')|join(', ')", "map(attribute='age')|list",
                    "map(attribute='age', default=0)|list", "selectattr('age')|map(attribute='name')|list", "selectattr('age', 'defined')|list|length",
                    "selectattr('age', 'equalto', 31)|map(attribute='name')|list", "rejectattr('age')|map(attribute='name')|list",
                    "rejectattr('city', 'eq', 'Oslo')|list|length", "sort(attribute='name')|map(attribute='name')|list", "sort(attribute='age')|list",
                    "sort(attribute='city,name')|map(attribute='name')|list", "sort(case_sensitive=true, attribute='name')|map(attribute='name')|list",
                    "groupby('city')|list|length", "groupby('city')|map('first')|list", "groupby('age', default=0)|map(attribute='grouper')|list",
                    "unique(attribute='city')|map(attribute='name')|list", "join(', ', attribute='name')", "sum(attribute='age')",
                    "min(attribute='name')", "max(attribute='name')", "first|attr('name')", "map('attr', 'x')|list", "selectattr", "selectattr('zzz')|list")
    yield from each("{{ words|@ }}", "sort", "sort(case_sensitive=true)", "unique|list", "unique(true)|list", "min", "max(true)", "map('upper')|sort|join",
                    "groupby('0')|list", "join|upper", "map('replace', 'a', 'z')|list", "reject('in', 'ab')|list", "select('lower')|list", "tojson")
    yield from each("{{ d|@ }}", "length", "list", "items|list", "dictsort", "dictsort(true)", "dictsort(reverse=true)", "dictsort(false, 'value')", "tojson",
                    "tojson(indent=4)", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))", "tojson(indent='--')", "first", "join(',')", "string", "reverse|list",
                    "xmlattr", "urlencode", "default(1)", "sort", "map('upper')|list", "last")
    yield from each("{{ @|tojson }}", "mixed", "html", "u", "x", "1e22", "1.0", "none", "missing", "{1: 2, none: 3, true: 4, 2.5: 5}", "(1, 2)", "range(2)", "d.items()",
                    "'\\x7f\\u2028\\x1f\\b\\f'", "[]", "{}", "{'a': []}", "nested", "-0.0")
    yield from ["{{ u|tojson(ensure_ascii=true) }}", "{{ '👍é'|tojson(true) }}", "{{ nested|tojson(indent=2) }}", "{{ {'a': [], 'b': {}}|tojson(indent=1) }}", "{{ l|tojson(indent=0) }}"]
    yield from each("{{ @ }}", "'42'|int", "'42.7'|int", "'x'|int", "'x'|int(7)", "'0x1f'|int(0, 16)", "'ff'|int(0, 16)", "'1_000'|int", "' 5 '|int", "none|int", "2.9|int", "-2.9|int", "true|int",
                    "missing|int", "'1e3'|float", "'x'|float", "'nan'|float", "n|float", "none|float(1)", "42.55|round", "42.55|round(1)", "42.55|round(1, 'floor')", "42.5|round", "43.5|round",
                    "42|round", "1234|round(-2)", "42.1|round(0, 'ceil')", "42.1|round(0, 'zz')", "neg|abs", "-2.5|abs", "'a'|abs", "1000|filesizeformat", "1|filesizeformat", "123456789|filesizeformat",
                    "123456789|filesizeformat(true)", "missing|default", "missing|default('d')", "''|default('d')", "''|default('d', true)", "none|default('d')", "none|d('d', boolean=true)",
                    "missing|length", "missing|list", "missing|upper", "missing|join", "missing|first", "missing|tojson", "missing|items|list", "missing|map('upper')|list", "[]|first", "[]|last",
                    "[]|max", "[]|sum", "[]|first is defined", "n|length", "none|length", "n|list", "html|e", "html|escape|escape", "html|forceescape", "html|safe", "(html|safe) + '<b>'", "'<b>' + (html|safe)",
                    "(html|safe) ~ '<b>'", "(html|e)|upper", "'<%s>'|safe|format('<x>')", "[html|safe]", "html|safe|tojson", "'<i>{}</i>'.format('<b>')|safe", "('<i>{}</i>'|safe).format('<b>')", "'a b&c/d'|urlencode",
                    "{'a b': 1, 'c': 'd&e'}|urlencode", "{'class': 'x', 'id': none, 'v': html}|xmlattr", "lines|indent(2)", "lines|indent(2, true)", "lines|indent(2, blank=true)", "lines|indent('> ')", "lines|wordcount",
                    "'foo-bar (baz)'|title", "u|title", "'a'|center(4)", "['a', 'b']|join(attribute='0')", "'%s'|format", "[[1, 2], [3]]|sum(start=[])", "['a']|sum")
    yield from each("{{ @ }}", "n is defined", "missing is undefined", "none is none", "n is number", "x is number", "t is number", "n is integer", "t is integer", "x is float", "s is string", "d is mapping", "l is mapping",
                    "l is iterable", "s is iterable", "n is iterable", "missing is iterable", "l is sequence", "d is sequence", "s is sequence", "missing is sequence", "d.items() is sequence", "d.items() is iterable",
                    "(l|map('upper')) is sequence", "t is boolean", "n is boolean", "t is true", "n is true", "f is false", "n is odd", "n is even", "n is divisibleby 5", "n is divisibleby(2)", "'a' is lower", "'A1' is upper",
                    "'1' is upper", "n is eq 5", "n is equalto(5)", "n is ne 4", "n is gt 4", "n is ge 5", "n is lt(5)", "n is le 5", "n is in [5]", "n is not in [5]", "'a' is in 'abc'", "n is sameas n", "none is sameas none",
                    "t is sameas true", "1 is sameas 1.0", "html is escaped", "html|e is escaped", "range is callable", "s.upper is callable", "s is callable", "'upper' is filter", "'zzz' is filter", "'odd' is test", "n is not defined",
                    "missing is not defined", "not n is defined", "n is zzz", "n is defined and missing is undefined", "n is none or n is number", "s is odd", "n is string is string")
    yield from ["{% for i in l %}{{ i }},{% endfor %}", "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
                "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}", "{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "{% for i in l %}{{ loop }}{% endfor %}",
                "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.length }}{{ loop.last }};{% endfor %}", "{% for i in l if i > 9 %}x{% else %}none{% endfor %}",
                "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d|items %}{{ k }}{% endfor %}", "{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}{{ b }}{% endfor %}",
                "{% for a, b in [[1]] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for c in 'aé你' %}{{ c }}.{% endfor %}", "{% for i in 5 %}{% endfor %}",
                "{% for i in missing %}x{% else %}e{% endfor %}", "{% for i in none %}{% endfor %}", "{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
                "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in [1] %}{% break %}{% else %}e{% endfor %}", "{% for i in [1] %}{% continue %}{% else %}e{% endfor %}",
                "{% break %}", "{% for w in words %}{% if loop.changed(w|lower) %}{{ w }}{% endif %}{% endfor %}", "{% for i in l recursive %}{{ i }}{% endfor %}",
                "{% for n in tree recursive %}[{{ n.v }}{{ loop(n.kids) }}]{% endfor %}", "{% for n in tree recursive %}{{ loop.depth }}{{ n.v }}{% if n.kids %}({{ loop(n.kids) }}){% endif %}{% endfor %}", "{% for i in l %}{{ loop(l) }}{% endfor %}",
                "{% for i in l|map('string') %}{{ loop.length }}{{ i }}{% endfor %}", "{% for i in l|map('string') %}{{ loop.last }}{% endfor %}", "{% for i in l %}{% set loop = 1 %}{% endfor %}", "{% for loop in l %}{% endfor %}", "{{ loop }}",
                "{% for i in (1, 2), 3 %}{{ i }};{% endfor %}", "{% for u in users if u.age is defined and u.age > 30 %}{{ u.name }}{{ ', ' if not loop.last }}{% endfor %}", "{% for i in range(3) %}{{ i }}{{ loop.zzz }}{% endfor %}"]
    yield from ["{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set (a, b) = [1, 2] %}{{ b }}", "{% set a %}x{{ n }}y{% endset %}[{{ a }}]", "{% set a | upper %}abc{% endset %}{{ a }}",
                "{% set a|replace('b', n)|upper %}abc{% endset %}{{ a }}", "{% set ns = namespace(c=0) %}{% for i in l %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}", "{% set c = 0 %}{% for i in l %}{% set c = c + i %}{{ c }}{% endfor %}{{ c }}",
                "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.c is defined }}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set d.a = 1 %}", "{% set zz.a = 1 %}", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a + ns.b }}",
                "{% set ns = namespace(l=[]) %}{% for i in l %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l }}", "{% set ns = namespace() %}{% set ns.t %}abc{% endset %}{{ ns.t }}", "{% set ns = namespace(a=1) %}{{ ns['a'] }}{{ ns == ns }}{{ ns is mapping }}",
                "{% set n = n + 1 %}{{ n }}", "{% if t %}{% set q = 1 %}{% endif %}{{ q }}", "{% if f %}{% set n = 1 %}{% endif %}{{ n }}", "{% if f %}{% set q = 1 %}{% endif %}{{ q is defined }}", "{% for i in l %}{% if i == 1 %}{% set n = 'in' %}{% endif %}{{ n }}{% endfor %}{{ n }}",
                "{% for i in l %}{{ q }}{% set q = i %}{{ q }}{% endfor %}{{ q }}", "{% for i in l %}{{ n }}{% endfor %}{% set n = 'late' %}{{ n }}", "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 'late' %}{{ m() }}", "{% set a = 1 %}{% macro m() %}{% set a = 2 %}{{ a }}{% endmacro %}{{ m() }}{{ a }}",
                "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}", "{% with n = 1, q = n %}{{ n }}{{ q }}{% endwith %}{{ n }}", "{% set s %}{{ s }}!{% endset %}{{ s }}", "{% set true = 1 %}", "{% set 1 = 2 %}", "{% set a.b.c = 2 %}",
                "{% set a = l %}{% for l in a %}{{ l }}{% endfor %}{{ l }}", "{% if t %}{% for i in l %}{% set w = i %}{% endfor %}{% endif %}{{ w is defined }}", "{% filter upper %}a{{ s }}{% set zz = 1 %}{% endfilter %}{{ zz is defined }}", "{% filter replace('a', 'b')|upper %}aca{% endfilter %}"]
    yield from ["{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
                "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(7) }}", "{% macro m(a=b, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}", "{% macro m(x) %}{{ x }}{% if x > 0 %}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
                "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{{ n }}{% endcall %}", "{% macro m() %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(v) m() %}<{{ v }}>{% endcall %}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
                "{% call(v=3) zz() %}{% endcall %}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m() -%}  a  {%- endmacro %}[{{ m() }}]", "{{ m }}{% macro m() %}{% endmacro %}{{ m }}{{ m.name }}", "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
                "{% macro m(d={}) %}{{ d }}{% endmacro %}{{ m() }}{{ m(d=1) }}", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}", "{% macro m(loop_var) %}{% for i in [1, 2] %}{{ loop.index }}{{ loop_var.index }}{% endfor %}{% endmacro %}{% for i in l %}{{ m(loop) }};{% endfor %}",
                "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}", "{% macro m(a b) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}", "{% macro m(messages) %}{{ messages|length }}{% endmacro %}{{ m(messages[1:]) }}",
                "{% macro outer() %}{% macro inner() %}i{{ n }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}", "{{ m2(1) }}{% macro m2(a) %}{{ a }}{% endmacro %}"]
    yield from ["{% if n > 3 %}a{% elif n > 2 %}b{% else %}c{% endif %}", "{% if f %}a{% elif none %}b{% else %}c{% endif %}", "{% if missing %}a{% endif %}b", "{% if l %}a{% endif %}{% if [] %}b{% endif %}", "{% if f %}{{ n|zzz }}{% endif %}ok", "{{ n|zzz if f else 'ok' }}", "{% if t %}{{ n|zzz }}{% endif %}",
                "{% if n %}", "{% endif %}", "{% if n %}{% endfor %}", "{{ n", "{{ }}", "{{ n n }}", "{{ (n }}", "{{ n) }}", "{{ [1, 2 }}", "{% zzz %}", "{% if %}{% endif %}", "{{ 'abc }}", "{{ n. }}", "{{ n | }}", "{{ n is }}", "{{ 1 +* 2 }}", "{{ @ }}", "{{ a = 1 }}", "{# open", "{% raw %}", "{% set %}", "{% for %}", "{% for x %}", "{{ {1} }}", "{{ {1: } }}", "{{ n[ }}", "{{ d.get('a' }}",
                "{{ f(a=1, a=2) }}", "{{ f(a=1, 2) }}", "{{ f(**d, 1) }}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% do l %}", "{% print n, s %}"]
    yield from ["a\n{% if t %}\n  b\n{% endif %}\nc\n", "  {% if t %}x{% endif %}  \n  y", "a {%- if t -%} b {%- endif -%} c", "a {{- n -}} b", "a\n  {{ n }}\n  b", "a\n  {{- n }}\nb", "x  {%+ if t %} y {% endif +%}\n z", "{% if t +%}\n a{% endif %}", "{# c #}a\n  {# c #}\nb", "a {#- c -#} b", "a\n{# c +#}\nb", "\n\na\n\n",
                "a\r\nb\rc\n", "{% raw %}{{ n }}{% if %}{% endraw %}", "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb", "a {%- raw -%} {{ x }} {%- endraw -%} b", "{% for i in l %}\n  {{ i }}\n{% endfor %}\nend", "{% for i in l -%}\n  {{ i }}\n{%- endfor %}", "  {%- set a = 1 %}\n  {{ a }}", "{{ '{{' }}{{ '}}' }}", "{{ {'a': {'b': 1}}.a.b }}", "{{ {'a': {'b': 1}}}}",
                "{%- if t %} x {%- endif %}", "text {% if t %} \n {% endif %} more", "\t{% if t %}\t{% endif %}\t", "a{% if t %}\n\nb{% endif %}\n\nc", "{{ 1 }}\n{{ 2 }}\n", "{ n }} {a} # %} {", "a{# {{ x }} {% y %} #}b", "{{ n }}{{- '  x  ' -}}{{ n }}", "   {#- x #}   y", "é {%- if t %} ü {% endif %}"]
    yield from ["{% macro m(a, b=1) %}{{ varargs }}{% endmacro %}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}{{ m.explicit_caller }}{{ m.name }}{{ m.zzz is defined }}",
                "{% macro m() %}{{ kwargs }}{{ caller() }}{% endmacro %}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}{{ m.explicit_caller }}",
                "{% macro m() %}{{ caller.arguments }}{{ caller.name }}{{ caller() }}{% endmacro %}{% call(x=1) m() %}a{% endcall %}", "{{ lipsum is defined }}{{ lipsum is callable }}"]
    yield from ["{{ raise_exception('bad ' ~ n) }}", "{% if n == 5 %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %j %a %b') }}", "{{ strftime_now('%d %B %Y') }}{{ strftime_now('') }}", "{{ strftime_now(1) }}",
                "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner(', ') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}", "{% generation %}a{{ n }}{% endgeneration %}b",
                "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}", "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}",
                "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] | trim + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}x{% endif %}", "{% if messages[0]['role'] == 'system' %}{% set system = messages[0].content %}{% set messages = messages[1:] %}{% endif %}{{ system }}|{{ messages|length }}",
                "{%- set ns = namespace(found=false) -%}{%- for m in messages[::-1] -%}{%- set i = (messages|length - 1) - loop.index0 -%}{%- if m.role == 'user' and not ns.found -%}{%- set ns.found = true -%}{{ i }}{{ m.content }}{%- endif -%}{%- endfor -%}",
                "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles') }}{% endif %}{% endfor %}", "{{ messages[0].content.split('</think>')[-1].lstrip('\\n') }}", "{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join('|') }}", "{{ (messages|last).content }}", "{{ messages[-1]['zzz'] is defined }}",
                "{{ messages[-1].zzz or 'no' }}", "{{ messages[9].role }}", "{{ messages.role }}"]


def main():
    class Frozen(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(NOW)

    chat_template_utils.datetime = Frozen
    lines = [json.dumps({"variables": VARIABLES, "now": NOW}, ensure_ascii=False)]
    errors = 0
    for template in templates():
        try:
            text = chat_template_utils._compile_jinja_template(template).render(**json.loads(json.dumps(VARIABLES)))
            if " at 0x" in text:
                continue  # an address
            lines.append(json.dumps({"template": template, "text": text}, ensure_ascii=False))
        except Exception as error:  # noqa: BLE001
            errors += 1
            lines.append(json.dumps({"template": template, "error": f"{type(error).__name__}: {error}"}, ensure_ascii=False))
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines) - 1} templates, {errors} of them errors: {OUT}")


main()
