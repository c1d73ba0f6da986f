// Short words by scanning an array, long ones with a heap over a linked list.
#include "text/parts/bpe_merge.h"

#include <algorithm>
#include <functional>

namespace hone::text {
namespace {

constexpr std::size_t kShort = 40;

}  // namespace

void Merger::merge(const MergeTable& table, std::vector<Symbol>& symbols) {
  if (symbols.size() < 2 || table.empty()) return;
  if (symbols.size() <= kShort)
    merge_short(table, symbols);
  else
    merge_long(table, symbols);
}

void Merger::merge_short(const MergeTable& table, std::vector<Symbol>& symbols) {
  std::uint64_t pairs[kShort];
  Symbol* s = symbols.data();
  std::size_t n = symbols.size();
  for (std::size_t i = 0; i + 1 < n; ++i) pairs[i] = table.find(s[i].id, s[i + 1].id);
  while (n > 1) {
    // The first of the lowest: ranks of different pairs differ, so comparing rank and id together is comparing ranks.
    const std::size_t at = static_cast<std::size_t>(std::min_element(pairs, pairs + n - 1) - pairs);
    if (pairs[at] == MergeTable::kNone) break;
    s[at] = {static_cast<std::int32_t>(pairs[at]), s[at].size + s[at + 1].size};
    std::copy(s + at + 2, s + n, s + at + 1);
    std::copy(pairs + at + 1, pairs + n - 1, pairs + at);
    --n;
    if (at + 1 < n) pairs[at] = table.find(s[at].id, s[at + 1].id);
    if (at > 0) pairs[at - 1] = table.find(s[at - 1].id, s[at].id);
  }
  symbols.resize(n);
}

void Merger::set_pair(std::uint32_t at, std::uint64_t pair) {
  pairs_[at] = pair;
  if (pair == MergeTable::kNone) return;
  List& list = lists_[pair >> 32];
  const bool is_first = list.first == kEnd;
  if (is_first || places_[list.last].at < at) {
    const auto place = static_cast<std::uint32_t>(places_.size());
    places_.push_back({at, kEnd});
    (is_first ? list.first : places_[list.last].next) = place;
    list.last = place;
    if (!is_first) return;
  }
  heap_.push_back((pair >> 32) << 32 | at);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

std::uint64_t Merger::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const std::uint64_t top = heap_.back();
  heap_.pop_back();
  List& list = lists_[top >> 32];
  if (list.first == kEnd || places_[list.first].at != static_cast<std::uint32_t>(top)) return top;
  list.first = places_[list.first].next;
  if (list.first == kEnd) return top;
  heap_.push_back((top >> 32) << 32 | places_[list.first].at);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  return top;
}

// The symbol and its right neighbour become one, as pairs_ says.
void Merger::join(const MergeTable& table, std::vector<Symbol>& symbols, std::uint32_t at) {
  const std::uint32_t right = next_[at];
  symbols[at] = {static_cast<std::int32_t>(pairs_[at]), symbols[at].size + symbols[right].size};
  symbols[right].size = 0;
  pairs_[right] = MergeTable::kNone;
  next_[at] = next_[right];
  if (next_[at] != kEnd) previous_[next_[at]] = at;
  if (previous_[at] != kEnd) set_pair(previous_[at], table.find(symbols[previous_[at]].id, symbols[at].id));
  set_pair(at, next_[at] == kEnd ? MergeTable::kNone : table.find(symbols[at].id, symbols[next_[at]].id));
}

void Merger::merge_long(const MergeTable& table, std::vector<Symbol>& symbols) {
  const auto count = static_cast<std::uint32_t>(symbols.size());
  pairs_.assign(count, MergeTable::kNone);
  next_.resize(count);
  previous_.resize(count);
  places_.clear();
  lists_.resize(table.end_rank());
  for (std::uint32_t i = 0; i < count; ++i) {
    next_[i] = i + 1 < count ? i + 1 : kEnd;
    previous_[i] = i > 0 ? i - 1 : kEnd;
    if (i + 1 < count) set_pair(i, table.find(symbols[i].id, symbols[i + 1].id));
  }
  while (!heap_.empty()) {
    const std::uint64_t top = pop();
    const auto at = static_cast<std::uint32_t>(top);
    if (pairs_[at] == MergeTable::kNone || pairs_[at] >> 32 != top >> 32) continue;  // the pair has changed since
    join(table, symbols, at);
  }
  std::erase_if(symbols, [](const Symbol& s) { return s.size == 0; });
}

}  // namespace hone::text
