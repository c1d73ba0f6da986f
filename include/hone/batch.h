// What flows through a training step as tensors: Batch in, LossTerms out.
//
// Letters in tensor names: B batch, T time, D hidden, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hone/data.h"

namespace hone {

namespace nn {
class Context;  // src/nn/context.h
}

using at::Tensor;

// Pictures of a batch (HostPictures), whose patches lie where the model computes: fp32 [P, values].
struct Pictures {
  std::vector<PictureSpan> spans = {};
  Tensor patches_PV = {};
};

// One micro-batch. labels_BT is the target AT t (already shifted, never across documents; of tagged records and steps
// the index of token t's own label; -100 = none);
// weight_BT is 0 where there is no label; segments_BT is 0 on padding and counts documents from 1; positions restart
// in each document. `docs` says the same as spans, ordered by (row, begin). Padding may lie on either side of a row.
struct Batch {
  Tensor ids_BT, labels_BT, weight_BT, segments_BT, positions_BT;  // int64, int64, float32, int64, int64
  std::vector<Doc> docs;
  // Of HostBatch: int64, [B,T] or, for what documents have, [docs], or numbers, fp64 [docs, width]; and what
  // Objective::document_numbers() gave. By a name that ends with "_places": places b * T + t of some tokens, int64. Of
  // HostBatch::taught "taught_ids" and "taught_log_probs", int64 and float32 [B,T,width].
  std::map<std::string, Tensor> extra;
  std::int64_t tokens = 0, supervised = 0;
  Pictures pictures = {};
  // Null: the batch is whole. Else several ranks compute it together, and this is one row of this rank's tokens of it,
  // without padding; docs are the parts of documents that lie there.
  std::shared_ptr<const nn::Context> context = {};

  std::int64_t rows() const { return ids_BT.size(0); }
  std::int64_t length() const { return ids_BT.size(1); }
  HONE_API Batch to(at::Device device) const;
};

// Copies host buffers into tensors.
HONE_API Batch to_batch(const HostBatch& host);

using Group = std::vector<Batch>;  // the micro-batches of one optimizer step
using Groups = std::vector<Group>;

// How a metric is combined over micro-batches, steps between two log lines, and ranks.
enum class LogMode { mean, last, max, sum, min };

// Amounts by name that add up over micro-batches and ranks.
using Sums = std::map<std::string, double>;

// A loss term: a sum over the micro-batch (a graph scalar, fp32 or fp64) and the name of what divides it.
// The trainer alone divides, once per term, by that amount over the whole step: "tokens", "rows" and "documents" are
// always there, others are what Objective::sums() counts.
struct LossTerm {
  std::string name;
  Tensor sum;
  std::string per = "targets";
};
struct Metric {
  double sum = 0, weight = 0;
  LogMode mode = LogMode::mean;
};
// A mean whose sum and weight lie where the model computes: read with all others at once, when the step is done. max,
// min: the largest or smallest value of a micro-batch, whose weight is 1, or 0 where it has none.
struct MeasuredMean {
  std::string name;
  Tensor sum, weight;  // scalars, without a graph
  LogMode mode = LogMode::mean;
};
struct LossTerms {
  std::vector<LossTerm> terms;
  std::map<std::string, Metric> metrics;
  std::vector<MeasuredMean> means = {};
};

}  // namespace hone
