// Training of byte-pair encoding: as Hugging Face's trainer, the pair with the highest count, of equal ones that with
// the lowest ids; a queue of pairs with the words they are in, counts kept up to date by what each merge changes.
#include <algorithm>
#include <queue>
#include <unordered_map>

#include "text/parts/flat_map.h"
#include "text/train/train.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

using Ids = std::vector<std::int32_t>;

std::uint64_t key_of(std::int32_t a, std::int32_t b) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
}

// A pair and some of the words it is in. A pair may be queued again when a merge makes it in further words.
struct Candidate {
  std::uint64_t pair;
  std::int64_t count;
  std::vector<std::uint32_t> words;
};
struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

class BpeTrainer {
 public:
  BpeTrainer(const WordCounts& words, const TrainOptions& options, const std::string& prefix)
      : options_(options), prefix_(prefix) {
    for (const std::string& token : options.special_tokens) id_of(token);
    add_alphabet(words);
    for (const auto& [word, count] : words) add_word(word, count);
    for (std::uint32_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 0; i + 1 < words_[w].size(); ++i) note(words_[w][i], words_[w][i + 1], w, counts_[w]);
    enqueue();
  }

  TrainedBpe run() {
    while (made_.tokens.size() < options_.vocab_size && !queue_.empty()) {
      Candidate top = std::move(const_cast<Candidate&>(queue_.top()));
      queue_.pop();
      const std::int64_t count = pairs_[top.pair].count;
      if (count != top.count) {
        top.count = count;
        if (count > 0) queue_.push(std::move(top));
        continue;
      }
      if (count < 1 || static_cast<std::uint64_t>(count) < options_.min_frequency) break;
      merge(top);
      enqueue();
    }
    keep_last_merges();
    return std::move(made_);
  }

 private:
  struct PairState {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // new ones, not queued yet
  };

  std::int32_t id_of(const std::string& token) {
    const auto [at, is_new] = ids_.try_emplace(token, static_cast<std::int32_t>(made_.tokens.size()));
    if (is_new) made_.tokens.push_back(token);
    return at->second;
  }

  void add_alphabet(const WordCounts& words) {
    std::unordered_map<char32_t, std::uint64_t> counts;
    for (const auto& [word, count] : words)
      for (std::size_t at = 0; at < word.size();) counts[next_code_point(word, at)] += count;
    for (const std::string& character : options_.alphabet) {
      std::size_t at = 0;
      if (!character.empty()) counts[next_code_point(character, at)] = UINT64_MAX;
    }
    std::vector<std::pair<char32_t, std::uint64_t>> kept(counts.begin(), counts.end());
    if (options_.limit_alphabet > 0 && kept.size() > options_.limit_alphabet) {
      std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
      });
      kept.resize(options_.limit_alphabet);
    }
    std::sort(kept.begin(), kept.end());
    for (const auto& entry : kept) {
      std::string character;
      append_utf8(character, entry.first);
      id_of(character);
      alphabet_.set(entry.first, 1);
    }
  }

  // Characters outside the alphabet are left out.
  void add_word(const std::string& word, std::uint64_t count) {
    Ids symbols;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t begin = at;
      if (alphabet_.find(next_code_point(word, at)) == FlatMap::kNone) continue;
      symbols.push_back(id_of((begin > 0 ? prefix_ : "") + word.substr(begin, at - begin)));
    }
    words_.push_back(std::move(symbols));
    counts_.push_back(static_cast<std::int64_t>(count));
  }

  void note(std::int32_t a, std::int32_t b, std::uint32_t word, std::int64_t count) {
    PairState& state = pairs_[key_of(a, b)];
    state.count += count;
    if (state.words.empty()) touched_.push_back(key_of(a, b));
    if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
  }

  void enqueue() {
    for (const std::uint64_t pair : touched_) {
      PairState& state = pairs_[pair];
      std::vector<std::uint32_t> words = std::move(state.words);
      state.words = {};
      if (state.count > 0) queue_.push({pair, state.count, std::move(words)});
    }
    touched_.clear();
  }

  void merge(const Candidate& top) {
    const auto a = static_cast<std::int32_t>(top.pair >> 32), b = static_cast<std::int32_t>(top.pair);
    std::string_view right = made_.tokens[static_cast<std::size_t>(b)];
    if (!prefix_.empty() && right.starts_with(prefix_)) right.remove_prefix(prefix_.size());
    const std::int32_t made = id_of(made_.tokens[static_cast<std::size_t>(a)] + std::string(right));
    made_.merges.emplace_back(a, b);
    for (const std::uint32_t w : top.words) merge_in(w, a, b, made);
  }

  void merge_in(std::uint32_t w, std::int32_t a, std::int32_t b, std::int32_t made) {
    Ids& word = words_[w];
    const std::int64_t count = counts_[w];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (word[i] != a || i + 1 >= word.size() || word[i + 1] != b) {
        word[kept++] = word[i];
        continue;
      }
      if (kept > 0) {
        pairs_[key_of(word[kept - 1], a)].count -= count;
        note(word[kept - 1], made, w, count);
      }
      ++i;
      if (i + 1 < word.size()) {
        pairs_[key_of(b, word[i + 1])].count -= count;
        note(made, word[i + 1], w, count);
      }
      word[kept++] = made;
    }
    word.resize(kept);
  }

  // A pair that was merged twice has the later rank.
  void keep_last_merges() {
    std::unordered_map<std::uint64_t, std::size_t> last;
    for (std::size_t i = 0; i < made_.merges.size(); ++i)
      last[key_of(made_.merges[i].first, made_.merges[i].second)] = i;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < made_.merges.size(); ++i)
      if (last[key_of(made_.merges[i].first, made_.merges[i].second)] == i) made_.merges[kept++] = made_.merges[i];
    made_.merges.resize(kept);
  }

  const TrainOptions& options_;
  std::string prefix_;
  TrainedBpe made_;
  std::unordered_map<std::string, std::int32_t> ids_;
  FlatMap alphabet_;
  std::vector<Ids> words_;
  std::vector<std::int64_t> counts_;
  std::unordered_map<std::uint64_t, PairState> pairs_;
  std::vector<std::uint64_t> touched_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue_;
};

}  // namespace

TrainedBpe train_bpe(const WordCounts& words, const TrainOptions& options, const std::string& prefix) {
  return BpeTrainer(words, options, prefix).run();
}

}  // namespace hone::text
