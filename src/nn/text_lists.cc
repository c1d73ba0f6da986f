// Scores of queries with texts.
#include "nn/text_lists.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {

std::vector<std::vector<std::int64_t>> texts_of_queries(const Batch& batch) {
  std::map<std::int32_t, std::vector<std::int64_t>> of_group;
  for (std::size_t i = 0; i < batch.docs.size(); ++i)
    of_group[batch.docs[i].group].push_back(static_cast<std::int64_t>(i));
  std::vector<std::vector<std::int64_t>> all;
  for (auto& [group, texts] : of_group) all.push_back(std::move(texts));
  return all;
}

TextLists text_lists(const Model& model, const Output& output, const Batch& batch, Pass& pass) {
  const Tensor score_S = model.classifier()->logits(output, pass).squeeze(-1).to(at::kDouble);
  const std::vector<std::vector<std::int64_t>> queries = texts_of_queries(batch);
  std::size_t most = 0;
  for (const auto& texts : queries) most = std::max(most, texts.size());
  std::vector<std::int64_t> places(queries.size() * most, -1);
  for (std::size_t i = 0; i < queries.size(); ++i)
    std::ranges::copy(queries[i], places.begin() + std::ptrdiff_t(i * most));
  std::vector<double> usual;
  for (const Doc& doc : batch.docs) usual.push_back(doc.role == Role::chosen ? 1 : 0);
  const auto sent = [&](const auto& values, at::IntArrayRef shape) {
    return devices::sent(host::tensor_of(values, shape), score_S.device());
  };
  const Tensor place_QN = sent(places, {std::ssize(queries), static_cast<std::int64_t>(most)});
  TextLists made;
  made.there_QN = place_QN.ge(0);
  Tensor worth_S = sent(usual, {std::ssize(usual)});
  if (const auto said = batch.extra.find("score"); said != batch.extra.end()) {
    const Tensor said_S2 = said->second.to(score_S.device());
    worth_S = at::where(said_S2.select(1, 1).ne(0), said_S2.select(1, 0), worth_S);
  }
  const Tensor index = place_QN.clamp_min(0).flatten();
  const auto listed = [&](const Tensor& values_S) {
    return values_S.index_select(0, index).view(place_QN.sizes()).masked_fill(made.there_QN.logical_not(), 0);
  };
  made.score_QN = listed(score_S), made.worth_QN = listed(worth_S);
  return made;
}

}  // namespace hone::nn
