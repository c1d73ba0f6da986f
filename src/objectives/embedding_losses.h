// Losses of vectors of texts: of pairs that are to lie near each other, among all that a step has.
//
// Letters: P pairs, O other documents.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "objectives/embedded_texts.h"

namespace hone {
namespace objectives {

// Those of multiple_negatives_ranking alone, as an objective's options have them.
struct RankingOptions {
  const std::vector<Direction>& directions;
  PartitionMode partition_mode;
  const std::optional<HardnessMode>& hardness_mode;
  double hardness_strength;
};
// What is wrong with them, by their names.
void check_ranking(EmbeddingLoss type, const RankingOptions& options, Problems& problems);

// Whether a query's own document is to be told from others of the step.
bool is_ranking(EmbeddingLoss type);
// Whether pairs have a score, which is learnt.
bool learns_scores(EmbeddingLoss type);
// Whether a query's texts have scores of a teacher, which are learnt.
bool learns_teachers(EmbeddingLoss type);
// Whether texts stand alone, each with a label.
bool learns_labels(EmbeddingLoss type);
// Whether a pair's loss depends on others of the step.
bool compares_pairs(EmbeddingLoss type);
bool has_temperature(EmbeddingLoss type);
bool has_margin(EmbeddingLoss type);  // by which something is to be farther away
// Whether the loss is of triplets, of which each other document is one.
bool is_of_others(EmbeddingLoss type);
// What the sum of losses is divided by: "pairs", "triplets" or "texts".
const char* counted_of(EmbeddingLoss type);

// Of each pair, or text that stands alone, [P], or of each triplet, [O]; from the first `dims` numbers of the vectors
// (0: all).
Tensor losses_of(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings, std::int64_t dims);
// Of each of them whether the nearest document is the right one, or as the teacher has it; undefined: there is none to
// compare with.
Tensor right_ones(const EmbeddedTexts& texts, const EmbeddingLossSettings& settings);

}  // namespace objectives
}  // namespace hone
