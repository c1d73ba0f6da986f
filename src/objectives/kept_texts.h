// What evaluations keep of texts that are to be found: their vectors, behind what is known of each.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "hone/batch.h"
#include "hone/tracker.h"

namespace hone::objectives {

// A kept document.
struct Kept {
  Role role = Role::none;
  std::int64_t text = 0;  // equal for equal texts
  double score = 0;
  bool scored = false;
  std::int64_t label = 0;  // equal for texts of one label; 0: it has none
};

// Of each of a batch's documents what stands before its vector, as fp32: [documents, kKeptHead], on the host.
inline constexpr std::int64_t kKeptHead = 9;
Tensor kept_heads(const Batch& batch);
// The same again, of rows that begin with it.
std::vector<Kept> heads_of(const Tensor& rows);

// What is asked and what is found: each text once.
struct Corpus {
  std::vector<std::int64_t> queries, documents;  // numbers of what was kept
  std::vector<std::set<std::int64_t>> right;     // of each query: numbers in `documents`
};
Corpus corpus_of(const std::vector<Kept>& all);

inline constexpr std::int64_t kNearest = 10;  // so many documents of each query are looked at
// Of one query: its nearest documents, the nearest first. Adds queries, accuracy@1, mrr@10 and ndcg@10.
void count_query(std::span<const std::int64_t> nearest, const std::set<std::int64_t>& right, Sums& sums);

// Of texts with labels: of each the nearest ones, itself among them, the nearest first, so that kNearest others are
// there. Texts without another of their label are passed over. Adds the same.
class ClassCounts {
 public:
  explicit ClassCounts(const std::vector<Kept>& all);  // warns where no two have the same label
  void count(std::int64_t text, std::span<const std::int64_t> nearest, Sums& sums) const;

 private:
  const std::vector<Kept>& all_;
  std::map<std::int64_t, std::int64_t> size_of_;  // label -> texts
};
// Whether a set has labels; Error(data): of_classes, and it has none, or some records have and some have not.
bool are_of_classes(const std::vector<Kept>& all, bool of_classes);

// Of pairs' likeness, and their scores: pairs, and the correlation of ranks with how many sets have one.
void count_scores(const std::vector<double>& likeness, const std::vector<double>& scores, Sums& sums);
inline constexpr const char* kSpearman = "spearman";

// Error(data): a set to be measured by scores has records without one. True: all have one.
bool are_scored(const std::vector<Kept>& all, bool by_score);

// The means that these sums are; spearman: by which name.
Metrics means_of_kept(const Sums& total, const char* spearman);

}  // namespace hone::objectives
