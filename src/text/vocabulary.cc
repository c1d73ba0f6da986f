// The hash table of Vocabulary and its reading from tokenizer.json.
#include "text/vocabulary.h"

#include <fmt/format.h>

#include <cstring>

#include "base/strings.h"
#include "text/component.h"
#include "text/flat_map.h"

namespace hone::text {

std::uint64_t hash_token(std::string_view token) {
  std::uint64_t h = token.size() * 0x9E3779B97F4A7C15ull;
  const char* p = token.data();
  std::size_t n = token.size();
  for (std::uint64_t word; n >= 8; p += 8, n -= 8) {
    std::memcpy(&word, p, 8);
    h = mix(h ^ word);
  }
  std::uint64_t rest = 0;
  if (n > 0) std::memcpy(&rest, p, n);
  return mix(mix(h ^ rest) + n);
}

std::size_t Vocabulary::place(std::string_view wanted) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash_token(wanted) & mask;
  while (slots_[i] >= 0 && token(slots_[i]) != wanted) i = (i + 1) & mask;
  return i;
}

std::int32_t Vocabulary::find(std::string_view wanted) const { return slots_[place(wanted)]; }

void Vocabulary::reserve(std::size_t tokens, std::size_t bytes) {
  bytes_.reserve(bytes);
  while (slots_.size() < 2 * tokens) grow();
}

void Vocabulary::grow() {
  std::vector<std::int32_t> old(slots_.size() * 2, -1);
  old.swap(slots_);
  for (const std::int32_t id : old)
    if (id >= 0) slots_[place(token(id))] = id;
}

bool Vocabulary::add(std::string_view token, std::int32_t id) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  const std::size_t slot = place(token);
  if (has(id) || slots_[slot] >= 0) return false;
  if (id >= end_id()) entries_.resize(static_cast<std::size_t>(id) + 1);
  entries_[static_cast<std::size_t>(id)] = {bytes_.size(), static_cast<std::uint32_t>(token.size())};
  bytes_ += token;
  slots_[slot] = id;
  ++count_;
  return true;
}

Vocabulary read_vocabulary(const Json& config, const std::string& where) {
  if (!config.is_object())
    fail_at(where, fmt::format("got {}, expected an object of tokens and ids", config.type_name()));
  Vocabulary vocabulary;
  vocabulary.reserve(config.size(), 8 * config.size());
  for (const auto& [token, id] : config.items()) {
    const bool number = id.is_number_integer() && (id.is_number_unsigned() || id.get<std::int64_t>() >= 0);
    if (!number || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMaxId))
      fail_at(where, fmt::format("id of {}: got {}, expected 0 to {}", hone::quoted(token), id.dump(), kMaxId - 1));
    const auto value = id.get<std::int32_t>();
    if (!vocabulary.add(token, value))
      fail_at(where, fmt::format("id {} is given twice, to {} and to {}", value, hone::quoted(vocabulary.token(value)),
                                 hone::quoted(token)));
  }
  return vocabulary;
}

}  // namespace hone::text
