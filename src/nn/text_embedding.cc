// Vectors of texts.
#include "nn/text_embedding.h"

#include <ATen/ATen.h>

#include <vector>

#include "base/strings.h"
#include "hone/config.h"
#include "nn/vector_module.h"
#include "tensor/by_document.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

constexpr double kShortest = 1e-12;  // a vector's length, as torch's normalize() takes it

Tensor on_device_of(const std::vector<std::int64_t>& values, const Tensor& x) {
  return devices::sent(host::tensor_of(values, {std::ssize(values)}), x.device());
}

// One token of each document.
Tensor tokens_at(const Tensor& x_ND, const Batch& batch, bool first) {
  std::vector<std::int64_t> places;
  for (const Doc& doc : batch.docs) places.push_back(doc.row * batch.length() + (first ? doc.begin : doc.end - 1));
  return x_ND.index_select(0, on_device_of(places, x_ND));
}

Tensor means(const Tensor& x_ND, const Batch& batch) {
  std::vector<double> lengths;
  for (const Doc& doc : batch.docs) lengths.push_back(doc.end - doc.begin);
  const std::int64_t documents = std::ssize(batch.docs);
  const Tensor sums_SD = at::zeros({documents + 1, x_ND.size(1)}, x_ND.options())
                             .index_add(0, documents_of_tokens(batch), x_ND)
                             .narrow(0, 0, documents);
  const Tensor lengths_S1 = devices::sent(host::tensor_of(lengths, {documents, 1}), x_ND.device());
  return sums_SD / lengths_S1.to(x_ND.scalar_type());
}

}  // namespace

Pooling usual_pooling(const Model& model) { return model.causal_lm() ? Pooling::last : Pooling::mean; }

std::int64_t embedding_width(const Model& model) {
  const std::vector<NamedVectorModule> modules = vector_modules(model);
  return modules.empty() ? pooled_width(model) : modules.back().module->form().out;
}

std::int64_t pooled_width(const Model& model) {
  if (model.seq2seq_lm())
    throw Error(ErrorKind::config, "vectors of texts: the model has an encoder and a decoder; expected one of both");
  std::int64_t width = 0;
  model.each_weight([&](const std::string&, const Weight& weight) {
    const std::vector<std::int64_t>& shape = weight.shape();
    if (width == 0 && shape.size() == 2 && shape[0] == model.vocab_size()) width = shape[1];  // the table of words
  });
  if (width == 0) throw Error(ErrorKind::config, "the model has no table of words, whose width its vectors have");
  const config::Node config = model.hf_config();  // a table may be narrower, as ALBERT's
  const bool narrower = config.find("embedding_size") || config.find("input_embedding_size");
  if (const config::Node* hidden = config.find("hidden_size"); hidden && narrower)
    return parse_int(hidden->text()).value_or(width);
  return width;
}

Tensor pooled(const Output& output, const Batch& batch, Pooling pooling) {
  const Tensor hidden_ND = output.hidden_BTD.flatten(0, 1);
  const Tensor wide_ND = hidden_ND.to(at::promote_types(hidden_ND.scalar_type(), at::kFloat));
  if (pooling == Pooling::mean) return means(wide_ND, batch);
  return tokens_at(wide_ND, batch, pooling == Pooling::cls);
}

Tensor vectors_of(const Model& model, const Output& output, const Batch& batch, Pooling pooling, const Pass& pass) {
  Tensor x_SD = pooled(output, batch, pooling);
  for (const NamedVectorModule& one : vector_modules(model)) x_SD = (*one.module)(x_SD, pass);
  return x_SD;
}

Tensor unit_rows(const Tensor& rows, std::int64_t dims) {
  const Tensor kept = dims > 0 ? rows.narrow(1, 0, dims) : rows;
  return kept / kept.square().sum(1, /*keepdim=*/true).sqrt().clamp_min(kShortest);
}

}  // namespace hone::nn
