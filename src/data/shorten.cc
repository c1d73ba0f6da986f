// Documents of a row, cut.
#include "data/shorten.h"

#include <algorithm>

namespace hone::data {
namespace {

constexpr std::int64_t kNone = -100;

bool learns(const std::vector<std::int64_t>& targets) {
  return std::any_of(targets.begin(), targets.end(), [](std::int64_t target) { return target != kNone; });
}

// The last target is of a token that may stand in another document, or in none.
bool is_text(const HostDoc& doc) {
  return std::none_of(doc.targets.begin(), doc.targets.end() - 1, [](std::int64_t target) { return target == kNone; });
}

HostDoc part_of(const HostDoc& doc, std::int64_t begin, std::int64_t end) {
  const auto part = [&](const std::vector<std::int64_t>& values) {
    return std::vector<std::int64_t>(values.begin() + begin, values.begin() + end);
  };
  HostDoc made{part(doc.ids), part(doc.targets), doc.record, doc.role, doc.group};
  for (const auto& [name, values] : doc.per_token) made.per_token[name] = part(values);
  made.per_document = doc.per_document;
  return made;
}

std::int64_t behind_last_target(const HostDoc& doc) {
  std::int64_t end = std::ssize(doc.targets);
  while (end > 1 && doc.targets[static_cast<std::size_t>(end - 1)] == kNone) --end;
  return end;
}

}  // namespace

void shorten(HostRow& row, std::int64_t most) {
  HostRow cut;
  for (HostDoc& doc : row) {
    const std::int64_t length = std::ssize(doc.ids);
    if (length <= most) {
      cut.push_back(std::move(doc));
    } else if (is_text(doc)) {
      for (std::int64_t begin = 0; begin < length; begin += most)
        if (HostDoc piece = part_of(doc, begin, std::min(length, begin + most)); learns(piece.targets))
          cut.push_back(std::move(piece));
    } else {
      const std::int64_t end = std::max(behind_last_target(doc), std::min(most, length));
      cut.push_back(part_of(doc, std::max<std::int64_t>(0, end - most), end));
    }
  }
  row = std::move(cut);
}

}  // namespace hone::data
