// The pairs of a batch.
#include "tensor/pairs.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "hone/error.h"
#include "tensor/host.h"

namespace hone {
namespace {

Tensor on_device_of(const std::vector<std::int64_t>& values, const Batch& batch) {
  return host::tensor_of(values, {std::ssize(values)}).to(batch.ids_BT.device(), /*non_blocking=*/true);
}

}  // namespace

std::int64_t count_pairs(const Batch& batch) {
  return std::count_if(batch.docs.begin(), batch.docs.end(), [](const Doc& doc) { return doc.role == Role::chosen; });
}

Tensor documents_with(Role role, const Batch& batch) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < batch.docs.size(); ++i)
    if (batch.docs[i].role == role) numbers.push_back(static_cast<std::int64_t>(i));
  return on_device_of(numbers, batch);
}

Pairs pairs_of(const Batch& batch) {
  std::map<std::int32_t, std::map<Role, std::int64_t>> groups;
  for (std::size_t i = 0; i < batch.docs.size(); ++i)
    groups[batch.docs[i].group][batch.docs[i].role] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> chosen, rejected;
  for (const auto& [group, sides] : groups) {
    if (sides.size() != 2 || sides.contains(Role::none))
      throw Error(ErrorKind::data, fmt::format("a batch's documents of group {}: expected one that is chosen and one "
                                               "that is rejected",
                                               group))
          .hint("does the collator keep role and group of documents?");
    chosen.push_back(sides.at(Role::chosen));
    rejected.push_back(sides.at(Role::rejected));
  }
  return {on_device_of(chosen, batch), on_device_of(rejected, batch)};
}

}  // namespace hone
