// Counting words: documents are read by one thread and cut by all.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "base/cpus.h"
#include "base/threads.h"
#include "text/train/train.h"

namespace hone::text {
namespace {

struct Hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Counts = std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>>;

constexpr std::size_t kBatchBytes = 1 << 20;
using Batches = BoundedQueue<std::vector<std::string>>;

void read_batches(const std::function<bool(std::string&)>& next, Batches& batches) {
  std::vector<std::string> batch;
  std::size_t bytes = 0;
  for (std::string text; next(text);) {
    bytes += text.size();
    batch.push_back(std::move(text));
    if (bytes < kBatchBytes) continue;
    if (!batches.push(std::move(batch))) return;  // a worker failed: its join() says why
    batch.clear();
    bytes = 0;
  }
  if (!batch.empty()) batches.push(std::move(batch));
}

}  // namespace

WordCounts count_words(const std::function<bool(std::string&)>& next,
                       const std::function<void(std::string_view, const std::function<void(std::string_view)>&)>& cut,
                       int threads) {
  const auto count = static_cast<std::size_t>(threads > 0 ? threads : threads_by_cpu(cpus()));
  Batches batches(2 * count);
  std::vector<Counts> counts(count);
  std::vector<Worker> workers;
  for (std::size_t k = 0; k < count; ++k)
    workers.emplace_back("count words", [&, k] {
      const auto add = [&](std::string_view word) {
        const auto found = counts[k].find(word);
        if (found != counts[k].end())
          ++found->second;
        else
          counts[k].emplace(word, 1);
      };
      try {
        while (const auto batch = batches.pop())
          for (const std::string& text : *batch) cut(text, add);
      } catch (...) {
        batches.cancel();
        throw;
      }
    });
  try {
    read_batches(next, batches);
  } catch (...) {
    batches.cancel();  // or the workers, joined as the stack unwinds, would wait for ever
    throw;
  }
  batches.close();
  for (Worker& worker : workers) worker.join();
  for (std::size_t k = 1; k < count; ++k) {
    for (auto& [word, n] : counts[k]) counts[0][word] += n;
    Counts().swap(counts[k]);
  }
  WordCounts words(counts[0].begin(), counts[0].end());
  std::sort(words.begin(), words.end());
  return words;
}

}  // namespace hone::text
