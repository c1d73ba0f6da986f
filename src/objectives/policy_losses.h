// What reinforcement learning makes of how likely answers are now, were when they were given, and are to a reference.
//
// Letters: N tokens, S answers.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "hone/config.h"

namespace hone::objectives {

// By the names that TRL's GRPO has for them. What each of an answer's tokens says is added up over tokens; how these
// are weighed against each other:
enum class PolicyLoss {
  dapo,     // all tokens of a step alike (Yu et al., 2025, arXiv:2503.14476)
  grpo,     // all answers alike, each by the mean of its tokens (Shao et al., 2024, arXiv:2402.03300)
  dr_grpo,  // tokens alike, by the longest an answer may be (Liu et al., 2025, arXiv:2503.20783)
  cispo,    // as dapo; clips the weight of a token's gradient instead of its ratio (arXiv:2506.13585)
  sapo,     // as grpo; a sigmoid instead of clipping (arXiv:2511.20347)
  luspo,    // answers by their length (arXiv:2602.05261)
  vespo,    // as dapo; answers weighed by a gamma function of their ratio (arXiv:2602.10693)
  gmpo,     // answers alike, each by the geometric mean of its tokens' ratios, clipped before (arXiv:2507.20673)
};
enum class RatioLevel { token, sequence };

struct PolicyLossOptions {
  PolicyLoss loss_type = PolicyLoss::dapo;
  RatioLevel level = RatioLevel::token;  // sequence: GSPO's (Zheng et al., 2025, arXiv:2507.18071)
  double epsilon = 0.2;                     // of gmpo in logarithms: ratios from e^-epsilon to e^epsilon_high
  std::optional<double> epsilon_high = {};  // default: epsilon
  std::optional<double> delta = {};         // the most that a ratio counts for
  double beta = 0;                          // of the divergence from the reference
  bool corrects_divergence = true;          // it is multiplied by the ratio
  std::optional<double> off_policy_threshold = {};
  double sapo_temperature_pos = 1, sapo_temperature_neg = 1.05;
  double vespo_k_pos = 2, vespo_lambda_pos = 3, vespo_k_neg = 3, vespo_lambda_neg = 2;
  double high() const { return epsilon_high.value_or(epsilon); }
  // Between which ratios nothing is clipped.
  double least_ratio() const;
  double most_ratio() const;
};

// Of all tokens of a batch; what is no token of an answer has a mask of 0.
struct PolicyTokens {
  at::Tensor log_probs_N;   // a graph
  at::Tensor old_N;         // when the answers were given; undefined: as now
  at::Tensor reference_N;   // undefined: there is none
  at::Tensor mask_N;        // 1, 0; of the type of log_probs_N
  at::Tensor documents_N;   // int64: which answer; S: none
  at::Tensor learnt_N;      // 1 where advantages act, 0 elsewhere; undefined: everywhere
  at::Tensor advantages_S;  // fp64
  at::Tensor entropy_N;     // a graph, where objectives learn from it
  std::int64_t answers() const { return advantages_S.numel(); }
};

// What is learnt and what is told of it, without a graph but for the first.
struct PolicyTerms {
  at::Tensor losses_N;                   // of each token, times its mask; undefined: losses_S
  at::Tensor losses_S;                   // gmpo's
  at::Tensor divergence_N;               // undefined: no reference
  at::Tensor low_clipped, high_clipped;  // 1 where a ratio is clipped; of tokens or, by level, of answers
  at::Tensor weights_S;                  // vespo's; undefined: another loss
};
PolicyTerms policy_terms(const PolicyTokens& tokens, const PolicyLossOptions& options);

// -min(r A, clip(r) A) of whole answers, r = exp(log_ratio): RLOO's (Ahmadian et al., 2024, arXiv:2402.14740).
struct AnswerTerms {
  at::Tensor losses_S, low_clipped_S, high_clipped_S;
};
AnswerTerms answer_terms(const at::Tensor& log_ratio_S, const at::Tensor& advantages_S, double epsilon, double high);

}  // namespace hone::objectives

template <>
inline constexpr auto hone::config::enum_names<hone::objectives::PolicyLoss> =
    std::to_array<std::pair<hone::objectives::PolicyLoss, std::string_view>>(
        {{hone::objectives::PolicyLoss::dapo, "dapo"},
         {hone::objectives::PolicyLoss::grpo, "grpo"},
         {hone::objectives::PolicyLoss::dr_grpo, "dr_grpo"},
         {hone::objectives::PolicyLoss::cispo, "cispo"},
         {hone::objectives::PolicyLoss::sapo, "sapo"},
         {hone::objectives::PolicyLoss::luspo, "luspo"},
         {hone::objectives::PolicyLoss::vespo, "vespo"},
         {hone::objectives::PolicyLoss::gmpo, "gmpo"}});
template <>
inline constexpr auto hone::config::enum_names<hone::objectives::RatioLevel> =
    std::to_array<std::pair<hone::objectives::RatioLevel, std::string_view>>(
        {{hone::objectives::RatioLevel::token, "token"}, {hone::objectives::RatioLevel::sequence, "sequence"}});
