// Documents cut into chunks.
#include "nn/chunked_documents.h"

#include <algorithm>
#include <map>
#include <memory>

namespace hone::nn {
namespace {

// By their sizes: what the documents of a pass are cut into, once for all layers.
struct CutDocuments {
  std::map<std::int64_t, ops::Documents> by_chunk;
};

ops::Documents cut_by(const std::vector<ops::Span>& spans, std::int64_t chunk) {
  std::vector<ops::Span> made;
  for (const ops::Span& span : spans)
    for (std::int64_t begin = span.begin; begin < span.end; begin += chunk)
      made.push_back({begin, std::min(begin + chunk, span.end)});
  return made;
}

}  // namespace

bool is_within_chunk(const Plan& plan, std::int64_t chunk) {
  return std::ranges::all_of(plan.docs(), [&](const PlannedDoc& doc) {
    return doc.position + doc.span.end - doc.span.begin <= chunk;
  });
}

const ops::Documents& in_chunks(const Plan& plan, std::int64_t chunk) {
  auto& kept = *plan.documents().kept([] { return std::make_shared<CutDocuments>(); });
  const auto found = kept.by_chunk.find(chunk);
  if (found != kept.by_chunk.end()) return found->second;
  return kept.by_chunk.emplace(chunk, cut_by(plan.documents().spans(), chunk)).first->second;
}

}  // namespace hone::nn
