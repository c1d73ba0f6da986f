// Rows of a table that are trained while the table stays as it is: PEFT's trainable tokens, with its names.
//
// Letters: V rows, D width, N trained rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hone/module.h"

namespace hone::nn {

// Holds the rows themselves, not what is added to them. A head that is tied to the table makes its outputs with them,
// too (nn::Head): as in PEFT both learn the same rows.
class TrainedRows final : public Adapter {
 public:
  // REQUIRES: a table of two dimensions; tokens within it, each once.
  TrainedRows(const Weight& table, std::vector<std::int64_t> tokens);

  Tensor add(const Tensor& y, const Tensor& ids, const Pass& pass) const override;  // looked up
  Tensor merged(const Tensor& table_VD) const override;

  // The table with the rows in their places, with a graph: for losses that never hold all logits.
  Tensor in_table(const Tensor& table_VD) const;
  // What a product of hidden states [..., D] with the table has made, [..., V], as if the rows stood in it. bias_V:
  // what was added; undefined: nothing. Costs a product with the rows alone.
  Tensor in_logits(const Tensor& logits, const Tensor& hidden, const Tensor& bias_V) const;

  const std::vector<std::int64_t>& tokens() const { return tokens_; }  // in the order of the rows
  Weight& rows() { return *rows_; }
  void start_as(const Weight& table);  // fills the rows with those of the table, in fp32 (fp64); REQUIRES: it is filled

 private:
  const Tensor& tokens_on(const Tensor& other) const;
  const Tensor& places_on(const Tensor& other) const;
  std::vector<std::int64_t> tokens_;
  std::int64_t table_rows_;
  Weight* rows_;
  mutable Tensor tokens_N_, places_V_;  // where they were wanted last; -1: not trained
};

// The table's rows that a recipe or a file names: the numbers of tokens in their order. Throws Error(config): one that
// is no number, none of the table's, or there twice.
std::vector<std::int64_t> token_numbers(const std::vector<std::string>& entries, std::int64_t rows,
                                        const std::string& option = "adapter.trainable_token_indices");

}  // namespace hone::nn
