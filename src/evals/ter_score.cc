#include "evals/ter_score.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "base/strings.h"
#include "evals/bleu_tokens.h"
#include "evals/python_text.h"
#include "hone/error.h"
#include "text/jinja/case.h"
#include "text/jinja/text_ops.h"

namespace hone::evals {
namespace {

using Words = std::vector<std::string>;

constexpr int kMostShifted = 10, kFarthest = 50, kBeam = 25, kMostTried = 1000;  // Tercom's

enum class Edit : char { none, change, insert, erase, unknown };

// The edits that make words of a reference those of an answer, searched near the diagonal.
class Distance {
 public:
  Distance(const Words& answer, const Words& reference) : width_(reference.size() + 1) {
    const auto wanted = static_cast<int>(reference.size()), made = static_cast<int>(answer.size());
    cells_.resize(width_ * (answer.size() + 1));
    for (int j = 0; j <= wanted; ++j) at(0, j) = {j, Edit::insert};
    const double ratio = answer.empty() ? 1 : static_cast<double>(wanted) / made;
    const int beam = kBeam < ratio / 2 ? static_cast<int>(std::ceil(ratio / 2 + kBeam)) : kBeam;
    for (int i = 1; i <= made; ++i) {
      const int middle = static_cast<int>(std::floor(i * ratio));
      const int end = i == made ? wanted + 1 : std::min(wanted + 1, middle + beam);
      for (int j = std::max(0, middle - beam); j < end; ++j) fill(i, j, answer, reference);
    }
    for (int i = made, j = wanted; i > 0 || j > 0;) {
      const Edit edit = at(i, j).edit;
      HONE_ASSERT(edit != Edit::unknown);
      trace_.push_back(edit);
      i -= edit != Edit::insert, j -= edit != Edit::erase;
    }
    std::reverse(trace_.begin(), trace_.end());
    edits_ = at(made, wanted).cost;
  }
  int edits() const { return edits_; }
  const std::vector<Edit>& trace() const { return trace_; }  // erase: a word of the answer is too many

 private:
  struct Cell {
    int cost = std::numeric_limits<int>::max() / 2;
    Edit edit = Edit::unknown;
  };
  Cell& at(int i, int j) { return cells_[static_cast<std::size_t>(i) * width_ + static_cast<std::size_t>(j)]; }
  void fill(int i, int j, const Words& answer, const Words& reference) {
    Cell& cell = at(i, j);
    if (j == 0) {
      cell = {at(i - 1, 0).cost + 1, Edit::erase};
      return;
    }
    const bool same = answer[static_cast<std::size_t>(i) - 1] == reference[static_cast<std::size_t>(j) - 1];
    const Cell ways[] = {{at(i - 1, j - 1).cost + !same, same ? Edit::none : Edit::change},
                         {at(i - 1, j).cost + 1, Edit::erase},
                         {at(i, j - 1).cost + 1, Edit::insert}};
    for (const Cell& way : ways)
      if (way.cost < cell.cost) cell = way;
  }
  std::size_t width_;
  std::vector<Cell> cells_;
  std::vector<Edit> trace_;
  int edits_ = 0;
};

// Which word of the answer stands for each of the reference's, and which are wrong.
struct Alignment {
  std::map<int, int> places;
  std::vector<bool> wrong_answer, wrong_reference;
  explicit Alignment(const std::vector<Edit>& trace) {
    int answer = -1, reference = -1;
    for (const Edit edit : trace) {
      const bool wrong = edit != Edit::none;
      if (edit != Edit::insert) ++answer, wrong_answer.push_back(wrong);
      if (edit != Edit::erase) places[++reference] = answer, wrong_reference.push_back(wrong);
    }
  }
};

Words shifted(const Words& words, int start, int length, int target) {
  const auto at = [&](int place) { return words.begin() + place; };
  Words made;
  const auto add = [&](int from, int to) { made.insert(made.end(), at(from), at(to)); };
  const int end = start + length, size = static_cast<int>(words.size());
  if (target < start) {
    add(0, target), add(start, end), add(target, start), add(end, size);
  } else if (target > end) {
    add(0, start), add(end, target), add(start, end), add(target, size);
  } else {
    const int behind = std::min(size, length + target);
    add(0, start), add(end, std::max(end, behind)), add(start, end), add(std::max(end, behind), size);
  }
  return made;
}

// The better one comes later: it saves more, is longer, and stands and goes to where it is earlier; then by its words.
struct Shift {
  int saved, length, start, target;
  Words words;
  auto order() const { return std::tie(saved, length, start, target, words); }
};

class Shifts {
 public:
  Shifts(const Words& answer, const Words& reference, int& tried)
      : answer_(answer), reference_(reference), tried_(tried), now_(answer, reference), aligned_(now_.trace()) {}
  std::optional<Shift> best() {
    for (int h = 0; h < static_cast<int>(answer_.size()); ++h)
      for (int r = 0; r < static_cast<int>(reference_.size()); ++r) {
        if (std::abs(r - h) > kFarthest) continue;
        for (int length = 1; length <= kMostShifted && is_same(h, r, length); ++length) {
          if (!try_all(h, r, length)) continue;
          if (tried_ >= kMostTried) return best_;
        }
      }
    return best_;
  }

