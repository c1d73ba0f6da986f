// What evaluations keep of each batch until a set has been gone through.
#pragma once

#include <string>
#include <vector>

#include "hone/evaluation.h"
#include "hone/world.h"

namespace hone::training {

// Of all ranks, in the order of the batches. One rank's instance; all call tell() and compared() alike.
class Kept {
 public:
  explicit Kept(std::size_t evaluations) : rows_(evaluations) {}
  // Before tell(): of this rank's batch.
  void keep(std::size_t evaluation, const Tensor& rows);
  bool any() const { return !own_.empty(); }  // of this rank's batch
  // Exchanges what each rank has kept of its batch.
  void tell(const World& world);
  // Sums of what the evaluation has kept; none: nothing.
  Sums compared(std::size_t evaluation, const Evaluation& by, const Dataset& data) const;

 private:
  std::string own_;
  std::vector<std::vector<Tensor>> rows_;  // of each evaluation, of each batch
};

}  // namespace hone::training
