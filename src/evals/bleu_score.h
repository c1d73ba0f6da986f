// BLEU (Papineni et al., 2002) of a set of answers, as sacrebleu computes it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "evals/bleu_tokens.h"

namespace hone::evals {

inline constexpr std::size_t kBleuOrder = 4;  // words of the longest n-gram

enum class BleuSmoothing { exp, floor, add_k, none };

// Of answers: they add up.
struct BleuCounts {
  std::array<double, kBleuOrder> hits = {}, all = {};  // n-grams of the answer that a reference has, and all of them
  double answer = 0, reference = 0;  // words; of the reference that is nearest to the answer in length
};
BleuCounts bleu_counts(const std::string& answer, const std::vector<std::string>& references, BleuTokens how,
                       bool lowercase);

struct BleuScore {
  double score = 0, brevity_penalty = 0;  // score: 0 to 100
  std::array<double, kBleuOrder> precisions = {};
};
// smooth_value: of floor and add_k; effective_order: n-grams that are longer than any answer do not count.
BleuScore bleu_score(const BleuCounts& counts, BleuSmoothing smoothing, double smooth_value, bool effective_order);

}  // namespace hone::evals

template <>
inline constexpr auto hone::config::enum_names<hone::evals::BleuSmoothing> =
    std::to_array<std::pair<hone::evals::BleuSmoothing, std::string_view>>(
        {{hone::evals::BleuSmoothing::exp, "exp"},
         {hone::evals::BleuSmoothing::floor, "floor"},
         {hone::evals::BleuSmoothing::add_k, "add-k"},
         {hone::evals::BleuSmoothing::none, "none"}});
