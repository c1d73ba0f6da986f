// Named sets of code points and the arithmetic on them.
#include "text/unicode/char_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

namespace hone::text {
namespace {

CharSet select(const std::function<bool(char32_t)>& holds) {
  CharSet set;
  for (char32_t c = 0, first = 0; c <= kMaxCodePoint; c = first) {
    while (c <= kMaxCodePoint && !holds(c)) ++c;
    if (c > kMaxCodePoint) break;
    for (first = c + 1; first <= kMaxCodePoint && holds(first);) ++first;
    set.add(c, first - 1);
  }
  return set;
}

// select(), which looks at every code point, once for each of a few keys.
CharSet select_once(unsigned key, const std::function<bool(char32_t)>& holds) {
  static std::mutex mutex;
  static std::map<unsigned, CharSet> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, select(holds)).first->second;
}

CharSet categories(Category low, Category high) {
  return select_once(static_cast<unsigned>(low) << 8 | static_cast<unsigned>(high),
                     [=](char32_t c) { return category_of(c) >= low && category_of(c) <= high; });
}
CharSet with_class(std::uint8_t bit) {
  return select_once(1u << 16 | bit, [=, table = class_table()](char32_t c) { return (table[c] & bit) != 0; });
}

struct Named {
  std::string_view name, long_name;
  Category low, high;
};
constexpr Named kKinds[] = {{"l", "letter", Lu, Lo},
                            {"m", "mark", Mn, Me},
                            {"n", "number", Nd, No},
                            {"p", "punctuation", Pc, Po},
                            {"s", "symbol", Sm, So},
                            {"z", "separator", Zs, Zp},
                            {"c", "other", Cc, Cn},
                            {"lu", "uppercaseletter", Lu, Lu},
                            {"ll", "lowercaseletter", Ll, Ll},
                            {"lt", "titlecaseletter", Lt, Lt},
                            {"lm", "modifierletter", Lm, Lm},
                            {"lo", "otherletter", Lo, Lo},
                            {"mn", "nonspacingmark", Mn, Mn},
                            {"mc", "spacingmark", Mc, Mc},
                            {"me", "enclosingmark", Me, Me},
                            {"nd", "decimalnumber", Nd, Nd},
                            {"nl", "letternumber", Nl, Nl},
                            {"no", "othernumber", No, No},
                            {"pc", "connectorpunctuation", Pc, Pc},
                            {"pd", "dashpunctuation", Pd, Pd},
                            {"ps", "openpunctuation", Ps, Ps},
                            {"pe", "closepunctuation", Pe, Pe},
                            {"pi", "initialpunctuation", Pi, Pi},
                            {"pf", "finalpunctuation", Pf, Pf},
                            {"po", "otherpunctuation", Po, Po},
                            {"sm", "mathsymbol", Sm, Sm},
                            {"sc", "currencysymbol", Sc, Sc},
                            {"sk", "modifiersymbol", Sk, Sk},
                            {"so", "othersymbol", So, So},
                            {"zs", "spaceseparator", Zs, Zs},
                            {"zl", "lineseparator", Zl, Zl},
                            {"zp", "paragraphseparator", Zp, Zp},
                            {"cc", "control", Cc, Cc},
                            {"cf", "format", Cf, Cf},
                            {"co", "privateuse", Co, Co},
                            {"cn", "unassigned", Cn, Cn}};

// As Oniguruma compares names: without blanks, '_' and '-', in lower case.
std::string simplified(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '_' && c != '-') out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

}  // namespace

void CharSet::add(char32_t first, char32_t last) {
  if (first > last) return;
  if (ranges_.empty() || first > ranges_.back().last + 1) return ranges_.push_back({first, last});
  auto from = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                               [](const Range& r, char32_t c) { return r.last + 1 < c; });
  auto to = from;
  for (; to != ranges_.end() && to->first <= last + 1; ++to) {
    first = std::min(first, to->first);
    last = std::max(last, to->last);
  }
  from = ranges_.erase(from, to);
  ranges_.insert(from, {first, last});
}

CharSet CharSet::complement() const {
  CharSet out;
  char32_t next = 0;
  for (const Range& r : ranges_) {
    if (r.first > next) out.ranges_.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kMaxCodePoint) out.ranges_.push_back({next, kMaxCodePoint});
  return out;
}

CharSet CharSet::intersection(const CharSet& other) const {
  CharSet united = complement();
  united.add(other.complement());
  return united.complement();
}

std::optional<CharSet> property(std::string_view name) {
  if (!name.empty() && name[0] == '^') {
    const auto inner = property(name.substr(1));
    return inner ? std::optional(inner->complement()) : std::nullopt;
  }
  const std::string wanted = simplified(name);
  for (const Named& n : kKinds)
    if (wanted == n.name || wanted == n.long_name) return categories(n.low, n.high);
  if (wanted == "any") return CharSet().complement();
  if (wanted == "ascii") return CharSet(std::vector<Range>{{0, 0x7F}});
  if (wanted == "word" || wanted == "space" || wanted == "digit" || wanted == "punct") return posix_class(wanted);
  if (wanted.empty()) return std::nullopt;
  const std::span<const Range> ranges = script_ranges(wanted);
  return ranges.empty() ? std::nullopt : std::optional(CharSet(ranges));
}

std::optional<CharSet> posix_class(std::string_view name) {
  if (!name.empty() && name[0] == '^') {
    const auto inner = posix_class(name.substr(1));
    return inner ? std::optional(inner->complement()) : std::nullopt;
  }
  if (name == "space") return with_class(kSpace);
  if (name == "digit") return categories(Nd, Nd);
  if (name == "word") return with_class(kWord);
  if (name == "cntrl") return categories(Cc, Cc);
  if (name == "xdigit") return shorthand('h');
  if (name == "punct") return categories(Pc, So);
  if (name == "blank") {
    CharSet blank = categories(Zs, Zs);
    blank.add('\t', '\t');
    return blank;
  }
  return std::nullopt;
}

std::optional<CharSet> shorthand(char letter) {
  switch (letter) {
    case 's':
      return with_class(kSpace);
    case 'd':
      return categories(Nd, Nd);
    case 'h':
      return CharSet(std::vector<Range>{{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
    case 'w': {  // [[:word:]] and, a quirk of the library, the fractions and superscripts of Latin-1
      CharSet word = with_class(kWord);
      for (const char32_t c : {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}) word.add(c, c);
      return word;
    }
    case 'S':
    case 'D':
    case 'H':
    case 'W':
      return shorthand(static_cast<char>(letter + 32))->complement();
    default:
      return std::nullopt;
  }
}

std::string to_pcre2(const CharSet& set) {
  const CharSet outside = set.complement();
  if (set.ranges().empty()) return "(?!)";
  const bool negated = outside.ranges().size() < set.ranges().size() && !outside.ranges().empty();
  std::string out = negated ? "[^" : "[";
  for (Range r : (negated ? outside : set).ranges()) {
    if (r.first >= 0xD800 && r.first <= 0xDFFF) r.first = 0xE000;  // surrogates may not be named
    if (r.last >= 0xD800 && r.last <= 0xDFFF) r.last = 0xD7FF;
    if (r.first > r.last) continue;
    out += r.first == r.last ? fmt::format("\\x{{{:x}}}", static_cast<std::uint32_t>(r.first))
                             : fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<std::uint32_t>(r.first),
                                           static_cast<std::uint32_t>(r.last));
  }
  if (out.size() <= 2) return negated ? "[\\x{0}-\\x{10ffff}]" : "(?!)";
  return out + "]";
}

}  // namespace hone::text
