// What all packed weights share.
#include "hub/packed/packed.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tensor/dtype.h"

namespace hone::hub {

// Of a part that is cut without regard to dimensions, the rows (or experts) that it is of.
at::Tensor Packed::read(const Weight& weight, at::ScalarType type) const {
  if (weight.shape() != whole_.shape)
    throw Error(ErrorKind::checkpoint,
                fmt::format("{}: {}: got shape {}, expected {}", parts_.front().file->path().string(), whole_.name,
                            shape_text(whole_.shape), shape_text(weight.shape())));
  const auto [begin, count] = std::pair(weight.layout().begin, weight.layout().count);
  if (count < 0 || weight.layout().shape != weight.shape()) return weight.part_of(read(type));
  std::int64_t of_one = 1;
  for (std::size_t d = 1; d < whole_.shape.size(); ++d) of_one *= whole_.shape[d];
  const std::int64_t first = begin / of_one;
  const at::Tensor some = read_some(first, (begin + count + of_one - 1) / of_one, type).flatten();
  return some.numel() == count ? some : some.narrow(0, begin - first * of_one, count).clone();
}

std::shared_ptr<const Packed> Packed::rows(std::string, std::int64_t, std::int64_t) const {
  throw Error(ErrorKind::bug, method_ + " cannot be split");
}

Error unfit(const SafetensorsSet::Place& place, const std::string& fact) {
  return Error(ErrorKind::checkpoint, fmt::format("{}: {}: {}", place.file->path().string(), place.tensor->name, fact));
}

}  // namespace hone::hub
