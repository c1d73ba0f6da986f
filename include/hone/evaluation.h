// Evaluations: a model and data in, metrics out.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hone/model.h"
#include "hone/tracker.h"

namespace hone {

// Plug-in (src/evals).
class HONE_API Evaluation {
 public:
  static constexpr std::string_view kInterface = "eval";
  virtual ~Evaluation() = default;
  virtual void add(const CausalLm& model, const Batch& batch) = 0;  // one batch; sums are kept in fp64
  virtual Metrics result() const = 0;                               // e.g. loss, perplexity, accuracy, tokens
  virtual std::vector<std::string> names() const = 0;               // of what result() holds, before anything is added
};

}  // namespace hone
