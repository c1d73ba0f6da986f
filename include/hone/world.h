// The processes that train one model together.
#pragma once

#include "hone/batch.h"

namespace hone {

// Today there is one: a single rank. What adds up over ranks is asked for here all the same.
class HONE_API World {
 public:
  int rank() const { return 0; }
  int size() const { return 1; }
  Sums total(Sums sums) const { return sums; }  // over all ranks, in rank order; the same on each of them
};

}  // namespace hone
