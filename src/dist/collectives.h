// What ranks do together, by exchanges: sums in rank order, whatever the tensors lie on.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/exchange.h"

namespace hone::dist {

class RankCollectives final : public Collectives {
 public:
  // `store`: of keys of their own, for what devices need; kept.
  RankCollectives(int rank, int size, std::unique_ptr<HostExchange> host, std::shared_ptr<c10d::Store> store);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void compute_on(at::Device device) override;
  void sum(Tensor& x) override;
  std::unique_ptr<Begun> begin_sum(const Tensor& whole, const Tensor& share) override;
  std::unique_ptr<Begun> begin_gather(const Tensor& share, const Tensor& whole) override;
  std::unique_ptr<Begun> begin_all_to_all(const Tensor& from, const Tensor& to) override;
  std::shared_ptr<Collectives> among(int size) override { return group(Cut::among, size); }
  std::shared_ptr<Collectives> across(int size) override { return group(Cut::across, size); }
  enum class Cut { among, across };
  std::shared_ptr<RankCollectives> group(Cut cut, int size);  // the same one each time
  std::vector<std::string> gather(const std::string& own) override { return host_->gather(own); }
  std::string meet_again(const std::string& why) override;  // of all ranks, not of a group's
  Traffic traffic() const override;  // with that of groups

  // Whether the device has nothing to do until other ranks come. By any thread, once compute_on() has returned.
  bool stands_still() const { return device_ && device_->stands_still(); }
  bool has_device() const { return device_ != nullptr; }
  bool has_met_again() const { return again_ != nullptr; }

 private:
  Exchange& of(const Tensor& x);
  void connect(at::Device device);
  void try_out(at::Device device);
  void add_times_there(Times& all) const;
  const int rank_, size_;
  void go_by(std::unique_ptr<HostExchange> host);
  void require_devices_at_one_point() const;
  std::shared_ptr<c10d::Store> store_, again_;  // again_: since meet_again()
  std::unique_ptr<HostExchange> host_;
  at::Device on_ = at::kCPU;
  std::unique_ptr<Exchange> device_;  // null: only what lies on the host travels
  std::uint64_t bytes_ = 0;
  std::int64_t begun_there_ = 0;  // exchanges of the device
  using GroupKey = std::pair<Cut, int>;
  // A rank's place in such a group, and where in a store its ranks find each other.
  struct GroupPlace {
    int rank = 0, size = 1;
    std::string name;
  };
  GroupPlace place_in(const GroupKey& key) const;
  std::map<GroupKey, std::shared_ptr<RankCollectives>> groups_;
};

}  // namespace hone::dist
