#!/usr/bin/env python3
# What rouge_score and sacrebleu say of answers: golden_written.py -> tests/golden/evals/written.json (development time
# only; rouge_score 0.1.2, nltk 3.10.4, sacrebleu 2.6.0).
#
# Texts are made: sentences of some languages, with marks, numbers, lines and what tokenizers part at, and others that
# differ from them in some words. Of each pair (or an answer with several references) ROUGE's numbers, of all together
# BLEU's and chrF's; and the stems of many words.
import random

import nltk
import rouge_score
import sacrebleu
from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer

import golden_common as common

SENTENCES = [
    "The quick brown foxes were jumping over the lazy dogs, happily and quietly.",
    "Police killed the gunman; \"nobody\" was injured (so far) in the 1,000.50 dollar raid of 1999-2000.",
    "It's the U.S.-based company's 3rd-quarter earnings: $4.5 million, up 10%... again!",
    "Der Präsident sagte: »Das Häuschen ist klein«, während Straßen überflutet wurden.",
    "L'été dernier, l'homme n'avait qu'une idée : partir à l'étranger.",
    "ΟΔΥΣΣΕΥΣ και ΣΟΦΟΣ, ΑΣ. σίγμα Σ'ΑΓΑΠΩ",
    "Они сказали, что ПОЕЗД придёт в 7:30 — но он опоздал на 2,5 часа.",
    "İSTANBUL'da IŞIK 20 K uzakta; the Kelvin sign is \u212a.",
    "他在北京大学学习,成绩是98.5分。 He said “你好” & left — 3–4 times.",
    "A&amp;B said &quot;x &lt; y &gt; z&quot; <skipped> and broke-\nlines too.",
    "words  with\ttabs\u00a0and\u3000odd   spaces \u2028 here",
    "e.g. 3.14, .5, 1-2, a-b, x_y, 10,000,000. end.",
    "Generalizations and organizational relational conditioning proceeded; skies dying, news howe innings flies died",
    "a",
    "",
    "...",
    "!!! ?? ,,, 1 , 2 . 3 -",
    "First line of a summary.\nThe second line says more.\n\nThe third repeats the first line of a summary.",
    "🙂 emoji €5 and ½ of ² × ÷ — °C ™",
]
LONG = "\n".join(SENTENCES[i] for i in (0, 1, 17, 12))


