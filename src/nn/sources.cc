// Attention within sources and to them.
#include "nn/sources.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "hone/random.h"
#include "nn/kv_cache.h"
#include "nn/plan.h"
#include "ops/attention.h"
#include "ops/attention_between.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::nn {
namespace {

// Dropout's numbers are others than those of the layer's attention to itself.
ops::AttentionOptions of_pass(ops::AttentionOptions options, const Pass& pass, std::string_view place) {
  options.mask = ops::Mask::full();
  if (!pass.training) options.dropout = 0;
  if (options.dropout > 0) options.seed = Random(pass.seed, place).bits(static_cast<std::uint64_t>(pass.layer));
  return options;
}

std::int64_t tokens_in(const PlannedDoc& doc) { return doc.span.end - doc.span.begin; }

// Each row of a cache has one source.
std::vector<std::int64_t> lengths_by_row(const Sources& sources) {
  std::vector<std::int64_t> lengths;
  for (const PlannedDoc& doc : sources.docs) {
    HONE_ASSERT(doc.row == std::ssize(lengths));
    lengths.push_back(tokens_in(doc));
  }
  return lengths;
}

}  // namespace

Tensor attend_within_sources(const Tensor& q_SHK, const Tensor& k_SGK, const Tensor& v_SGK, Pass& pass,
                             ops::AttentionOptions options) {
  const Tensor y_SHK =
      ops::attention(q_SHK, k_SGK, v_SGK, pass.plan().sources().documents, of_pass(options, pass, "attention"));
  pass.sow("attention", y_SHK);
  return y_SHK;
}

Tensor attend_to_sources(const Tensor& q_NHK, const std::function<KeysAndValues()>& make, Pass& pass,
                         ops::AttentionOptions given) {
  const ops::AttentionOptions options = of_pass(given, pass, "attention to sources");
  const Plan& plan = pass.plan();
  const Sources& sources = plan.sources();
  if (pass.cache && sources.docs.empty()) return pass.cache->attend_to_sources(pass.layer, q_NHK, options);
  const auto [k_SGK, v_SGK] = make();
  if (pass.cache) pass.cache->take_in_sources(pass.layer, k_SGK, v_SGK, lengths_by_row(sources));
  std::vector<ops::SpanPair> pairs;
  for (std::size_t i = 0; i < plan.docs().size(); ++i)
    pairs.push_back({plan.docs()[i].span, sources.docs[static_cast<std::size_t>(sources.of_docs[i])].span});
  const Tensor y_NHK = ops::attention_between(q_NHK, k_SGK, v_SGK, pairs, options);
  pass.sow("attention_to_sources", y_NHK);
  return y_NHK;
}

Tensor source_positions(Pass& pass) {
  std::vector<std::int64_t> all;
  for (const PlannedDoc& doc : pass.plan().sources().docs)
    for (std::int64_t t = 0; t < tokens_in(doc); ++t) all.push_back(t);
  return devices::sent(host::tensor_of(all, {1, std::ssize(all)}), pass.batch.ids_BT.device());
}

std::int64_t longest_source(Pass& pass) {
  std::int64_t longest = 0;
  for (const PlannedDoc& doc : pass.plan().sources().docs) longest = std::max(longest, tokens_in(doc));
  return longest;
}

std::int64_t longest_target(Pass& pass) {
  std::int64_t longest = 0;
  for (const PlannedDoc& doc : pass.plan().docs()) longest = std::max(longest, doc.position + tokens_in(doc));
  return longest;
}

}  // namespace hone::nn
