// Sums in rank order.
#include "dist/collectives.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "dist/peer_call.h"
#include "hone/error.h"
#include "tensor/host.h"

namespace hone::dist {
namespace {

Tensor bytes_of(const Tensor& x) { return x.view(-1).view(at::kByte); }

// Adds up what each rank has sent, where that lies.
class Summing final : public Begun {
 public:
  Summing(std::unique_ptr<Begun> begun, Tensor got, Tensor share)
      : begun_(std::move(begun)), got_(std::move(got)), share_(std::move(share)) {}
  void wait() override {
    begun_->wait();
    const c10::NoGradGuard no_grad;
    share_.copy_(got_[0]);
    for (std::int64_t rank = 1; rank < got_.size(0); ++rank) share_.add_(got_[rank]);
  }

 private:
  std::unique_ptr<Begun> begun_;
  Tensor got_, share_;
};

std::string kind_of(at::Device device) { return c10::DeviceTypeName(device.type(), /*lower_case=*/true); }

std::map<std::string, DeviceExchange>& others() {
  static std::map<std::string, DeviceExchange> made;
  return made;
}

const DeviceExchange* exchange_for(at::Device device) {
  const auto other = others().find(kind_of(device));
  return other != others().end() ? &other->second : built_exchange(kind_of(device));
}

void check_shapes(const Tensor& whole, const Tensor& share, int ranks) {
  HONE_ASSERT(whole.is_contiguous() && share.is_contiguous() && whole.numel() == ranks * share.numel());
}

// Replicas stay the same bits only where all of them round alike.
void require_one_kind(const std::vector<std::string>& kinds) {
  for (std::size_t rank = 0; rank < kinds.size(); ++rank)
    if (kinds[rank] != kinds[0])
      throw Error(ErrorKind::config,
                  fmt::format("rank {} computes on {}, and rank 0 on {}", rank, kinds[rank], kinds[0]))
          .hint("they would not round alike; trainer.device: auto is the GPU where a machine has one, cuda and cpu "
                "name what all are to have");
}

// A device for each rank: libraries that let ranks exchange do not let them share one.
void refuse_one_for_two(at::Device device, const std::vector<std::string>& identities) {
  for (std::size_t rank = 0; rank < identities.size(); ++rank)
    for (std::size_t other = 0; other < rank; ++other)
      if (identities[rank] == identities[other])
        throw Error(ErrorKind::config,
                    fmt::format("ranks {} and {} have one {} device between them, {}; each needs its own", other, rank,
                                kind_of(device), identities[rank]))
            .hint("no more ranks on a machine than it has of them, each seeing all of them or its own; "
                  "--trainer.device=cpu trains on the processors");
}

}  // namespace

void set_exchange(const std::string& kind, DeviceExchange how) { others()[kind] = std::move(how); }

RankCollectives::RankCollectives(int rank, int size, std::unique_ptr<HostExchange> host,
                                 std::shared_ptr<c10d::Store> store)
    : rank_(rank), size_(size), store_(std::move(store)), host_(std::move(host)) {}

void RankCollectives::compute_on(at::Device device) {
  const DeviceExchange* how = device.is_cpu() ? nullptr : exchange_for(device);
  require_one_kind(gather(how ? how->kind(device) : kind_of(device)));
  if (device.is_cpu() || (device_ && on_ == device)) return;
  if (!how)
    throw Error(ErrorKind::config,
                fmt::format("nothing is there by which ranks exchange what lies on {}", device.str()))
        .hint("one process alone, or --trainer.device=cpu");
  refuse_one_for_two(device, gather(how->identity(device)));
  connect(device);
  for (const auto& [key, group] : groups_) group->connect(device);
}

void RankCollectives::connect(at::Device device) {
  device_ = exchange_for(device)->make(device, {rank_, size_, *host_, *store_});
  on_ = device;
  try_out(device);
}

namespace {

// Kept as long as exchanges, which look into it, may be.
std::shared_ptr<c10d::Store> with_prefix(const std::string& prefix, c10d::Store& store) {
  const auto own = std::make_shared<c10::intrusive_ptr<c10d::Store>>(c10::make_intrusive<c10d::PrefixStore>(
      prefix, c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(&store)));
  return {own, own->get()};
}

}  // namespace

RankCollectives::GroupPlace RankCollectives::place_in(const GroupKey& key) const {
  const auto [cut, size] = key;
  if (cut == Cut::among) return {rank_ % size, size, fmt::format("groups of {}/{}", size, rank_ / size)};
  return {rank_ / size, size_ / size, fmt::format("across groups of {}/{}", size, rank_ % size)};
}

std::shared_ptr<RankCollectives> RankCollectives::group(Cut cut, int size) {
  HONE_ASSERT(size > 1 && size_ % size == 0 && (cut == Cut::among || size < size_));
  std::shared_ptr<RankCollectives>& made = groups_[{cut, size}];
  if (made) return made;
  const GroupPlace place = place_in({cut, size});
  std::shared_ptr<c10d::Store> keys = with_prefix(place.name, *store_);
  std::unique_ptr<HostExchange> host = host_->among(place.rank, place.size, *keys);
  made = std::make_shared<RankCollectives>(place.rank, place.size, std::move(host), std::move(keys));
  if (device_) made->connect(on_);
  return made;
}

// Old ways are not taken down: their threads wait for what does not come, and may write to tensors until the process
// ends.
void RankCollectives::go_by(std::unique_ptr<HostExchange> host) {
  static_cast<void>(host_.release());
  host_ = std::move(host);
}

std::string RankCollectives::meet_again(const std::string& why) {
  HONE_ASSERT(!again_);
  return peer_call("meeting again", [&] {
    const std::vector<std::uint8_t> own(why.begin(), why.end()), first = store_->compareSet(kFailedKey, {}, own);
    again_ = with_prefix("again", *store_);
    // Whoever waits on a device for the one that has failed does not hear of it.
    go_by(host_->anew(*again_, /*soon=*/device_ != nullptr));
    for (const auto& [key, group] : groups_) {
      const GroupPlace place = place_in(key);
      group->again_ = with_prefix(place.name, *again_);
      group->go_by(host_->among(place.rank, place.size, *group->again_));
    }
    require_devices_at_one_point();
    return std::string(first.begin(), first.end());
  });
}

// Ways between devices stay, and what is under way there with them.
void RankCollectives::require_devices_at_one_point() const {
  std::string own = std::to_string(begun_there_);
  for (const auto& [key, group] : groups_) own += fmt::format(" {}", group->begun_there_);
  for (const std::string& other : host_->gather(own))
    if (other != own)
      throw Error(ErrorKind::peer, fmt::format("ranks have begun other exchanges on their devices; got {}, expected {}",
                                               other, own));
}

// Before any work: what cannot reach the other devices, or gets something else from them, is found here.
void RankCollectives::try_out(at::Device device) {
  Tensor sum = at::full({size_ + 1}, static_cast<double>(rank_ + 1), at::TensorOptions().device(device));
  this->sum(sum);
  const Tensor got = host::read(sum);
  const double expected = size_ * (size_ + 1) / 2.0;
  for (const float one : host::values<float>(got))
    if (one != expected)
      throw Error(ErrorKind::peer, fmt::format("{}: a first sum over {} ranks is wrong; got {}, expected {}",
                                               device.str(), size_, one, expected))
          .hint("the devices do not read each other's memory as they should; NCCL_P2P_DISABLE=1 goes another way");
  bytes_ = 0;
}

Exchange& RankCollectives::of(const Tensor& x) {
  if (x.is_cpu()) return *host_;
  HONE_ASSERT(device_ && x.device() == on_);
  ++begun_there_;
  return *device_;
}

// Each rank adds up one share of the elements, and gives the sums to all: what backends call all-reduce adds in another
// order on each share.
void RankCollectives::sum(Tensor& x) {
  HONE_ASSERT(x.is_contiguous());
  const c10::NoGradGuard no_grad;
  const std::int64_t share = (x.numel() + size_ - 1) / size_;
  if (share == 0) return;
  const bool even = share * size_ == x.numel();
  Tensor whole = even ? x.view(-1) : at::zeros({share * size_}, x.options());
  if (!even) whole.narrow(0, 0, x.numel()).copy_(x.view(-1));
  const Tensor total = at::empty({share}, x.options());
  begin_sum(whole, total)->wait();
  begin_gather(total, whole)->wait();
  if (!even) x.view(-1).copy_(whole.narrow(0, 0, x.numel()));
}

std::unique_ptr<Begun> RankCollectives::begin_sum(const Tensor& whole, const Tensor& share) {
  check_shapes(whole, share, size_);
  const c10::NoGradGuard no_grad;
  const Tensor got = at::empty({size_, share.numel()}, whole.options());
  bytes_ += whole.nbytes() - share.nbytes();
  return std::make_unique<Summing>(of(whole).begin_all_to_all(bytes_of(whole), bytes_of(got)), got, share);
}

std::unique_ptr<Begun> RankCollectives::begin_gather(const Tensor& share, const Tensor& whole) {
  check_shapes(whole, share, size_);
  const c10::NoGradGuard no_grad;
  bytes_ += static_cast<std::uint64_t>(size_ - 1) * share.nbytes();
  return of(whole).begin_gather(bytes_of(share), bytes_of(whole));
}

std::unique_ptr<Begun> RankCollectives::begin_all_to_all(const Tensor& from, const Tensor& to) {
  HONE_ASSERT(from.is_contiguous() && to.is_contiguous() && from.nbytes() == to.nbytes() && from.numel() % size_ == 0);
  bytes_ += from.nbytes() - from.nbytes() / static_cast<std::size_t>(size_);
  return of(from).begin_all_to_all(bytes_of(from), bytes_of(to));
}

void RankCollectives::add_times_there(Times& all) const {
  if (!device_) return;
  const Times there = device_->times();
  all.on_the_way += there.on_the_way, all.waited += there.waited;
}

Traffic RankCollectives::traffic() const {
  Times all = host_->times();
  add_times_there(all);
  std::uint64_t bytes = bytes_;
  for (const auto& [key, group] : groups_) bytes += group->bytes_, group->add_times_there(all);
  return {bytes, all.on_the_way, all.waited};
}

}  // namespace hone::dist
