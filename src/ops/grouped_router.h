// A router's choice where experts come in groups, and where their scores may be corrected for the choice alone:
// DeepSeek-V2's (2024, arXiv:2405.04434) and DeepSeek-V3's (2024, arXiv:2412.19437).
//
// Letters: N tokens, E experts, K experts of a token, G groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ops/router.h"

namespace hone::ops {

struct GroupedRule {
  enum class Score { softmax, sigmoid } score = Score::softmax;  // of a logit
  bool by_logits = false;  // experts are chosen by logits: sigmoids of large ones are all 1. No correction, no groups.
  std::int64_t per_token = 1;
  // Experts lie in so many groups of one size, and of each token so many groups are looked at: those whose best experts
  // (one, or two together) are best.
  std::int64_t groups = 1, chosen_groups = 1, best_of_group = 1;
  bool normalise = false;  // the weights of a token's experts are made to sum to 1
  double floor = 1e-20;    // added to what they are divided by: of sigmoids that are all 0 nothing is left
  bool floor_is_least = false;  // it is not added: they are divided by it where their sum is less
  double scale = 1;        // of the weights, behind that
};

// As choose_experts(), by scores plus correction_E (undefined: nothing), which weights do not have; probability_E: of
// scores the sum, without its graph. REQUIRES: logits are fp32 or fp64, and as many experts in the chosen groups as a
// token wants.
Choice choose_by_groups(const at::Tensor& logits_NE, const at::Tensor& correction_E, const GroupedRule& rule,
                        bool with_sum);

// The same for one token, on plain memory; W: float or double. correction null: none. score: room for E, which are left
// there; room: what this needs besides, kept from call to call; weight, expert: room for K.
template <class W>
void choose_for_one_by_groups(const W* logits, std::int64_t experts, const W* correction, const GroupedRule& rule,
                              W* score, std::vector<W>& room, W* weight, std::int64_t* expert);

// What such a router's logits are: x weight^T in fp32 at least, of x and weight as they are.
at::Tensor wide_logits(const at::Tensor& x_ND, const at::Tensor& weight_ED);

}  // namespace hone::ops
