// Documents of a row, cut.
#include "data/shorten.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"

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
  made.numbers = doc.numbers;
  const std::int64_t width = doc.taught.width;
  const auto taught = [&](const auto& values) {
    return std::decay_t<decltype(values)>(values.begin() + begin * width, values.begin() + end * width);
  };
  made.taught = {width, taught(doc.taught.ids), taught(doc.taught.log_probs)};
  return made;
}

std::int64_t behind_last_target(const HostDoc& doc) {
  std::int64_t end = std::ssize(doc.targets);
  while (end > 1 && doc.targets[static_cast<std::size_t>(end - 1)] == kNone) --end;
  return end;
}

bool is_learnt(const HostDoc& doc, std::int64_t token) {
  return token > 0 && doc.targets[static_cast<std::size_t>(token - 1)] != kNone;
}

// As Cutter::without_start: a turn that the cut would go through goes as a whole, and the last one loses its end only
// where it leaves its prompt no room.
HostDoc without_start(const HostDoc& doc, std::int64_t most, std::int32_t bos) {
  const std::int64_t last = behind_last_target(doc);
  if (last <= most) return part_of(doc, 0, most);
  const std::int64_t kept = doc.ids[0] == bos ? 1 : 0, room = most - kept;
  std::int64_t first = last;  // learnt token of the last turn
  while (is_learnt(doc, first - 1)) --first;
  std::int64_t begin = last - room;
  if (begin >= first) begin = first - std::min(first - kept, std::max<std::int64_t>(1, room / 2));
  while (is_learnt(doc, begin)) ++begin;
  if (begin <= kept) return part_of(doc, 0, std::min(last, most));
  // Nothing learns what follows the token that gives the kept one its place.
  HostDoc made = part_of(doc, begin - kept, std::min(last, begin + room));
  if (kept == 1) made.ids[0] = bos;
  return made;
}

}  // namespace

void shorten(HostRow& row, std::int64_t most, std::int32_t bos) {
  HostRow cut;
  for (HostDoc& doc : row) {
    const std::int64_t length = std::ssize(doc.ids);
    if (length <= most) {
      cut.push_back(std::move(doc));
    } else if (!doc.pictures.empty()) {
      throw Error(ErrorKind::config, fmt::format("{}: documents with pictures are not cut, and one of {} tokens has to "
                                                 "be cut to {}",
                                                 option_words("data.length_warmup"), length, most))
          .hint("leave it out");
    } else if (is_text(doc)) {
      for (std::int64_t begin = 0; begin < length; begin += most)
        if (HostDoc piece = part_of(doc, begin, std::min(length, begin + most)); learns(piece.targets))
          cut.push_back(std::move(piece));
    } else {
      cut.push_back(without_start(doc, most, bos));
    }
  }
  row = std::move(cut);
}

}  // namespace hone::data
