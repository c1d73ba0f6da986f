// AdamW as the golden makers use it, for models alone.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "hone/model.h"

namespace hone::test {

// Plain AdamW as torch.optim's, with the goldens' settings, on all that is trained.
struct AdamW {
  std::map<std::string, std::pair<Tensor, Tensor>> moments;
  void step(Model& model, int t) {
    const at::NoGradGuard no_graph;
    double squares = 0;
    model.each_with_adapters([&](const std::string&, Weight& w) {
      if (w.trainable()) squares += w.grad().to(at::kDouble).square().sum().item<double>();
    });
    const double clip = std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
    model.each_with_adapters([&](const std::string& name, Weight& w) {
      if (!w.trainable()) return;
      const double lr = 1e-3 * w.learning_rate_scale();
      auto& [m, v] = moments[name];
      if (!m.defined()) m = at::zeros_like(w.use()), v = at::zeros_like(w.use());
      const Tensor g = w.grad() * clip;
      if (w.decays()) w.value().mul_(1 - lr * 0.1);
      m.mul_(0.9).add_(g, 0.1);
      v.mul_(0.999).addcmul_(g, g, 0.001);
      const Tensor scale = (v.sqrt() / std::sqrt(1 - std::pow(0.999, t))).add_(1e-8);
      w.value().addcdiv_(m, scale, -lr / (1 - std::pow(0.9, t)));
      w.clear_grad();
    });
  }
};

}  // namespace hone::test
