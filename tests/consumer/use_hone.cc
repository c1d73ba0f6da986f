// Uses the whole of an installed hone: the registries hold both halves' plug-ins, and tensors compute.
#include <ATen/core/Tensor.h>
#include <hone/registry.h>
#include <hone/trainer.h>

#include <cstdio>

namespace {

// A run's parts and states are there, and say what they lack.
bool refuses_an_empty_state() {
  try {
    hone::TrainState::create({.optimizer = hone::read_optimizer("{type: adamw, learning_rate: 1e-3}")});
  } catch (const hone::Error& error) {
    return error.kind() == hone::ErrorKind::usage;
  }
  return false;
}

}  // namespace

int main() {
  const hone::Registries& all = hone::registries();
  for (const std::string& name : all.models.names()) std::printf("model %s\n", name.c_str());
  const bool parts = hone::RunData::from_json("{\"max_training_steps\": 3}").max_training_steps == 3;
  return all.models.find("llama") != nullptr && all.optimizers.find("adamw") != nullptr &&
                 !all.sources.names().empty() && refuses_an_empty_state() && parts
             ? 0
             : 1;
}
