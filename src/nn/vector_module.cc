// Dense and LayerNorm of vectors.
#include "nn/vector_module.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "hone/config_read.h"

namespace hone::nn {
namespace {

constexpr double kEps = 1e-5;  // torch's

using Function = Tensor (*)(const Tensor&);
constexpr auto kActivations = std::to_array<std::pair<std::string_view, Function>>(
    {{"torch.nn.modules.linear.Identity", [](const Tensor& x) { return x; }},
     {"torch.nn.modules.activation.Tanh", [](const Tensor& x) { return at::tanh(x); }},
     {"torch.nn.modules.activation.ReLU", [](const Tensor& x) { return at::relu(x); }},
     {"torch.nn.modules.activation.GELU", [](const Tensor& x) { return at::gelu(x); }},
     {"torch.nn.modules.activation.SiLU", [](const Tensor& x) { return at::silu(x); }},
     {"torch.nn.modules.activation.Sigmoid", [](const Tensor& x) { return at::sigmoid(x); }}});

const Function* function_of(std::string_view name) {
  const auto found = std::find_if(kActivations.begin(), kActivations.end(),
                                  [&](const auto& one) { return one.first == name; });
  return found == kActivations.end() ? nullptr : &found->second;
}

}  // namespace

bool knows_vector_activation(const std::string& name) { return function_of(name) != nullptr; }

VectorModule::VectorModule(VectorModuleForm form) : form_(std::move(form)) {
  if (form_.norms) norm_ = &child<LayerNorm>("norm", form_.in, kEps);
  else linear_ = &child<Linear>("linear", form_.in, form_.out, Linear::Options{.bias = form_.bias});
}

// In the weights' type, and back in the vectors'.
Tensor VectorModule::operator()(const Tensor& x_SD, const Pass& pass) const {
  const Weight& weight = norm_ ? norm_->weight : linear_->weight;
  const Tensor own_SD = x_SD.to(weight.use().scalar_type());
  if (norm_) return (*norm_)(own_SD).to(x_SD.scalar_type());
  return (*function_of(form_.activation))((*linear_)(own_SD, pass).to(x_SD.scalar_type()));
}

config::Node VectorModule::hf_config() const {
  config::Node node = config::Node::map();
  const auto number = [](std::int64_t value) { return config::Values<std::int64_t>::write(value); };
  if (form_.norms) {
    node.at_or_add("dimension") = number(form_.in);
    return node;
  }
  node.at_or_add("in_features") = number(form_.in);
  node.at_or_add("out_features") = number(form_.out);
  node.at_or_add("bias") = config::Values<bool>::write(form_.bias);
  node.at_or_add("activation_function") = config::Node::scalar(form_.activation, /*quoted=*/true);
  if (form_.of_tokens)
    for (const char* key : {"module_input_name", "module_output_name"})
      node.at_or_add(key) = config::Node::scalar("token_embeddings", /*quoted=*/true);
  return node;
}

std::vector<NamedVectorModule> vector_modules(const Model& model) {
  std::vector<NamedVectorModule> all;
  for (const auto& [name, one] : model.beside())
    if (const VectorModule* module = one->as_vector_module()) all.push_back({name, module});
  return all;
}

}  // namespace hone::nn
