// Uses the whole of an installed hone: the registries hold both halves' plug-ins, and tensors compute.
#include <ATen/core/Tensor.h>
#include <hone/registry.h>

#include <cstdio>

int main() {
  const hone::Registries& all = hone::registries();
  for (const std::string& name : all.models.names()) std::printf("model %s\n", name.c_str());
  return all.models.find("llama") != nullptr && all.optimizers.find("adamw") != nullptr && !all.sources.names().empty()
             ? 0
             : 1;
}
