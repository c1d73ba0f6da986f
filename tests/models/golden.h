// Golden folders (tools/golden/golden.py): a Hugging Face model, a batch, and what transformers computes from it.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "hone/hub.h"
#include "hone/layers.h"
#include "hone/safetensors.h"
#include "tensor/compare.h"
#include "tensor/dtype.h"

namespace hone::test {

using at::Tensor;

inline const std::filesystem::path kGoldens = "tests/golden/models", kExperts = "tests/golden/experts",
                                   kDecoders = "tests/golden/decoders";

inline std::vector<std::string> golden_names(const std::filesystem::path& root = kGoldens) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root, ignored))
    if (std::filesystem::exists(entry.path() / "golden.safetensors")) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::map<std::string, Tensor> read_all(const std::filesystem::path& file) {
  const Safetensors source(file);
  std::map<std::string, Tensor> all;
  for (const TensorInfo& info : source.tensors()) {
    Tensor made = at::empty(info.shape, from_safetensors_name(info.dtype).value());
    source.read(info, {static_cast<std::byte*>(made.mutable_data_ptr()), made.nbytes()});
    all[info.name] = made;
  }
  return all;
}

// Targets at t from labels as files keep them: labels[t + 1], none at the end of a row.
inline Tensor shifted(const Tensor& labels_BT) {
  Tensor made = at::full_like(labels_BT, -100);
  made.slice(1, 0, -1).copy_(labels_BT.slice(1, 1));
  return made;
}

inline Batch make_batch(const Tensor& ids_BT, const Tensor& labels_BT, const Tensor& mask_BT) {
  Batch batch;
  batch.ids_BT = ids_BT;
  batch.labels_BT = shifted(labels_BT);
  batch.weight_BT = (batch.labels_BT != -100).to(at::kFloat);
  batch.segments_BT = mask_BT;
  batch.positions_BT = (mask_BT.cumsum(1) - 1).clamp_min(0);
  for (std::int32_t row = 0; row < ids_BT.size(0); ++row) {
    const std::int32_t real = mask_BT[row].sum().item<std::int32_t>(),
                       begin = mask_BT[row].argmax().item<std::int32_t>();
    if (real > 0) batch.docs.push_back({.row = row, .begin = begin, .end = begin + real});
  }
  batch.tokens = mask_BT.sum().item<std::int64_t>();
  batch.supervised = (batch.labels_BT != -100).sum().item<std::int64_t>();
  return batch;
}

struct Golden {
  explicit Golden(const std::string& name, const std::filesystem::path& root = kGoldens)
      : folder(root / name), tensors(read_all(folder / "golden.safetensors")) {}
  const Tensor& operator[](const std::string& name) const { return tensors.at(name); }

  std::unique_ptr<CausalLm> model(Precision precision = Precision::fp32,
                                  const std::string& config = "config.json") const {
    const std::string file = (folder / config).string();
    std::unique_ptr<Model> made = build_model(config::read_file(file), file);
    load_weights(*made, folder, precision);
    return std::unique_ptr<CausalLm>(dynamic_cast<CausalLm*>(made.release()));
  }
  // transformers chooses dynamic and longrope frequencies by the padded length; hone by each document's own. Taking the
  // padding on the right into the document gives transformers' choice (and changes nothing else).
  Batch batch() const {
    const bool by_length =
        folder.filename() == "rope-dynamic-long" || folder.filename().string().starts_with("rope-longrope");
    const Tensor mask = (*this)["attention_mask"];
    return make_batch((*this)["input_ids"], (*this)["labels"], by_length ? at::ones_like(mask) : mask);
  }
  std::filesystem::path folder;
  std::map<std::string, Tensor> tensors;
};

// Mean loss as transformers gives it, with its graph, and what layers added per token.
inline Tensor mean_loss(const CausalLm& model, const Batch& batch, Pass& pass) {
  const Output output = model.forward(batch, pass);
  Tensor loss = model.head().cross_entropy(output.hidden_BTD, batch.labels_BT, batch.weight_BT, pass) /
                static_cast<double>(batch.supervised);
  for (const LossTerm& term : pass.aux) loss = loss + term.sum / static_cast<double>(batch.tokens);
  return loss;
}

inline void expect_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  EXPECT_EQ(difference(got, expected, tolerance), "") << what;
}

}  // namespace hone::test
