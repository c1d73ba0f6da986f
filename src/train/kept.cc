// What evaluations keep of each batch.
#include "train/kept.h"

#include <ATen/ATen.h>

#include <cstring>
#include <span>

#include "tensor/host.h"

namespace hone::training {
namespace {

struct Head {
  std::int64_t evaluation = 0, rows = 0, width = 0;
};

}  // namespace

void Kept::keep(std::size_t evaluation, const Tensor& rows) {
  if (!rows.defined()) return;
  const Head head{static_cast<std::int64_t>(evaluation), rows.size(0), rows.size(1)};
  const Tensor here = host::read(rows.to(at::kFloat).contiguous());
  const auto append = [&](std::span<const std::byte> bytes) {
    own_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  append(std::as_bytes(std::span(&head, 1)));
  append(host::bytes(here));
}

void Kept::tell(const World& world) {
  for (const std::string& told : world.gather(own_)) {
    for (std::size_t at = 0; at < told.size();) {
      Head head;
      std::memcpy(&head, told.data() + at, sizeof head);
      at += sizeof head;
      Tensor rows = at::empty({head.rows, head.width}, at::kFloat);
      const std::span<std::byte> into = host::mutable_bytes(rows);
      HONE_ASSERT(at + into.size() <= told.size());
      std::memcpy(into.data(), told.data() + at, into.size());
      at += into.size();
      rows_.at(static_cast<std::size_t>(head.evaluation)).push_back(std::move(rows));
    }
  }
  own_.clear();
}

Sums Kept::compared(std::size_t evaluation, const Evaluation& by, const Dataset& data) const {
  const std::vector<Tensor>& rows = rows_.at(evaluation);
  return rows.empty() ? Sums() : by.compare_in(data, at::cat(rows));
}

}  // namespace hone::training
