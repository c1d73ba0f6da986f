// How tokens are divided for attention by sequences of different lengths: every token is in exactly one part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hone/op_options.h"

namespace hone::ops {

// ends: 0, then where each part ends; between: what lies in no document, whose results are not to be used.
struct Sequences {
  std::vector<std::int32_t> ends;
  std::vector<Span> between;
  std::int64_t longest = 0;
};

// What lies between documents is cut into short parts: its tokens see each other, which nobody wants, and costs little.
inline Sequences sequences_of(const std::vector<Span>& spans, std::int64_t tokens) {
  constexpr std::int64_t kShort = 128;
  Sequences made{{0}, {}, 0};
  std::int64_t done = 0;
  const auto part = [&](std::int64_t end) {
    made.longest = std::max(made.longest, end - done);
    made.ends.push_back(static_cast<std::int32_t>(end));
    done = end;
  };
  const auto leave_out = [&](std::int64_t end) {
    if (end > done) made.between.push_back({done, end});
    while (done < end) part(std::min(end, done + kShort));
  };
  for (const Span& span : spans) {
    if (span.end <= span.begin) continue;
    leave_out(span.begin);
    part(span.end);
  }
  leave_out(tokens);
  return made;
}

}  // namespace hone::ops
