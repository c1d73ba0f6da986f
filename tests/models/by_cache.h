// Texts through the key/value cache, a few tokens at a time, against the same texts whole.
#pragma once

#include "models/golden.h"
#include "nn/kv_cache.h"

namespace hone::test {

// Feeds `chunk` tokens at a time, rows of different lengths side by side, and collects each row's logits.
inline std::vector<Tensor> by_cache(const CausalLm& model, const std::vector<std::vector<std::int64_t>>& texts,
                             std::int64_t chunk) {
  const at::NoGradGuard no_graph;
  const std::int64_t rows = std::ssize(texts);
  nn::KvCache cache(model.cache_spec(), rows);
  std::vector<std::vector<Tensor>> parts(texts.size());
  for (bool more = true; more;) {
    more = false;
    Batch batch;
    batch.ids_BT = at::zeros({rows, chunk}, at::kLong);
    for (std::int32_t row = 0; row < rows; ++row) {
      const std::int64_t done = cache.length(row), left = std::ssize(texts[row]) - done;
      const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(chunk, left));
      if (count <= 0) continue;
      const auto begin = static_cast<std::int32_t>(chunk - count);  // padded on the left
      for (std::int32_t t = 0; t < count; ++t) batch.ids_BT[row][begin + t] = texts[row][done + t];
      batch.docs.push_back({.row = row, .begin = begin, .end = static_cast<std::int32_t>(chunk)});
      more |= left > count;
    }
    Pass pass(batch);
    pass.cache = &cache;
    const Tensor logits = model.head().logits(model.forward(batch, pass).hidden_BTD, pass);
    for (const Doc& doc : batch.docs) parts[doc.row].push_back(logits[doc.row].slice(0, doc.begin, doc.end));
  }
  std::vector<Tensor> all;
  for (const auto& part : parts) all.push_back(at::cat(part));
  return all;
}

// fp32 logits after one more token of each row, through the layers.
inline Tensor through_layers(const CausalLm& model, const std::vector<std::int32_t>& ids, nn::KvCache& cache) {
  Batch batch;
  batch.ids_BT = at::tensor(ids, at::kLong).unsqueeze(1);
  Pass pass(batch);
  pass.cache = &cache;
  return model.head().logits(model.forward(batch, pass).hidden_BTD.flatten(0, 1), pass).to(at::kFloat);
}

inline void expect_cache_is_whole_pass(const CausalLm& model, const std::string& name) {
  std::vector<std::vector<std::int64_t>> texts;
  for (const std::int64_t length : {40, 3, 23})
    for (texts.emplace_back(); std::ssize(texts.back()) < std::min(length, model.max_positions());)
      texts.back().push_back((7 * std::ssize(texts.back()) + length) % model.vocab_size());
  for (const std::int64_t chunk : {1, 5, 40}) {
    const auto cached = by_cache(model, texts, chunk);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Batch batch;
      batch.ids_BT = at::tensor(texts[i], at::kLong).unsqueeze(0);
      expect_close(cached[i], model.logits(batch)[0], 2e-5,
                   name + " row " + std::to_string(i) + " by " + std::to_string(chunk));
    }
  }
}

// Rows of four tokens come and go, and one is there twice: each goes on with its own.
inline void expect_rows_keep_their_past(const CausalLm& model, std::int64_t bytes_of_rows) {
  const at::NoGradGuard no_graph;
  const std::vector<std::vector<std::int64_t>> texts{{5, 9, 2, 33, 7}, {11, 40, 3, 8, 60}, {21, 22, 23, 24, 25}};
  nn::KvCache cache(model.cache_spec(), 3);
  Batch batch;
  batch.ids_BT = at::zeros({3, 4}, at::kLong);
  for (std::int32_t row = 0; row < 3; ++row) {
    for (std::int64_t t = 0; t < 4; ++t) batch.ids_BT[row][t] = texts[row][t];
    batch.docs.push_back({.row = row, .end = 4});
  }
  Pass pass(batch);
  pass.cache = &cache;
  model.forward(batch, pass);
  EXPECT_EQ(cache.bytes(), bytes_of_rows);
  cache.keep({2, 0, 2});
  EXPECT_EQ(cache.bytes(), bytes_of_rows);
  const Tensor next = through_layers(model, {25, 7, 25}, cache);
  for (const auto& [row, text] : {std::pair{0, 2}, {1, 0}, {2, 2}}) {
    Batch whole;
    whole.ids_BT = at::tensor(texts[text], at::kLong).unsqueeze(0);
    expect_close(next[row], model.logits(whole)[0][4], 2e-5, std::to_string(row));
  }
}

}  // namespace hone::test
