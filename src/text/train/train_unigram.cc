// Training of Unigram (Kudo 2018): many pieces at first, expectation-maximisation of their probabilities, and again and
// again the loss of those whose absence costs least. Sums are made in a fixed order: the number of threads changes
// nothing.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "text/parts/trie.h"
#include "text/tokenizer/parallel.h"
#include "text/train/train.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

using Pieces = std::vector<std::pair<std::string, double>>;

constexpr std::size_t kLongest = 16;            // characters of a piece
constexpr std::size_t kSeeds = 1'000'000;       // pieces to begin with
constexpr std::size_t kChunks = 32;             // of words, each summed by one thread
constexpr double kShrink = 0.75, kLeast = 0.5;  // of the pieces that stay at a time; expected count to stay at all
constexpr double kNoScore = -1e300;

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b <= kNoScore ? a : a + std::log1p(std::exp(b - a));
}

double digamma(double x) {
  double result = 0;
  for (; x < 7; ++x) result -= 1 / x;
  x -= 0.5;
  const double y = 1 / (x * x);
  return result + std::log(x) + y * (1.0 / 24 - y * (7.0 / 960 - y * (31.0 / 8064 - y * 127.0 / 30720)));
}

std::size_t count_characters(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += !is_continuation(c);
  return n;
}

// All pieces that begin at each place of a word: each(begin, end, id).
template <class Each>
void each_edge(const Trie& trie, std::string_view word, Each&& each) {
  for (std::size_t begin = 0; begin < word.size(); begin += utf8_length(word[begin])) {
    std::uint32_t node = 0;
    for (std::size_t at = begin; at < word.size();) {
      node = trie.child(node, word[at++]);
      if (node == Trie::kNone) break;
      if (trie.value(node) >= 0) each(begin, at, static_cast<std::size_t>(trie.value(node)));
    }
  }
}

Trie make_trie(const Pieces& pieces) {
  std::vector<std::pair<std::string_view, std::int32_t>> keys;
  for (std::size_t i = 0; i < pieces.size(); ++i) keys.emplace_back(pieces[i].first, static_cast<std::int32_t>(i));
  return Trie(std::move(keys));
}

// The best way through a word, without the piece `without`: its score, and its pieces.
double best_path(const Trie& trie, const Pieces& pieces, std::string_view word, std::size_t without,
                 std::vector<std::size_t>& path) {
  std::vector<double> score(word.size() + 1, kNoScore);
  std::vector<std::pair<std::size_t, std::size_t>> back(word.size() + 1);
  score[0] = 0;
  each_edge(trie, word, [&](std::size_t begin, std::size_t end, std::size_t id) {
    if (id == without || score[begin] <= kNoScore || score[begin] + pieces[id].second <= score[end]) return;
    score[end] = score[begin] + pieces[id].second;
    back[end] = {begin, id};
  });
  path.clear();
  for (std::size_t at = score[word.size()] > kNoScore ? word.size() : 0; at > 0; at = back[at].first)
    path.push_back(back[at].second);
  return score[word.size()];
}

class UnigramTrainer {
 public:
  UnigramTrainer(const WordCounts& words, const TrainOptions& options) : words_(words), options_(options) { seed(); }

  Pieces run() {
    const std::size_t wanted = options_.vocab_size + options_.vocab_size / 10;
    for (;;) {
      for (int i = 0; i < 2; ++i) maximise(expect());
      const std::size_t before = pieces_.size();
      if (before <= wanted) break;
      prune(wanted);
      if (pieces_.size() == before) break;  // only characters are left
    }
    return best();
  }

 private:
  // Calls work(first word, behind the last, number of the chunk).
  template <class Work>
  void each_chunk(Work&& work) const {
    const std::size_t step = words_.size() / kChunks + 1;
    in_parallel(kChunks, options_.threads, [&](std::size_t k) {
      const std::size_t begin = std::min(k * step, words_.size()), end = std::min(begin + step, words_.size());
      if (begin < end) work(begin, end, k);
    });
  }

