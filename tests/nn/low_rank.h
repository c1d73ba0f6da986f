// An adapter for tests: y + scale * B (A x), with dropout before it on request.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <utility>

#include "hone/layers.h"
#include "hone/random.h"

namespace hone::test {

class LowRank final : public Adapter {
 public:
  // For a table, rows are looked up; otherwise x is multiplied. in_out: the weight is [in, out].
  struct Options {
    bool table = false, in_out = false;
    double scale = 0.5, dropout = 0;
  };
  LowRank(const Weight& weight, const Options& options, std::uint64_t seed) : options_(options) {
    const std::int64_t out = weight.shape()[options.in_out ? 1 : 0], in = weight.shape()[options.in_out ? 0 : 1];
    // A table is [rows, width]: its change is (B A)^T, with a column of A for each row.
    a_ = &parameter("lora_A.weight", {2, options.table ? out : in});
    b_ = &parameter("lora_B.weight", {options.table ? in : out, 2});
    std::uint64_t number = seed;
    each_weight([&](const std::string&, Weight& own) {
      const Random random(++number, "low rank");
      Tensor values = at::empty(own.shape(), at::kFloat);
      random.fill_normal({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())}, 0, 0, 0.3F);
      own.fill(values.to(weight.filled() ? weight.use().scalar_type() : at::kFloat));
    });
  }

  Tensor add(const Tensor& y, const Tensor& x, const Pass& pass) const override {
    if (options_.table) return y + at::embedding(a_->use().t(), x).matmul(b_->use().t()) * options_.scale;
    const Tensor dropped = nn::dropout(x, options_.dropout, pass, "low rank");
    return y + at::linear(at::linear(dropped, a_->use()), b_->use()) * options_.scale;
  }
  Tensor merged(const Tensor& weight) const override {
    const Tensor change = b_->use().matmul(a_->use()) * options_.scale;
    return weight + (options_.table || options_.in_out ? change.t() : change);
  }

 private:
  Options options_;
  Weight *a_ = nullptr, *b_ = nullptr;
};

// Puts one on the weight.
inline LowRank& adapt(Weight& weight, const LowRank::Options& options = {}, std::uint64_t seed = 1) {
  auto made = std::make_unique<LowRank>(weight, options, seed);
  LowRank& adapter = *made;
  weight.set_adapter(std::move(made));
  return adapter;
}

}  // namespace hone::test
