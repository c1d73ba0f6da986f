// A router whose choice goes by groups of experts and may be corrected, as DeepSeek's: ops/grouped_router.h.
//
// Letters: N tokens, D hidden, E experts.
#pragma once

#include <cstdint>

#include "hone/model.h"
#include "hone/module.h"
#include "ops/grouped_router.h"
#include "ops/row_groups.h"

namespace hone::nn {

struct RoutedForm;

// What routers whose options say `balances` add up in the pass: of each expert, how many tokens a softmax would choose
// it for without a correction.
inline constexpr const char* kLikeliestSlots = "router/likeliest_slots";

class GroupedRouter final : public Module {
 public:
  struct Options {
    ops::GroupedRule rule = {};
    bool corrected = false;  // whether there is a correction
    // How much more or less an expert's correction becomes after an update in which it had fewer or more tokens than
    // the mean; 0: corrections stay as they are.
    double correction_rate = 0;
    bool correction_is_row = false;  // of shape [1, E], not [E]
    // In training, whether there is a balancing loss. It is of a softmax over the logits and of what that would choose,
    // whatever the rule is (transformers' load_balancing_loss_func).
    bool balances = false;
    const char *weight = "weight", *correction = "e_score_correction_bias";  // their names
  };
  GroupedRouter(std::int64_t hidden, std::int64_t experts, const Options& options, double std);
  // Logits are made in fp32 at least, of what the run's weights are: a rounded one would turn the choice.
  ops::Choice operator()(const Tensor& x_ND, Pass& pass) const;
  void describe(RoutedForm& form) const;  // what it says of the short way's experts (nn/decoding)
  // In training: how many tokens each expert was given, for the correction.
  void observe(const ops::RowGroups& slots, Pass& pass) const;

 private:
  Tensor correction() const;
  Tensor balanced(const Tensor& logits_NE, Pass& pass) const;  // what Choice::probability_E is for the loss

  Options options_;
  Weight& weight_;
  Weight* correction_ = nullptr;  // null: none
};

}  // namespace hone::nn
