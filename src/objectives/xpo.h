// Exploratory preference optimization (Xie et al., 2024, arXiv:2405.21046): online DPO of an answer of the model's and
// one of the reference's, with a term that makes the reference's answer less likely, so that the model tries others.
//
// Letters: P pairs.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "objectives/online_dpo.h"

namespace hone::objectives {

class Xpo : public OnlineDpo {
 public:
  struct Config : OnlineDpo::Config {
    using Base = OnlineDpo::Config;
    std::vector<double> alpha{1e-5};
    static constexpr auto fields() {
      return std::tuple_cat(OnlineDpo::Config::fields(),
                            std::tuple{field("alpha", &Config::alpha,
                                             "Weight of the term that makes the reference's answers less likely; 0 = "
                                             "none. Several: of each epoch its own, the last one of all that follow.",
                                             config::at_least(0))});
    }
    void validate(Problems& problems) const;
  };
  explicit Xpo(const Config& config) : OnlineDpo("xpo", config), alpha_(config.alpha) {}

 protected:
  std::vector<GivenAnswer> answers_to(const std::vector<Asked>& asked, std::int64_t each, const SeedOfAnswer& seed,
                                      const StepContext& context, Environment& environment) const override;
  std::map<std::string, double> step_numbers(const StepContext& context) const override;
  void add_losses(const BatchPairs& pairs, const Tensor& dpo_P, LossTerms& result) const override;
  void tell_worth(const BatchPairs& pairs, LossTerms& result) const override;
  std::vector<std::string> further_measures() const override;

 private:
  const std::vector<double> alpha_;
};

}  // namespace hone::objectives
