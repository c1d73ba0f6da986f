// What every model's goldens are asked: with kernels and without, each gradient, ten AdamW steps, the configuration.
#pragma once

#include <functional>
#include <set>

#include "models/adamw.h"
#include "models/golden.h"
#include "ops/kernels.h"

namespace hone::test {

struct GoldenParam {
  std::string name;
  bool kernels;
  ops::Level level() const { return kernels ? ops::Level::amx : ops::Level::reference; }
};

inline std::vector<GoldenParam> golden_params(const std::vector<std::string>& names) {
  std::vector<GoldenParam> all;
  for (const std::string& name : names)
    for (const bool kernels : {true, false}) all.push_back({name, kernels});
  return all;
}

inline std::string print_golden(const testing::TestParamInfo<GoldenParam>& info) {
  std::string text = info.param.name + (info.param.kernels ? "_kernels" : "_reference");
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

using LossOf = std::function<Tensor(Pass&)>;

// Of the golden's weight, for expect_golden_gradients(). Input gates that are all larger by the same number change next
// to nothing: their bias's gradient is a small sum of large parts, off by 2e-5 of itself in transformers' own fp32. Of
// xIELU's steepness parts of all tokens cancel. A bias of all keys that are not rotated changes nothing: zero, but for
// roundings.
inline double floor_of_decoder(const std::string& golden, const std::string& weight) {
  const bool unrotated = golden.starts_with("opt") || golden.starts_with("biogpt") || golden.starts_with("xglm") ||
                         golden == "llama4-plain";  // in its last layer
  if (unrotated && weight.ends_with("k_proj.bias")) return 1e-2;
  return weight.ends_with("igate_preact.bias") || weight.find("act_fn.alpha") != weight.npos ? 1e-2 : 1e-3;
}

// After backward(). `floor_of` gives, of a weight, the share of the model's largest gradient that its own counts as at
// least.
inline void expect_golden_gradients(
    Model& model, const std::map<std::string, Tensor>& golden,
    const std::function<double(const std::string&)>& floor_of = [](const std::string&) { return 1e-3; },
    double tolerance = 1e-5) {
  double model_largest = 0;
  std::int64_t there = 0, seen = 0;
  for (const auto& [name, tensor] : golden)
    if (name.starts_with("grad.")) model_largest = std::max(model_largest, largest(tensor)), ++there;
  model.each_weight([&](const std::string& name, Weight& weight) {
    if (weight.is_buffer()) return;
    const Tensor& expected = golden.at("grad." + name);
    expect_close(weight.grad().cpu(), expected,
                 tolerance * std::max(largest(expected), floor_of(name) * model_largest), name);
    ++seen;
  });
  EXPECT_EQ(seen, there);
}

inline void expect_ten_golden_steps(Model& model, const Batch& batch, const Tensor& expected, const LossOf& loss_of,
                                    bool training, double tolerance = 1e-5) {
  AdamW optimizer;
  std::vector<float> losses;
  for (int t = 1; t <= 10; ++t) {
    Pass pass(batch);
    pass.training = training;
    const Tensor loss = loss_of(pass);
    losses.push_back(loss.item<float>());
    loss.backward();
    optimizer.step(model, t);
  }
  expect_close(at::tensor(losses), expected, tolerance, "losses");
}

inline void expect_same_config(const std::filesystem::path& folder, const Model& model,
                               const std::set<std::string>& but = {"transformers_version"}) {
  const config::Node source = config::read_file((folder / "config.json").string());
  for (const config::Change& change : config::diff(source, model.hf_config()))
    if (!but.contains(change.path))
      ADD_FAILURE() << change.path << ": was " << change.before << ", is " << change.after;
}

// A language model's folder below `root`, and what is asked of each.
class LanguageGolden : public testing::TestWithParam<GoldenParam> {
 protected:
  explicit LanguageGolden(const std::filesystem::path& root = kGoldens) : golden_(GetParam().name, root) {}

  void expect_logits(const CausalLm& model, const Batch& batch, const std::string& what = "logits") const {
    const Tensor logits = model.logits(batch) * golden_["attention_mask"].unsqueeze(-1);
    expect_close(logits, golden_["logits"], 1e-5 * std::max(1.0, largest(golden_["logits"])), what);
  }
  using FloorOf = std::function<double(const std::string&)>;
  void expect_every_gradient(bool training, const FloorOf& floor_of = [](const std::string&) { return 1e-3; }) const {
    const auto model = golden_.model();
    const Batch batch = golden_.batch();
    Pass pass(batch);
    pass.training = training;
    mean_loss(*model, batch, pass).backward();
    expect_golden_gradients(*model, golden_.tensors, floor_of);
  }
  void expect_ten_steps(bool training) const {
    const auto model = golden_.model();
    const Batch batch = golden_.batch();
    expect_ten_golden_steps(
        *model, batch, golden_["ten_losses"], [&](Pass& pass) { return mean_loss(*model, batch, pass); }, training);
  }

  ops::LevelScope scope_{GetParam().level()};
  const Golden golden_;
};

// Loss, gradients, and what was measured of one pass in training; the gradients are cleared.
using Gradients = std::map<std::string, Tensor>;
inline Gradients gradients(CausalLm& model, const Batch& batch, bool checkpoint) {
  Pass pass(batch);
  pass.training = true;
  pass.checkpoint_blocks = checkpoint;
  const Tensor loss = mean_loss(model, batch, pass);
  loss.backward();
  Gradients all{{"loss", loss.detach()}};
  for (const auto& [name, metric] : pass.metrics) all["metric " + name] = at::tensor({metric.sum, metric.weight});
  model.each_weight([&](const std::string& name, Weight& w) {
    if (!w.is_buffer()) all[name] = w.grad().clone(), w.clear_grad();
  });
  return all;
}

}  // namespace hone::test
