// Trained rows, looked up and as a part of a head.
#include "nn/trained_rows.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/strings.h"
#include "ops/embedding.h"
#include "ops/linear.h"

namespace hone::nn {

TrainedRows::TrainedRows(const Weight& table, std::vector<std::int64_t> tokens)
    : tokens_(std::move(tokens)), table_rows_(table.shape().at(0)) {
  HONE_ASSERT(table.shape().size() == 2 && table.use_as() == WeightUse::table && !tokens_.empty());
  rows_ =
      &parameter("token_adapter.trainable_tokens_delta", {static_cast<std::int64_t>(tokens_.size()), table.shape()[1]},
                 {.kind = Init::Kind::zeros, .std = 0});
}

void TrainedRows::start_as(const Weight& table) {
  const at::NoGradGuard no_grad;
  set_device(table.device());
  const Tensor whole = table.whole();
  const auto wide = at::toOpMathType(whole.scalar_type());
  rows_->fill(whole.is_meta() ? at::empty(rows_->shape(), whole.options().dtype(wide).requires_grad(false))
                              : whole.index_select(0, tokens_on(whole)).to(wide));
}

const Tensor& TrainedRows::tokens_on(const Tensor& other) const {
  if (!tokens_N_.defined() || tokens_N_.device() != other.device())
    tokens_N_ = at::tensor(tokens_, at::TensorOptions().dtype(at::kLong)).to(other.device());
  return tokens_N_;
}

const Tensor& TrainedRows::places_on(const Tensor& other) const {
  if (places_V_.defined() && places_V_.device() == other.device()) return places_V_;
  std::vector<std::int64_t> places(static_cast<std::size_t>(table_rows_), -1);
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    places[static_cast<std::size_t>(tokens_[i])] = static_cast<std::int64_t>(i);
  places_V_ = at::tensor(places, at::TensorOptions().dtype(at::kLong)).to(other.device());
  return places_V_;
}

Tensor TrainedRows::add(const Tensor& y, const Tensor& ids, const Pass&) const {
  const Tensor places = places_on(ids).index_select(0, ids.flatten()).view_as(ids);
  const Tensor own = ops::embedding(rows_->use(), places.clamp_min(0), /*no_gradient_id=*/-1, rows_->gradient_sum());
  return at::where((places >= 0).unsqueeze(-1), own.to(y.scalar_type()), y);
}

Tensor TrainedRows::merged(const Tensor& table_VD) const {
  const at::NoGradGuard no_grad;
  return in_table(table_VD);
}

Tensor TrainedRows::in_table(const Tensor& table_VD) const {
  return table_VD.index_copy(0, tokens_on(table_VD), rows_->use().to(table_VD.scalar_type()));
}

Tensor TrainedRows::in_logits(const Tensor& logits, const Tensor& hidden, const Tensor& bias_V) const {
  const Tensor& tokens_N = tokens_on(logits);
  const Tensor bias_N = bias_V.defined() ? bias_V.index_select(0, tokens_N) : Tensor();
  const Tensor own = ops::linear(hidden, {rows_->use().to(hidden.scalar_type()), bias_N});
  return logits.index_copy(-1, tokens_N, own.to(logits.scalar_type()));
}

std::vector<std::int64_t> token_numbers(const std::vector<std::string>& entries, std::int64_t rows,
                                        const std::string& option) {
  std::vector<std::int64_t> tokens;
  std::set<std::int64_t> seen;
  const auto refuse = [&](const std::string& fact) { throw Error(ErrorKind::config, option + ": " + fact); };
  for (const std::string& entry : entries) {
    const auto token = parse_int(entry);
    if (!token) refuse(fmt::format("got {}, expected the number of a token", hone::quoted(entry)));
    if (*token < 0 || *token >= rows) refuse(fmt::format("got {}, expected 0 to {}", *token, rows - 1));
    if (!seen.insert(*token).second) refuse(fmt::format("{} is there twice", *token));
    tokens.push_back(*token);
  }
  return tokens;
}

}  // namespace hone::nn
