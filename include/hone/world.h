// The processes that train one model together: ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hone/batch.h"
#include "hone/error.h"

namespace hone {

// What a rank throws that waits for others, of which one has failed and called meet_again(). Never told to anybody.
inline constexpr ErrorKind kFailedElsewhere{77};

// What was begun with other ranks: done when wait() returns, or, of tensors on a device, before what that is given
// next. Until then nobody touches its tensors.
class HONE_API Begun {
 public:
  virtual ~Begun() = default;
  virtual void wait() = 0;
};

// So far: bytes of tensors that this rank sent, the seconds in which anything was on its way between ranks (of a device
// no more is known than those in which it waited), and those of them in which it waited for that.
struct Traffic {
  std::uint64_t bytes = 0;
  double seconds = 0, waited = 0;
};

// What ranks do together. Each call waits until all of them have made it, in the same order. Throws Error(peer) where
// one is lost.
class HONE_API Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;  // from 0
  virtual int size() const = 0;
  // From now on tensors of sums and gathers may lie on this device, too, which is of one kind on all ranks, and of each
  // its own; by all of them, before any work. Of those, wait() lets the device wait, not the host. Throws Error(config,
  // peer): it is another rank's, or the devices do not reach each other.
  virtual void compute_on(at::Device device) { static_cast<void>(device); }
  // Makes of x, contiguous and of one shape and type on all ranks, the sum over ranks: in rank order, so that the same
  // ranks give the same bits, on each of them.
  virtual void sum(Tensor& x) = 0;
  // The two halves of sum(), of tensors of equal shares: of one dimension, whole of size() times as many elements.
  // Begun in the same order on all ranks.
  virtual std::unique_ptr<Begun> begin_sum(const Tensor& whole, const Tensor& share) = 0;     // into share
  virtual std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) = 0;  // into whole
  // Likewise: of `from` an equal part for each rank; into `to`, as large, what each has for this one, in rank order.
  virtual std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) = 0;
  // Of ranks 0 to size - 1 together, of the `size` behind them together, and so on: those of this rank's group. By all
  // ranks, in the same order; size divides size(). What groups begin is on its way beside what all ranks do.
  virtual std::shared_ptr<Collectives> among(int size) = 0;
  // Of the ranks that have this one's place in their groups of `size`: one of each group, in their order. Likewise.
  virtual std::shared_ptr<Collectives> across(int size) = 0;
  // What each rank gives, in rank order.
  virtual std::vector<std::string> gather(const std::string& own) = 0;
  // By a rank that fails between what all do: says why, and from then on those that wait for others throw
  // Error(kFailedElsewhere). They call this then, too; it returns when all have, with what the first of them said.
  // Nothing that was begun before is waited for after it. Once. Throws Error(peer) where not all of them come.
  virtual std::string meet_again(const std::string& why) { return why; }
  // What this rank is at, for those that wait for it: "step 41, saving".
  virtual void at(const std::string& phase) { static_cast<void>(phase); }
  virtual Traffic traffic() const { return {}; }
};

// By default one process alone.
class HONE_API World {
 public:
  World() = default;
  explicit World(std::shared_ptr<Collectives> together) : together_(std::move(together)) {}
  int rank() const { return together_ ? together_->rank() : 0; }
  int size() const { return together_ ? together_->size() : 1; }
  bool is_first() const { return rank() == 0; }
  void compute_on(at::Device device) const;  // Collectives

  // Over all ranks, in rank order; the same on each of them. Sums by name; a rank may lack names that others have.
  Sums total(Sums sums) const;
  double total(double value) const;
  Tensor total(Tensor sum) const;
  void add_up(Tensor& sum) const;                                                       // in place; contiguous
  std::unique_ptr<Begun> begin_sum(const Tensor& whole, const Tensor& share) const;     // Collectives
  std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) const;  // Collectives
  std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) const;  // Collectives
  World among(int size) const;   // Collectives; of 1: this process alone
  World across(int size) const;  // Collectives; of size(): this process alone
  std::vector<std::string> gather(const std::string& own) const;
  std::vector<Sums> gather(const Sums& own) const;
  std::string from_first(const std::string& own) const;  // rank 0's
  std::string meet_again(const std::string& why) const;  // Collectives; of a process alone `why`
  bool any(bool own) const;
  void wait() const;  // until all are here
  // Rank 0 makes something first, then the others, who find on disk what it left there.
  template <class Make>
  auto first_then_others(const Make& make) const {
    if (!is_first()) wait();
    auto made = make();
    if (is_first()) wait();
    return made;
  }

  void at(const std::string& phase) const;  // Collectives::at()
  Traffic traffic() const { return together_ ? together_->traffic() : Traffic(); }

 private:
  std::shared_ptr<Collectives> together_;
};

}  // namespace hone
