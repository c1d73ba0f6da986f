// Adapters of PEFT beside the goldens of their bases (tools/golden/golden_lora.py).
#pragma once

#include "hone/adapter.h"
#include "hub/adapter_files.h"
#include "models/golden_checks.h"

namespace hone::test {

inline const std::filesystem::path kAdapters = "tests/golden/adapters";

// PEFT's file of one that begins as a part of the weights goes with a base that is not the one in its folder.
inline bool goes_with_its_base(const std::string& golden) { return golden != "pissa" && golden != "olora"; }

// A base's golden folder with an adapter's own beside it.
struct AdapterGolden {
  explicit AdapterGolden(const std::string& name)
      : folder(kAdapters / name),
        config(hub::read_adapter_config(folder)),
        tensors(read_all(folder / "golden.safetensors")),
        base((folder / config.base).lexically_normal().filename(),
             (folder / config.base).lexically_normal().parent_path()) {}
  const Tensor& operator[](const std::string& name) const { return tensors.at(name); }
  // With the adapter of its folder.
  std::unique_ptr<CausalLm> model(Precision precision = Precision::fp32) const {
    auto made = base.model(precision);
    load_adapter(*made, folder, {.precision = precision});
    return made;
  }
  Tensor logits(const CausalLm& model, const std::string& adapter = kDefaultAdapter) const {
    const at::NoGradGuard no_grad;
    const Batch batch = base.batch().to(model.device());
    Pass pass(batch);
    pass.adapter = adapter;
    const Tensor logits = model.head().logits(model.forward(batch, pass).hidden_BTD, pass).cpu();
    return logits * base["attention_mask"].unsqueeze(-1);
  }
  // Of experts PEFT's loss has the router's; GPT-2 would drop.
  bool trains() const { return config.base.find("experts") != std::string::npos; }
  // After backward(). As PEFT's files name the weights: A of stacked experts is one tensor there.
  void expect_gradients(Model& model, double tolerance) const {
    double model_largest = 0;
    std::size_t there = 0;
    for (const auto& [name, tensor] : tensors)
      if (name.starts_with("grad.")) model_largest = std::max(model_largest, largest(tensor)), ++there;
    const auto gradient = [](Weight& weight) {
      return weight.grad().defined() ? weight.grad().cpu() : at::zeros(weight.shape());
    };
    const auto adapters = hub::adapter_tensors(model, kDefaultAdapter, config.lora.modules_to_save);
    EXPECT_EQ(adapters.size(), there);
    for (const hub::AdapterTensor& tensor : adapters) {
      const bool magnitude = tensor.name.ends_with("magnitude_vector");
      const Tensor& expected = (*this)["grad." + tensor.name + (magnitude ? ".weight" : "")];
      expect_close(tensor.made(gradient), expected, tolerance * std::max(largest(expected), 1e-3 * model_largest),
                   tensor.name);
    }
  }
  std::filesystem::path folder;
  hub::AdapterConfig config;
  std::map<std::string, Tensor> tensors;
  Golden base;
};

}  // namespace hone::test
