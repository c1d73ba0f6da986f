// Decomposition, canonical order and composition (UAX 15) over utf8proc's tables.
#include "text/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <unordered_map>
#include <vector>

namespace hone::text {
namespace {

// A character of the result and how it relates to the source: 0 stands for one source character, 1 was put in
// after it, -n stands for one and swallows the n that follow.
struct Change {
  char32_t c;
  int consumed;
  int order;  // canonical combining class
};

constexpr char32_t kHangulL = 0x1100, kHangulV = 0x1161, kHangulT = 0x11A7, kHangulS = 0xAC00;

// Characters with a decomposition that came after Unicode 9 (up to 16).
constexpr Range kNewer[] = {{0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x105C9, 0x105C9},
                            {0x105E4, 0x105E4}, {0x10781, 0x107BA}, {0x11383, 0x113C8}, {0x11938, 0x11938},
                            {0x16121, 0x16128}, {0x16D68, 0x16D6A}, {0x1CCD6, 0x1CCF9}, {0x1E030, 0x1E06D},
                            {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

bool is_newer(char32_t c) {
  return std::any_of(std::begin(kNewer), std::end(kNewer), [c](const Range& r) { return c >= r.first && c <= r.last; });
}

bool is_compatibility(NormalForm form) { return form == NormalForm::nfkc || form == NormalForm::nfkd; }
bool composes(NormalForm form) { return form == NormalForm::nfc || form == NormalForm::nfkc; }

int order_of(char32_t c) {
  const int order = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  return order != 0 && (class_table()[c] & kCombiningMark) ? order : 0;
}

// The full decomposition; at most 18 characters exist.
std::size_t decompose(char32_t c, bool compatibility, std::array<utf8proc_int32_t, 32>& into) {
  into[0] = static_cast<utf8proc_int32_t>(c);
  if (c < 0xA0 || is_newer(c)) return 1;
  int boundary = 0;
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), into.data(), into.size(),
                                             static_cast<utf8proc_option_t>(options), &boundary);
  return count > 0 ? static_cast<std::size_t>(count) : 1;
}

bool is_own_nfc(char32_t c) {
  std::string source;
  append_utf8(source, c);
  utf8proc_uint8_t* made = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(source.data()),
                                   static_cast<utf8proc_ssize_t>(source.size()), &made,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const bool same = length == static_cast<utf8proc_ssize_t>(source.size()) &&
                    std::equal(source.begin(), source.end(), made,
                               [](char a, utf8proc_uint8_t b) { return static_cast<utf8proc_uint8_t>(a) == b; });
  std::free(made);
  return same;
}

// Primary composites, and per character in which of the four forms it can be changed or moved.
struct Tables {
  std::unordered_map<std::uint64_t, char32_t> composites;
  std::vector<std::uint8_t> unsafe = std::vector<std::uint8_t>(kMaxCodePoint + 1);

  Tables() {
    std::vector<std::pair<char32_t, std::vector<char32_t>>> found;
    std::array<utf8proc_int32_t, 32> parts;
    for (char32_t c = 0xA0; c <= kMaxCodePoint; ++c) {
      if (c >= kHangulS && c < kHangulS + 11172) {
        unsafe[c] = bit(NormalForm::nfd) | bit(NormalForm::nfkd);
        continue;
      }
      if (order_of(c) != 0) unsafe[c] = 0xF;
      if (utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->decomp_seqindex == UINT16_MAX || is_newer(c))
        continue;
      unsafe[c] |= bit(NormalForm::nfkd) | bit(NormalForm::nfkc);
      const std::size_t count = decompose(c, false, parts);
      if (count == 1 && parts[0] == static_cast<utf8proc_int32_t>(c)) continue;
      unsafe[c] |= bit(NormalForm::nfd);
      if (count > 1 && is_own_nfc(c))
        found.push_back({c, {parts.begin(), parts.begin() + count}});
      else
        unsafe[c] |= bit(NormalForm::nfc);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [c, decomposed] : found) add(c, decomposed);
    for (char32_t c = kHangulV; c < kHangulV + 21; ++c) unsafe[c] |= bit(NormalForm::nfc) | bit(NormalForm::nfkc);
    for (char32_t c = kHangulT + 1; c < kHangulT + 28; ++c) unsafe[c] |= bit(NormalForm::nfc) | bit(NormalForm::nfkc);
  }
  static std::uint8_t bit(NormalForm form) { return static_cast<std::uint8_t>(1 << static_cast<int>(form)); }
  static std::uint64_t key(char32_t a, char32_t b) { return static_cast<std::uint64_t>(a) << 32 | b; }

