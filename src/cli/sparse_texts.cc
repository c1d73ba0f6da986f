// Sparse vectors of texts.
#include "cli/sparse_texts.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "base/env.h"
#include "io/safetensors_writer.h"
#include "tensor/host.h"

namespace hone::cli {

std::vector<SparseText> sparse_texts(const Tensor& rows_SV) {
  const auto values = host::values<float>(rows_SV);
  const auto width = static_cast<std::size_t>(rows_SV.size(1));
  std::vector<SparseText> all(static_cast<std::size_t>(rows_SV.size(0)));
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < width; ++j) {
      const float weight = values[i * width + j];
      if (weight == 0) continue;
      all[i].ids.push_back(static_cast<std::int64_t>(j));
      all[i].weights.push_back(weight);
    }
  return all;
}

std::string sparse_line(const SparseText& text, const Tokenizer& tokenizer) {
  std::vector<std::size_t> order(text.ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return text.weights[a] > text.weights[b]; });
  nlohmann::ordered_json ids = nlohmann::ordered_json::array(), tokens = ids, weights = ids;
  for (const std::size_t i : order) {
    ids.push_back(text.ids[i]);
    tokens.push_back(tokenizer.token_of(static_cast<std::int32_t>(text.ids[i])).value_or(""));
    weights.push_back(text.weights[i]);
  }
  const nlohmann::ordered_json line = {{"ids", ids}, {"tokens", tokens}, {"weights", weights}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::int64_t active(const std::vector<SparseText>& texts) {
  return std::accumulate(texts.begin(), texts.end(), std::int64_t{0},
                         [](std::int64_t sum, const SparseText& one) { return sum + std::ssize(one.ids); });
}

void write_sparse(const std::string& path, const std::vector<SparseText>& texts, std::int64_t vocab) {
  std::vector<std::int64_t> rows{0}, columns, shape{std::ssize(texts), vocab};
  std::vector<float> values;
  for (const SparseText& one : texts) {
    columns.insert(columns.end(), one.ids.begin(), one.ids.end());
    values.insert(values.end(), one.weights.begin(), one.weights.end());
    rows.push_back(std::ssize(columns));
  }
  const std::map<std::string, std::span<const std::byte>> bytes = {
      {"col_indices", std::as_bytes(std::span(columns))},
      {"crow_indices", std::as_bytes(std::span(rows))},
      {"shape", std::as_bytes(std::span(shape))},
      {"values", std::as_bytes(std::span(values))}};
  io::replace_safetensors(Env::process(), path,
                          {{"col_indices", "I64", {std::ssize(columns)}},
                           {"crow_indices", "I64", {std::ssize(rows)}},
                           {"shape", "I64", {2}},
                           {"values", "F32", {std::ssize(values)}}},
                          {{io::kHolds, kHeldEmbeddings}},
                          [&](const io::TensorSpec& one) { return bytes.at(one.name); }, ErrorKind::checkpoint);
}

}  // namespace hone::cli
