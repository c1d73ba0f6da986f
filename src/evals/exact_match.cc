// Exact match: the share of prompts that the model, always taking the likeliest token, answers with exactly the
// completion.
//
// A prompt is what precedes the first supervised token of a document; the completion is the supervised tokens, with the
// end-of-sequence token where the data has one. One forward pass decides: greedy decoding gives the completion exactly
// when each of its tokens is the likeliest after the true ones before it.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "hone/evaluation.h"
#include "hone/layers.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "ops/finite.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{16} << 20;

// Documents that ask for something, and those of them with nothing wrong in it. Both tensors lie on the host.
Sums counted_by_document(const Batch& batch, const Tensor& asked_N, const Tensor& wrong_N) {
  const bool *asked = host::values<bool>(asked_N).data(), *wrong = host::values<bool>(wrong_N).data();
  std::int64_t prompts = 0, matches = 0;
  for (const Doc& doc : batch.docs) {
    const std::int64_t begin = doc.row * batch.length() + doc.begin, end = doc.row * batch.length() + doc.end;
    if (std::find(asked + begin, asked + end, true) == asked + end) continue;
    ++prompts;
    matches += std::find(wrong + begin, wrong + end, true) == wrong + end;
  }
  return {{"prompts", double(prompts)}, {"matches", double(matches)}};
}

// Letters: N tokens, C of them at a time.
class ExactMatch final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit ExactMatch(const Config&) {}

  void check(const Model& model) const override { require_language_model(model, "evaluation exact_match"); }

  void check_data(const DataReport& data) const override {
    if (data.without_prompt == 0) return;
    throw Error(ErrorKind::data, fmt::format("evaluation exact_match: {} of {} have no prompt; expected a prompt in "
                                             "each, whose completion is compared",
                                             data.without_prompt, counted(data.pieces, "document")))
        .hint("records of prompt and completion and conversations have one, unless loss is all; texts have none");
  }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor labels_N = batch.labels_BT.flatten(), wrong_N = at::zeros_like(labels_N, at::kBool);
    const Tensor asked_N = labels_N.ne(-100).nonzero().squeeze(-1);
    const Tensor hidden_ND = output.hidden_BTD.flatten(0, 1);
    const nn::Head& head = model.causal_lm()->head();
    const std::int64_t most = std::max<std::int64_t>(1, kChunkBytes / (model.vocab_size() * 4));
    for (std::int64_t begin = 0; begin < asked_N.numel(); begin += most) {
      const Tensor at_C = asked_N.narrow(0, begin, std::min(most, asked_N.numel() - begin));
      // What is not a number counts as the highest.
      const auto [highest_C, likeliest_C] = head.logits(hidden_ND.index_select(0, at_C), pass).max(-1);
      if (!ops::all_finite(highest_C)) throw nn::not_finite(model, "the logits");
      wrong_N.index_copy_(0, at_C, likeliest_C.ne(labels_N.index_select(0, at_C)));
    }
    return counted_by_document(batch, host::read(labels_N.ne(-100)), host::read(wrong_N));
  }

  std::vector<std::string> names() const override { return {"exact_match", "prompts"}; }

  Metrics result(const Sums& total) const override {
    const double prompts = total.at("prompts");
    return {{"exact_match", prompts > 0 ? total.at("matches") / prompts : 0.0}, {"prompts", prompts}};
  }
};

}  // namespace

void register_exact_match(Registries& hone) {
  hone.evals.add<ExactMatch>("exact_match",
                             "Share of prompts answered with exactly the completion, decoding greedily.");
}

}  // namespace hone::evals
