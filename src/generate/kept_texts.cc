#include "generate/kept_texts.h"

#include <algorithm>
#include <iterator>

namespace hone::generate {
namespace {

constexpr std::int64_t kLeast = 16;  // tokens that are read as fast as they are copied

std::int64_t alike(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::distance(a.begin(), std::ranges::mismatch(a, b).in1);
}

}  // namespace

void KeptTexts::remove(std::list<Text>::iterator text) {
  bytes_ -= text->bytes;
  texts_.erase(text);
}

void KeptTexts::keep(std::span<const std::int32_t> ids, const nn::KvCache& cache, std::int64_t row) {
  const std::int64_t length = std::ssize(ids);
  if (length < kLeast) return;
  auto beginning = cache.beginning_of(row, length, length);
  if (!beginning) return;
  const std::int64_t bytes = beginning->bytes() + length * static_cast<std::int64_t>(sizeof(std::int32_t));
  if (bytes > most_bytes_) return;
  // What a longer one begins with is of no more use: but for memories, whose beginnings are gone.
  for (auto text = texts_.begin(); text != texts_.end();) {
    const auto next = std::next(text);
    const auto own = std::ssize(text->ids);
    if (own <= length && alike(text->ids, ids) == own &&
        (own == length || beginning->has_beginning_of(0, own, own)))
      remove(text);
    text = next;
  }
  while (bytes_ + bytes > most_bytes_) remove(std::prev(texts_.end()));
  texts_.push_front({{ids.begin(), ids.end()}, std::move(beginning), bytes});
  bytes_ += bytes;
}

std::unique_ptr<nn::KvCache> KeptTexts::beginning_of(std::span<const std::int32_t> ids) {
  const std::int64_t whole = std::ssize(ids);
  std::vector<std::pair<std::int64_t, std::list<Text>::iterator>> found;
  for (auto text = texts_.begin(); text != texts_.end(); ++text)
    if (const std::int64_t length = std::min(alike(text->ids, ids), whole - 1); length >= kLeast)
      found.emplace_back(length, text);
  std::ranges::stable_sort(found, std::greater{}, &decltype(found)::value_type::first);
  for (const auto& [length, text] : found) {
    if (!text->cache->has_beginning_of(0, length, whole)) continue;
    texts_.splice(texts_.begin(), texts_, text);
    return text->cache->beginning_of(0, length, whole);
  }
  return nullptr;
}

void KeptTurns::keep(std::span<const std::int32_t> ids, const nn::KvCache& cache, std::int64_t row) {
  const std::int64_t length = std::ssize(ids);
  if (size() >= most_) return;
  if (auto all = cache.beginning_of(row, length, length))
    turns_.push_back({{ids.begin(), ids.end()}, std::move(all)});
}

std::unique_ptr<nn::KvCache> KeptTurns::take(std::span<const std::int32_t> ids) {
  auto found = turns_.end();
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    const std::int64_t length = std::ssize(turn->ids);
    const bool is_longer = found == turns_.end() || length > std::ssize(found->ids);
    if (is_longer && length < std::ssize(ids) && alike(turn->ids, ids) == length) found = turn;
  }
  if (found == turns_.end()) return nullptr;
  auto cache = std::move(found->cache);
  turns_.erase(found);
  return cache;
}

std::unique_ptr<nn::KvCache> KeptTurns::beginning_of(std::span<const std::int32_t> ids) {
  auto cache = take(ids);
  return cache && cache->has_beginning_of(0, cache->length(0), std::ssize(ids)) ? std::move(cache) : nullptr;
}

}  // namespace hone::generate
