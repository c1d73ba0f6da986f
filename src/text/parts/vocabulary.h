// Tokens and their ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hone::text {

inline constexpr std::int64_t kMaxId = 1 << 24;  // an embedding with more rows is a damaged file

// Immutable once filled: any thread may read. Ids may have holes.
class Vocabulary {
 public:
  // false: the token or the id is there already (nothing is changed). REQUIRES: 0 <= id < kMaxId.
  bool add(std::string_view token, std::int32_t id);
  // The same for lists in which a token may come again: find() then gives the later id. REQUIRES: !has(id).
  void add_or_replace(std::string_view token, std::int32_t id);
  void reserve(std::size_t tokens, std::size_t bytes);

  std::int32_t find(std::string_view token) const;  // -1: not there
  bool has(std::int64_t id) const {
    return id >= 0 && id < static_cast<std::int64_t>(entries_.size()) &&
           entries_[static_cast<std::size_t>(id)].begin != kHole;
  }
  std::string_view token(std::int32_t id) const {  // REQUIRES: has(id)
    const Entry& e = entries_[static_cast<std::size_t>(id)];
    return std::string_view(bytes_).substr(e.begin, e.size);
  }
  std::size_t size() const { return count_; }                                         // tokens
  std::int32_t end_id() const { return static_cast<std::int32_t>(entries_.size()); }  // highest id + 1

 private:
  static constexpr std::uint64_t kHole = ~std::uint64_t{0};
  struct Entry {
    std::uint64_t begin = kHole;
    std::uint32_t size = 0;
  };
  std::size_t place(std::string_view token) const;
  void grow();
  std::string bytes_;
  std::vector<Entry> entries_;                                           // by id
  std::vector<std::int32_t> slots_ = std::vector<std::int32_t>(16, -1);  // hash table of ids
  std::size_t count_ = 0;
};

std::uint64_t hash_token(std::string_view token);

// {"token": id, ...} of a model, as JSON text. Throws Error(config) for ids that are no numbers, too large or given
// twice.
Vocabulary read_vocabulary(std::string_view json, const std::string& where);

}  // namespace hone::text
