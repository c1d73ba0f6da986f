// Tokens and their rows of tables.
//
// Letters: V rows, D width.
#include "train/token_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/strings.h"
#include "hone/hub.h"
#include "hone/layers.h"
#include "nn/trained_rows.h"
#include "tensor/host.h"

namespace hone::training {
namespace {

constexpr std::int64_t kRowsLookedAt = 1000;  // rows of the data
constexpr std::size_t kNamed = 8;         // tokens

// null: there is none, or it learns, or it is not all here.
const Weight* still_head(const Model& model) {
  const CausalLm* lm = model.causal_lm();
  if (!lm || model.seq2seq_lm()) return nullptr;
  const Weight* head = nullptr;
  model.each_weight([&](const std::string&, const Weight& weight) {
    if (lm->head().is_weight(weight)) head = &weight;
  });
  const bool adapted = head && !lm->head().tied() && head->adapter();
  const bool there = head && head->filled() && head->is_there() && head->layout().whole() && !head->use().is_meta();
  return there && !head->trainable() && !adapted ? head : nullptr;
}

using TokenSet = std::set<std::int64_t>;

// By what their rows begin with: tokens that more than one has.
std::vector<TokenSet> alike_at_first(const Tensor& table_VD) {
  constexpr std::int64_t kFirst = 16;
  const Tensor some_VF = host::read(table_VD.narrow(1, 0, std::min(kFirst, table_VD.size(1))).contiguous());
  const auto bytes = host::bytes(some_VF);
  const std::size_t size = bytes.size() / static_cast<std::size_t>(some_VF.size(0));
  std::map<std::string_view, TokenSet> groups;
  for (std::int64_t token = 0; token < some_VF.size(0); ++token)
    groups[{reinterpret_cast<const char*>(bytes.data()) + size * static_cast<std::size_t>(token), size}].insert(token);
  std::vector<TokenSet> all;
  for (auto& [row, tokens] : groups)
    if (tokens.size() > 1) all.push_back(std::move(tokens));
  return all;
}

// Of these, those that the data teach, as far as they are looked at.
TokenSet learnt_of(const Dataset& data, const std::vector<TokenSet>& groups) {
  TokenSet wanted, learnt;
  for (const TokenSet& group : groups) wanted.insert(group.begin(), group.end());
  const std::int64_t stride = std::max<std::int64_t>(1, data.rows() / kRowsLookedAt);
  for (std::int64_t row = 0; row < data.rows() && learnt.size() < wanted.size(); row += stride)
    for (const HostDoc& doc : data.row(row))
      for (const std::int64_t token : doc.targets)
        if (wanted.contains(token)) learnt.insert(token);
  return learnt;
}

std::string shown(const Tokenizer& tokenizer, std::int64_t token) {
  const auto text = tokenizer.token_of(static_cast<std::int32_t>(token));
  return text ? fmt::format("{} ({})", hone::quoted(*text), token) : fmt::format("#{}", token);
}

std::optional<std::int64_t> same_row(const Tensor& table_VD, std::int64_t token, const TokenSet& group) {
  for (const std::int64_t other : group)
    if (other != token && at::equal(table_VD[token], table_VD[other])) return other;
  return std::nullopt;
}

std::string advice(const Model& model, bool adapted, const std::string& learnt) {
  if (!adapted) return "model.trainable, which leaves the head out, would have to take it in";
  if (!model.causal_lm()->head().tied()) return "adapter.modules_to_save: [lm_head] trains the head";
  return fmt::format("adapter.trainable_token_indices: [{}] trains such rows", learnt);
}

}  // namespace

LoraConfig with_token_numbers(LoraConfig config, const Tokenizer& tokenizer) {
  for (std::string& entry : config.trainable_token_indices) {
    if (parse_int(entry)) continue;
    const auto id = tokenizer.id_of(entry);
    if (!id)
      throw Error(ErrorKind::config,
                  fmt::format("adapter.trainable_token_indices: {}: no token of the tokenizer", hone::quoted(entry)))
          .hint("hone extend gives a model and its tokenizer new tokens");
    entry = std::to_string(*id);
  }
  return config;
}

std::vector<std::string> tokens_with_equal_rows(const Model& model, const Tokenizer& tokenizer, const Dataset& data,
                                                bool adapted) {
  const at::NoGradGuard no_grad;
  const Weight* head = still_head(model);
  if (!head) return {};
  std::vector<TokenSet> groups = alike_at_first(head->use());
  if (const auto* rows = dynamic_cast<const nn::TrainedRows*>(head->adapter()))
    for (const std::int64_t token : rows->tokens())
      for (TokenSet& group : groups) group.erase(token);
  const TokenSet learnt = learnt_of(data, groups);
  std::map<std::int64_t, std::int64_t> affected;  // each with one of the same row
  for (const TokenSet& group : groups)
    for (const std::int64_t token : group)
      if (learnt.contains(token) && affected.size() < kNamed)
        if (const auto other = same_row(head->use(), token, group)) affected[token] = *other;
  if (affected.empty()) return {};
  std::vector<std::string> names, numbers;
  for (const auto& [token, other] : affected)
    names.push_back(shown(tokenizer, token)), numbers.push_back(std::to_string(token));
  const std::string example = shown(tokenizer, affected.begin()->second);
  return {fmt::format(
      "{}: learnt, but the head, which is not trained, has {}: never the likeliest alone; {}", join(names, ", "),
      names.size() == 1 ? "the row of " + example + " for it" : "rows of other tokens for them, as that of " + example,
      advice(model, adapted, join(numbers, ", ")))};
}

}  // namespace hone::training
