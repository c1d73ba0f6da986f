// Documents in two parts.
#include "objectives/document_parts.h"

#include <algorithm>
#include <iterator>

#include "tensor/host.h"

namespace hone::objectives {

PartedDocuments::PartedDocuments(const Batch& batch)
    : batch_(batch), ids_BT_(host::read(batch.ids_BT)), targets_BT_(host::read(batch.labels_BT)) {}

DocumentParts PartedDocuments::of(std::size_t number) const {
  const Doc& doc = batch_.docs[number];
  const auto begin = static_cast<std::size_t>(doc.row * batch_.length() + doc.begin);
  const auto part = [&](const Tensor& values) {
    return host::values<std::int64_t>(values).subspan(begin, static_cast<std::size_t>(doc.end - doc.begin));
  };
  const auto ids = part(ids_BT_), targets = part(targets_BT_);
  const auto first = std::find_if(targets.begin(), targets.end(), [](std::int64_t target) { return target != -100; });
  const auto last_of_prompt = std::min(first - targets.begin(), std::ssize(ids) - 1);
  const auto answer = ids.begin() + last_of_prompt + 1;
  return {{ids.begin(), answer}, {{answer, ids.end()}, {targets.begin() + last_of_prompt, targets.end()}}};
}

}  // namespace hone::objectives
