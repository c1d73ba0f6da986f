"""Makes tests/golden/data/*.parquet: conversations in columns of lists of structs and of JSON, as datasets writes
them.

Usage: python tools/golden/golden_parquet.py   (needs pyarrow; written with 26.0.1)
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

OUT = Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "data"

CALL_F = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
CALL_G = {"type": "function", "function": {"name": "g", "arguments": {"list": ["a", "b"]}}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "required": ["x"]}}}]

# Structs have the keys of all rows: what a row does not have is null there.
MESSAGES = [
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [CALL_F, CALL_G]},
                  {"role": "tool", "content": "r"}, {"role": "assistant", "content": "A"}], "tools": TOOLS},
    {"messages": [{"role": "user", "content": "zwei"}, {"role": "assistant", "content": "ZWEI"}], "tools": None},
]
CALL = json.dumps({"name": "f", "arguments": {"x": 1}})
CONVERSATIONS = [
    {"system": "S", "conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": CALL},
                                      {"from": "observation", "value": "r"}, {"from": "gpt", "value": "A"}],
     "tools": json.dumps(TOOLS), "source": "not read"},
    {"system": None, "conversations": [{"from": "human", "value": "b"}, {"from": "gpt", "value": "B"}], "tools": None,
     "source": None},
]
# Arguments as a map, a form that says which keys a row has.
ARGUMENTS = pa.map_(pa.string(), pa.int64())
MAPS = pa.schema([("messages", pa.large_list(pa.struct([
    ("role", pa.large_string()), ("content", pa.large_string()),
    ("tool_calls", pa.list_(pa.struct([("function", pa.struct([("name", pa.string()), ("arguments", ARGUMENTS)]))])))
])))])
WITH_MAPS = [{"messages": [{"role": "user", "content": "q"},
                           {"role": "assistant", "content": "",
                            "tool_calls": [{"function": {"name": "f", "arguments": [("z", 1), ("a", None)]}}]}]}]
# As datasets' Json() has what rows have of different types: a text of JSON for each.
WITH_JSON = [{"messages": [json.dumps(m) for m in MESSAGES[0]["messages"]],
              "tools": [{"type": "function", "function": json.dumps(TOOLS[0]["function"])}]},
             {"messages": ['{"role": "user", "content": "null"}', '{"role": "assistant", "content": "[1]"}'],
              "tools": None}]
def json_schema(text):
    return pa.schema([("messages", pa.list_(text)),
                      ("tools", pa.list_(pa.struct([("type", pa.string()), ("function", text)])))])


BYTES = pa.schema([("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.large_binary())])))])
WITH_BYTES = [{"messages": [{"role": "user", "content": "\u00e9".encode()}, {"role": "assistant", "content": b"B"}]},
              {"messages": [{"role": "user", "content": b"a\xff"}, {"role": "assistant", "content": b"B"}]}]
VIEW = pa.string_view()
VIEWS = pa.schema([("messages", pa.list_view(pa.struct([("role", VIEW), ("content", VIEW)])))])
PAIRS = [{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "B"}]}]


# Labels as the datasets library counts them: their names stand in the file's metadata.
NAMES = {"names": ["no", "yes"], "_type": "ClassLabel"}
TAGS = {"names": ["O", "B-PER"], "_type": "ClassLabel"}
FEATURES = {"text": {"dtype": "string", "_type": "Value"}, "label": NAMES,
            "tokens": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"},
            "tags": {"feature": TAGS, "_type": "Sequence"}}
CLASSES = pa.schema([("text", pa.string()), ("label", pa.int64()), ("tokens", pa.list_(pa.string())),
                     ("tags", pa.list_(pa.int64()))],
                    metadata={"huggingface": json.dumps({"info": {"features": FEATURES}})})
WITH_CLASSES = [{"text": "a b", "label": 1, "tokens": ["a", "b"], "tags": [0, 1]},
                {"text": "c", "label": 0, "tokens": ["c"], "tags": [0]}]

def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, rows, schema in [("messages", MESSAGES, None), ("conversations", CONVERSATIONS, None),
                               ("maps", WITH_MAPS, MAPS), ("pairs", PAIRS, None),
                               ("json", WITH_JSON, json_schema(pa.string())), ("bytes", WITH_BYTES, BYTES),
                               ("views", MESSAGES[1:], VIEWS), ("classes", WITH_CLASSES, CLASSES)]:
        table = pa.Table.from_pylist(rows, schema=schema)
        if name == "json":
            table = table.cast(json_schema(pa.json_()))
        # A row group each, so that more than one is read.
        pq.write_table(table, OUT / f"{name}.parquet", row_group_size=1, compression="snappy", write_statistics=False,
                       store_schema=schema is not None)


main()
