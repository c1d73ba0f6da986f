// Decomposition, canonical order and composition (UAX 15) over tables asked from the reference.
#include "text/unicode/normal_forms.h"

#include <algorithm>
#include <array>
#include <vector>

namespace hone::text {
namespace {

struct Decomposed : Change {
  int order;  // canonical combining class
};

constexpr char32_t kHangulL = 0x1100, kHangulV = 0x1161, kHangulT = 0x11A7, kHangulS = 0xAC00;
using Parts = std::array<char32_t, 32>;

bool is_compatibility(NormalForm form) { return form == NormalForm::nfkc || form == NormalForm::nfkd; }
bool composes(NormalForm form) { return form == NormalForm::nfc || form == NormalForm::nfkc; }

// The full decomposition; at most 18 characters exist.
std::span<const char32_t> decompose(const NormalTables& tables, char32_t c, bool compatibility, Parts& room) {
  if (c >= kHangulS && c < kHangulS + 11172) {
    const char32_t index = c - kHangulS;
    room = {kHangulL + index / 588, kHangulV + index % 588 / 28, kHangulT + index % 28};
    return std::span(room).first(index % 28 ? 3 : 2);
  }
  const auto found = tables.decomposition(c, compatibility);
  room[0] = c;
  return found.empty() ? std::span<const char32_t>(room).first(1) : found;
}

char32_t compose(const NormalTables& tables, char32_t a, char32_t b) {
  if (a >= kHangulL && a < kHangulL + 19 && b >= kHangulV && b < kHangulV + 21)
    return kHangulS + ((a - kHangulL) * 21 + (b - kHangulV)) * 28;
  if (a >= kHangulS && a < kHangulS + 11172 && (a - kHangulS) % 28 == 0 && b > kHangulT && b < kHangulT + 28)
    return a + (b - kHangulT);
  return tables.composite(a, b);
}

std::vector<Decomposed> decomposed(std::string_view text, bool compatibility) {
  std::vector<Decomposed> out;
  out.reserve(text.size());
  const NormalTables& tables = NormalTables::get();
  Parts room;
  std::size_t marks = 0;  // where the run of characters that may change places begins
  const auto sort_marks = [&] {
    std::stable_sort(out.begin() + marks, out.end(),
                     [](const Decomposed& a, const Decomposed& b) { return a.order < b.order; });
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto parts = decompose(tables, next_code_point(text, at), compatibility, room);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const char32_t c = parts[i];
      const int order = tables.order(c);
      if (order == 0) {
        sort_marks();
        marks = out.size() + 1;
      }
      out.push_back({{c, i == 0 ? 0 : 1}, order});
    }
  }
  if (marks < out.size()) sort_marks();
  return out;
}

std::vector<Decomposed> composed(const std::vector<Decomposed>& parts) {
  const NormalTables& tables = NormalTables::get();
  std::vector<Decomposed> out;
  out.reserve(parts.size());
  std::size_t starter = SIZE_MAX;  // its place in `out`
  int last_order = -1;             // of what stands between the starter and here; -1: nothing
  for (const Decomposed& part : parts) {
    if (starter == SIZE_MAX) {
      if (part.order == 0) starter = out.size();
      out.push_back(part);
      continue;
    }
    if (last_order < part.order || last_order == -1) {
      if (const char32_t both = compose(tables, out[starter].c, part.c)) {
        out[starter].c = both;
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

}  // namespace

void carry_out(std::span<const Change> changes, Aligned& text) {
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

void normalize(NormalForm form, Aligned& text) {
  if (is_normal(form, text.text)) return;
  std::vector<Decomposed> parts = decomposed(text.text, is_compatibility(form));
  if (composes(form)) parts = composed(parts);
  const std::vector<Change> changes(parts.begin(), parts.end());
  carry_out(changes, text);
}

bool is_normal(NormalForm form, std::string_view text) {
  const NormalTables* tables = nullptr;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    if (!tables) tables = &NormalTables::get();
    if (tables->may_change(next_code_point(text, at), static_cast<std::uint8_t>(1 << static_cast<int>(form))))
      return false;
  }
  return true;
}

}  // namespace hone::text
