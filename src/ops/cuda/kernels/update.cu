// An optimizer's update of a weight, element by element, by the Element of a file of src/optim/elements, whose text
// stands before this one.
#include "ops/cuda/kernels/types.h"

using Wide = WideOf<HONE_VALUE>::type;  // of masters, gradients and states

constexpr int kMostStates = 3;

struct Weight {
  Wide* master;
  const Wide* gradient;
  Wide* states[kMostStates];
  void* rounded;  // null: there is none
  int is_half;    // it is fp16, else bf16
};

template <class One>  // Element<Wide>
HONE_DEVICE void update_one(const One& element, Wide gradient, Wide& master, Wide* states) {
  if constexpr (One::kStates == 1) element.update(gradient, master, states[0]);
  if constexpr (One::kStates == 2) element.update(gradient, master, states[0], states[1]);
  if constexpr (One::kStates == 3) element.update(gradient, master, states[0], states[1], states[2]);
}

template <int kCount, class T>
HONE_DEVICE void store_rounded(void* to, Int pack, const Pack<Wide, kCount>& values) {
  Pack<T, kCount> made;
  for (int k = 0; k < kCount; ++k) round_to(made.at[k], static_cast<float>(values.at[k]));
  store<kCount>(static_cast<T*>(to), pack, made);
}

template <int kCount>
HONE_DEVICE void update_pack(const Weight& weight, const Element<Wide>& element, Wide scale, Int pack) {
  constexpr int kStates = Element<Wide>::kStates;
  Pack<Wide, kCount> master = load<kCount>(weight.master, pack), states[kStates];
  const Pack<Wide, kCount> gradient = load<kCount>(weight.gradient, pack);
  for (int s = 0; s < kStates; ++s) states[s] = load<kCount>(weight.states[s], pack);
  for (int k = 0; k < kCount; ++k) {
    Wide own[kStates];
    for (int s = 0; s < kStates; ++s) own[s] = states[s].at[k];
    update_one(element, gradient.at[k] * scale, master.at[k], own);
    for (int s = 0; s < kStates; ++s) states[s].at[k] = own[s];
  }
  store<kCount>(weight.master, pack, master);
  for (int s = 0; s < kStates; ++s) store<kCount>(weight.states[s], pack, states[s]);
  if (!weight.rounded) return;
  if (weight.is_half)
    store_rounded<kCount, Half>(weight.rounded, pack, master);
  else
    store_rounded<kCount, Bf16>(weight.rounded, pack, master);
}

template <int kCount>
HONE_DEVICE void update_all(const Weight& weight, const Element<Wide>& element, Wide scale, Int count) {
  const Int step = static_cast<Int>(gridDim.x) * blockDim.x;
  for (Int i = static_cast<Int>(blockIdx.x) * blockDim.x + threadIdx.x; i < count / kCount; i += step)
    update_pack<kCount>(weight, element, scale, i);
}

// given_scale: null, 1.
HONE_KERNEL update(Weight weight, Element<Wide> element, const double* given_scale, Int count, int wide) {
  const Wide scale = given_scale ? static_cast<Wide>(*given_scale) : 1;
  if (scale != scale) return;
  if (wide)
    update_all<Widest<Wide>::kCount>(weight, element, scale, count);
  else
    update_all<1>(weight, element, scale, count);
}
