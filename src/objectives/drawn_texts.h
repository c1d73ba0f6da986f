// Texts of other records as what a query is not answered by, for models that read a query and a text together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hone/batch.h"
#include "hone/text.h"
#include "hone/world.h"

namespace hone::objectives {

// A query, the text that is right, and others of its own; tokens, as the tokenizer makes them of each text alone.
struct QueryTexts {
  using Tokens = std::vector<std::int64_t>;
  std::int64_t record = 0;
  Tokens query = {};
  std::vector<Tokens> texts = {};  // the right one first
};
// Of a batch of records of texts to embed, in host memory, in its order.
std::vector<QueryTexts> texts_of_records(const Batch& batch);

// Those of all micro-batches and ranks, in an order that does not depend on how a step is cut.
std::vector<QueryTexts> all_of_step(const std::vector<QueryTexts>& own, const World& world);

struct Drawing {
  std::optional<std::int64_t> most = {};  // texts of other records for each query; nothing: all there are
  std::uint64_t seed = 0;
  std::string when = {};                  // names the numbers that are drawn
  const Tokenizer& tokenizer;
  std::int64_t max_length = 0;  // of a pair; longer ones lose the end of the longer text first
};
// A batch of these queries: a row each, of its right text, what is drawn among those of others in `step`, and its own
// other texts, each behind the query. No text is drawn that is one of the query's own, or right for a query that asks
// the same. Throws Error(config): the tokenizer puts no texts together.
Batch with_drawn_texts(const std::vector<QueryTexts>& queries, const std::vector<QueryTexts>& step,
                       const Drawing& drawing);

}  // namespace hone::objectives
