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
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

constexpr std::int64_t kNoLabel = -100;

// A document's tokens before and after, and the labels of those that are hidden.
struct Hidden {
  std::span<const std::int64_t> tokens;
  std::span<std::int64_t> seen, labels;
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
      if (random.uniform(place(0)) >= masking_.share) continue;
      doc.labels[t] = doc.tokens[t];
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
  const Tensor given = host::read(batch.ids_BT).contiguous();
  Tensor seen = given.clone(), labels = at::full_like(given, kNoLabel);
  for (const Doc& doc : batch.docs) {
    const auto begin = static_cast<std::size_t>(doc.row * batch.length() + doc.begin);
    const auto count = static_cast<std::size_t>(doc.end - doc.begin);
    const auto tokens = host::values<std::int64_t>(given).subspan(begin, count);
    const Random random(context.seed, fmt::format("masked_lm/{}/{}", when, hash64(std::as_bytes(tokens), 0)));
    hider.hide({tokens, host::mutable_values<std::int64_t>(seen).subspan(begin, count),
                host::mutable_values<std::int64_t>(labels).subspan(begin, count)},
               random);
  }
  Batch made = batch;
  const at::Device device = batch.ids_BT.device();
  made.supervised = static_cast<std::int64_t>(host::own_number(labels.ne(kNoLabel).sum()));
  made.weight_BT = devices::sent(labels.ne(kNoLabel).to(at::kFloat), device);
  made.ids_BT = devices::sent(seen, device), made.labels_BT = devices::sent(labels, device);
  return made;
}

}  // namespace hone::objectives
