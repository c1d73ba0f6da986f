// A router's choice for one token after another.
#include "ops/few_choices.h"

#include "ops/cpu/routed.h"

namespace hone::ops {

template <class T>
void choose_for_one(const T* logits, std::int64_t experts, const ChoiceOptions& options, cpu::Wide<T>* probability,
                    cpu::Wide<T>* weight, std::int64_t* expert) {
  cpu::routed_kernels<T>().softmax(logits, experts, probability);
  find_largest(probability, experts, options.per_token, expert);
  cpu::Wide<T> sum = 0;
  for (std::int64_t k = 0; k < options.per_token; ++k) sum += weight[k] = probability[expert[k]];
  for (std::int64_t k = 0; options.normalise && k < options.per_token; ++k) weight[k] /= sum;
}

template void choose_for_one(const float*, std::int64_t, const ChoiceOptions&, float*, float*, std::int64_t*);
template void choose_for_one(const double*, std::int64_t, const ChoiceOptions&, double*, double*, std::int64_t*);
template void choose_for_one(const c10::BFloat16*, std::int64_t, const ChoiceOptions&, float*, float*, std::int64_t*);

}  // namespace hone::ops
