"""SentencePiece's precompiled table of replacements, made from a dict."""
import struct


def charsmap(replacements):
    """SentencePiece's precompiled table: a double-array trie and the texts its values point to."""
    texts, values = bytearray(), {}
    for key, text in sorted(replacements.items()):
        values[key.encode()] = len(texts)
        texts += text.encode() + b"\0"
    tree = {}
    for key, value in values.items():
        node = tree
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = value
    units, used, free_from = {0: 0}, {0}, 1

    def place(node, at):
        nonlocal free_from
        labels = sorted(node)
        base = free_from
        while any(base ^ label in used for label in labels) or (at ^ base) >= 1 << 21:
            base += 1
        while free_from in used:
            free_from += 1
        units[at] = units[at] | (at ^ base) << 10 | (1 << 8 if 0 in node else 0)
        for label in labels:
            used.add(base ^ label)
            units[base ^ label] = (1 << 31 | node[label]) if label == 0 else label
        for label in labels:
            if label:
                place(node[label], base ^ label)

    place(tree, 0)
    size = (max(units) | 0xFF) + 1
    blob = b"".join(struct.pack("<I", units.get(i, 0xFE)) for i in range(size))
    return struct.pack("<I", len(blob)) + blob + bytes(texts)
