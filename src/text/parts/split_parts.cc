// The behaviours, as folds over the parts.
#include "text/parts/split_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "text/parts/component.h"

namespace hone::text {
namespace {

constexpr std::array<std::string_view, 5> kBehaviors = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                        "Contiguous"};

// A match joins the part before it, unless that was a match too.
void merge_with_previous(const std::vector<Part>& parts, std::vector<Piece>& out) {
  const std::size_t first = out.size();
  bool previous = false;
  for (const Part& p : parts) {
    if (p.match && !previous && out.size() > first)
      out.back().end = p.end;
    else
      out.push_back({p.begin, p.end, -1});
    previous = p.match;
  }
}

void merge_with_next(const std::vector<Part>& parts, std::vector<Piece>& out) {
  const std::size_t first = out.size();
  bool previous = false;
  for (auto p = parts.rbegin(); p != parts.rend(); ++p) {
    if (p->match && !previous && out.size() > first)
      out.back().begin = p->begin;
    else
      out.push_back({p->begin, p->end, -1});
    previous = p->match;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

void join_equals(const std::vector<Part>& parts, std::vector<Piece>& out) {
  const std::size_t first = out.size();
  bool previous = false;
  for (const Part& p : parts) {
    if (p.match == previous && out.size() > first)
      out.back().end = p.end;
    else
      out.push_back({p.begin, p.end, -1});
    previous = p.match;
  }
}

}  // namespace

Behavior get_behavior(const Json& config, const std::string& where, std::optional<std::string> fallback) {
  const std::string name = get_string(config, "behavior", where, std::move(fallback));
  const auto found = std::find(kBehaviors.begin(), kBehaviors.end(), name);
  if (found == kBehaviors.end())
    fail_at(where + ".behavior",
            fmt::format("got {}, expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
                        hone::quoted(name)));
  return static_cast<Behavior>(found - kBehaviors.begin());
}

void cut(const std::vector<Part>& parts, Behavior behavior, std::vector<Piece>& out) {
  switch (behavior) {
    case Behavior::merged_with_previous:
      return merge_with_previous(parts, out);
    case Behavior::merged_with_next:
      return merge_with_next(parts, out);
    case Behavior::contiguous:
      return join_equals(parts, out);
    case Behavior::removed:
    case Behavior::isolated:
      for (const Part& p : parts)
        if (behavior == Behavior::isolated || !p.match) out.push_back({p.begin, p.end, -1});
  }
}

}  // namespace hone::text
