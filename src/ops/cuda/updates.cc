// Optimizers' updates by a kernel of ours around the rule of one element.
#include "hone/error.h"
#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

// As update.cu has it.
constexpr std::size_t kMostStates = 3;
struct Weight {
  void *master, *gradient, *states[kMostStates], *rounded;
  int is_half;
};

void elements(const ElementUpdate& update) {
  HONE_ASSERT(update.states.size() <= kMostStates);
  const at::Tensor& master = update.master;
  const std::int64_t count = master.numel();
  bool wide = wide_rows(count, {master, update.gradient, update.rounded});
  Weight weight{parameter(master), parameter(update.gradient), {}, parameter(update.rounded), 0};
  weight.is_half = update.rounded.defined() && update.rounded.scalar_type() == at::kHalf ? 1 : 0;
  for (std::size_t i = 0; i < update.states.size(); ++i) {
    weight.states[i] = parameter(update.states[i]);
    wide = wide && wide_rows(count, {update.states[i]});
  }
  void* scale = parameter(update.scale);
  long long all = count;
  int is_wide = wide ? 1 : 0;
  std::vector<std::byte> constants(update.constants.begin(), update.constants.end());
  const Argument arguments[] = {{&weight, sizeof(weight)},
                                {constants.data(), constants.size()},
                                {static_cast<void*>(&scale), sizeof(scale)},
                                {&all, sizeof(all)},
                                {&is_wide, sizeof(is_wide)}};
  launch_with({"update", "update", update.rule}, master, over_all(count / values_at_once(master, wide)), arguments);
}

}  // namespace

Backend::Updates updates() { return {elements}; }

}  // namespace hone::ops::cuda_table
