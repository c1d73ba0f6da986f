// Which tokens are hidden.
#include "objectives/mask_tokens.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "hone/error.h"
#include "hone/random.h"
#include "hone/text.h"
#include "ops/head_losses.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

// A document's tokens, and by how much each was to be learnt; what is seen of them, and the labels of those that are
// hidden.
struct Hidden {
  std::span<const std::int64_t> tokens;
  std::span<const float> learnt;  // where the token before it stands
  std::span<std::int64_t> seen, labels;
  std::span<float> weights;
};

class Hider {
 public:
  Hider(const Masking& masking, const Tokenizer& tokenizer, std::int64_t vocab)
      : masking_(masking), tokenizer_(tokenizer), vocab_(std::min(vocab, tokenizer.vocab_size())) {
    HONE_ASSERT(tokenizer.mask_id);  // a run asks before (Needs::masked_lm)
  }

  void hide(const Hidden& doc, const Random& random) const {
    for (std::size_t t = 0; t < doc.tokens.size(); ++t) {
      const auto place = [&](std::uint64_t draw) { return 4 * static_cast<std::uint64_t>(t) + draw; };
      if (tokenizer_.is_special(static_cast<std::int32_t>(doc.tokens[t]))) continue;
      const float weight = doc.learnt[t == 0 ? 0 : t - 1];
      if (weight == 0 || random.uniform(place(0)) >= masking_.share) continue;
      doc.labels[t] = doc.tokens[t], doc.weights[t] = weight;
      const double how = random.uniform(place(1));
      if (how < masking_.replaced)
        doc.seen[t] = *tokenizer_.mask_id;
      else if (how < masking_.replaced + masking_.by_random_token)
        doc.seen[t] = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(vocab_), place(2)));
    }
  }

 private:
  const Masking& masking_;
  const Tokenizer& tokenizer_;
  std::int64_t vocab_;
};

}  // namespace

Batch masked(const Batch& batch, const Masking& masking, const StepContext& context, const std::string& when) {
  const Hider hider(masking, *context.tokenizer, context.model.vocab_size());
  const Tensor given = host::read(batch.ids_BT).contiguous(), learnt = host::read(batch.weight_BT).contiguous();
  Tensor seen = given.clone(), labels = at::full_like(given, ops::kIgnoreIndex), weights = at::zeros_like(learnt);
  for (const Doc& doc : batch.docs) {
    const auto begin = static_cast<std::size_t>(doc.row * batch.length() + doc.begin);
    const auto count = static_cast<std::size_t>(doc.end - doc.begin);
    const auto of = [&](auto all) { return all.subspan(begin, count); };
    const auto tokens = of(host::values<std::int64_t>(given));
    const auto hash = hash64(std::as_bytes(tokens), static_cast<std::uint64_t>(doc.record));
    const Random random(context.seed, fmt::format("masked_lm/{}/{}", when, hash));
    hider.hide({tokens, of(host::values<float>(learnt)), of(host::mutable_values<std::int64_t>(seen)),
                of(host::mutable_values<std::int64_t>(labels)), of(host::mutable_values<float>(weights))},
               random);
  }
  const Tensor places = at::nonzero(labels.flatten() != ops::kIgnoreIndex).squeeze(1);
  const at::Device device = batch.ids_BT.device();
  Batch made = batch;
  made.supervised = places.numel();
  made.ids_BT = devices::sent(seen, device), made.labels_BT = devices::sent(labels, device);
  made.weight_BT = devices::sent(weights, device), made.extra[kHiddenPlaces] = devices::sent(places, device);
  return made;
}

}  // namespace hone::objectives
