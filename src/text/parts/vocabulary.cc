// The hash table of Vocabulary and its reading from tokenizer.json.
#include "text/parts/vocabulary.h"

#include <fmt/format.h>

#include <cstring>

#include "base/strings.h"
#include "text/formats/json_cursor.h"
#include "text/parts/component.h"
#include "text/parts/flat_map.h"

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

void Vocabulary::add_or_replace(std::string_view token, std::int32_t id) {
  if (add(token, id)) return;
  std::int32_t& known = slots_[place(token)];
  if (id >= end_id()) entries_.resize(static_cast<std::size_t>(id) + 1);
  entries_[static_cast<std::size_t>(id)] = entries_[static_cast<std::size_t>(known)];
  known = id;
  ++count_;
}

Vocabulary read_vocabulary(std::string_view json, const std::string& where) {
  if (json.empty() || json[0] != '{') fail_at(where, "expected an object of tokens and ids");
  Vocabulary vocabulary;
  vocabulary.reserve(json.size() / 24, json.size() / 2);
  JsonCursor cursor(json, where);
  std::string token;
  cursor.each_member([&](std::string_view key) {
    token = key;
    const std::string_view number = cursor.skip();
    const auto id = parse_uint(number);
    if (!id || *id >= static_cast<std::uint64_t>(kMaxId))
      fail_at(where, fmt::format("id of {}: got {}, expected 0 to {}", hone::quoted(token),
                                 escape_for_terminal(number, 40), kMaxId - 1));
    const auto value = static_cast<std::int32_t>(*id);
    if (vocabulary.add(token, value)) return;
    if (!vocabulary.has(value)) fail_at(where, fmt::format("the token {} is given twice", hone::quoted(token)));
    fail_at(where, fmt::format("id {} is given twice, to {} and to {}", value, hone::quoted(vocabulary.token(value)),
                               hone::quoted(token)));
  });
  return vocabulary;
}

}  // namespace hone::text
