#!/usr/bin/env python3
# Questions about texts as windows of tokens, answers from scores, and how near they are, as transformers' run_qa.py
# with its postprocess_qa_predictions and SQuAD's official scripts have them: golden_questions.py ->
# tests/golden/data/questions/ (development time only). Small tokenizers are made on the way.
#
# One thing is not as in run_qa: there an answer that begins with the last token of a window begins at the row's end.
import collections
import json
import re
import shutil
import string

import numpy as np
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import golden_common as common

FOLDER = common.ROOT / "data" / "questions"
RIVER = ("The Amazon is a river in South America, and by discharge the largest one of the world. Its most distant "
         "source was for nearly a century thought to be the Apurímac river on Nevado Mismi; in 2014 a study found that "
         "it is the Mantaro in Peru — a cordillera away. The river is about 6,400 km long.")  # fmt: skip
ADA = "Ada Lovelace (1815–1852) was a mathematician. She met Charles Babbage in June 1833, at a party in London."
RECORDS = [
    (" Where is the Amazon?", RIVER, ["South America"]),
    ("How long is the river?", RIVER, ["about 6,400 km", "6,400 km"]),
    ("In which year did a study find the source?", RIVER, ["2014"]),
    ("Where is the Mantaro?", RIVER, ["Peru", "in Peru"]),
    ("Who swam the Amazon?", RIVER, []),
    ("Whom did Ada meet?", ADA, ["Charles Babbage", "Babbage"]),
    ("What was she?", ADA, ["a mathematician"]),
    ("When did they meet?", ADA, ["June 1833"]),
    ("Where?", "London", ["London"]),
    ("Who wrote it?", ADA, []),
]
CUTS = [(60, 12), (48, 0), (42, 9), (200, 128)]


def record_of(number):
    question, context, answers = RECORDS[number]
    starts = [context.index(answer) for answer in answers]
    return {"id": f"q{number}", "question": question, "context": context,
            "answers": {"text": answers, "answer_start": starts}}  # fmt: skip


def tokenizers():
    corpus = [text for question, context, _ in RECORDS for text in (question, context)]
    piece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    piece.normalizer = normalizers.BertNormalizer(lowercase=True)
    piece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    piece.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    piece.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special))
    piece.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    level = Tokenizer(models.BPE())
    level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    level.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<pad>", "</s>"]
    level.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet))
    level.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return {
        "wordpiece": hf.PreTrainedTokenizerFast(tokenizer_object=piece, pad_token="[PAD]", unk_token="[UNK]",
                                                cls_token="[CLS]", sep_token="[SEP]",
                                                model_input_names=["input_ids", "token_type_ids", "attention_mask"]),
        "bytelevel": hf.PreTrainedTokenizerFast(tokenizer_object=level, bos_token="<s>", eos_token="</s>",
                                                cls_token="<s>", sep_token="</s>", pad_token="<pad>"),
    }  # fmt: skip


def windows(tokenizer, record, most, stride):
    """Each window's ids, types, where its context is and what it learns."""
    made = tokenizer(record["question"].lstrip(), record["context"], truncation="only_second", max_length=most,
                     stride=stride, return_overflowing_tokens=True, return_offsets_mapping=True,
                     return_token_type_ids=True)  # fmt: skip
    out = []
    for i, ids in enumerate(made["input_ids"]):
        sides, offsets = made.sequence_ids(i), made["offset_mapping"][i]
        inside = [t for t, side in enumerate(sides) if side == 1]
        start = end = 0
        if record["answers"]["text"]:
            begin = record["answers"]["answer_start"][0]
            stop = begin + len(record["answers"]["text"][0])
            if offsets[inside[0]][0] <= begin and offsets[inside[-1]][1] >= stop:
                start = max(t for t in inside if offsets[t][0] <= begin)
                end = min(t for t in inside if offsets[t][1] >= stop)
        out.append({"ids": ids, "types": made["token_type_ids"][i], "first": inside[0], "start": start, "end": end,
                    "places": [list(offsets[t]) for t in inside]})  # fmt: skip
    return out


