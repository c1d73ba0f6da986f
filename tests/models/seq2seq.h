// Goldens of models with an encoder and a decoder (tools/golden/golden_seq2seq.py) as batches.
#pragma once

#include "models/golden.h"

namespace hone::test {

inline const std::filesystem::path kSeq2Seq = "tests/golden/seq2seq";

// A source and its target: what the decoder reads, and what it is to say at each of these tokens.
struct Pair {
  std::vector<std::int64_t> source, target, labels;
};

// Row after row, each of them in one; or all in one row.
inline Batch batch_of(const std::vector<Pair>& pairs, bool packed) {
  std::int64_t longest = 0, all = 0;
  for (const Pair& pair : pairs) {
    const std::int64_t length = std::ssize(pair.source) + std::ssize(pair.target);
    longest = std::max(longest, length), all += length;
  }
  Batch batch;
  batch.ids_BT = at::zeros({packed ? 1 : std::ssize(pairs), packed ? all : longest}, at::kLong);
  batch.labels_BT = at::full_like(batch.ids_BT, -100);
  std::int32_t begin = 0;
  for (std::int32_t i = 0; i < std::ssize(pairs); ++i) {
    const std::int32_t row = packed ? 0 : i;
    if (!packed) begin = 0;
    const auto put = [&](const std::vector<std::int64_t>& ids, Role role) {
      const std::int32_t end = begin + static_cast<std::int32_t>(ids.size());
      batch.ids_BT[row].slice(0, begin, end).copy_(at::tensor(ids, at::kLong));
      batch.docs.push_back({.row = row, .begin = begin, .end = end, .role = role, .group = i});
      if (role == Role::target) batch.labels_BT[row].slice(0, begin, end).copy_(at::tensor(pairs[i].labels, at::kLong));
      begin = end;
    };
    put(pairs[i].source, Role::source);
    put(pairs[i].target, Role::target);
  }
  batch.weight_BT = (batch.labels_BT != -100).to(at::kFloat);
  batch.tokens = all, batch.supervised = (batch.labels_BT != -100).sum().item<std::int64_t>();
  return batch;
}

inline std::vector<std::int64_t> values_of(const Tensor& x) {
  const Tensor held = x.contiguous();
  return {held.const_data_ptr<std::int64_t>(), held.const_data_ptr<std::int64_t>() + held.numel()};
}

// As transformers reads them: a target is its labels one place later, with padding where there is none.
inline std::vector<Pair> pairs_of(const Golden& golden, const Seq2SeqLm& model) {
  const config::Node hf_config = model.hf_config();
  const std::int64_t pad = std::stoll(hf_config.find("pad_token_id")->text());
  std::vector<Pair> pairs;
  for (std::int64_t row = 0; row < golden["input_ids"].size(0); ++row) {
    Pair pair;
    pair.source =
        values_of(golden["input_ids"][row].slice(0, 0, golden["attention_mask"][row].sum().item<std::int64_t>()));
    pair.labels = values_of(golden["labels"][row]);
    while (pair.labels.back() == -100) pair.labels.pop_back();
    pair.target = {model.decoder_start()};
    for (std::size_t i = 0; i + 1 < pair.labels.size(); ++i)
      pair.target.push_back(pair.labels[i] == -100 ? pad : pair.labels[i]);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

// What the model says at the targets' tokens, document after document.
inline std::vector<Tensor> of_targets(const Tensor& x_BTV, const Batch& batch) {
  std::vector<Tensor> all;
  for (const Doc& doc : batch.docs)
    if (doc.role == Role::target) all.push_back(x_BTV[doc.row].slice(0, doc.begin, doc.end));
  return all;
}

}  // namespace hone::test
