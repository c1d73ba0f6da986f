// Loss and accuracy of tokens' labels, and precision, recall and F1 of the entities that they mark, or of the labels.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evals/entities.h"
#include "hone/evaluation.h"
#include "hone/registry.h"
#include "nn/finite.h"
#include "tensor/host.h"

namespace hone::evals {
namespace {

constexpr const char* kEntities = "entities";  // in the place of labels, whose counts end in their number

struct Rates {
  double precision = 0, recall = 0, f1 = 0;
};
// Of nothing they are 0, as seqeval and scikit-learn say.
Rates rates_of(double right, double wanted, double given) {
  const auto share = [](double part, double all) { return all == 0 ? 0 : part / all; };
  return {share(right, given), share(right, wanted), share(2 * right, wanted + given)};
}

template <RecordKind kRecords>
class TokenLabelsRight final : public Evaluation {
 public:
  struct Config {
    static constexpr std::tuple<> fields() { return {}; }
  };
  explicit TokenLabelsRight(const Config&) {}

  RecordKind records() const override { return kRecords; }
  void check(const Model& model) const override {
    require_token_classifier(
        model, kRecords == RecordKind::steps ? "evaluation process_reward" : "evaluation token_classification");
  }

  Sums measure(const Model& model, const Output& output, const Batch& batch, Pass& pass) const override {
    const Tensor logits_BTL = host::read(model.classifier()->logits(output, pass).to(at::kDouble));
    const Tensor truth_BT = host::read(batch.labels_BT).contiguous(), said_BT = logits_BTL.argmax(-1).contiguous();
    Sums sums;
    sums["nll"] = host::number(
        at::cross_entropy_loss(logits_BTL.flatten(0, 1), truth_BT.flatten(), {}, at::Reduction::Sum, -100));
    if (!std::isfinite(sums["nll"])) throw nn::not_finite(model, "the loss");
    const auto truth = host::values<std::int64_t>(truth_BT), said = host::values<std::int64_t>(said_BT);
    const std::vector<std::string>& labels = model.classifier()->labels();
    for (const Doc& doc : batch.docs) {
      std::vector<std::int64_t> wanted, given;  // of the tokens that have a label
      for (std::int64_t i = doc.row * batch.length() + doc.begin; i < doc.row * batch.length() + doc.end; ++i) {
        if (truth[static_cast<std::size_t>(i)] == -100) continue;
        wanted.push_back(truth[static_cast<std::size_t>(i)]), given.push_back(said[static_cast<std::size_t>(i)]);
      }
      sums["tokens"] += static_cast<double>(wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) sums["right"] += wanted[i] == given[i];
      mark_entities(labels) ? count_entities(wanted, given, labels, sums) : count_labels(wanted, given, sums);
    }
    return sums;
  }

  std::vector<std::string> names() const override {
    return {"loss", "accuracy", "precision", "recall", "f1", "tokens"};
  }

  // Of entities all together; of labels the mean over those that are true or given anywhere.
  Metrics result(const Sums& total) const override {
    const auto count = [&](const std::string& name) {
      const auto found = total.find(name);
      return found == total.end() ? 0.0 : found->second;
    };
    const double tokens = count("tokens");
    if (tokens == 0) throw Error(ErrorKind::data, "evaluation: no token with a label");
    std::set<std::string> kinds;
    for (const auto& [name, sum] : total)
      if (const auto slash = name.find('/'); slash != std::string::npos) kinds.insert(name.substr(slash));
    Rates mean;
    for (const std::string& kind : kinds) {
      const Rates one = rates_of(count("right" + kind), count("true" + kind), count("given" + kind));
      const auto all = static_cast<double>(kinds.size());
      mean.precision += one.precision / all, mean.recall += one.recall / all, mean.f1 += one.f1 / all;
    }
    return {{"loss", count("nll") / tokens},
            {"accuracy", count("right") / tokens},
            {"precision", mean.precision},
            {"recall", mean.recall},
            {"f1", mean.f1},
            {"tokens", tokens}};
  }

 private:
  using Tokens = std::vector<std::int64_t>;

  static void count_entities(const Tokens& wanted, const Tokens& given, const std::vector<std::string>& labels,
                             Sums& sums) {
    const std::vector<Entity> is = entities_of(wanted, labels), said = entities_of(given, labels);
    const auto right = std::count_if(
        said.begin(), said.end(), [&](const Entity& one) { return std::find(is.begin(), is.end(), one) != is.end(); });
    sums[fmt::format("true/{}", kEntities)] += static_cast<double>(is.size());
    sums[fmt::format("given/{}", kEntities)] += static_cast<double>(said.size());
    sums[fmt::format("right/{}", kEntities)] += static_cast<double>(right);
  }

  static void count_labels(const Tokens& wanted, const Tokens& given, Sums& sums) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ++sums[fmt::format("true/{}", wanted[i])];
      ++sums[fmt::format("given/{}", given[i])];
      if (wanted[i] == given[i]) ++sums[fmt::format("right/{}", wanted[i])];
    }
  }
};

}  // namespace

void register_token_classification(Registries& hone) {
  hone.evals.add<TokenLabelsRight<RecordKind::tagged>>(
      "token_classification", "Loss and accuracy of words' labels; precision, recall and F1 of entities (seqeval's).");
  hone.evals.add<TokenLabelsRight<RecordKind::steps>>("process_reward", "The same of the labels of an answer's steps.");
}

}  // namespace hone::evals