def best_answers(features, logits, context, n_best, longest, threshold):
    """postprocess_qa_predictions of one question; threshold None: there is an answer."""
    found, none = [], None
    for feature, (starts, ends) in zip(features, logits):
        starts, ends = np.array(starts, np.float32), np.array(ends, np.float32)
        score = starts[0] + ends[0]
        none = score if none is None else min(none, score)
        inside = range(feature["first"], feature["first"] + len(feature["places"]))
        for s in np.argsort(starts)[-1 : -n_best - 1 : -1].tolist():
            for e in np.argsort(ends)[-1 : -n_best - 1 : -1].tolist():
                if s not in inside or e not in inside or e < s or e - s + 1 > longest:
                    continue
                begin, stop = feature["places"][s - inside[0]][0], feature["places"][e - inside[0]][1]
                found.append((float(starts[s] + ends[e]), context[begin:stop], [begin, stop]))
    found.sort(key=lambda one: -one[0])
    if threshold is not None:
        found = sorted(found + [(float(none), "", None)], key=lambda one: -one[0])
    best = found[:n_best]
    if threshold is not None and all(text for _, text, _ in best):
        best.append((float(none), "", None))
    if not best:  # run_qa says "empty" then
        best = [(float(none), "", None)]
    shares = np.exp(np.array([score for score, _, _ in best]) - best[0][0])
    shares /= shares.sum()
    first = next((one for one in best if one[1]), None)
    given = best[0] if threshold is None else first
    if threshold is not None and (first is None or none - first[0] > threshold):
        given = (float(none), "", None)
    return {"best": [[text, score, float(share)] for (score, text, _), share in zip(best, shares)], "given": given[1],
            "null_difference": float(none) - (first[0] if first else float(none))}  # fmt: skip


def normal(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(given, good, second_version):
    given, good = normal(given).split(), normal(good).split()
    if second_version and (not given or not good):
        return int(given == good)
    same = sum((collections.Counter(given) & collections.Counter(good)).values())
    return 2 * same / (len(given) + len(good)) if same else 0


def score(given, good, second_version):
    if second_version:
        good = [one for one in good if normal(one)] or [""]
    exact = max(int(normal(given) == normal(one)) for one in good)
    return [exact, max(f1(given, one, second_version) for one in good)]


PAIRS = [("The  Amazon!", ["amazon"]), ("an Apple—a day", ["apple day", "apple— day"]), ("", []), ("x", []),
         ("", ["x"]),
         ("the", ["a"]), ("The", ["the thing"]), ("north of the city", ["the City", "south"]), ("a_b", ["ab"]),
         ("İstanbul", ["i̇stanbul"]), ("in 2014, Peru", ["2014", "Peru in 2014"]), ("the theatre", ["theatre theatre"]),
         ("Ж-а the", ["жа"])]  # fmt: skip


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    records = [record_of(number) for number in range(len(RECORDS))]
    (FOLDER / "squad.jsonl").write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records))
    golden = {"features": {}, "answers": [], "scores": []}
    made = tokenizers()
    for name, tokenizer in made.items():
        tokenizer.save_pretrained(FOLDER / name)
        golden["features"][name] = [
            {"max_length": most, "doc_stride": stride,
             "records": [windows(tokenizer, one, most, stride) for one in records]}
            for most, stride in CUTS
        ]  # fmt: skip
    random = np.random.default_rng(7)
    for record in records:
        features = windows(made["wordpiece"], record, 60, 12)
        logits = [[np.round(random.normal(0, 2, len(one["ids"])), 6).tolist() for _ in range(2)] for one in features]
        cases = [(20, 30, None), (20, 30, 0.0), (5, 3, None), (5, 3, -1.5), (2, 30, 4.0)]
        golden["answers"].append(
            {"logits": logits, "cases": [{"n_best": n, "max_answer_length": most, "null_threshold": threshold,
                                          **best_answers(features, logits, record["context"], n, most, threshold)}
                                         for n, most, threshold in cases]})  # fmt: skip
    for given, good in PAIRS:
        golden["scores"].append({"given": given, "good": good, "normal": normal(given),
                                 "second": score(given, good, True),
                                 "first": score(given, good, False) if good else None})  # fmt: skip
    (FOLDER / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")
    for file in FOLDER.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print(FOLDER, sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()))
