// Nash learning from human feedback by mirror descent (Munos et al., 2023, arXiv:2312.00886): an answer is learnt by
// how likely it is to be better than one of a mixture of the model and the reference.
//
// Letters: S answers.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "objectives/online_pairs.h"

namespace hone::objectives {

class NashMd : public OnlinePairs {
 public:
  struct Config : OnlinePairOptions {
    using Base = OnlinePairOptions;
    std::vector<double> mixture_coef{0.5};
    static constexpr auto fields() {
      return std::tuple_cat(
          OnlinePairOptions::fields(),
          std::tuple{field("mixture_coef", &Config::mixture_coef,
                           "The reference's share in the geometric mixture whose answers the model's are compared "
                           "with: 0 = the model itself, 1 = the reference. Several: of each epoch its own, the last "
                           "one of all that follow.")});
    }
    void validate(Problems& problems) const;
  };
  explicit NashMd(const Config& config) : OnlinePairs("nash_md", config), mixture_coef_(config.mixture_coef) {}
  std::optional<std::vector<std::string>> measures() const override;
  Sums sums(const Batch& batch) const override;
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override;

 protected:
  std::vector<GivenAnswer> answers_to(const std::vector<Asked>& asked, std::int64_t each, const SeedOfAnswer& seed,
                                      const StepContext& context, Environment& environment) const override;
  std::map<std::string, double> step_numbers(const StepContext& context) const override;
  Group learnable(const Judged& judged) const override;

 private:
  const std::vector<double> mixture_coef_;
};

}  // namespace hone::objectives
