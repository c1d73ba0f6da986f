// The processes that train one model together.
#pragma once

#include "hone/batch.h"

namespace hone {

// Today there is one: a single rank. What adds up over ranks is asked for here all the same.
class HONE_API World {
 public:
  int rank() const { return 0; }
  int size() const { return 1; }
  // Over all ranks, in rank order; the same on each of them.
  Sums total(Sums sums) const { return sums; }
  double total(double value) const { return value; }
  Tensor total(Tensor sum) const { return sum; }
};

}  // namespace hone
