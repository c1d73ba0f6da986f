// FLOPs of one token.
#include "nn/flops.h"

#include <algorithm>

#include "hone/layers.h"

namespace hone::nn {
namespace {

// A weight multiplies one token with each of its elements.
double product(const Weight& weight) { return 2 * static_cast<double>(weight.numel()); }

class TokenWork {
 public:
  explicit TokenWork(const FlopsOptions& options) : o_(options) {}
  void add(double forward, bool trainable) {
    made_.forward += forward;
    made_.backward += (trainable ? 2 : 1) * forward;
  }

  void add_weight(const Model& model, const std::string& name, const Weight& weight) {
    const double share = weight.share_of_tokens() * share_of_head(model, name, weight) * share_of_side(model, name);
    const bool table = weight.use_as() == WeightUse::table;
    if (weight.use_as() != WeightUse::other && !table) add(share * product(weight), weight.trainable());
    if (const CausalLm* lm = model.causal_lm(); lm && table && lm->head().is_weight(weight))
      add(o_.supervised * product(weight), weight.trainable());
    if (const Adapter* adapter = weight.adapter()) add_adapter(*adapter, share, table);
  }

  // A table's first part is looked up, as the table is.
  void add_adapter(const Adapter& adapter, double share, bool of_table) {
    bool looked_up = of_table;
    adapter.each_weight([&](const std::string&, const Weight& weight) {
      if (weight.shape().size() != 2) return;
      if (!looked_up) add(share * product(weight), weight.trainable());
      looked_up = false;
    });
  }

  void add_attention(const AttentionLayer& layer) {
    const double scores = 2 * static_cast<double>(layer.heads * layer.head_size) *
                          mean_context(o_.document_length, layer);
    add(2 * scores, /*trainable=*/true);  // scores and the sum of values; backward, the gradients of both factors
  }

  void add_memory(const MemoryLayer& layer) {
    add(2 * static_cast<double>(layer.products * layer.heads * layer.key_size * layer.value_size), /*trainable=*/true);
  }

  TokenFlops made() const { return made_; }

 private:
  // A classifier's head sees one token of a document, or all; without one, what it would read is not computed.
  double share_of_head(const Model& model, const std::string& name, const Weight& weight) const {
    if (const CausalLm* lm = model.causal_lm()) return lm->head().is_weight(weight) ? o_.supervised : 1;
    if (!model.may_be_fresh(name)) return 1;
    const Classifier* classifier = model.classifier();
    if (classifier && classifier->of_tokens()) return 1;
    return classifier ? 1 / std::max(1.0, o_.document_length) : 0;
  }

  // Where sources are read, the tokens that are learnt are those of targets. The head's share is told already.
  double share_of_side(const Model& model, const std::string& name) const {
    const Seq2SeqLm* lm = model.seq2seq_lm();
    if (!lm || name.starts_with("lm_head.")) return 1;
    return lm->is_of_sources(name) ? 1 - o_.supervised : o_.supervised;
  }

  const FlopsOptions& o_;
  TokenFlops made_;
};

}  // namespace

double mean_context(double document_length, const AttentionLayer& layer) {
  const double length = std::max(1.0, document_length);
  const double window = layer.window > 0 ? std::min(length, static_cast<double>(layer.window)) : length;
  // Before it and itself: the first `window` tokens see 1, 2, 3 ..., the others `window`.
  const double before = (window * (window + 1) / 2 + (length - window) * window) / length;
  return layer.causal ? before : 2 * before - 1;
}

TokenFlops flops_per_token(const Model& model, const FlopsOptions& options) {
  TokenWork work(options);
  model.each_weight([&](const std::string& name, const Weight& weight) { work.add_weight(model, name, weight); });
  for (const AttentionLayer& layer : model.attention()) work.add_attention(layer);
  for (const MemoryLayer& layer : model.memories()) work.add_memory(layer);
  return work.made();
}

}  // namespace hone::nn