 private:
  bool is_same(int h, int r, int length) const {
    const auto a = static_cast<std::size_t>(h + length), b = static_cast<std::size_t>(r + length);
    return a <= answer_.size() && b <= reference_.size() && answer_[a - 1] == reference_[b - 1];
  }
  static bool any(const std::vector<bool>& wrong, int start, int length) {
    const auto begin = wrong.begin() + start, end = begin + std::min<std::ptrdiff_t>(length, wrong.end() - begin);
    return std::find(begin, end, true) != end;
  }
  // false: these words are not looked at, as they are right or where they belong.
  bool try_all(int h, int r, int length) {
    if (!any(aligned_.wrong_answer, h, length) || !any(aligned_.wrong_reference, r, length)) return false;
    const int place = aligned_.places.at(r);
    if (h <= place && place < h + length) return false;
    int before = -1;
    for (int offset = -1; offset < length; ++offset) {
      const auto found = aligned_.places.find(r + offset);
      if (r + offset != -1 && found == aligned_.places.end()) break;
      const int target = r + offset == -1 ? 0 : found->second + 1;
      if (target == before) continue;
      before = target;
      Shift made{0, length, -h, -target, shifted(answer_, h, length, target)};
      made.saved = now_.edits() - Distance(made.words, reference_).edits();
      ++tried_;
      if (!best_ || best_->order() < made.order()) best_ = std::move(made);
    }
    return true;
  }

  const Words &answer_, &reference_;
  int& tried_;
  const Distance now_;
  const Alignment aligned_;
  std::optional<Shift> best_;
};

// Of Tercom, with the marks of languages that are written as English is.
std::string ter_normalized(std::string text) {
  return parted_as_english(on_one_line(replace_all(std::move(text), "\n-", "")), /*possessives=*/true);
}

Words ter_words(const std::string& given, const TerOptions& options) {
  std::string text(jinja::strip(given, {}, jinja::Side::right));
  if (!options.case_sensitive) text = jinja::lower(text);
  if (options.normalized && !text.empty()) text = ter_normalized(std::move(text));
  if (options.no_punct) std::erase_if(text, [](char c) { return c != 0 && std::strchr(".,?:;!\"()", c); });
  return python_split(text);
}

}  // namespace

int ter_edits(Words answer, const Words& reference) {
  if (reference.empty()) return static_cast<int>(answer.size());
  int shifts = 0, tried = 0;
  for (;; ++shifts) {
    const std::optional<Shift> best = Shifts(answer, reference, tried).best();
    if (tried >= kMostTried || !best || best->saved <= 0) break;
    answer = best->words;
  }
  return shifts + Distance(answer, reference).edits();
}

TerCounts ter_counts(const std::string& answer, const std::vector<std::string>& references,
                     const TerOptions& options) {
  HONE_ASSERT(!references.empty());
  const Words words = ter_words(answer, options);
  TerCounts counts{std::numeric_limits<double>::infinity(), 0};
  for (const std::string& reference : references) {
    const Words wanted = ter_words(reference, options);
    counts.edits = std::min<double>(counts.edits, ter_edits(words, wanted));
    counts.reference += static_cast<double>(wanted.size());
  }
  counts.reference /= static_cast<double>(references.size());
  return counts;
}

double ter_score(const TerCounts& counts) {
  if (counts.reference > 0) return 100 * (counts.edits / counts.reference);
  return counts.edits > 0 ? 100 : 0;
}

}  // namespace hone::evals
