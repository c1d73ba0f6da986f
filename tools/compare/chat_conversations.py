"""Conversations for tests of chat templates, made by rules from a seed: the same ones on every machine.

conversations(count) gives {"messages", "tools", "documents", "variables"} in transformers' form. About every sixth
breaks the order of roles or holds odd values, so that templates raise what they raise.
"""

import random

WORDS = ("the a model reads tokens and writes text because every answer ends here 42 3.5 hello world naïve Zürich "
         "straße ΣΊΣΥΦΟΣ русский 你好 世界 日本語 👍 👩‍👩‍👧 café <b>bold</b> & \"quoted\" it's {{x}} {% y %} # \\n "
         "<|im_end|> </s> [INST] <think> </think> tool_call null true").split()
EDGES = ["", " ", "\n", "\n\n", "  two spaces  ", "\tTab\t", "ends with newline\n", "\n\nbegins with newlines",
         "line one\nline two\n\n  indented line", "trailing space ", "\u00a0no-break\u00a0", "a\r\nb", "e\u0301 combining",
         "<think>\nfirst I think\n</think>\n\nthen I answer", "half </think> thought", "```python\nprint('hi')\n```",
         "{\"json\": [1, 2.50, null, \"x\"]}", "\\ backslash \" quote ' apostrophe", "\u2028 separator \u2029", "\x7f"]
CITIES = ["Paris", "São Paulo", "北京", "O'Hare \"ORD\""]


def text(rng):
    if rng.random() < 0.25:
        return rng.choice(EDGES)
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 14))]
    return rng.choice([" ", " ", " ", "\n"]).join(words)


def parts(rng):
    made = [{"type": "text", "text": text(rng)}]
    if rng.random() < 0.3:
        made.insert(0, {"type": "image"})
    if rng.random() < 0.3:
        made.append({"type": "text", "text": text(rng)})
    return made


def schema(rng, depth=0):
    kinds = ["string", "number", "integer", "boolean"] + (["object", "array"] if depth < 2 else [])
    kind = rng.choice(kinds)
    made = {"type": kind, "description": text(rng)}
    if kind == "string" and rng.random() < 0.4:
        made["enum"] = ["celsius", "fahrenheit", text(rng)]
    if kind == "object":
        made["properties"] = {f"field_{i}": schema(rng, depth + 1) for i in range(rng.randint(1, 2))}
        made["required"] = ["field_0"]
    if kind == "array":
        made["items"] = schema(rng, depth + 1)
    if rng.random() < 0.1:
        made["default"] = rng.choice([1, 2.5, "x", None, True])
    if rng.random() < 0.1:
        made["nullable"] = True
    return made


def tool(rng, name):
    count = rng.randint(0, 3)
    parameters = {"type": "object", "properties": {f"arg_{i}": schema(rng) for i in range(count)}}
    if count and rng.random() < 0.8:
        parameters["required"] = ["arg_0"]
    function = {"name": name, "description": text(rng), "parameters": parameters}
    if rng.random() < 0.15:
        function["return"] = {"type": "string", "description": text(rng)}
    if rng.random() < 0.1:
        function["strict"] = True
    return {"type": "function", "function": function}


def value(rng, depth=0):
    if depth < 2 and rng.random() < 0.2:
        return {f"k{i}": value(rng, depth + 1) for i in range(rng.randint(0, 3))}
    if depth < 2 and rng.random() < 0.2:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return rng.choice([rng.choice(CITIES), text(rng), 7, -3, 2.5, 1e-7, 1e22, 100.0, True, False, None, 0])


def calls(rng, names, number):
    made = []
    for i in range(rng.choice([1, 1, 1, 2])):
        arguments = {f"arg_{j}": value(rng) for j in range(rng.randint(0, 3))}
        call = {"type": "function", "id": f"call{number:02d}{i:03d}",
                "function": {"name": rng.choice(names), "arguments": arguments}}
        if rng.random() < 0.2:
            call = {"function": call["function"]}
        if rng.random() < 0.1:
            import json
            call["function"]["arguments"] = json.dumps(arguments)
        made.append(call)
    return made


def assistant(rng, content):
    message = {"role": "assistant", "content": content}
    if rng.random() < 0.2:
        message["reasoning_content"] = text(rng)
    if rng.random() < 0.05:
        message["thinking"] = text(rng)
    return message


def turns(rng, names, odd):
    messages, number = [], 0
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system"] * 6 + ["developer"]), "content": text(rng)})
    for _ in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": parts(rng) if rng.random() < 0.1 else text(rng)})
        if names and rng.random() < 0.6:
            for _ in range(rng.choice([1, 1, 2])):
                number += 1
                message = assistant(rng, rng.choice(["", None, text(rng)]))
                message["tool_calls"] = calls(rng, names, number)
                if rng.random() < 0.2:
                    message.pop("content")
                messages.append(message)
                for call in message["tool_calls"]:
                    answer = {"role": "tool", "content": rng.choice([text(rng), "{\"temperature\": 21.5}"])}
                    if rng.random() < 0.8:
                        answer["name"] = call["function"]["name"]
                    if "id" in call:
                        answer["tool_call_id"] = call["id"]
                    messages.append(answer)
        if rng.random() < 0.9:
            messages.append(assistant(rng, text(rng)))
    if rng.random() < 0.25 and messages[-1]["role"] == "assistant" and len(messages) > 1:
        messages.pop()
    if odd:
        how = rng.randrange(5)
        at = rng.randrange(len(messages))
        if how == 0:
            messages.insert(at, {"role": rng.choice(["user", "assistant", "system", "tool"]), "content": text(rng)})
        elif how == 1:
            messages[at]["role"] = rng.choice(["critic", "Assistant", "function", "ipython", "observation"])
        elif how == 2:
            messages[at]["content"] = rng.choice([None, 5, [], parts(rng), {"text": "x"}])
        elif how == 3:
            messages[at].pop("content", None)
        else:
            rng.shuffle(messages)
    return messages


def conversations(count, seed=1):
    rng = random.Random(seed)
    for number in range(count):
        names = [f"get_{word}" for word in rng.sample(["weather", "time", "news", "stock"], rng.randint(1, 3))]
        with_tools = rng.random() < 0.45
        made = {"messages": turns(rng, names if with_tools else [], rng.random() < 0.17)}
        made["tools"] = [tool(rng, name) for name in names] if with_tools and rng.random() < 0.9 else None
        made["documents"] = None
        if rng.random() < 0.1:
            made["documents"] = [{"title": text(rng), "text": text(rng)} for _ in range(rng.randint(1, 2))]
        made["variables"] = rng.choice([{}, {}, {}, {"enable_thinking": True}, {"enable_thinking": False},
                                        {"thinking": True}, {"date_string": "01 Jan 2025"},
                                        {"builtin_tools": ["python", "brave_search"]},
                                        {"reasoning_effort": rng.choice(["low", "high"])},
                                        {"keep_past_thinking": True, "tools_in_user_message": False}])
        yield made
