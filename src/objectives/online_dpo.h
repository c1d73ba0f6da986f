// Online DPO (Guo et al., 2024, arXiv:2402.04792): of two answers that the model has just given, the better one becomes
// likelier than the other, measured as in DPO by how much likelier each is than with the reference.
//
// Letters: P pairs.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "objectives/online_pairs.h"

namespace hone::objectives {

enum class OnlineLoss { sigmoid, ipo };

class OnlineDpo : public OnlinePairs {
 public:
  struct Config : OnlinePairOptions {
    using Base = OnlinePairOptions;
    OnlineLoss loss_type = OnlineLoss::sigmoid;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple_cat(
          OnlinePairOptions::fields(),
          std::tuple{field("loss_type", &C::loss_type,
                           "What is made of how much likelier the better answer is than the other one, by the model "
                           "and by the reference: DPO's sigmoid, or the square of IPO, of whole answers.")});
    }
    void validate(Problems& problems) const;
  };
  explicit OnlineDpo(const Config& config) : OnlineDpo("online_dpo", config) {}
  std::optional<std::vector<std::string>> measures() const override;
  LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override;

 protected:
  OnlineDpo(const std::string& name, const Config& config) : OnlinePairs(name, config), loss_type_(config.loss_type) {}
  // What a batch's pairs are: its answers' likelihoods, and of each pair whether the first is the chosen one, and
  // whether somebody said so.
  struct BatchPairs {
    const Batch& batch;
    AnswerLikelihoods likelihoods;
    Tensor first_P, known_P, beta;
    Tensor chosen(const Tensor& values_S) const;
    Tensor rejected(const Tensor& values_S) const;
  };
  // Adds the losses, of which `dpo_P` is the pairs', and what is told of answers' worth.
  virtual void add_losses(const BatchPairs& pairs, const Tensor& dpo_P, LossTerms& result) const;
  virtual void tell_worth(const BatchPairs& pairs, LossTerms& result) const;
  virtual std::vector<std::string> further_measures() const;

 private:
  Tensor losses(const BatchPairs& pairs) const;
  OnlineLoss loss_type_;
};

}  // namespace hone::objectives

template <>
inline constexpr auto hone::config::enum_names<hone::objectives::OnlineLoss> =
    std::to_array<std::pair<hone::objectives::OnlineLoss, std::string_view>>(
        {{hone::objectives::OnlineLoss::sigmoid, "sigmoid"}, {hone::objectives::OnlineLoss::ipo, "ipo"}});