  // All characters, and the parts of words that occur twice, best by count times length.
  void seed() {
    std::unordered_map<std::string_view, std::uint64_t> counts;
    for (const auto& [word, count] : words_)
      for (std::size_t begin = 0; begin < word.size(); begin += utf8_length(word[begin])) {
        std::size_t end = begin;
        for (std::size_t n = 0; n < kLongest && end < word.size(); ++n) {
          end += utf8_length(word[end]);
          counts[std::string_view(word).substr(begin, end - begin)] += count;
        }
      }
    std::vector<std::pair<std::string_view, std::uint64_t>> longer;
    for (const auto& [text, count] : counts) {
      if (count_characters(text) == 1)
        pieces_.emplace_back(text, static_cast<double>(count)), is_character_[std::string(text)] = true;
      else if (count >= std::max<std::uint64_t>(2, options_.min_frequency))
        longer.emplace_back(text, count * count_characters(text));
    }
    std::sort(pieces_.begin(), pieces_.end());
    std::sort(longer.begin(), longer.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    if (longer.size() > kSeeds) longer.resize(kSeeds);
    for (const auto& [text, score] : longer) pieces_.emplace_back(text, static_cast<double>(score));
    double sum = 0;
    for (const auto& piece : pieces_) sum += piece.second;
    for (auto& piece : pieces_) piece.second = std::log(piece.second / sum);
  }

  // How often each piece is expected, over all ways to cut each word.
  std::vector<double> expect() const {
    const Trie trie = make_trie(pieces_);
    std::vector<std::vector<double>> parts(kChunks);
    each_chunk([&](std::size_t begin, std::size_t end, std::size_t k) {
      parts[k].assign(pieces_.size(), 0);
      for (std::size_t w = begin; w < end; ++w) add_expected(trie, words_[w], parts[k]);
    });
    std::vector<double> sum(pieces_.size());
    for (const auto& part : parts)
      for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
    return sum;
  }

  void add_expected(const Trie& trie, const std::pair<std::string, std::uint64_t>& word,
                    std::vector<double>& sum) const {
    struct Edge {
      std::size_t begin, end, id;
    };
    const std::size_t n = word.first.size();
    std::vector<double> forward(n + 1, kNoScore), backward(n + 1, kNoScore);
    std::vector<Edge> edges;
    forward[0] = backward[n] = 0;
    each_edge(trie, word.first, [&](std::size_t begin, std::size_t end, std::size_t id) {
      edges.push_back({begin, end, id});
      forward[end] = log_add(forward[end], forward[begin] + pieces_[id].second);
    });
    for (auto e = edges.rbegin(); e != edges.rend(); ++e)
      backward[e->begin] = log_add(backward[e->begin], backward[e->end] + pieces_[e->id].second);
    for (const Edge& e : edges)
      sum[e.id] += static_cast<double>(word.second) *
                   std::exp(forward[e.begin] + pieces_[e.id].second + backward[e.end] - forward[n]);
  }

  void maximise(const std::vector<double>& expected) {
    Pieces kept;
    double sum = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (expected[i] < kLeast && !is_character_.contains(pieces_[i].first)) continue;
      const double count = std::max(expected[i], kLeast);
      kept.emplace_back(std::move(pieces_[i].first), count);
      sum += count;
    }
    for (auto& piece : kept) piece.second = digamma(piece.second) - digamma(sum);
    pieces_ = std::move(kept);
  }

  // Drops the pieces that the text would miss least: their words fall apart into others that are nearly as likely.
  void prune(std::size_t wanted) {
    const Trie trie = make_trie(pieces_);
    std::vector<std::vector<double>> parts(kChunks);
    each_chunk([&](std::size_t begin, std::size_t end, std::size_t k) {
      parts[k].assign(pieces_.size(), 0);
      std::vector<std::size_t> path;
      for (std::size_t w = begin; w < end; ++w) {
        best_path(trie, pieces_, words_[w].first, SIZE_MAX, path);
        for (const std::size_t id : path) parts[k][id] += static_cast<double>(words_[w].second);
      }
    });
    std::vector<double> counts(pieces_.size());
    for (const auto& part : parts)
      for (std::size_t i = 0; i < part.size(); ++i) counts[i] += part[i];
    std::vector<std::pair<double, std::size_t>> losses(pieces_.size());
    in_parallel(pieces_.size(), options_.threads, [&](std::size_t i) {
      std::vector<std::size_t> path;
      const double other = best_path(trie, pieces_, pieces_[i].first, i, path);
      const bool needed = is_character_.contains(pieces_[i].first) || other <= kNoScore;
      losses[i] = {needed ? HUGE_VAL : counts[i] * (pieces_[i].second - other), i};
    });
    std::sort(losses.begin(), losses.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    const auto stay = std::max(wanted, static_cast<std::size_t>(kShrink * static_cast<double>(pieces_.size())));
    Pieces kept;
    for (std::size_t i = 0; i < losses.size() && (i < stay || losses[i].first == HUGE_VAL); ++i)
      kept.push_back(std::move(pieces_[losses[i].second]));
    pieces_ = std::move(kept);
  }

  // Characters first, then the best of the others, as many as there is room for.
  Pieces best() {
    std::sort(pieces_.begin(), pieces_.end(), [&](const auto& a, const auto& b) {
      const bool first = is_character_.contains(a.first), second = is_character_.contains(b.first);
      return first != second ? first : a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    if (pieces_.size() > options_.vocab_size) pieces_.resize(std::max(options_.vocab_size, is_character_.size()));
    std::sort(pieces_.begin(), pieces_.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return std::move(pieces_);
  }

  const WordCounts& words_;
  const TrainOptions& options_;
  Pieces pieces_;
  std::unordered_map<std::string, bool> is_character_;
};

}  // namespace

std::vector<std::pair<std::string, double>> train_unigram(const WordCounts& words, const TrainOptions& options) {
  return words.empty() ? Pieces() : UnigramTrainer(words, options).run();
}

}  // namespace hone::text
