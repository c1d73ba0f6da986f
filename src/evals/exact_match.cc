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

class ExactMatch final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit ExactMatch(const Config&) {}

  void check(const Model& model) const override { require_causal_lm(model, "evaluation exact_match"); }

  void check_data(const DataReport& data) const override {
    if (data.without_prompt == 0) return;
    throw Error(ErrorKind::data, fmt::format("evaluation exact_match: {} of {} have no prompt; expected a prompt in "
                                             "each, whose completion is compared",
                                             data.without_prompt, counted(data.pieces, "document")))
        .hint("records of prompt and completion and conversations have one, unless loss is all; texts have none");
  }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor logits_BTV = model.causal_lm()->head().logits(output.hidden_BTD, pass);
    const auto [highest_BT, likeliest_BT] = logits_BTV.max(-1);  // what is not a number counts as the highest
    const Tensor labelled_BT = batch.labels_BT != -100;
    if (!ops::all_finite(highest_BT.masked_select(labelled_BT)))
      throw nn::not_finite(model, "the logits");
    const Tensor asked_BT = host::read(labelled_BT),
                 wrong_BT = host::read((likeliest_BT != batch.labels_BT).logical_and(labelled_BT));
    const bool* wrong = host::values<bool>(wrong_BT).data();
    const bool* asked = host::values<bool>(asked_BT).data();
    std::int64_t prompts = 0, matches = 0;
    for (const Doc& doc : batch.docs) {
      const std::int64_t begin = doc.row * batch.length() + doc.begin, end = doc.row * batch.length() + doc.end;
      if (std::find(asked + begin, asked + end, true) == asked + end) continue;
      ++prompts;
      matches += std::find(wrong + begin, wrong + end, true) == wrong + end;
    }
    return {{"prompts", double(prompts)}, {"matches", double(matches)}};
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
