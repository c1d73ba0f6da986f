// Making vocabularies from text: the words of a corpus with their counts, and the kinds of model made from them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hone::text {

struct TrainOptions {
  std::size_t vocab_size = 32'000;  // of the whole vocabulary, special tokens among them
  std::uint64_t min_frequency = 0;  // of a merge; of a piece of Unigram
  std::vector<std::string> special_tokens;
  std::vector<std::string> alphabet;  // characters that are in the vocabulary whether the text has them or not
  std::size_t limit_alphabet = 0;     // 0: no limit
  int threads = 0;                    // 0: as many as the process may use
};

// A word and how often it occurs. Sorted by the word, so that the same text gives the same vocabulary.
using WordCounts = std::vector<std::pair<std::string, std::uint64_t>>;

// Counts the words of documents. next() hands out one after the other until it gives nothing; cut(text, each) calls
// each(word); both cut and the counting run on several threads.
WordCounts count_words(const std::function<bool(std::string&)>& next,
                       const std::function<void(std::string_view, const std::function<void(std::string_view)>&)>& cut,
                       int threads);

struct TrainedBpe {
  std::vector<std::string> tokens;                            // by id
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;  // in the order they were found
};
// Merges the most frequent pair again and again. prefix: of characters inside words ("##" for WordPiece).
TrainedBpe train_bpe(const WordCounts& words, const TrainOptions& options, const std::string& prefix = "");

// Pieces with their scores (log probabilities), best first; special tokens and the unknown token are not among them.
std::vector<std::pair<std::string, double>> train_unigram(const WordCounts& words, const TrainOptions& options);

}  // namespace hone::text
