// Activations by their names.
#include "hone/layers.h"

#include <fmt/format.h>

#include <array>

#include "ops/gated.h"

namespace hone::nn {

ops::Activation read_activation(const std::string& name, const std::string& path, Problems& problems) {
  using A = ops::Activation;
  constexpr std::array<std::pair<std::string_view, A>, 6> names = {{{"silu", A::silu},
                                                                    {"swish", A::silu},
                                                                    {"gelu", A::gelu},
                                                                    {"gelu_pytorch_tanh", A::gelu_tanh},
                                                                    {"gelu_new", A::gelu_tanh},
                                                                    {"relu", A::relu}}};
  for (const auto& [known, activation] : names)
    if (name == known) return activation;
  problems.add(path,
               fmt::format("got \"{}\", expected silu, swish, gelu, gelu_pytorch_tanh, gelu_new or relu", name));
  return A::silu;
}

ops::Activation read_activation(const std::string& name) {
  Problems problems;
  const ops::Activation activation = read_activation(name, "the activation", problems);
  problems.raise("the model's configuration");
  return activation;
}

at::Tensor activate(const at::Tensor& x, ops::Activation activation) { return ops::reference::activate(x, activation); }

}  // namespace hone::nn
