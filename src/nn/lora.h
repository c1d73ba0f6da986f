// LoRA (Hu et al., 2021, arXiv:2106.09685), its scaling for large ranks (Kalajdzievski, 2023, arXiv:2312.03732), DoRA
// (Liu et al., 2024, arXiv:2402.09353) and PiSSA (Meng et al., 2024, arXiv:2404.02948), with PEFT's formulas and names.
//
// Letters: R rank, I inputs, O outputs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hone/module.h"
#include "ops/linear_weight.h"

namespace hone::nn {

bool can_have_adapter(const Weight& weight);  // as its layer uses it

// What x W^T + b becomes: + scale * B (A dropout(x)). With DoRA each output is then scaled to a learnt magnitude.
class Lora final : public Adapter {
 public:
  struct Options {
    std::int64_t rank = 8;
    double scale = 1, dropout = 0;
    bool magnitude = false;  // DoRA
  };
  // REQUIRES: can_have_adapter(weight). bias: what is added to its product; null: none.
  // shared_a: the adapter of another weight with the same inputs whose A this one uses, too; null: it has its own.
  // place: tells its dropout from that of others in the same block.
  Lora(const Weight& weight, const Options& options, const Weight* bias, std::string place, Lora* shared_a = nullptr);
  static std::pair<std::int64_t, std::int64_t> sides_of(const Weight& weight);  // its outputs and inputs

  Tensor add(const Tensor& y, const Tensor& x, const Pass& pass) const override;
  std::vector<ops::LowRank> low_ranks(const Pass& pass) const override;
  Tensor merged(const Tensor& weight) const override;

  const Options& options() const { return options_; }
  Weight& a() { return *a_; }
  Weight& b() { return *b_; }
  Weight* magnitude() { return magnitude_; }
  bool owns_a() const { return owns_a_; }
  // Weights of its start that it goes on needing (PiSSA, OLoRA): [R,I] and [O,R]; undefined: none. Never trained.
  const Tensor& start_a() const { return start_a_; }
  const Tensor& start_b() const { return start_b_; }
  void set_start(Tensor a, Tensor b);

  // Of the weight's shape, in fp32 (fp64): what is added to it, without DoRA's scaling.
  Tensor change() const;
  Tensor norms_of(const Tensor& weight) const;  // of each output's weights, [O]; a magnitude begins with these

 private:
  Tensor product(const Tensor& x) const;
  Tensor as_product(const Tensor& weight) const;
  Tensor magnitude_scale() const;
  const ops::LowRank& start() const;

  const Weight& weight_;
  const Weight* bias_;
  std::string place_;
  Options options_;
  bool owns_a_;
  Weight *a_ = nullptr, *b_ = nullptr, *magnitude_ = nullptr;
  Tensor start_a_, start_b_;
  mutable ops::LowRank start_ = {};  // the same in the type that is computed in, once it is asked for
};

}  // namespace hone::nn
