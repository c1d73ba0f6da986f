// Precompiled: SentencePiece's table of replacements, a trie of 32-bit units and the texts that its values point to.
#include <fmt/format.h>

#include <cstring>

#include "base/strings.h"
#include "text/formats/base64.h"
#include "text/parts/component.h"
#include "text/parts/normalizers.h"
#include "text/unicode/graphemes.h"
#include "text/unicode/normal_forms.h"

namespace hone::text {
namespace {

constexpr std::size_t kWholeGraphemes = 6;  // clusters of fewer bytes are looked up whole, as in the library

class Precompiled final : public Normalizer {
 public:
  Precompiled(const Json& config, const std::string& where) {
    const std::string place = where + ".precompiled_charsmap";
    const auto bytes = from_base64(get_string(config, "precompiled_charsmap", where));
    if (!bytes) fail_at(place, "not base64");
    std::uint32_t size = 0;
    if (bytes->size() < 4) fail_at(place, "ends too early");
    std::memcpy(&size, bytes->data(), 4);
    const std::size_t units = size / 4;
    if (units == 0 || units > (bytes->size() - 4) / 4)
      fail_at(place, fmt::format("its trie has {} bytes; got {}", size, bytes->size() - 4));
    units_.resize(units);
    std::memcpy(units_.data(), bytes->data() + 4, 4 * units);
    texts_ = bytes->substr(4 + 4 * units);
    if (const auto bad = first_bad_utf8(texts_))
      fail_at(place, fmt::format("its texts are not UTF-8 at byte {}", *bad));
    find_changes();
  }

  bool leaves(std::string_view text) const override {
    for (const char c : text)
      if (changes_[static_cast<unsigned char>(c)]) return false;
    return true;
  }

  void apply(Aligned& text, RegexScratch&) const override {
    std::vector<Change> changes;
    changes.reserve(text.text.size());
    bool any = false;
    for (std::size_t at = 0; at < text.text.size();) {
      const std::size_t end = grapheme_end(text.text, at);
      any = apply_to_cluster(std::string_view(text.text).substr(at, end - at), changes) || any;
      at = end;
    }
    if (any) carry_out(changes, text);
  }

 private:
  bool apply_to_cluster(std::string_view cluster, std::vector<Change>& changes) const {
    std::string_view made;
    if (cluster.size() < kWholeGraphemes && transform(cluster, made)) return replace(cluster, made, changes), true;
    bool any = false;
    for (std::size_t next = 0; next < cluster.size();) {
      const std::size_t begin = next;
      const char32_t c = next_code_point(cluster, next);
      const std::string_view part = cluster.substr(begin, next - begin);
      if (transform(part, made)) {
        replace(part, made, changes);
        any = true;
      } else {
        changes.push_back({c, 0});
      }
    }
    return any;
  }

  // As the library counts: what is dropped goes to the account of the character before, wherever that came from; at the
  // very beginning it is forgotten.
  static void replace(std::string_view old, std::string_view made, std::vector<Change>& changes) {
    int left = 0;
    for (const char c : old) left += !is_continuation(c);
    for (std::size_t at = 0; at < made.size(); --left) {
      const char32_t c = next_code_point(made, at);
      changes.push_back({c, left > 0 ? 0 : 1});
    }
    if (left > 0 && !changes.empty()) changes.back().consumed -= left;
  }

  // What the shortest prefix with an entry becomes.
  bool transform(std::string_view text, std::string_view& made) const {
    std::uint64_t node = 0;
    std::uint32_t unit = units_[0];
    node ^= offset(unit);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return false;
      node ^= byte;
      if (node >= units_.size()) return false;
      unit = units_[node];
      if ((unit & (1u << 31 | 0xFF)) != byte) return false;
      node ^= offset(unit);
      if (!(unit >> 8 & 1)) continue;
      if (node >= units_.size()) return false;
      const std::size_t begin = units_[node] & ((1u << 31) - 1);
      if (begin >= texts_.size()) return made = {}, true;
      made = std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
      return !is_continuation(texts_[begin]);
    }
    return false;
  }
  static std::uint64_t offset(std::uint32_t unit) {
    return static_cast<std::uint64_t>(unit >> 10) << ((unit & 1u << 9) >> 6);
  }

  // Characters of one byte that change, line ends, and all that has more bytes.
  void find_changes() {
    std::string_view ignored;
    for (unsigned b = 0; b < 256; ++b) {
      const char c = static_cast<char>(b);
      changes_[b] = b >= 0x80 || c == '\r' || transform({&c, 1}, ignored);
    }
  }

  std::vector<std::uint32_t> units_;
  std::string texts_;
  bool changes_[256] = {};
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled_normalizer(const Json& config, const std::string& where) {
  return std::make_unique<Precompiled>(config, where);
}

}  // namespace hone::text
