// Where the bytes of a text come from: the template itself, or a text that the caller marked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hone::jinja {

// 0: the template's own; above: as the caller marked it; kMixed: of several.
using Source = std::int32_t;
constexpr Source kMixed = -1;
inline Source mixed(Source a, Source b) { return a == 0 || a == b ? b : b == 0 ? a : kMixed; }

struct Stretch {
  std::size_t begin, end;  // bytes
  Source source;
  bool operator==(const Stretch&) const = default;
};
// The bytes that are not the template's own; in order, without overlap.
using Origins = std::vector<Stretch>;

}  // namespace hone::jinja
