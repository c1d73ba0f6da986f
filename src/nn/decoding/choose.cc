// Whether a model has a short way.
#include "nn/decoding/choose.h"

#include "hone/layers.h"
#include "nn/decoding/recorded.h"
#include "ops/linear_weight.h"

namespace hone::nn {
namespace {

// Of adapters it knows low ranks beside the blocks' products; what it multiplies with weights is not rounded.
bool knows_weights(const Model& model, const Pass& pass) {
  bool known = true;
  model.each_weight([&](const std::string&, const Weight& weight) {
    const Adapter* adapter = pass.adapter_of(weight);
    known &= !adapter || (weight.use_as() == WeightUse::product && !adapter->low_ranks(pass).empty());
    known &= weight.fake_quantized().weight == Grid::none;
  });
  return known && !(model.causal_lm() && model.causal_lm()->head().is_made_apart(pass));
}

}  // namespace

std::unique_ptr<Decoder> maybe_make_decoder(const Model& model, std::int64_t rows, const std::string& adapter) {
  if (model.seq2seq_lm()) return nullptr;  // its layers attend to sources, too
  if (!model.device().is_cpu()) return maybe_make_recorded_decoder(model, adapter);
  const auto* has = dynamic_cast<const HasDecoder*>(&model);
  if (!has) return nullptr;
  const Batch nothing;
  Pass pass(nothing);
  pass.adapter = adapter;
  return knows_weights(model, pass) ? has->make_decoder(rows, pass) : nullptr;
}

}  // namespace hone::nn
