#!/usr/bin/env python3
"""hone's training of an encoder beside its peer's: the same rows, the same steps, alternating processes.

  OMP_NUM_THREADS=2 python bench/encoders.py embedding --hone build/release/hone --rows FILE.jsonl --tokenizer FOLDER
  OMP_NUM_THREADS=2 python bench/encoders.py classification --hone build/release/hone --rows FILE.tsv --tokenizer FOLDER

embedding: FILE has a question and an answer per line, 64 pairs a step, sentence-transformers' trainer with
MultipleNegativesRankingLoss. classification: FILE has a label and a text per line, 32 texts a step, transformers'
Trainer. FOLDER holds BERT's tokenizer.json. The model: a BERT of hidden 384 and 6 layers (MiniLM's shape), texts of at
most 256 tokens, one epoch. hone runs in bf16. --peer: modes, separated by commas: fp32, bf16 (autocast). Both pad or
pack as they do by default. Needs torch, transformers and datasets, and sentence-transformers for embedding. Prints the
seconds of each run's steps, its peak memory, and the ratio to the fastest mode.
"""
import json
import os
import tempfile

import by_turns

LENGTH = 256
SHAPE = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
             max_position_embeddings=512)
BATCH = {"embedding": 64, "classification": 32}


def rows_of(options):
    with open(options.rows) as file:
        if options.kind == "embedding":
            read = (json.loads(line) for line in file)
            made = [{"query": row["question"], "positive": row["answer"]} for row, _ in zip(read, range(options.count))]
        else:
            read = (line.rstrip("\n").split("\t", 1) for line in file)
            made = [{"text": row[1], "label": row[0]} for row, _ in zip(read, range(options.count))]
    return made


def fast_tokenizer(options):
    from transformers import PreTrainedTokenizerFast
    return PreTrainedTokenizerFast(tokenizer_file=os.path.join(options.tokenizer, "tokenizer.json"), pad_token="[PAD]",
                                   cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]", mask_token="[MASK]",
                                   model_max_length=LENGTH)


def embedding_trainer(options, arguments, tokenizer):
    from datasets import Dataset
    from sentence_transformers import (SentenceTransformer, SentenceTransformerTrainer,
                                       SentenceTransformerTrainingArguments, losses, models)
    from transformers import BertConfig, BertModel
    folder = tempfile.mkdtemp()
    BertModel(BertConfig(vocab_size=len(tokenizer), **SHAPE)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    body = models.Transformer(folder, max_seq_length=LENGTH)
    model = SentenceTransformer(modules=[body, models.Pooling(SHAPE["hidden_size"])], device="cpu")
    return SentenceTransformerTrainer(model, SentenceTransformerTrainingArguments(**arguments),
                                      train_dataset=Dataset.from_list(rows_of(options)),
                                      loss=losses.MultipleNegativesRankingLoss(model))


def classification_trainer(options, arguments, tokenizer):
    from datasets import Dataset
    from transformers import (BertConfig, BertForSequenceClassification, DataCollatorWithPadding, Trainer,
                              TrainingArguments)
    rows = rows_of(options)
    labels = sorted({row["label"] for row in rows})
    data = Dataset.from_list([{**tokenizer(row["text"], truncation=True, max_length=LENGTH),
                               "label": labels.index(row["label"])} for row in rows])
    model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), num_labels=len(labels), **SHAPE))
    return Trainer(model, TrainingArguments(**arguments), train_dataset=data,
                   data_collator=DataCollatorWithPadding(tokenizer))


def run_peer(options, mode):
    import torch
    torch.manual_seed(0)
    arguments = dict(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=BATCH[options.kind], num_train_epochs=1,
                     bf16=mode == "bf16", use_cpu=True, report_to=[], save_strategy="no", logging_steps=1000,
                     disable_tqdm=True, dataloader_drop_last=True)
    make = embedding_trainer if options.kind == "embedding" else classification_trainer
    trainer = make(options, arguments, fast_tokenizer(options))
    by_turns.timed(trainer.train)


def hone(options, folder):
    data = {"max_length": LENGTH, "overlong": "keep_start"}
    if options.kind == "classification":
        data["packing"] = "none"  # rows of the batch are texts
    made = by_turns.run_hone(options, folder, rows_of(options), {
        "model": {"type": "bert", **SHAPE}, "tokenizer": os.path.abspath(options.tokenizer), "data": data,
        "objective": {"type": options.kind}, "optimizer": {"type": "adamw", "learning_rate": 2e-5},
        "trainer": {"batch_size": BATCH[options.kind]}})
    return {"seconds": made["in_steps"], "peak_memory": made["peak_memory"]}


if __name__ == "__main__":
    by_turns.main(__doc__, BATCH, hone, run_peer, count=512, peer="fp32,bf16", whose="the peer's")
