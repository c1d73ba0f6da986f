// Counts answers, and those that say nothing.
#include "data/empty_answers.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/strings.h"
#include "data/choose_template.h"

namespace hone::data {
namespace {

// Whether a token says nothing: it ends a text or a turn, or is white space.
class SaysNothing {
 public:
  explicit SaysNothing(const Tokenizer& tokenizer) : tokenizer_(tokenizer), ends_(ends_of_answers(tokenizer)) {}
  bool operator()(std::int64_t target) {
    const auto id = static_cast<std::int32_t>(target);
    const auto [found, is_new] = known_.try_emplace(id);
    if (is_new && id < tokenizer_.vocab_size())  // rows of ids may be another tokenizer's
      found->second = std::find(ends_.begin(), ends_.end(), id) != ends_.end() ||
                      trim(tokenizer_.decode({id}, /*skip_special=*/false)).empty();
    return found->second;
  }

 private:
  const Tokenizer& tokenizer_;
  const std::vector<std::int32_t> ends_;
  std::unordered_map<std::int32_t, bool> known_;
};

// Each run of learnt tokens is an answer. first: whether one at the document's begin is, too.
void count(const HostDoc& doc, bool first, SaysNothing& says_nothing, AnswerCounts& counts) {
  const std::vector<std::int64_t>& targets = doc.targets;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] == -100) continue;
    const std::size_t begin = t;
    bool empty = true;
    for (; t < targets.size() && targets[t] != -100; ++t) empty = empty && says_nothing(targets[t]);
    if (begin == 0 && !first) continue;
    ++counts.answers;
    counts.empty += empty;
  }
}

}  // namespace

AnswerCounts count_answers(const Dataset& data, const Tokenizer& tokenizer) {
  AnswerCounts counts;
  const DataReport& report = data.report();
  if (!data.labels().empty() || report.asked > 0 || report.without_prompt == report.pieces) return counts;
  if (tokenizer.vocab_size() == 0) return counts;  // there is none: ids that say anything
  SaysNothing says_nothing(tokenizer);
  // Of a text without a prompt the second token, which may be its end, is the first that is learnt.
  const bool first = report.without_prompt == 0;
  for (std::int64_t row = 0; row < data.rows(); ++row)
    for (const HostDoc& doc : data.row(row)) count(doc, first, says_nothing, counts);
  return counts;
}

}  // namespace hone::data
