// The decoder's place between a model, its cache and ops::Decoder.
#include "nn/decoder.h"

#include <algorithm>

#include "nn/kv_cache.h"
#include "ops/skinny.h"

namespace hone::nn {

std::unique_ptr<Decoder> Decoder::maybe_make(const CausalLm& model, std::int64_t rows) {
  const auto spec = model.decoder_spec();
  if (!spec || rows > ops::kSkinnyRows || !ops::Decoder::takes(spec->weights)) return nullptr;
  return std::unique_ptr<Decoder>(new Decoder(*spec, rows));
}

Decoder::Decoder(const DecoderSpec& spec, std::int64_t rows)
    : rope_(*spec.rope), like_(spec.weights.embedding_VD), steps_(spec.weights, rows) {}

bool Decoder::step(std::span<const std::int32_t> ids, KvCache& cache) {
  const std::span<const std::int64_t> lengths = cache.lengths();
  HONE_ASSERT(ids.size() == lengths.size());
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (const std::int64_t length : lengths)
    if (rope_.length_class(length + 1) != 0) return false;
  std::vector<ops::DecoderCache>* places = cache.room_for_one_each();
  if (!places) return false;
  steps_.step({ids, lengths, &cache.rope_table(rope_, longest + 1, like_), places});
  cache.advance_by_one();
  return true;
}

}  // namespace hone::nn