  // All but the last character compose to the first of the pair, by an entry made before (shorter ones come first).
  void add(char32_t c, const std::vector<char32_t>& parts) {
    char32_t first = parts[0];
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      const auto found = composites.find(key(first, parts[i]));
      if (found == composites.end()) return;
      first = found->second;
    }
    composites.emplace(key(first, parts.back()), c);
    unsafe[parts.back()] |= bit(NormalForm::nfc) | bit(NormalForm::nfkc);
  }
};

const Tables& tables() {
  static const Tables made;
  return made;
}

std::optional<char32_t> compose(char32_t a, char32_t b) {
  if (a >= kHangulL && a < kHangulL + 19 && b >= kHangulV && b < kHangulV + 21)
    return kHangulS + ((a - kHangulL) * 21 + (b - kHangulV)) * 28;
  if (a >= kHangulS && a < kHangulS + 11172 && (a - kHangulS) % 28 == 0 && b > kHangulT && b < kHangulT + 28)
    return a + (b - kHangulT);
  const auto found = tables().composites.find(Tables::key(a, b));
  if (found == tables().composites.end()) return std::nullopt;
  return found->second;
}

std::vector<Change> decomposed(std::string_view text, bool compatibility) {
  std::vector<Change> out;
  out.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts;
  std::size_t marks = 0;  // where the run of characters that may change places begins
  const auto sort_marks = [&] {
    std::stable_sort(out.begin() + marks, out.end(),
                     [](const Change& a, const Change& b) { return a.order < b.order; });
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = decompose(next_code_point(text, at), compatibility, parts);
    for (std::size_t i = 0; i < count; ++i) {
      const auto c = static_cast<char32_t>(parts[i]);
      const int order = order_of(c);
      if (order == 0) {
        sort_marks();
        marks = out.size() + 1;
      }
      out.push_back({c, i == 0 ? 0 : 1, order});
    }
  }
  if (marks < out.size()) sort_marks();
  return out;
}

std::vector<Change> composed(const std::vector<Change>& parts) {
  std::vector<Change> out;
  out.reserve(parts.size());
  std::size_t starter = SIZE_MAX;  // its place in `out`
  int last_order = -1;             // of what stands between the starter and here; -1: nothing
  for (const Change& part : parts) {
    if (starter == SIZE_MAX) {
      if (part.order == 0) starter = out.size();
      out.push_back(part);
      continue;
    }
    if (last_order < part.order || last_order == -1) {
      if (const auto both = compose(out[starter].c, part.c)) {
        out[starter].c = *both;
        out[starter].consumed += part.consumed - 1;
        continue;
      }
    }
    if (part.order == 0) starter = out.size();
    last_order = part.order == 0 ? -1 : part.order;
    out.push_back(part);
  }
  return out;
}

void carry_out(const std::vector<Change>& changes, Aligned& text) {
  Aligned out;
  out.base = text.base;
  out.limit = text.limit;
  std::size_t at = 0;
  const auto step = [&] {
    if (at < text.text.size()) at += utf8_length(text.text[at]);
  };
  for (const Change& change : changes) {
    const bool inserted = change.consumed > 0;
    out.append(change.c, inserted || at >= text.text.size() ? text.origin_before(at) : text.origins[at]);
    for (int n = change.consumed; n <= 0; ++n) step();
  }
  text = std::move(out);
}

}  // namespace

void normalize(NormalForm form, Aligned& text) {
  if (is_normal(form, text.text)) return;
  const std::vector<Change> parts = decomposed(text.text, is_compatibility(form));
  carry_out(composes(form) ? composed(parts) : parts, text);
}

bool is_normal(NormalForm form, std::string_view text) {
  const Tables* known = nullptr;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    if (!known) known = &tables();
    if (known->unsafe[next_code_point(text, at)] & Tables::bit(form)) return false;
  }
  return true;
}

}  // namespace hone::text
