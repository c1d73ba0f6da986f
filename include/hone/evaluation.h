// Evaluations: a model and data in, metrics out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/model.h"
#include "hone/tracker.h"

namespace hone {

struct GenerateConfig;  // hone/generate.h
struct Generated;       // likewise

// What an evaluation may look at besides a batch: the set that the batch is of, and how the model writes.
struct EvaluationSet {
  const Dataset& data;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: there is none
  const GenerateConfig& generation;            // what the model's folder says
  // Answers to this batch's documents, by how they were asked for: evaluations that ask alike share them.
  std::map<std::string, std::vector<Generated>>& written;
};

// Plug-in (src/evals). It has no state: what it measures are sums, which add up over batches and ranks.
class HONE_API Evaluation {
 public:
  static constexpr std::string_view kInterface = "eval";
  virtual ~Evaluation() = default;
  virtual RecordKind records() const { return RecordKind::language; }  // what it is measured on
  virtual ProblemType problem_type() const { return ProblemType::single_label_classification; }  // of labelled records
  virtual bool reads_pictures() const { return false; }  // records may have some, where the model reads pictures
  virtual void check(const Model&) const {}  // Error(config): what this model lacks
  virtual void check_data(const DataReport&) const {}  // Error(data): what this set lacks, before it is measured on
  // Of one batch, without a graph; `output` is what the model gave for it in `pass`. Error(not_finite).
  virtual Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const = 0;
  // The same for who looks at the set, too, or has the model write.
  virtual Sums measure_in(const EvaluationSet& /*set*/, const Model& model, const Output& output, const Batch& batch,
                          Pass& pass) const {
    return measure(model, output, batch, pass);
  }
  // Whether the model writes answers, which are compared with texts of the records (Dataset::references): no rank can
  // do so that has a share of the model.
  virtual bool writes_answers() const { return false; }
  virtual std::string signature() const { return {}; }  // what decides its numbers, in few words, as tok:13a
  // What can only be told when the whole set has been gone through: of each batch rows of numbers, [n, width], fp32 on
  // any device (undefined: there is none), and of all that were kept, in the order of the data, further sums.
  virtual Tensor keep(const Model&, const Output&, const Batch&, Pass&) const { return {}; }
  virtual Sums compare(const Tensor& /*kept*/) const { return {}; }
  // The same for who looks at the records, too: `data` is the set.
  virtual Sums compare_in(const Dataset& /*data*/, const Tensor& kept) const { return compare(kept); }
  virtual Metrics result(const Sums& total) const = 0;  // e.g. loss, perplexity, accuracy, tokens; Error(data)
  virtual std::vector<std::string> names() const = 0;   // of what result() holds, before anything is measured
  // Whether more of that metric is better, as of an accuracy: what early stopping and the best checkpoint go by. Here
  // as Hugging Face guesses it: of everything but losses.
  virtual bool greater_is_better(const std::string& name) const { return !name.ends_with("loss"); }
};

}  // namespace hone
