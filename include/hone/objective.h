// Training kinds: what the loss of a batch is.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hone/model.h"

namespace hone {

class World;  // src/dist: ranks; a single one for now

// Further models and files that an objective may ask for (teacher, reference, reward model, critic).
class HONE_API Resources {
 public:
  virtual ~Resources() = default;
};

// Plug-in (src/objectives).
class HONE_API Objective {
 public:
  static constexpr std::string_view kInterface = "objective";
  virtual ~Objective() = default;
  // Sees the whole step before weights are summed; may return several groups (several optimizer steps).
  virtual Groups prepare(Group group) { Groups groups; groups.push_back(std::move(group)); return groups; }
  // The weight of each of loss()'s terms for this micro-batch, known before any forward pass.
  virtual std::map<std::string, double> weights(const Batch& batch) const = 0;
  virtual LossTerms loss(Model& model, const Batch& batch, Pass& pass) = 0;
};

}  // namespace hone
