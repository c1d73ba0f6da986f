// Work that is cut by documents and heads, each of which goes from a document's begin to its end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "hone/op_options.h"
#include "ops/cpu/table/heads.h"
#include "ops/parallel.h"

namespace hone::ops::cpu_table {

struct DocumentJob {
  std::size_t document = 0;
  std::int64_t head = 0;
};

// The longest documents first.
inline std::vector<DocumentJob> document_jobs(const std::vector<Span>& spans, std::int64_t heads) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return spans[a].end - spans[a].begin > spans[b].end - spans[b].begin;
  });
  std::vector<DocumentJob> jobs;
  for (const std::size_t document : order)
    for (std::int64_t head = 0; head < heads && spans[document].end > spans[document].begin; ++head)
      jobs.push_back({document, head});
  return jobs;
}

// Runs work(job, room) for each of them, in a room that is large enough for the longest.
template <class Work>
void share_out_jobs(const std::vector<DocumentJob>& jobs, std::int64_t bytes, Work&& work) {
  share_out_with(std::ssize(jobs), [&] {
    auto room = std::make_shared<WorkRoom>(bytes);
    return [&, room](std::int64_t i) { work(jobs[i], room->at()); };
  });
}

}  // namespace hone::ops::cpu_table