def changed(text, generator):
    words = text.split(" ")
    for _ in range(max(1, len(words) // 4)):
        place = generator.randrange(len(words))
        kind = generator.randrange(4)
        if kind == 0 and len(words) > 1:
            del words[place]
        elif kind == 1:
            words.insert(place, generator.choice(["the", "of", "9", "jumps,", "(x)", "und", "не"]))
        elif kind == 2:
            other = generator.randrange(len(words))
            words[place], words[other] = words[other], words[place]
        else:
            words[place] = words[place].upper() if generator.random() < 0.5 else words[place] + "s"
    return " ".join(words)


def pairs():
    generator = random.Random(5)
    all_texts = SENTENCES + [LONG, LONG]
    made = []
    for text in all_texts:
        made.append({"answer": changed(text, generator), "references": [text]})
    for text in all_texts[:12]:
        references = [changed(text, generator) for _ in range(generator.randrange(1, 4))]
        made.append({"answer": changed(text, generator), "references": [text] + references})
    made.append({"answer": SENTENCES[0], "references": [SENTENCES[0]]})
    made.append({"answer": SENTENCES[3], "references": [SENTENCES[0], ""]})
    made.append({"answer": "", "references": [SENTENCES[1]]})
    words = " ".join(SENTENCES[i] for i in (0, 1, 2, 17, 12)).split()
    for _ in range(6):  # words that were shifted, which are found with others as many as they are
        shifted = words[: generator.randrange(12, len(words))]
        for _ in range(4):
            start, length = generator.randrange(len(shifted)), generator.randrange(1, 7)
            block, shifted = shifted[start : start + length], shifted[:start] + shifted[start + length :]
            place = generator.randrange(len(shifted) + 1)
            shifted[place:place] = block
        made.append({"answer": " ".join(shifted), "references": [" ".join(words[:40])]})
    return made


KINDS = ["rouge1", "rouge2", "rougeL", "rougeLsum"]


def rouge(cases):
    for case in cases:
        for key, stems in (("rouge", False), ("rouge_stemmed", True)):
            scorer = rouge_scorer.RougeScorer(KINDS, use_stemmer=stems)
            scores = scorer.score_multi(case["references"], case["answer"])
            case[key] = [[scores[kind].precision, scores[kind].recall, scores[kind].fmeasure] for kind in KINDS]


def streams(cases):
    """sacrebleu's references: as many lists as the longest of ours, None where there is none."""
    most = max(len(case["references"]) for case in cases)
    return [[(case["references"] + [None] * most)[i] for case in cases] for i in range(most)]


BLEU = [{}, {"lowercase": True}, {"tokenize": "intl"}, {"tokenize": "intl", "lowercase": True}, {"tokenize": "char"},
        {"tokenize": "zh"}, {"tokenize": "none"}, {"smooth_method": "none"}, {"smooth_method": "floor"},
        {"smooth_method": "floor", "smooth_value": 0.3}, {"smooth_method": "add-k"},
        {"smooth_method": "add-k", "smooth_value": 2}, {"effective_order": True}]
CHRF = [{}, {"word_order": 2}, {"lowercase": True, "word_order": 1}, {"whitespace": True}, {"beta": 1, "char_order": 4}]


TER = [{}, {"normalized": True}, {"no_punct": True}, {"case_sensitive": True, "normalized": True, "no_punct": True}]


def of_set(answers, references):
    bleu, chrf, ter = [], [], []
    for options in BLEU:
        metric = sacrebleu.BLEU(**options)
        score = metric.corpus_score(answers, references)
        bleu.append({"options": options, "score": score.score, "precisions": score.precisions, "bp": score.bp,
                     "answer": score.sys_len, "reference": score.ref_len, "counts": score.counts,
                     "totals": score.totals, "signature": str(metric.get_signature())})
    for options in CHRF:
        metric = sacrebleu.CHRF(**options)
        chrf.append({"options": options, "score": metric.corpus_score(answers, references).score,
                     "signature": str(metric.get_signature())})
    for options in TER:
        metric = sacrebleu.TER(**options)
        score = metric.corpus_score(answers, references)
        ter.append({"options": options, "score": score.score, "edits": score.num_edits,
                    "reference": score.ref_length, "signature": str(metric.get_signature())})
    return {"bleu": bleu, "chrf": chrf, "ter": ter}


def sets(cases):
    """All; those without a hit of four words, of which smoothing decides; and texts of one or two words."""
    few = [case for case in cases if len(case["answer"]) < 8]
    apart = [{"answer": "the cat sat down on a mat", "references": ["a dog lay down on the carpet", "cat on mat"]},
             {"answer": "no word is here", "references": ["jede menge andere"]}]
    short = [{"answer": "yes sir", "references": ["yes sir", "yes"]}, {"answer": "no", "references": ["no"]}]
    for part in (cases, few, apart, short):
        yield {"cases": part, **of_set([case["answer"] for case in part], streams(part))}


STEMS = """caresses ponies ties caress cats feed agreed disabled matting mating meeting milling messing meetings
sized siezed hopping tanned falling hissing fizzed failing filing happy sky enjoy spied died flies dies relational
conditional rational valenci hesitanci digitizer conformabli radicalli differentli vileli analogousli vietnamization
predication operator feudalism decisiveness hopefulness callousness formaliti sensitiviti sensibiliti triplicate
formative formalize electriciti electrical hopeful goodness revival allowance inference airliner gyroscopic adjustable
defensible irritant replacement adjustment dependent adoption homologou communism activate angulariti homologous
effective bowdlerize probate rate cease controll roll geology theology archaeology apologies really usefully finally
yyyy syzygy toy say easily ally rally national nationality bookkeeping skiing agreeing eed ied bed bled sing king
abc123 2000s x9ings owed oing as is us its business busily obey obeying dying lying tying innings outing cannings
proceed exceeding succeed sensational organization possibli trouble troubles private oaten ivy oats tr ee by""".split()


def main():
    cases = pairs()
    made = list(sets([dict(case) for case in cases]))
    rouge(cases)
    stemmer = PorterStemmer()
    stems = [[word, stemmer.stem(word)] for word in STEMS]
    value = {"stems": stems, "rouge": cases, "sets": made}
    common.write_json(common.ROOT / "evals" / "written.json", value, "tools/golden/golden_written.py", indent=None)


if __name__ == "__main__":
    main()
